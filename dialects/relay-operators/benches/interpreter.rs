//! How long the interpreter takes for products with weights, which are the same at every call,
//! beside plain loops over the same numbers.
//!
//! `cargo bench -p relay-opt-operators --bench interpreter`

use criterion::{Criterion, criterion_group, criterion_main};
use ir_core::Registry;
use relay::interpreter::{Interpreter, random_arguments};

/// A product of matrices.
struct Product {
    name: &'static str,
    data: &'static str,
    weight: &'static str,
    expression: &'static str,
    /// Rows, summands of an element, and columns.
    extents: [usize; 3],
}

const PRODUCTS: [Product; 7] = [
    Product {
        name: "dense",
        data: "(1, 256)",
        weight: "(256, 256)",
        expression: "nn.dense(%x, %w)",
        extents: [1, 256, 256],
    },
    Product {
        name: "dense, a batch of 8",
        data: "(8, 256)",
        weight: "(256, 256)",
        expression: "nn.dense(%x, %w)",
        extents: [8, 256, 256],
    },
    Product {
        name: "packed dense",
        data: "(1, 256)",
        weight: "(32, 256, 8)",
        expression: "nn.contrib_dense_pack(%x, %w, weight_layout=\"NC8n\")",
        extents: [1, 256, 256],
    },
    Product {
        name: "matmul",
        data: "(1, 256)",
        weight: "(256, 256)",
        expression: "nn.matmul(%x, %w)",
        extents: [1, 256, 256],
    },
    Product {
        name: "batch matmul",
        data: "(1, 64, 64)",
        weight: "(1, 64, 64)",
        expression: "nn.batch_matmul(%x, %w)",
        extents: [64, 64, 64],
    },
    Product {
        name: "conv2d 1x1",
        data: "(1, 256, 2, 2)",
        weight: "(256, 256, 1, 1)",
        expression: "nn.conv2d(%x, %w, channels=256, kernel_size=[1, 1])",
        extents: [4, 256, 256],
    },
    Product {
        name: "packed conv2d 1x1",
        data: "(1, 16, 2, 2, 16)",
        weight: "(16, 16, 1, 1, 16, 16)",
        expression: "nn.contrib_conv2d_NCHWc(%x, %w, channels=256, kernel_size=[1, 1], \
                     data_layout=\"NCHW16c\", kernel_layout=\"OIHW16i16o\")",
        extents: [4, 256, 256],
    },
];

/// The product of a matrix with the transpose of another.
fn plain_loops([rows, depth, columns]: [usize; 3], data: &[f32], weight: &[f32]) -> Vec<f32> {
    let mut result = Vec::with_capacity(rows * columns);
    for row in data.chunks_exact(depth) {
        for column in weight.chunks_exact(depth) {
            result.push(row.iter().zip(column).map(|(a, b)| a * b).sum());
        }
    }
    result
}

fn products(c: &mut Criterion) {
    let registry = Registry::from([te::dialect(), relay_operators::dialect()]);
    for Product { name, data, weight, expression, extents } in PRODUCTS {
        let text = format!(
            "def @main(%x: Tensor[{data}, float32], %w: Tensor[{weight}, float32]) {{ \
             {expression} }}"
        );
        let (mut module, mut found) = ir_core::text::module::parse("bench", &text, &registry);
        found.extend(relay::inference::infer_module(&mut module, &registry));
        assert!(found.is_empty(), "{text}: {found:#?}");
        let main = module.get("main").expect("@main");
        let args = random_arguments(main, &registry, &module.signatures(), 1).expect("arguments");
        let interpreter = Interpreter::new(&module, &registry);
        let mut group = c.benchmark_group(name);
        group.bench_function("interpreter", |bencher| {
            bencher.iter(|| interpreter.call("main", args.clone()).expect("a value"));
        });
        let [rows, depth, columns] = extents;
        let numbers = |count: usize| (0..count).map(|i| (i % 7) as f32).collect::<Vec<f32>>();
        let (data, weight) = (numbers(rows * depth), numbers(depth * columns));
        group.bench_function("plain loops", |bencher| {
            bencher.iter(|| plain_loops(extents, &data, &weight));
        });
        group.finish();
    }
}

criterion_group!(benches, products);
criterion_main!(benches);
