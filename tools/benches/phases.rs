//! Time of each phase on a chain of 100,000 operations: parse, infer, verify, cse, fuse, print.

use std::fmt::Write as _;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ir_core::pipeline::{Pipeline, RunOptions, run};
use ir_core::text::Style;
use ir_core::text::module::{parse, print};
use ir_core::{Module, Registry, verify};
use relay::inference::infer_module;

const OPERATIONS: usize = 100_000;

fn source() -> String {
    let mut text = "def @main(%x: Tensor[(64), float32]) -> Tensor[(64), float32] {\n".to_string();
    let mut last = "%x".to_string();
    for index in 0..OPERATIONS {
        let op = ["exp", "tanh", "negative"][index % 3];
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  %{index} = {op}({last});");
        last = format!("%{index}");
    }
    text + "  " + &last + "\n}\n"
}

fn phases(criterion: &mut Criterion) {
    let registry: Registry = tools::registry();
    let text = source();
    let parsed = || parse("chain", &text, &registry).0;
    let typed = || {
        let mut module = parsed();
        assert!(infer_module(&mut module, &registry).is_empty());
        module
    };
    let mut group = criterion.benchmark_group("chain");
    group.throughput(Throughput::Elements(OPERATIONS as u64)).sample_size(10);
    group.bench_function("parse", |b| b.iter_with_large_drop(parsed));
    group.bench_function("infer", |b| {
        b.iter_batched(
            parsed,
            |mut module| (infer_module(&mut module, &registry).len(), module),
            BatchSize::LargeInput,
        );
    });
    let module = typed();
    group.bench_function("verify", |b| b.iter(|| verify(&module, &registry).is_ok()));
    group.bench_function("fingerprint", |b| {
        b.iter(|| ir_core::fingerprint::of_module(&module));
    });
    for pass in ["cse", "dce", "fuse{strategy=dominator}"] {
        let pipeline = Pipeline::parse(pass, &registry).expect("the pass exists");
        group.bench_function(pass, |b| {
            b.iter_batched(
                typed,
                |mut module: Module| {
                    let options = RunOptions::default();
                    let mut log = Vec::new();
                    let report = run(&pipeline, &mut module, &registry, options, &mut [], &mut log);
                    assert!(report.is_ok());
                    module
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.bench_function("print", |b| {
        b.iter(|| {
            let mut out = Vec::new();
            print(&module, &registry, &Style::default(), &mut out).map(|()| out.len())
        });
    });
    group.finish();
}

criterion_group!(benches, phases);
criterion_main!(benches);
