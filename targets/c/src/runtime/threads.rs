//! The threads of parallel loops: started once, then waiting, first awake and then asleep.
//!
//! A loop is cut into parts that the caller and the workers take one by one. The caller takes what
//! nobody else has taken, and waits only for parts that somebody has begun: a worker that the
//! system does not run just then delays nothing.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

/// A range of iterations of a parallel loop.
pub(crate) type Range = unsafe extern "C" fn(*mut c_void, isize, isize);

/// What generated code calls to run `range` on 0 to `count`.
pub(crate) type Hook = unsafe extern "C" fn(Range, *mut c_void, isize);

/// How often a thread looks for work before it sleeps: some tens of microseconds.
const PATIENCE: usize = 4000;

/// Parts for each thread: more make it matter less that some take longer than others.
const PARTS: usize = 4;

/// The low bits of the state count parts, the others loops: so many loops that none comes again.
const PART_BITS: u32 = 16;

/// What the threads are to run.
#[derive(Clone, Copy)]
struct Job {
    range: Range,
    captures: Captures,
    count: isize,
    /// Less than `1 << PART_BITS`.
    parts: u64,
    /// How many threads may run it.
    threads: usize,
}

#[derive(Clone, Copy)]
struct Captures(*mut c_void);

// SAFETY: the captures of a parallel loop are read by all its threads and written by none; the
// caller keeps them until all parts are done.
unsafe impl Send for Captures {}

#[derive(Default)]
struct Shared {
    /// The number of the loop at hand, and how many of its parts are taken: one word, so that a
    /// part can only be taken of the loop that a thread believes to be at hand.
    state: AtomicU64,
    /// Parts of the loop at hand that are done.
    done: AtomicUsize,
    /// Workers that wait to be woken.
    asleep: AtomicUsize,
    job: Mutex<Option<Job>>,
    wake: Condvar,
}

impl Shared {
    /// Runs parts of `job`, the loop number `epoch`, until all are taken.
    ///
    /// # Safety
    /// While not all parts of loop `epoch` are done, `job` must be the loop at hand, and its
    /// captures must be there.
    unsafe fn run(&self, job: &Job, epoch: u64) {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let part = state & ((1 << PART_BITS) - 1);
            if epoch_of(state) != epoch || part >= job.parts {
                return;
            }
            let taken = self.state.compare_exchange_weak(
                state,
                state + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match taken {
                Ok(_) => {
                    let (begin, end) = bounds(job.count, part, job.parts);
                    // SAFETY: this part was taken, so that the loop is at hand until it is done;
                    // nobody else takes it. The rest is the promise of the caller.
                    unsafe { (job.range)(job.captures.0, begin, end) };
                    self.done.fetch_add(1, Ordering::Release);
                    state = self.state.load(Ordering::Acquire);
                }
                Err(now) => state = now,
            }
        }
    }
}

struct Pool {
    shared: Arc<Shared>,
    /// Threads, the caller among them.
    threads: usize,
    /// Whether a loop is at hand.
    busy: AtomicBool,
}

static POOL: LazyLock<Pool> = LazyLock::new(|| {
    let shared = Arc::new(Shared::default());
    let wanted = std::thread::available_parallelism().map_or(1, usize::from);
    let mut threads = 1;
    for number in 1..wanted {
        let shared = Arc::clone(&shared);
        let name = format!("kernel-{number}");
        // With fewer threads than wanted the others take more parts.
        match std::thread::Builder::new().name(name).spawn(move || work(&shared, number)) {
            Ok(_) => threads += 1,
            Err(_) => break,
        }
    }
    Pool { shared, threads, busy: AtomicBool::new(false) }
});

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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The iterations of part `part` of `parts`, of 0 to `count`.
fn bounds(count: isize, part: u64, parts: u64) -> (isize, isize) {
    let (part, parts) = (part as isize, parts as isize);
    let (size, rest) = (count / parts, count % parts);
    let begin = part * size + part.min(rest);
    (begin, begin + size + isize::from(part < rest))
}

/// The number of the loop at hand.
fn epoch_of(state: u64) -> u64 {
    state >> PART_BITS
}

fn work(shared: &Shared, number: usize) {
    let mut seen = 0;
    loop {
        let is_new = || epoch_of(shared.state.load(Ordering::Acquire)) != seen;
        let mut patience = PATIENCE;
        while !is_new() && patience > 0 {
            std::hint::spin_loop();
            patience -= 1;
        }
        let mut guard = lock(&shared.job);
        while !is_new() {
            shared.asleep.fetch_add(1, Ordering::SeqCst);
            guard = shared.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
            shared.asleep.fetch_sub(1, Ordering::SeqCst);
        }
        // The number and the loop are set together under the lock.
        seen = epoch_of(shared.state.load(Ordering::Acquire));
        let job = *guard;
        drop(guard);
        if let Some(job) = job.filter(|job| number < job.threads) {
            // SAFETY: `job` is loop `seen`; its caller waits in `parallel` until all its parts are
            // done, and keeps the captures that long.
            unsafe { shared.run(&job, seen) };
        }
    }
}

/// Runs `range` on parts of 0 to `count` that cover it, on several threads; on this one alone where
/// the others are busy with another loop.
///
/// # Safety
/// `range` may be called with `captures` from several threads at once, on ranges that do not
/// overlap, until this returns.
pub(crate) unsafe extern "C" fn parallel(range: Range, captures: *mut c_void, count: isize) {
    let pool = &*POOL;
    let threads = pool.threads.min(LIMIT.get());
    if threads < 2 || count < 2 || pool.busy.swap(true, Ordering::Acquire) {
        // SAFETY: that of this function.
        unsafe { range(captures, 0, count) };
        return;
    }
    let shared = &pool.shared;
    let most = (1 << PART_BITS) - 1;
    let parts = threads.saturating_mul(PARTS).min(count.unsigned_abs()).min(most) as u64;
    let job = Job { range, captures: Captures(captures), count, parts, threads };
    let epoch;
    {
        let mut current = lock(&shared.job);
        *current = Some(job);
        epoch = epoch_of(shared.state.load(Ordering::Relaxed)) + 1;
        // All parts of the loop before are done: nobody counts any more.
        shared.done.store(0, Ordering::Relaxed);
        shared.state.store(epoch << PART_BITS, Ordering::SeqCst);
    }
    if shared.asleep.load(Ordering::SeqCst) > 0 {
        shared.wake.notify_all();
    }
    // SAFETY: `job` is loop `epoch`, which stays at hand until this function returns, below.
    unsafe { shared.run(&job, epoch) };
    let mut patience = PATIENCE;
    while shared.done.load(Ordering::Acquire) < parts as usize {
        if patience > 0 {
            patience -= 1;
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
    pool.busy.store(false, Ordering::Release);
}

#[cfg(test)]
mod tests {
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
    fn every_iteration_runs_once_whoever_calls() {
        unsafe extern "C" fn count(captures: *mut c_void, begin: isize, end: isize) {
            // SAFETY: the captures are the counters below, one for each iteration.
            let counters = unsafe { &*captures.cast::<[AtomicUsize; 1000]>() };
            for counter in &counters[begin as usize..end as usize] {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
        std::thread::scope(|scope| {
            for threads in [1, 2, 3, 64] {
                scope.spawn(move || {
                    for _ in 0..200 {
                        let counters = [const { AtomicUsize::new(0) }; 1000];
                        let captures = std::ptr::from_ref(&counters).cast_mut().cast();
                        // SAFETY: `count` only reads the captures, through atomics.
                        with_threads(threads, || unsafe { parallel(count, captures, 1000) });
                        assert!(counters.iter().all(|c| c.load(Ordering::Relaxed) == 1));
                    }
                });
            }
        });
    }
}
