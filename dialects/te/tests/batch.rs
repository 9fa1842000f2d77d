//! Compute functions for many examples: against the function on each of them.

use ir_core::{Item, Module, Random, Registry, TensorData, verify};
use te::batch::{along, batched};
use te::generate::{self, Options, compute_function, inputs};
use te::interpreter::{run_compute, run_kernel, same_numbers};
use te::lower::lower;

fn run(item: &Item, arguments: &[TensorData]) -> Vec<TensorData> {
    run_compute(item.body.as_deref().expect("a body"), arguments).expect("a value")
}

/// `tensors`, one of each example, as one with a leading axis.
fn stacked(tensors: &[TensorData]) -> TensorData {
    let shape = [&[tensors.len() as i64], tensors[0].shape()].concat();
    let bytes: Vec<u8> = tensors.iter().flat_map(|tensor| tensor.bytes()).copied().collect();
    TensorData::from_bytes(tensors[0].dtype(), &shape, bytes).expect("as many elements")
}

/// The result of `function` for many examples is that of each; any schedule of it keeps it.
#[test]
fn functions_for_many_examples_are_functions_of_each() {
    let options = Options { points: 300, extent: 5, ..Options::default() };
    let registry = Registry::from([te::dialect()]);
    let (mut compared, mut scheduled) = (0, 0);
    for seed in 0..300u64 {
        let function = compute_function(seed, &options).expect("a function");
        let params = function.signature.ty.as_function().expect("a function").params.len();
        let extent = [1, 3, 2][seed as usize % 3];
        let over: Vec<bool> = (0..params).map(|param| (seed >> param) % 3 > 0).collect();
        let many = batched(&function, &over, extent).expect("a function");
        let mut module = Module::new();
        module.items.insert("f".into(), many.clone());
        let found = verify(&module, &registry).err();
        assert!(found.is_none(), "{seed}: {found:?}");
        let shared = inputs(&function, seed).expect("inputs");
        let examples: Vec<Vec<TensorData>> = (0..extent as u64)
            .map(|index| {
                let own = inputs(&function, seed * 7 + index).expect("inputs");
                let args = own.into_iter().zip(&shared).zip(&over);
                args.map(|((own, shared), over)| if *over { own } else { shared.clone() }).collect()
            })
            .collect();
        let arguments: Vec<TensorData> = (0..params)
            .map(|param| match over[param] {
                true => {
                    let own: Vec<TensorData> =
                        examples.iter().map(|args| args[param].clone()).collect();
                    stacked(&own)
                }
                false => shared[param].clone(),
            })
            .collect();
        let results: Vec<Vec<TensorData>> =
            examples.iter().map(|args| run(&function, args)).collect();
        let found = run(&many, &arguments);
        for (number, found) in found.iter().enumerate() {
            let own: Vec<TensorData> = results.iter().map(|all| all[number].clone()).collect();
            assert!(same_numbers(&stacked(&own), found), "{seed}, {over:?}");
        }
        compared += 1;
        if seed % 4 == 0 {
            let (schedule, log) = generate::schedule(&many, seed, 6).expect("a schedule");
            let kernel =
                lower(&schedule).unwrap_or_else(|error| panic!("{seed}: {error}\n{log:#?}"));
            let body = kernel.body.as_deref().expect("a body");
            let kept = run_kernel(&Module::new(), body, &arguments, found.len());
            let kept = kept.expect("a value");
            let is_kept = found.iter().zip(&kept).all(|(a, b)| same_numbers(a, b));
            assert!(is_kept, "{seed}: {log:#?}");
            scheduled += 1;
        }
    }
    assert!(compared == 300 && scheduled == 75);
}

/// `tensor` with what is at `order[i]` along `axis` at `i`.
fn reordered(tensor: &TensorData, axis: usize, order: &[usize]) -> TensorData {
    let shape = tensor.shape();
    let inner = tensor.bytes().len() / shape[..=axis].iter().product::<i64>().max(1) as usize;
    let blocks = tensor.bytes().chunks(inner * order.len());
    let bytes: Vec<u8> = blocks
        .flat_map(|block| order.iter().flat_map(move |at| &block[at * inner..(at + 1) * inner]))
        .copied()
        .collect();
    TensorData::from_bytes(tensor.dtype(), shape, bytes).expect("as many elements")
}

/// Where a function computes along axes, its results are in the order in which its operands are.
#[test]
fn what_is_computed_along_axes_has_their_order() {
    let options = Options { points: 300, extent: 3, ..Options::default() };
    let mut compared = 0;
    // Few random functions compute along the axes that are chosen.
    for seed in 0..10_000u64 {
        let function = compute_function(seed / 20, &options).expect("a function");
        let body = function.body.as_deref().expect("a body");
        let arguments = inputs(&function, seed).expect("inputs");
        let params = body.block_args(body.entry());
        let mut random = Random::new(seed);
        let extent = 2 + random.below(2) as i64;
        let axis_of = |argument: &TensorData| -> Option<usize> {
            let axis = random.below(argument.shape().len().max(1));
            (argument.shape().get(axis) == Some(&extent) && !random.one_in(3)).then_some(axis)
        };
        let axes: Vec<Option<usize>> = arguments.iter().map(axis_of).collect();
        let own = params.iter().zip(&axes);
        let own: Vec<_> = own.filter_map(|(param, axis)| Some((*param, (*axis)?))).collect();
        let Some(found) = along(body, &own) else { continue };
        let order: Vec<usize> = (0..extent).map(|_| random.below(extent as usize)).collect();
        let other: Vec<TensorData> = arguments
            .iter()
            .zip(&axes)
            .map(|(argument, axis)| match axis {
                Some(axis) => reordered(argument, *axis, &order),
                None => argument.clone(),
            })
            .collect();
        for (before, after) in run(&function, &arguments).iter().zip(run(&function, &other)) {
            assert!(same_numbers(&reordered(before, found, &order), &after), "{seed}: {own:?}");
        }
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}
