//! Where the time of a program goes: its kernels called one by one.
//!
//! A main kernel is a list of calls on buffers. Instead of that kernel, which stays as it is, the
//! profiler calls what it calls, through [`Executable`], with a clock around each. A whole program counts
//! itself where it is built for that: in its functions, without what they call, and in kernels.

use std::time::Instant;

use ir_core::{Diagnostic, Diagnostics, Loc, LocData, Module, SourceMap, Span, Symbol};
use rustc_hash::FxHashMap;
use target_core::calls::{Calls, Place};
use target_core::{Buffer, Executable};
use te::compute::counts::{are_open, bounds};
use te::compute::{FUNC, Work, work};

use crate::MAIN;

/// The work of each compute function of `module`.
pub(super) fn works(module: &Module) -> FxHashMap<Symbol, Work> {
    let functions = module.items.iter().filter(|(_, item)| item.signature.op == FUNC);
    // How much those do that take extents, nobody knows before they run.
    let functions = functions.filter(|(_, item)| !are_open(&bounds(&item.signature)));
    functions.map(|(name, item)| (*name, work(item))).collect()
}

/// What one kernel did.
#[derive(Clone, Debug)]
pub struct KernelProfile {
    /// Its name.
    pub name: String,
    /// How often a run calls it.
    pub calls: usize,
    /// Seconds of a run in all its calls: the sum of their medians.
    pub seconds: f64,
    /// Its work in a run, in all its calls.
    pub work: Work,
    /// The places in the model that its calls come from, and where the functions start that they are in.
    locs: Vec<(Loc, Option<Span>)>,
}

/// Where the time of a program goes.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The kernels, the one that takes longest first.
    pub kernels: Vec<KernelProfile>,
    /// How many runs were measured.
    pub runs: usize,
}

impl Profile {
    /// Seconds of a run in all kernels.
    pub fn seconds(&self) -> f64 {
        self.kernels.iter().map(|kernel| kernel.seconds).sum()
    }

    /// What `kernel` was made of: names of nodes of an imported model, or places in the source.
    pub fn sources(&self, kernel: &KernelProfile, sources: &SourceMap) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut pending: Vec<(Loc, Option<Span>)> = kernel.locs.iter().rev().copied().collect();
        while let Some((loc, base)) = pending.pop() {
            let span = match loc.data() {
                LocData::Fused(locs) => {
                    pending.extend(locs.iter().rev().map(|loc| (*loc, base)));
                    None
                }
                LocData::Pass(_, inner) => {
                    pending.push((inner, base));
                    None
                }
                LocData::Imported(name) => {
                    if !names.iter().any(|other| other == name.as_str()) {
                        names.push(name.to_string());
                    }
                    None
                }
                LocData::Unknown | LocData::Offset(_) | LocData::Span(_) => loc.span(base),
            };
            let place = span.and_then(|span| {
                let (line, column) = sources.line_column(span.file, span.start)?;
                let file = span.file.as_str().rsplit('/').next().unwrap_or_default();
                Some(format!("{file}:{line}:{column}"))
            });
            if let Some(place) = place.filter(|place| !names.contains(place)) {
                names.push(place);
            }
        }
        names
    }
}

/// What is counted in a whole program.
pub(super) struct Counted {
    /// Its name, and what a call of it does.
    name: Symbol,
    is_kernel: bool,
    locs: Vec<(Loc, Option<Span>)>,
}

/// What is counted in the program of `module`, in the order of its counters.
pub(super) fn counted(module: &Module) -> Vec<Counted> {
    let counters = prog::sites::counters(module);
    let mut counted: Vec<Counted> = counters
        .iter()
        .map(|name| {
            let is_kernel = module.get(*name).is_none_or(|item| item.signature.op != prog::FUNC);
            Counted { name: *name, is_kernel, locs: vec![] }
        })
        .collect();
    for (function, op, kernel) in prog::sites::kernels(module) {
        let base = module.get(function).and_then(|item| item.signature.span);
        let loc = module.body(function).map(|body| body.loc(op));
        if let (Some(index), Some(loc)) = (counters.get_index_of(&kernel), loc) {
            counted[index].locs.push((loc, base));
        }
    }
    counted
}

/// The profile of a whole program, of the numbers that each run counted: calls and nanoseconds.
pub(super) fn of_counts(
    counted: &[Counted],
    works: &FxHashMap<Symbol, Work>,
    runs: &[Vec<(i64, i64)>],
) -> Profile {
    let kernel = |(index, one): (usize, &Counted)| {
        let mut times: Vec<i64> = runs.iter().map(|run| run[index].1).collect();
        times.sort_unstable();
        let calls = runs.first().map_or(0, |run| run[index].0);
        let calls = usize::try_from(calls).expect("calls are counted from 0");
        let work = works.get(&one.name).copied().filter(|_| one.is_kernel).unwrap_or_default();
        let times_calls = |amount: u64| amount.saturating_mul(calls as u64);
        let work = Work { flops: times_calls(work.flops), bytes: times_calls(work.bytes) };
        let sigil = if one.is_kernel { "" } else { "@" };
        let name = format!("{sigil}{}", one.name);
        // Every program runs three times at least.
        let seconds = times[times.len() / 2] as f64 / 1e9;
        KernelProfile { name, calls, seconds, work, locs: one.locs.clone() }
    };
    let kernels = counted.iter().enumerate().map(kernel);
    let mut kernels: Vec<KernelProfile> = kernels.filter(|kernel| kernel.calls > 0).collect();
    kernels.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    Profile { kernels, runs: runs.len() }
}

/// Buffers that no call uses at the moment, by their size.
#[derive(Default)]
struct Pool(FxHashMap<usize, Vec<Buffer>>);

impl Pool {
    fn take(&mut self, bytes: usize) -> Buffer {
        let free = self.0.get_mut(&bytes).and_then(Vec::pop);
        free.unwrap_or_else(|| Buffer::zeroed(bytes))
    }

    fn give(&mut self, buffer: Buffer) {
        self.0.entry(buffer.len()).or_default().push(buffer);
    }
}

/// Runs `calls` on `params`, the buffers of the main kernel, for some seconds and at least three
/// times after a first one that is not measured.
pub(super) fn profile(
    calls: &Calls,
    works: &FxHashMap<Symbol, Work>,
    executable: &dyn Executable,
    params: &mut Vec<Buffer>,
    seconds: f64,
) -> Result<Profile, Diagnostics> {
    if calls.is_opaque || !calls.constants.is_empty() {
        let message = "the main kernel does more than calling kernels: it cannot be profiled";
        return Err(Diagnostic::error("E0733", message).into());
    }
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); calls.sites.len()];
    let begin = Instant::now();
    let mut runs = 0;
    let on_device = executable.call_timed(MAIN, params)?.is_some();
    while on_device && (begin.elapsed().as_secs_f64() < seconds || runs < 3) {
        // What has a clock once has one again.
        let one = executable.call_timed(MAIN, params)?.unwrap_or_default();
        times.iter_mut().zip(one).for_each(|(times, seconds)| times.push(seconds));
        runs += 1;
    }
    if on_device {
        return Ok(summary(calls, works, times, runs));
    }
    let mut slots: Vec<Option<Buffer>> = params.drain(..).map(Some).collect();
    let mut pool = Pool::default();
    let mut result = run_once(calls, executable, &mut slots, &mut pool, None);
    while result.is_ok() && (begin.elapsed().as_secs_f64() < seconds || runs < 3) {
        result = run_once(calls, executable, &mut slots, &mut pool, Some(&mut times));
        runs += 1;
    }
    params.extend(slots.into_iter().flatten());
    result?;
    Ok(summary(calls, works, times, runs))
}

/// The profile of `calls`, of the seconds that each took in each of some runs.
fn summary(
    calls: &Calls,
    works: &FxHashMap<Symbol, Work>,
    times: Vec<Vec<f64>>,
    runs: usize,
) -> Profile {
    let mut kernels: Vec<KernelProfile> = Vec::new();
    for (site, mut times) in calls.sites.iter().zip(times) {
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2]; // Each kernel ran three times at least.
        let Work { flops, bytes } = works.get(&site.kernel).copied().unwrap_or_default();
        let name = site.kernel.as_str();
        let place = kernels.iter().position(|kernel| kernel.name == name).unwrap_or_else(|| {
            kernels.push(KernelProfile {
                name: name.to_string(),
                calls: 0,
                seconds: 0.0,
                work: Work::default(),
                locs: vec![],
            });
            kernels.len() - 1
        });
        let kernel = &mut kernels[place];
        kernel.calls += 1;
        kernel.seconds += median;
        kernel.work.flops = kernel.work.flops.saturating_add(flops);
        kernel.work.bytes = kernel.work.bytes.saturating_add(bytes);
        kernel.locs.push((site.loc, calls.base));
    }
    kernels.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    Profile { kernels, runs }
}

/// Runs all calls once; the seconds of each go to `times`.
fn run_once(
    calls: &Calls,
    executable: &dyn Executable,
    params: &mut [Option<Buffer>],
    pool: &mut Pool,
    mut times: Option<&mut Vec<Vec<f64>>>,
) -> Result<(), Diagnostics> {
    let missing = || Diagnostic::error("E0733", "a buffer of the main kernel is missing");
    let mut locals: Vec<Option<Buffer>> = calls.locals.iter().map(|_| None).collect();
    for (index, site) in calls.sites.iter().enumerate() {
        let mut buffers: Vec<Buffer> = Vec::with_capacity(site.places.len());
        for (position, place) in site.places.iter().enumerate() {
            let twice = site.places[..position].iter().position(|other| other == place);
            let taken = match (*place, twice) {
                // An input that is passed twice: buffers of a call are distinct.
                (_, Some(first)) => buffers.get(first).cloned(),
                (Place::Param(param), None) => params.get_mut(param).and_then(Option::take),
                (Place::Local(local), None) => locals[local].take().or_else(|| {
                    super::memory::bytes_of(calls.locals[local].ty).map(|bytes| pool.take(bytes))
                }),
                // Constants of main kernels are parameters when programs run.
                (Place::Constant(_), None) => None,
            };
            buffers.push(taken.ok_or_else(missing)?);
        }
        let start = Instant::now();
        let called = executable.call(site.kernel.as_str(), &mut buffers);
        let seconds = start.elapsed().as_secs_f64();
        for (position, (place, buffer)) in site.places.iter().zip(buffers).enumerate() {
            match *place {
                _ if site.places[..position].contains(place) => {}
                Place::Param(param) => params[param] = Some(buffer),
                Place::Local(local) if calls.locals[local].last > index => {
                    locals[local] = Some(buffer);
                }
                Place::Local(_) => pool.give(buffer),
                Place::Constant(_) => {}
            }
        }
        called?;
        if let Some(times) = times.as_deref_mut() {
            times[index].push(seconds);
        }
    }
    Ok(())
}
