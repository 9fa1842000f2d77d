//! Default schedules give what the compute function says, without races, and compute several
//! results in one nest of loops where they may.

use ir_core::{DType, Item, Module, Random, Scalar, TensorData};
use target_core::{Capabilities, cpu, program};
use te::checks::report;
use te::compute::parts::{self, Part, Source};
use te::compute::{Combiner, ComputeBuilder, Tensor, counts};
use te::generate::{self, Options, compute_function};
use te::interpreter::{self, Order, run_compute, same_numbers};
use te::loops::compact;
use te::scalar::ScalarOp;
use te::schedule::Schedule;

/// The default schedule of `function` on the machine of `seed`, on which it gives what it says.
fn check(function: &Item, seed: u64) -> Schedule {
    let inputs = generate::inputs(function, seed).unwrap();
    let expected = run_compute(function.body.as_ref().unwrap(), &inputs).unwrap();
    let isa = ["avx512", "sse2", "scalar"][seed as usize % 3];
    let threads = 1 + seed as usize % 2;
    // Small caches, so that some results are stored past them.
    let caches = [1 << 10, 1 << 12, 1 << 14];
    let machine = Capabilities { threads, caches, ..Capabilities::of_isa(isa).unwrap() };
    let schedule = cpu::schedule(function, &machine).unwrap();
    let (mut kernel, sites) = program::lower_function(function, &machine).unwrap();
    let run = interpreter::Options {
        step_limit: Some(50_000_000),
        parallel: Order::Reverse,
        check_races: true,
        ..Default::default()
    };
    let body = kernel.body.as_ref().unwrap();
    let found = run.run_kernel(&Module::new(), body, &inputs, expected.len());
    let found = found.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    for (found, expected) in found.iter().zip(&expected) {
        assert!(same_numbers(found, expected), "seed {seed}: {found:?}\n{expected:?}");
    }
    if !sites.is_empty() {
        report(&mut kernel, &sites);
        let body = kernel.body.as_ref().unwrap();
        let found = run.run_kernel(&Module::new(), body, &inputs, expected.len() + 1).unwrap();
        let (failed, found) = found.split_last().unwrap();
        assert!(failed.to_i64().iter().all(|failed| *failed == 0), "seed {seed}: {failed:?}");
        assert!(found.iter().zip(&expected).all(|(found, expected)| same_numbers(found, expected)));
    }
    schedule
}

/// What the default schedule of `function` gives on the machine of `seed` where axes end at counts.
fn check_counts(function: &Item, seed: u64) {
    let Some(function) = generate::counted(function, seed) else { return };
    let machine = Capabilities::of_isa(["avx512", "sse2", "scalar"][seed as usize % 3]).unwrap();
    let (kernel, _) = program::lower_function(&function, &machine).unwrap();
    let run = interpreter::Options {
        step_limit: Some(50_000_000),
        parallel: Order::Reverse,
        check_races: true,
        reads_undefined: true,
    };
    for inputs in generate::calls(&function, &generate::inputs(&function, seed).unwrap()) {
        let expected = match run_compute(function.body.as_ref().unwrap(), &inputs) {
            Ok(expected) => expected,
            // A check of a number that a sum over fewer elements is too small for.
            Err(error) if error.code == "E0858" => continue,
            Err(error) => panic!("seed {seed}: {error}"),
        };
        let body = kernel.body.as_ref().unwrap();
        let found = run.run_kernel(&Module::new(), body, &inputs, expected.len());
        let found = found.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let found = generate::below_counts(&function, &inputs, &found);
        let expected = generate::below_counts(&function, &inputs, &expected);
        for (found, expected) in found.iter().zip(&expected) {
            assert!(same_numbers(found, expected), "seed {seed}: {found:?}\n{expected:?}");
        }
    }
}

/// `tensor` as a row of elements, where `is_open`.
fn row(tensor: &TensorData, is_open: bool) -> TensorData {
    let elements = tensor.elements().count() as i64;
    let shape = if is_open { vec![elements] } else { tensor.shape().to_vec() };
    TensorData::from_bytes(tensor.dtype(), &shape, tensor.bytes().to_vec()).unwrap()
}

/// What the parts of `function` with open counts give on the machine of `seed`; whether it has such parts.
fn check_open(function: &Item, seed: u64) -> bool {
    let Some((open, counts)) = generate::open(function, seed) else { return false };
    let inputs = generate::inputs(function, seed).unwrap();
    let expected = run_compute(function.body.as_ref().unwrap(), &inputs).unwrap();
    let again = counts::closed(&open, &counts).unwrap();
    let numbers = counts.iter().map(|count| TensorData::scalar(DType::INT64, Scalar::Int(*count)));
    let numbers: Vec<TensorData> = numbers.collect();
    let all: Vec<TensorData> = numbers.iter().chain(&inputs).cloned().collect();
    let found = run_compute(again.body.as_ref().unwrap(), &all).unwrap();
    assert!(found.iter().zip(&expected).all(|(found, expected)| same_numbers(found, expected)));
    let machine = Capabilities::of_isa(["avx512", "sse2", "scalar"][seed as usize % 3]).unwrap();
    let Ok((parts, returned)) = parts::split(&open) else { return false };
    let mut given: Vec<Vec<TensorData>> = Vec::new();
    let find = |given: &[Vec<TensorData>], source: &Source| match *source {
        Source::Parameter(number) => all[number].clone(),
        Source::Part(part, result) => given[part][result].clone(),
    };
    for Part { item, inputs } in &parts {
        let (kernel, _) = program::lower_function(item, &machine).unwrap();
        let types = te::loops::buffer_types(&item.signature).unwrap();
        let closed: Vec<_> = types.iter().map(|ty| counts::closed_type(*ty, &counts)).collect();
        let is_open = |index: usize| types[index] != closed[index];
        let inputs = inputs.iter().map(|source| find(&given, source));
        let inputs: Vec<TensorData> = numbers.iter().cloned().chain(inputs).collect();
        let rows = inputs.iter().enumerate().map(|(index, input)| row(input, is_open(index)));
        let rows: Vec<TensorData> = rows.collect();
        let sizes = (0..types.len()).filter(|index| is_open(*index)).map(|index| {
            closed[index].as_tensor().unwrap().known_shape().unwrap().iter().product::<i64>()
        });
        let kernel = compact::with_sizes(&kernel, &sizes.collect::<Vec<_>>()).unwrap();
        let run = interpreter::Options { step_limit: Some(50_000_000), ..Default::default() };
        let outputs = types.len() - inputs.len();
        let body = kernel.body.as_ref().unwrap();
        let results = run.run_kernel(&Module::new(), body, &rows, outputs);
        let results = results.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let results = results.iter().enumerate().map(|(index, result)| {
            let shape = closed[inputs.len() + index].as_tensor().unwrap().known_shape().unwrap();
            TensorData::from_bytes(result.dtype(), &shape, result.bytes().to_vec()).unwrap()
        });
        given.push(results.collect());
    }
    for (source, expected) in returned.iter().zip(&expected) {
        let found = find(&given, source);
        assert!(same_numbers(&found, expected), "seed {seed}: {found:?}\n{expected:?}");
    }
    true
}

fn cases() -> u64 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

#[test]
fn default_schedules_keep_results() {
    let options = Options { stages: 7, rank: 3, extent: 33, points: 18_000, ..Options::default() };
    for seed in 0..cases() {
        check(&compute_function(seed, &options).unwrap(), seed);
    }
}

#[test]
fn default_schedules_end_at_counts() {
    let options = Options { stages: 5, rank: 3, extent: 33, points: 9_000, ..Options::default() };
    for seed in 0..cases() {
        check_counts(&compute_function(seed, &options).unwrap(), seed);
        check_counts(&function_of_rows(seed), seed);
    }
}

#[test]
fn default_schedules_end_at_open_counts() {
    let options = Options { stages: 5, rank: 3, extent: 33, points: 9_000, ..Options::default() };
    let mut computed = 0;
    for seed in 0..cases() {
        computed += u64::from(check_open(&compute_function(seed, &options).unwrap(), seed));
        computed += u64::from(check_open(&function_of_rows(seed), seed));
    }
    assert!(computed > cases(), "{computed}");
}

/// Square tiles of a transpose end at counts as well, and read nothing beyond.
#[test]
fn transposes_end_at_open_counts() {
    for (seed, (rows, columns)) in
        [(3, 5), (70, 35), (64, 48), (1, 200), (17, 16)].iter().enumerate()
    {
        let mut builder = ComputeBuilder::new();
        let x = builder.input("x", &[*rows, *columns], DType::FLOAT32);
        let y = builder.compute("y", &[*columns, *rows], |e, i| e.load(&x, &[i[1], i[0]]));
        let function = builder.finish(&[y]).unwrap();
        for seed in (0..30).map(|turn| seed as u64 + 5 * turn) {
            check_open(&function, seed);
        }
    }
}

/// A tensor of rows or of a number for each row. Of exact ones, sums are exact in any order.
#[derive(Clone)]
struct Value {
    tensor: Tensor,
    exact: bool,
}

/// Maps and reductions of rows that read one another in place, most of which are results.
fn function_of_rows(seed: u64) -> Item {
    let random = &mut Random::new(seed);
    let mut builder = ComputeBuilder::new();
    let (rows, row) = (1 + random.below(40) as i64, 1 + random.below(300) as i64);
    let shape = [rows, row];
    let mut values: Vec<Value> = vec![];
    for name in ["x", "y"] {
        values.push(Value { tensor: builder.input(name, &shape, DType::FLOAT32), exact: true });
    }
    let product = random.one_in(4);
    if product {
        let (a, b) = (
            builder.input("a", &[rows, 5], DType::FLOAT32),
            builder.input("b", &[5, row], DType::FLOAT32),
        );
        let tensor = builder.reduce("product", &shape, &[5], Combiner::Sum, |e, i, k| {
            let (left, right) = (e.load(&a, &[i[0], k[0]]), e.load(&b, &[k[0], i[1]]));
            e.mul(left, right)
        });
        values.push(Value { tensor, exact: true });
    }
    let mut outputs: Vec<Tensor> = vec![];
    let mut sums = 0;
    for number in 0..2 + random.below(6) {
        let name = format!("s{number}");
        let a = values[values.len() - 1 - random.below(values.len().min(3))].clone();
        let b = values[random.below(values.len())].clone();
        let is_row = |value: &Value| value.tensor.shape.last() == Some(&row);
        let kind = random.below(if product { 4 } else { 6 });
        let made = match kind {
            // Dear enough to be stored where several read it.
            0 => {
                let shape = a.tensor.shape.clone();
                let tensor = builder.compute(&name, &shape, |e, i| {
                    let value = e.load(&a.tensor, i);
                    e.scalar(ScalarOp::Tanh, &[value])
                });
                Value { tensor, exact: false }
            }
            4..6 if is_row(&a) => {
                let sum = a.exact && sums < 2;
                sums += u32::from(sum);
                let combiner = if sum { Combiner::Sum } else { Combiner::Max };
                let tensor = builder.reduce(&name, &[rows, 1], &[row], combiner, |e, i, k| {
                    e.load(&a.tensor, &[i[0], k[0]])
                });
                Value { tensor, exact: a.exact }
            }
            _ => {
                let shape = if is_row(&a) { &a.tensor.shape } else { &b.tensor.shape };
                let tensor = builder.compute(&name, &shape.clone(), |e, i| {
                    let zero = e.index(0);
                    let column = |value: &Value| if is_row(value) { i[1] } else { zero };
                    let left = e.load(&a.tensor, &[i[0], column(&a)]);
                    let right = e.load(&b.tensor, &[i[0], column(&b)]);
                    e.max(left, right)
                });
                Value { tensor, exact: a.exact && b.exact }
            }
        };
        if !random.one_in(4) {
            outputs.push(made.tensor.clone());
        }
        values.push(made);
    }
    if outputs.is_empty() {
        outputs.extend(values.last().map(|value| value.tensor.clone()));
    }
    builder.finish(&outputs).unwrap()
}

#[test]
fn results_share_loops() {
    let shares = |seed: &u64| {
        let schedule = check(&function_of_rows(*seed), *seed);
        let within = |stage| schedule.is_output(stage) && !schedule.is_root(stage);
        schedule.stages().any(within)
    };
    let together = (0..cases()).filter(shares).count();
    assert!(together as u64 * 2 > cases(), "only {together} of {} share loops", cases());
}

/// Products of matrices, picture by picture, and what windows of their results sum up to, or its largest.
fn function_of_pictures(seed: u64) -> Item {
    let random = &mut Random::new(seed);
    let mut builder = ComputeBuilder::new();
    let mut extent = |most: usize| 1 + random.below(most) as i64;
    let (pictures, inner, rows, row) = (extent(9), extent(6), extent(9), extent(40));
    let (before, window) = (extent(3) - 1, extent(4));
    let x = builder.input("x", &[pictures, inner, row], DType::FLOAT32);
    let w = builder.input("w", &[inner, rows], DType::FLOAT32);
    let shape = [pictures, rows, row];
    let products = builder.reduce("products", &shape, &[inner], Combiner::Sum, |e, i, k| {
        let (left, right) = (e.load(&x, &[i[0], k[0], i[2]]), e.load(&w, &[k[0], i[1]]));
        e.mul(left, right)
    });
    let shifted = random.one_in(3).then(|| {
        builder.compute("shifted", &shape, |e, i| {
            let x = e.load(&products, i);
            let one = e.number(DType::FLOAT32, 1.0);
            let more = e.add(x, one);
            e.scalar(ScalarOp::Abs, &[more])
        })
    });
    let read = shifted.unwrap_or(products);
    let combiner = if random.one_in(2) { Combiner::Sum } else { Combiner::Max };
    let sums = builder.reduce("sums", &shape, &[window], combiner, |e, i, k| {
        let place = e.add_index(i[2], -before);
        let place = e.add(place, k[0]);
        let (zero, end) = (e.index(0), e.index(row));
        let (low, high) = (e.ge(place, zero), e.lt(place, end));
        let (inside, outside) = (e.and(low, high), e.number(DType::FLOAT32, 0.0));
        e.load_if(inside, &read, &[i[0], i[1], place], outside)
    });
    builder.finish(&[sums]).unwrap()
}

#[test]
fn what_is_read_slice_by_slice_is_computed_so() {
    let is_sliced = |seed: &u64| {
        let schedule = check(&function_of_pictures(*seed), *seed);
        let root = schedule.stages().find(|stage| schedule.is_output(*stage)).unwrap();
        let at = |stage| schedule.attached_to(stage) == Some(root);
        schedule.stages().filter(|stage| at(*stage)).count() > 1
    };
    let sliced = (0..cases()).filter(is_sliced).count();
    assert!(sliced as u64 * 10 > cases(), "only {sliced} of {} are sliced", cases());
}

/// Few long sums of products, of several pictures or in batches, where one factor may be padded and the sums read
/// across.
fn function_of_long_sums(seed: u64) -> Item {
    let random = &mut Random::new(seed);
    let mut builder = ComputeBuilder::new();
    let dtype = *random.choose(&[DType::FLOAT32, DType::FLOAT32, DType::FLOAT64]).unwrap();
    let mut extent = |most: usize| 1 + random.below(most) as i64;
    let (batch, pictures, places) = (extent(2), 9 + extent(70), extent(9));
    let (rows, columns, padding) = (extent(7), extent(30), extent(4) - 1);
    let x = builder.input("x", &[batch, pictures, places, rows], dtype);
    let y = builder.input("y", &[batch, columns, pictures, places], dtype);
    let wide = columns + padding;
    let change = (!random.one_in(4)).then(|| {
        let shape = [batch, pictures, places, wide];
        builder.compute("change", &shape, |e, i| {
            let (end, zero) = (e.index(columns), e.number(dtype, 0.0));
            let inside = e.lt(i[3], end);
            e.load_if(inside, &y, &[i[0], i[3], i[1], i[2]], zero)
        })
    });
    let shape = [batch, rows, if change.is_some() { wide } else { columns }];
    let sums = builder.reduce("sums", &shape, &[pictures, places], Combiner::Sum, |e, i, k| {
        let left = e.load(&x, &[i[0], k[0], k[1], i[1]]);
        let right = match &change {
            Some(change) => e.load(change, &[i[0], k[0], k[1], i[2]]),
            None => e.load(&y, &[i[0], i[2], k[0], k[1]]),
        };
        e.mul(left, right)
    });
    let across = random.one_in(2).then(|| {
        builder.compute("across", &[batch, columns, rows], |e, i| {
            let sum = e.load(&sums, &[i[0], i[2], i[1]]);
            e.scalar(ScalarOp::Abs, &[sum])
        })
    });
    builder.finish(&[across.unwrap_or(sums)]).unwrap()
}

#[test]
fn long_sums_are_added_up_block_by_block() {
    let is_blocked = |seed: &u64| {
        let schedule = check(&function_of_long_sums(*seed), *seed);
        let names = |stage| schedule.body().result(schedule.stage_op(stage), 0);
        schedule.stages().any(|stage| {
            let name = schedule.body().name_hint(names(stage)).name;
            name.is_some_and(|name| name.as_str().ends_with("_partial"))
                && schedule.attached_to(stage).is_some()
        })
    };
    let blocked = (0..cases()).filter(is_blocked).count();
    assert!(blocked as u64 * 20 > cases(), "only {blocked} of {} are in blocks", cases());
}
