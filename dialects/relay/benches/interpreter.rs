//! How long the interpreter takes for products with weights, which are the same at every call.
//!
//! `cargo bench -p relay --bench interpreter`

use criterion::{Criterion, criterion_group, criterion_main};
use ir_core::Registry;
use relay::interpreter::{Interpreter, random_arguments};

/// What is measured: a name, the types of the operands, and the expression.
const CASES: [(&str, &str, &str, &str); 7] = [
    ("dense", "(1, 256)", "(256, 256)", "nn.dense(%x, %w)"),
    ("dense, a batch of 8", "(8, 256)", "(256, 256)", "nn.dense(%x, %w)"),
    (
        "packed dense",
        "(1, 256)",
        "(32, 256, 8)",
        "nn.contrib_dense_pack(%x, %w, weight_layout=\"NC8n\")",
    ),
    ("matmul", "(1, 256)", "(256, 256)", "nn.matmul(%x, %w)"),
    ("batch matmul", "(4, 16, 64)", "(4, 64, 64)", "nn.batch_matmul(%x, %w)"),
    (
        "conv2d 1x1",
        "(1, 256, 2, 2)",
        "(256, 256, 1, 1)",
        "nn.conv2d(%x, %w, channels=256, kernel_size=[1, 1])",
    ),
    (
        "packed conv2d 1x1",
        "(1, 16, 2, 2, 16)",
        "(16, 16, 1, 1, 16, 16)",
        "nn.contrib_conv2d_NCHWc(%x, %w, channels=256, kernel_size=[1, 1], \
         data_layout=\"NCHW16c\", kernel_layout=\"OIHW16i16o\")",
    ),
];

fn products(c: &mut Criterion) {
    let registry = Registry::from([te::dialect(), relay::dialect()]);
    for (name, data, weight, expression) in CASES {
        let text = format!(
            "def @main(%x: Tensor[{data}, float32], %w: Tensor[{weight}, float32]) {{ \
             {expression} }}"
        );
        let (mut module, mut found) = relay::text::parse("bench", &text, &registry);
        found.extend(relay::inference::infer_module(&mut module, &registry));
        assert!(found.is_empty(), "{text}: {found:#?}");
        let main = module.get("main").expect("@main");
        let args = random_arguments(main, &registry, &module.signatures(), 1).expect("arguments");
        let interpreter = Interpreter::new(&module, &registry);
        c.bench_function(name, |bencher| {
            bencher.iter(|| interpreter.call("main", args.clone()).expect("a value"));
        });
    }
}

criterion_group!(benches, products);
criterion_main!(benches);
