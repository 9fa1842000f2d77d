//! The threads of parallel loops: started once, then waiting, first awake and then asleep.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

/// A range of iterations of a parallel loop.
pub(crate) type Range = unsafe extern "C" fn(*mut c_void, isize, isize);

/// What generated code calls to run `range` on 0 to `count`.
pub(crate) type Hook = unsafe extern "C" fn(Range, *mut c_void, isize);

/// How often a thread looks for work before it sleeps: some microseconds.
const PATIENCE: usize = 4000;

/// What one thread is to run.
#[derive(Clone, Copy)]
struct Job {
    range: Range,
    captures: Captures,
    count: isize,
}

#[derive(Clone, Copy)]
struct Captures(*mut c_void);

// SAFETY: the captures of a parallel loop are read by all its threads and written by none; the
// caller keeps them until all threads are done.
unsafe impl Send for Captures {}

#[derive(Default)]
struct Shared {
    /// Counts the loops so far; a change tells the workers.
    epoch: AtomicUsize,
    job: Mutex<Option<Job>>,
    wake: Condvar,
    /// Workers that have not finished the loop at hand.
    running: AtomicUsize,
}

struct Pool {
    shared: Arc<Shared>,
    /// Parts that loops are cut into, and threads that run one each besides the caller.
    threads: usize,
    workers: usize,
    /// Held by the caller of the loop at hand.
    busy: Mutex<()>,
}

static POOL: LazyLock<Pool> = LazyLock::new(|| {
    let shared = Arc::new(Shared::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut workers = 0;
    for number in 1..threads {
        let shared = Arc::clone(&shared);
        let name = format!("kernel-{number}");
        let work = move || work(&shared, number, threads);
        // With fewer threads than wanted the rest is run by the caller, below.
        match std::thread::Builder::new().name(name).spawn(work) {
            Ok(_) => workers += 1,
            Err(_) => break,
        }
    }
    Pool { shared, threads, workers, busy: Mutex::new(()) }
});

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part of 0 to `count` that thread `number` of `threads` runs.
fn part(count: isize, number: usize, threads: usize) -> (isize, isize) {
    let (number, threads) = (number as isize, threads as isize);
    let (size, rest) = (count / threads, count % threads);
    let begin = number * size + number.min(rest);
    (begin, begin + size + isize::from(number < rest))
}

fn work(shared: &Shared, number: usize, threads: usize) {
    let mut seen = 0;
    loop {
        let mut patience = PATIENCE;
        while shared.epoch.load(Ordering::Acquire) == seen && patience > 0 {
            std::hint::spin_loop();
            patience -= 1;
        }
        let mut job = lock(&shared.job);
        while shared.epoch.load(Ordering::Acquire) == seen {
            job = shared.wake.wait(job).unwrap_or_else(PoisonError::into_inner);
        }
        seen = shared.epoch.load(Ordering::Acquire);
        let copy = *job;
        drop(job);
        if let Some(Job { range, captures, count }) = copy {
            let (begin, end) = part(count, number, threads);
            if begin < end {
                // SAFETY: the caller of the loop waits in `parallel` until `running` is 0, so that
                // the captures are there; ranges do not overlap.
                unsafe { range(captures.0, begin, end) };
            }
        }
        shared.running.fetch_sub(1, Ordering::Release);
    }
}

/// Runs `range` on parts of 0 to `count` that cover it, on all threads; on this one alone where
/// the others are busy with another loop.
///
/// # Safety
/// `range` may be called with `captures` from several threads at once, on ranges that do not
/// overlap, until this returns.
pub(crate) unsafe extern "C" fn parallel(range: Range, captures: *mut c_void, count: isize) {
    let pool = &*POOL;
    let guard = pool.busy.try_lock();
    if guard.is_err() || pool.workers == 0 || count < 2 {
        // SAFETY: that of this function.
        unsafe { range(captures, 0, count) };
        return;
    }
    let shared = &pool.shared;
    shared.running.store(pool.workers, Ordering::Relaxed);
    {
        let mut job = lock(&shared.job);
        *job = Some(Job { range, captures: Captures(captures), count });
        shared.epoch.fetch_add(1, Ordering::Release);
    }
    shared.wake.notify_all();
    let (begin, end) = part(count, 0, pool.threads);
    // SAFETY: that of this function, for a range that no worker runs.
    unsafe { range(captures, begin, end) };
    // The parts of threads that could not be started.
    for number in pool.workers + 1..pool.threads {
        let (begin, end) = part(count, number, pool.threads);
        // SAFETY: as above.
        unsafe { range(captures, begin, end) };
    }
    let mut patience = PATIENCE;
    while shared.running.load(Ordering::Acquire) > 0 {
        if patience > 0 {
            patience -= 1;
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}
