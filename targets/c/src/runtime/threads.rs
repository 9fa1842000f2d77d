//! The threads of parallel loops: started once, then waiting, first awake and then asleep.
//!
//! A loop is cut into a share for each thread, and each share into parts that are taken one by one.
//! A thread takes those of its own share first, so that the data of one loop lies where the next
//! loop needs it, and then what is left of the others'. The caller waits only for parts that
//! somebody has begun: a worker that the system does not run just then delays nothing.
//!
//! Nothing is locked, and what a worker needs to begin lies in one line of its cache: loops of a
//! few microseconds are worth sharing.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::Thread;

/// A range of iterations of a parallel loop.
pub(crate) type Range = unsafe extern "C" fn(*mut c_void, isize, isize);

/// What generated code calls to run `range` on 0 to `count`.
pub(crate) type Hook = unsafe extern "C" fn(Range, *mut c_void, isize);

/// How often a thread looks for work before it sleeps: for a tenth of a millisecond or so, longer
/// than what a program does between two of its loops.
const PATIENCE: usize = 4000;

/// Parts of a share at most: more make it matter less that some take longer than others.
const PARTS: u64 = 8;

/// The most threads of a loop.
const MOST_THREADS: usize = 1 << 12;

/// The bits below the number of a loop, in a ticket and in the count of a share's parts. So many
/// loops are left that no number comes again.
const LOW_BITS: u32 = 16;

/// Which loop is at hand, and how it is cut; in one word: the number, 4 bits of `parts`, and 12 of
/// `threads`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ticket {
    /// Each loop has a greater one than those before it.
    number: u64,
    /// Parts of each share.
    parts: u64,
    /// How many threads have a share, the caller among them.
    threads: usize,
}

impl Ticket {
    fn pack(self) -> u64 {
        self.number << LOW_BITS | self.parts << 12 | self.threads as u64
    }

    fn unpack(word: u64) -> Ticket {
        let threads = (word % MOST_THREADS as u64) as usize;
        Ticket { number: word >> LOW_BITS, parts: word >> 12 & 15, threads }
    }
}

/// What the threads are to run.
#[derive(Clone, Copy)]
struct Job {
    range: Range,
    captures: *mut c_void,
    count: isize,
}

/// Memory that no other thread's words share a cache line with, nor the line that is fetched with
/// it.
#[derive(Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// What a loop begins with.
#[derive(Default)]
struct AtHand {
    /// A packed [`Ticket`]. Set after `job`.
    ticket: AtomicU64,
    job: UnsafeCell<Option<Job>>,
}

struct Shared {
    at_hand: Apart<AtHand>,
    /// Parts of the loop at hand that are done.
    done: Apart<AtomicU64>,
    /// By thread, how many parts of its share are taken, with the number of the loop above: a part
    /// can only be taken of the loop that a thread believes to be at hand. A number of an earlier
    /// loop means that none is. These words only grow.
    taken: Vec<Apart<AtomicU64>>,
    /// By thread, whether it waits to be woken.
    asleep: Vec<AtomicBool>,
}

// SAFETY: all is atomic but the job. That is written by who holds `Pool::busy`, while all parts of
// all loops are done, and read by who has taken a part that is not done, of a loop that began after
// it was written. The captures of a parallel loop are read by all its threads and written by none.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing belongs to a thread.
unsafe impl Send for Shared {}

impl Shared {
    fn new(threads: usize) -> Shared {
        Shared {
            at_hand: Apart::default(),
            done: Apart::default(),
            taken: (0..threads).map(|_| Apart::default()).collect(),
            asleep: (0..threads).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Takes the next part of the share of `thread`; `None` where all are taken, or where the loop
    /// of `ticket` is not at hand any more.
    fn take(&self, thread: usize, ticket: Ticket) -> Option<u64> {
        let taken = &self.taken[thread].0;
        let none = ticket.number << LOW_BITS;
        let mut word = taken.load(Ordering::Acquire);
        loop {
            // Much more than there are, where the word is of a later loop.
            let part = word.saturating_sub(none);
            if part >= ticket.parts {
                return None;
            }
            let next = none + part + 1;
            match taken.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(part),
                Err(now) => word = now,
            }
        }
    }

    /// Runs parts of the loop of `ticket`, which was once at hand, as its thread `thread`, until
    /// all are taken.
    fn run(&self, thread: usize, ticket: Ticket) {
        for turn in 0..ticket.threads {
            let share = (thread + turn) % ticket.threads;
            let mut done = 0;
            while let Some(part) = self.take(share, ticket) {
                // SAFETY: a part of this loop was taken and is not done, so that the loop is at
                // hand, and its job there, until `done` counts the part.
                if let Some(job) = unsafe { *self.at_hand.0.job.get() } {
                    let (first, last) = bounds(job.count, share as u64, ticket.threads as u64);
                    let (begin, end) = bounds(last - first, part, ticket.parts);
                    if begin < end {
                        // SAFETY: nobody else takes this part, and who called `parallel` promised
                        // the rest, until it returns.
                        unsafe { (job.range)(job.captures, first + begin, first + end) };
                    }
                }
                done += 1;
            }
            if done > 0 {
                self.done.0.fetch_add(done, Ordering::Release);
            }
        }
    }

    /// Waits for a loop other than `seen` that `thread` has a share of.
    fn wait(&self, thread: usize, seen: Ticket) -> Ticket {
        let next = || {
            let ticket = Ticket::unpack(self.at_hand.0.ticket.load(Ordering::SeqCst));
            (ticket != seen && thread < ticket.threads).then_some(ticket)
        };
        loop {
            for _ in 0..PATIENCE {
                if let Some(ticket) = next() {
                    return ticket;
                }
                std::hint::spin_loop();
            }
            // Who sets the ticket looks at `asleep` afterwards: one of the two sees the other.
            self.asleep[thread].store(true, Ordering::SeqCst);
            if next().is_none() {
                std::thread::park();
            }
            self.asleep[thread].store(false, Ordering::SeqCst);
        }
    }
}

struct Pool {
    shared: Arc<Shared>,
    /// The threads besides callers.
    workers: Vec<Thread>,
    /// Whether a loop is at hand.
    busy: AtomicBool,
}

static POOL: LazyLock<Pool> =
    LazyLock::new(|| Pool::new(std::thread::available_parallelism().map_or(1, usize::from)));

impl Pool {
    /// A pool of at most `threads` threads, the caller among them: with fewer than that, they take
    /// more parts.
    fn new(threads: usize) -> Pool {
        let threads = threads.min(MOST_THREADS - 1);
        let shared = Arc::new(Shared::new(threads));
        let mut workers = Vec::new();
        for thread in 1..threads {
            let shared = Arc::clone(&shared);
            let work = move || {
                let mut seen = Ticket::unpack(0);
                loop {
                    seen = shared.wait(thread, seen);
                    shared.run(thread, seen);
                }
            };
            match std::thread::Builder::new().name(format!("kernel-{thread}")).spawn(work) {
                Ok(handle) => workers.push(handle.thread().clone()),
                Err(_) => break,
            }
        }
        Pool { shared, workers, busy: AtomicBool::new(false) }
    }

    /// Runs `job` on at most `threads` threads; on this one alone where the others are busy with
    /// another loop.
    ///
    /// # Safety
    /// Its range may be called with its captures from several threads at once, on ranges that do
    /// not overlap, until this returns.
    unsafe fn run(&self, job: Job, threads: usize) {
        let count = job.count.unsigned_abs();
        let threads = threads.min(self.workers.len() + 1).min(count);
        if threads < 2 || job.count < 2 || self.busy.swap(true, Ordering::Acquire) {
            // SAFETY: that of this function.
            unsafe { (job.range)(job.captures, 0, job.count) };
            return;
        }
        let Shared { at_hand: Apart(at_hand), done: Apart(done), asleep, .. } = &*self.shared;
        let number = Ticket::unpack(at_hand.ticket.load(Ordering::Relaxed)).number + 1;
        let parts = (count.div_ceil(threads) as u64).min(PARTS);
        let ticket = Ticket { number, parts, threads };
        // All parts of the loop before are done: nobody counts any more.
        done.store(0, Ordering::Relaxed);
        // SAFETY: `busy` was not set, so that no other loop is at hand, and who reads the job has
        // taken a part that is not done: of the loop that begins with the next line.
        unsafe { *at_hand.job.get() = Some(job) };
        at_hand.ticket.store(ticket.pack(), Ordering::SeqCst);
        for (worker, asleep) in self.workers.iter().zip(&asleep[1..]).take(threads - 1) {
            if asleep.load(Ordering::SeqCst) {
                worker.unpark();
            }
        }
        self.shared.run(0, ticket);
        let mut patience = PATIENCE;
        while done.load(Ordering::Acquire) < parts * threads as u64 {
            if patience > 0 {
                patience -= 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        self.busy.store(false, Ordering::Release);
    }
}

thread_local! {
    /// How many threads the loops of calls from this thread may use.
    static LIMIT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Runs `call`, whose parallel loops use at most `threads` threads.
pub(crate) fn with_threads<T>(threads: usize, call: impl FnOnce() -> T) -> T {
    let before = LIMIT.replace(threads.max(1));
    let result = call();
    LIMIT.set(before);
    result
}

/// The iterations of part `part` of `parts`, of 0 to `count`.
fn bounds(count: isize, part: u64, parts: u64) -> (isize, isize) {
    let (part, parts) = (part as isize, parts as isize);
    let (size, rest) = (count / parts, count % parts);
    let begin = part * size + part.min(rest);
    (begin, begin + size + isize::from(part < rest))
}

/// Runs `range` on parts of 0 to `count` that cover it, on several threads; on this one alone where
/// the others are busy with another loop.
///
/// # Safety
/// `range` may be called with `captures` from several threads at once, on ranges that do not
/// overlap, until this returns.
pub(crate) unsafe extern "C" fn parallel(range: Range, captures: *mut c_void, count: isize) {
    // SAFETY: that of this function.
    unsafe { POOL.run(Job { range, captures, count }, LIMIT.get()) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn parts_cover_a_loop_once() {
        for (count, parts) in [(10, 3), (8, 8), (7, 8), (1, 1)] {
            let mut next = 0;
            for part in 0..parts {
                let (begin, end) = bounds(count, part, parts);
                assert_eq!(begin, next);
                next = end;
            }
            assert_eq!(next, count);
        }
    }

    #[test]
    fn a_ticket_is_one_word() {
        let ticket = Ticket { number: 1 << 40, parts: PARTS, threads: MOST_THREADS - 1 };
        assert_eq!(Ticket::unpack(ticket.pack()), ticket);
    }

    /// Counts iterations: the captures are counters, one for each.
    unsafe extern "C" fn count(captures: *mut c_void, begin: isize, end: isize) {
        for index in begin..end {
            // SAFETY: there is a counter for each iteration.
            let counter = unsafe { &*captures.cast::<AtomicUsize>().offset(index) };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counters(length: usize) -> Vec<AtomicUsize> {
        (0..length).map(|_| AtomicUsize::new(0)).collect()
    }

    fn captures(counters: &[AtomicUsize]) -> *mut c_void {
        counters.as_ptr().cast_mut().cast()
    }

    fn are_ones(counters: &[AtomicUsize]) -> bool {
        counters.iter().all(|counter| counter.load(Ordering::Relaxed) == 1)
    }

    #[test]
    fn every_iteration_runs_once_whoever_calls() {
        std::thread::scope(|scope| {
            for threads in [1, 2, 3, 64] {
                scope.spawn(move || {
                    for _ in 0..200 {
                        let counters = counters(1000);
                        let captures = captures(&counters);
                        // SAFETY: `count` only reads the captures, through atomics.
                        with_threads(threads, || unsafe { parallel(count, captures, 1000) });
                        assert!(are_ones(&counters));
                    }
                });
            }
        });
    }

    #[test]
    fn every_iteration_runs_once_with_more_threads_than_processors() {
        let pool = Pool::new(7);
        for round in 0..2000 {
            let (length, threads) = (round % 61, 1 + round % 9);
            let counters = counters(length);
            let captures = captures(&counters);
            // SAFETY: `count` only reads the captures, through atomics.
            unsafe { pool.run(Job { range: count, captures, count: length as isize }, threads) };
            assert!(are_ones(&counters));
        }
    }
}
