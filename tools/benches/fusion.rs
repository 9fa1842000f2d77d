//! What fusion makes of a transformer in small operators.
//!
//! ```console
//! cargo bench -p relay-opt --bench fusion                    # modelled costs, as a table
//! cargo bench -p relay-opt --bench fusion -- print 2         # the program of two layers
//! ```

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

mod transformer;

use std::sync::Arc;
use std::time::Instant;

use ir_core::pipeline::{Pipeline, RunOptions, run};
use ir_core::text::module::parse;
use ir_core::{AttrDict, InsertPoint, Module, OpParts, Registry, TensorData};
use relay::inference::infer_module;
use transformer::transformer;

/// Operators of a layer.
const LAYER: usize = 54;

/// Makes the weights, which are all parameters but the first two, constants of any numbers.
fn bind_weights(module: &mut Module) {
    for item in module.items.values_mut() {
        let Some(body) = item.body.as_mut().map(Arc::make_mut) else { continue };
        let entry = body.entry();
        let Some(first) = body.first_op(entry) else { continue };
        for (number, weight) in body.block_args(entry).to_vec().into_iter().enumerate().skip(2) {
            let types = [body.ty(weight)];
            let tensor = types[0].as_tensor().expect("weights are tensors");
            let shape = tensor.known_shape().expect("their extents are known");
            let count: i64 = shape.iter().product();
            let numbers: Vec<f64> =
                (0..count).map(|n| ((n + number as i64) % 101) as f64).collect();
            let value = TensorData::from_f64(tensor.dtype, &shape, &numbers);
            let attrs = AttrDict::empty().with("value", &value.expect("as many as the shape says"));
            let parts = OpParts::new("relay.constant", &[], &types).attrs(attrs);
            let op = body.insert_op(InsertPoint::Before(first), parts);
            let constant = body.result(op, 0);
            body.replace_all_uses(weight, constant);
        }
    }
}

/// What the pass says about a program.
struct Measured {
    /// Modelled microseconds of operators alone, of post-dominator groups and of the search.
    costs: [f64; 3],
    /// Kernels; windows, different ones, and those that were solved exactly.
    counts: [u64; 4],
    seconds: f64,
}

fn measure(registry: &Registry, text: &str, machine: &str, constants: bool) -> Measured {
    let (mut module, _) = parse("transformer", text, registry);
    assert!(infer_module(&mut module, registry).is_empty());
    if constants {
        bind_weights(&mut module);
    }
    let pass = format!("fuse{{strategy=search{machine}}}");
    let pipeline = Pipeline::parse(&pass, registry).expect("the pass exists");
    let start = Instant::now();
    let options = RunOptions::default();
    let report = run(&pipeline, &mut module, registry, options, &mut [], &mut Vec::new());
    let seconds = start.elapsed().as_secs_f64();
    let report = report.expect("the pass runs");
    let statistics = &report.steps[0].statistics;
    let count = |name: &str| statistics.get(name).copied().unwrap_or(0);
    let costs =
        ["modelled ns of operators alone", "modelled ns of post-dominator groups", "modelled ns"];
    let counts = ["kernels", "windows", "different windows", "windows that were solved exactly"];
    Measured {
        costs: costs.map(|name| count(name) as f64 / 1e3),
        counts: counts.map(count),
        seconds,
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    if let [print, layers] = &args[..]
        && print == "print"
    {
        println!("{}", transformer(layers.parse().unwrap_or(1)));
        return;
    }
    let registry = tools::registry();
    const ACCELERATOR: &str = ",target={launch=5,bandwidth=300,arithmetic=8000}";
    const FAST: &str = ",reassociate,rules=[simplify,join,linear,merge,motion,recognize]";
    println!(
        "| machine | kernels hold | weights | rules | operators | alone, µs | dominator, µs | \
         search, µs | less | kernels | windows | different | exact | s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (machine, rows, constants, rules) in [
        ("processor", true, false, "none"),
        ("processor", true, true, "exact"),
        ("accelerator", false, false, "none"),
        ("accelerator", false, false, "exact"),
        ("accelerator", false, true, "exact"),
        ("accelerator", false, true, "reassociating"),
        ("accelerator", true, false, "none"),
        ("accelerator", true, true, "exact"),
        ("accelerator", true, true, "reassociating"),
    ] {
        let options = [
            if machine == "accelerator" { ACCELERATOR } else { "" },
            if rows { "" } else { ",rows=false" },
            match rules {
                "none" => ",rules=off",
                "exact" => "",
                _ => FAST,
            },
        ];
        let [holds, weights] = [
            if rows { "rows" } else { "one reduction" },
            if constants { "constants" } else { "parameters" },
        ];
        for layers in [1, 1_000 / LAYER + 1, 10_000 / LAYER + 1] {
            let text = transformer(layers);
            let measured = measure(&registry, &text, &options.concat(), constants);
            let [alone, before, after] = measured.costs;
            let [kernels, windows, different, exact] = measured.counts;
            println!(
                "| {machine} | {holds} | {weights} | {rules} | {} | {alone:.0} | {before:.0} | \
                 {after:.0} | {:.1} % | {kernels} | {windows} | {different} | {exact} | {:.2} |",
                layers * LAYER,
                100.0 * (1.0 - after / before),
                measured.seconds,
            );
        }
    }
}
