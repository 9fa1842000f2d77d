//! What a machine can do at best, measured by small kernels of the target itself.

use std::fmt::Write;
use std::time::Instant;

use ir_core::{Diagnostics, Registry, verify};
use target_core::{Buffer, Executable, Target};

/// What a machine can do at best.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Peak {
    /// `float32` operations per second in multiply-adds, each of which counts two, on all threads.
    pub flops: f64,
    /// Bytes per second that are read and written by copying an array that fits into no cache.
    pub copied: f64,
}

/// Accumulators of a thread: as many as hide the latency of multiply-adds.
const ACCUMULATORS: usize = 12;
/// Steps of each accumulator: some milliseconds.
const STEPS: usize = 1 << 20;
/// The best of so many runs counts.
const RUNS: usize = 7;

/// Measures the peak of `target` here. Errors are those of loading kernels.
pub fn measure(target: &dyn Target, registry: &Registry) -> Result<Peak, Diagnostics> {
    let machine = target.capabilities();
    let (lanes, threads) = (machine.lanes(32), machine.threads.max(1));
    // Larger than all caches, and not so large that a small machine suffers.
    let bytes = (4 * machine.caches[2]).clamp(32 << 20, 256 << 20);
    let row = bytes / 4 / threads / lanes * lanes;
    let text = multiply_add(lanes, threads) + &copy("copy", lanes, threads, row);
    let (module, found) = ir_core::text::module::parse("<peak>", &text, registry);
    if !found.is_empty() {
        return Err(found);
    }
    let loaded = target.load(verify(&module, registry)?)?;
    let operations = (2 * threads * ACCUMULATORS * lanes * STEPS) as f64;
    let buffers = [ACCUMULATORS * lanes, threads * ACCUMULATORS * lanes];
    let flops = operations / best(&*loaded, "multiply_add", &buffers)?;
    let moved = (2 * 4 * threads * row) as f64;
    let buffers = [threads * row, threads * row];
    let copied = moved / best(&*loaded, "copy", &buffers)?;
    Ok(Peak { flops, copied })
}

/// The seconds of the fastest run of `kernel` on buffers of so many numbers.
fn best(loaded: &dyn Executable, kernel: &str, numbers: &[usize]) -> Result<f64, Diagnostics> {
    let mut buffers = buffers(numbers);
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        loaded.call(kernel, &mut buffers)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Buffers of so many numbers, those of the first all the same.
pub(super) fn buffers(numbers: &[usize]) -> Vec<Buffer> {
    let mut buffers: Vec<Buffer> =
        numbers.iter().map(|numbers| Buffer::zeroed(4 * numbers)).collect();
    for value in buffers.iter_mut().take(1).flat_map(|first| first.as_mut().chunks_exact_mut(4)) {
        value.copy_from_slice(&0.5f32.to_ne_bytes());
    }
    buffers
}

/// The index of `lanes` numbers from `base` on.
fn at(base: &str, lanes: usize) -> String {
    if lanes > 1 { format!("ramp({base}, 1, {lanes})") } else { base.to_string() }
}

fn multiply_add(lanes: usize, threads: usize) -> String {
    let outputs = threads * ACCUMULATORS * lanes;
    let here = at("0", lanes);
    let inputs = ACCUMULATORS * lanes;
    let mut text = format!(
        "te.kernel @multiply_add(%x: Tensor[({inputs}), float32], \
         %y: Tensor[({outputs}), float32]) outputs 1 {{\nparallel t < {threads} {{\n\
         %s = %x[{here}]\n"
    );
    // Writing to a string does not fail.
    for number in 0..ACCUMULATORS {
        let _ = writeln!(text, "%a{number} = alloc[({lanes}), float32] register");
        // From places of their own: compilers make one of accumulators that are equal.
        let place = at(&(number * lanes).to_string(), lanes);
        let _ = writeln!(text, "%a{number}[{here}] = %x[{place}]");
    }
    let _ = writeln!(text, "for i < {STEPS} {{");
    for number in 0..ACCUMULATORS {
        let _ = writeln!(text, "%a{number}[{here}] = %a{number}[{here}] * %s + %s");
    }
    let _ = writeln!(text, "}}");
    for number in 0..ACCUMULATORS {
        let place = at(&format!("(t * {ACCUMULATORS} + {number}) * {lanes}"), lanes);
        let _ = writeln!(text, "%y[{place}] = %a{number}[{here}]");
    }
    text + "}\n}\n"
}

pub(super) fn copy(name: &str, lanes: usize, threads: usize, row: usize) -> String {
    let place = at(&format!("i * {lanes}"), lanes);
    let steps = row / lanes;
    format!(
        "te.kernel @{name}(%x: Tensor[({threads}, {row}), float32], \
         %y: Tensor[({threads}, {row}), float32]) outputs 1 {{\nparallel t < {threads} {{\n\
         for i < {steps} {{\n%y[t, {place}] = %x[t, {place}]\n}}\n}}\n}}\n"
    )
}
