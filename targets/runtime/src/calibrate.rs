//! The cost table of a target, measured here by kernels of the target itself.
//!
//! What computes goes the whole way that programs go, so that the rates are those of default
//! schedules and not of the machine at best. The shortest of many runs counts.

use std::fmt::Write;
use std::time::Instant;

use ir_core::{CostTable, DType, Diagnostic, Diagnostics, Registry, TensorData, verify};
use relay::inference::infer_module;
use target_core::Target;

use super::peak::{buffers, copy};
use super::{BuildOptions, Program, bind};

/// What was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// The table.
    pub costs: CostTable,
    /// Bytes that are read and written by copying an array, and how fast, in GB/s. The last array
    /// fits into no cache, and is what the table says.
    pub copies: Vec<(usize, f64)>,
}

/// Calls of an empty kernel, of which a launch is the mean.
const LAUNCHES: usize = 256;
/// Elements of arrays that kernels compute on: small enough for the caches of a core, and enough
/// for several threads.
const ELEMENTS: usize = 1 << 15;
/// Operations for each element, so that reading and writing it takes less time.
const CHAIN: usize = 16;
/// Extents of a product: rows, and columns and inputs.
const PRODUCT: (usize, usize) = (128, 512);
/// Each kernel runs for so many seconds, and so often at least.
const SECONDS: f64 = 0.1;
const RUNS: usize = 5;

/// Measures the costs of `target`. Errors are those of building and loading kernels.
pub fn measure(target: &dyn Target, registry: &Registry) -> Result<Measured, Diagnostics> {
    let (launch, copies) = memory(target, registry)?;
    let rate = |text: &str, operations: usize| -> Result<f64, Diagnostics> {
        let mut program = program(text, target, registry)?;
        let seconds = fastest(|| program.run())?;
        Ok(operations as f64 / (seconds - launch * 1e-6).max(1e-9) / 1e9)
    };
    let vector = format!("Tensor[({ELEMENTS}), float32]");
    let plain = format!("def @main(%x: {vector}, %y: {vector}) {{\n{}}}\n", chain());
    let (rows, columns) = PRODUCT;
    let product = format!(
        "def @main(%x: Tensor[({rows}, {columns}), float32], \
         %w: Tensor[({columns}, {columns}), float32]) {{ nn.dense(%x, %w) }}\n"
    );
    let exponential = format!("def @main(%x: {vector}) {{ exp(%x) }}\n");
    let costs = CostTable {
        launch: rounded(launch),
        bandwidth: rounded(copies.last().map_or(CostTable::NOMINAL.bandwidth, |copy| copy.1)),
        arithmetic: rounded(rate(&plain, ELEMENTS * CHAIN)?),
        products: rounded(rate(&product, 2 * rows * columns * columns)?),
        transcendental: rounded(rate(&exponential, ELEMENTS)?),
    };
    Ok(Measured { costs, copies: copies.into_iter().map(|(n, rate)| (n, rounded(rate))).collect() })
}

/// Operations of which none can be left out, nor made one of two.
fn chain() -> String {
    let mut text = String::new();
    for step in 0..CHAIN {
        let before = if step == 0 { "x".to_string() } else { (step - 1).to_string() };
        let (name, operand) = if step % 2 == 0 { ("add", "y") } else { ("subtract", "x") };
        // Writing to a string does not fail.
        let _ = match step + 1 == CHAIN {
            true => writeln!(text, "{name}(%{before}, %{operand})"),
            false => writeln!(text, "%{step} = {name}(%{before}, %{operand});"),
        };
    }
    text
}

/// Microseconds of a launch, and how fast arrays are copied.
fn memory(
    target: &dyn Target,
    registry: &Registry,
) -> Result<(f64, Vec<(usize, f64)>), Diagnostics> {
    let machine = target.capabilities();
    let (lanes, threads) = (machine.lanes(32), machine.threads.max(1));
    // Larger than all caches, and not so large that a small machine suffers.
    let most = (4 * machine.caches[2]).clamp(32 << 20, 256 << 20);
    let rows: Vec<usize> =
        [1 << 17, 1 << 21, most].map(|bytes| bytes / 4 / threads / lanes * lanes).into();
    let mut text = launches(threads);
    for (number, row) in rows.iter().enumerate() {
        text += &copy(&format!("copy{number}"), lanes, threads, *row);
    }
    let (module, found) = ir_core::text::module::parse("<calibrate>", &text, registry);
    if !found.is_empty() {
        return Err(found);
    }
    let loaded = target.load(verify(&module, registry)?)?;
    let kernel = |name: &str, numbers: usize| {
        let mut buffers = buffers(&[numbers, numbers]);
        fastest(|| loaded.call(name, &mut buffers))
    };
    let launch = kernel("launches", threads)? * 1e6 / LAUNCHES as f64;
    let mut copies = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let bytes = 2 * 4 * threads * row;
        let seconds = kernel(&format!("copy{number}"), threads * row)?;
        copies.push((bytes, bytes as f64 / (seconds - launch * 1e-6).max(1e-9) / 1e9));
    }
    Ok((launch, copies))
}

/// A kernel that calls one which each thread has a single number to do in.
fn launches(threads: usize) -> String {
    let params = format!(
        "(%x: Tensor[({threads}), float32], %y: Tensor[({threads}), float32]) outputs 1 {{\n"
    );
    let call = "call @empty(%x, %y)\n".repeat(LAUNCHES);
    format!(
        "te.kernel @empty{params}parallel t < {threads} {{\n%y[t] = %x[t]\n}}\n}}\n\
         te.kernel @launches{params}{call}}}\n"
    )
}

/// The program `text`, with a constant for its parameter `w`, and numbers for the others.
fn program(text: &str, target: &dyn Target, registry: &Registry) -> Result<Program, Diagnostics> {
    let (mut module, mut found) = ir_core::text::module::parse("<calibrate>", text, registry);
    found.extend(infer_module(&mut module, registry));
    if found.has_errors() {
        return Err(found);
    }
    let columns = PRODUCT.1 as i64;
    let numbers = vec![0.5; PRODUCT.1 * PRODUCT.1];
    if let Ok(weight) = TensorData::from_f64(DType::FLOAT32, &[columns, columns], &numbers) {
        // Programs without a weight have no parameter of this name.
        bind(&mut module, &[("w".to_string(), weight)]);
    }
    let options = BuildOptions::new(target);
    let (mut program, _) = Program::build(module, registry, &options, &mut found)?;
    let inputs = program.inputs().iter().map(|ty| {
        let tensor = ty.as_tensor();
        let shape = tensor.and_then(|tensor| tensor.known_shape());
        let shape = shape.expect("the inputs of a measured kernel are of known extents");
        let count = shape.iter().product::<i64>();
        let numbers: Vec<f64> = (0..count).map(|number| (number % 7) as f64 / 8.0).collect();
        TensorData::from_f64(DType::FLOAT32, &shape, &numbers)
    });
    let inputs: Result<Vec<TensorData>, _> = inputs.collect();
    let inputs = inputs
        .map_err(|message| Diagnostics::from(Diagnostic::error("E0733", message.to_string())))?;
    program.set_inputs(&inputs)?;
    Ok(program)
}

/// The seconds of the shortest run.
fn fastest(mut run: impl FnMut() -> Result<(), Diagnostics>) -> Result<f64, Diagnostics> {
    run()?;
    let (begin, mut runs, mut least) = (Instant::now(), 0, f64::INFINITY);
    while runs < RUNS || begin.elapsed().as_secs_f64() < SECONDS {
        let start = Instant::now();
        run()?;
        least = least.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    Ok(least)
}

/// `value` with three digits that count: the others were chance.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}
