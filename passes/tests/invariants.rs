//! What stays the same in a loop is computed before it, and results stay.

use crate::common;

use std::fmt::Write;

use common::{cases, cells, keeps_meaning, parse, printed, registry, run};
use ir_core::verify;
use relay::interpreter::Random;
use relay_generate::random_module;

#[test]
fn random_programs_keep_their_results() {
    let registry = registry();
    for seed in cases(200) {
        let module = random_module(&registry, seed, 1 + (seed as usize * 7) % 60);
        let text = cells::program(seed);
        let with_cells = parse("in", &text, &registry).unwrap();
        for module in [module, with_cells] {
            if let Err(error) = keeps_meaning(&module, "specialize,invariants,dce", &registry) {
                panic!("seed {seed}: {error}\nbefore:\n{}", printed(&module, &registry));
            }
        }
    }
}

/// A loop that hands on some tensors and changes others, and what it computes of them.
fn program(seed: u64) -> String {
    let mut random = Random::new(seed);
    let params = ["%a", "%b", "%c", "%d"];
    let mut names: Vec<String> = params.map(str::to_string).to_vec();
    let mut body = String::new();
    for index in 0..1 + random.below(8) {
        let mut pick = || names[random.below(names.len())].clone();
        let (one, other) = (pick(), pick());
        let value = match random.below(7) {
            0 => format!("tanh({one})"),
            1 => format!("transpose({one})"),
            2 => format!("({one}, {other}).1"),
            3 => format!("multiply({one}, 0.5f)"),
            4 => format!("nn.softmax({one})"),
            5 => format!("add({one}, sum({other}))"),
            _ => format!("subtract({one}, {other})"),
        };
        writeln!(body, "let %v{index} = {value};").unwrap();
        names.push(format!("%v{index}"));
    }
    let mut next = |index: usize| match random.below(3) {
        0 => names[random.below(names.len())].clone(),
        _ => params[index].to_string(),
    };
    let args: Vec<String> = (0..4).map(&mut next).collect();
    let (args, result) = (args.join(", "), names.last().unwrap());
    let given = ["%x", "ones(shape=[3, 3], dtype=\"float32\")", "%x", "%y"];
    let types = "Tensor[(3, 3), float32]";
    let signature = params.map(|param| format!("{param}: {types}")).join(", ");
    format!(
        "def @loop(%n: int32, {signature}) -> {types} {{
           {body}
           if (less(%n, 1)) {{ {result} }} else {{ @loop(subtract(%n, 1), {args}) }}
         }}
         def @main(%x: {types}, %y: {types}) {{
           (@loop(3, {}), @loop(2, {}))
         }}",
        given.join(", "),
        [given[3], given[1], given[0], given[2]].join(", ")
    )
}

#[test]
fn loops_keep_their_results() {
    let registry = registry();
    let mut moved = 0;
    for seed in cases(200) {
        let text = program(seed);
        let module = parse("in", &text, &registry).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let after = keeps_meaning(&module, "invariants", &registry);
        let after = after.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        moved += usize::from(after.op_count() != module.op_count());
        keeps_meaning(&module, "fold-constant,invariants,fold-constant,dce", &registry).unwrap();
    }
    assert!(moved > 0);
}

/// Weights are brought to the layout of a convolution once, not in each call.
#[test]
fn a_loop_of_convolutions_transforms_no_weight() {
    let registry = registry();
    let text = "
      def @steps(%n: int32, %x: Tensor[(1, 16, 8, 8), float32], %w: Tensor[(16, 16, 3, 3), float32])
          -> Tensor[(1, 16, 8, 8), float32] {
        if (equal(%n, 0)) { %x } else {
          %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]);
          @steps(subtract(%n, 1), nn.relu(%0), %w)
        }
      }
      def @main(%n: int32, %x: Tensor[(1, 16, 8, 8), float32], %w: Tensor[(16, 16, 3, 3), float32]) {
        @steps(%n, %x, %w)
      }";
    let module = parse("in", text, &registry).unwrap();
    let mut after = module.clone();
    run(&mut after, "alter-op-layout", &registry).unwrap();
    run(&mut after, "invariants", &registry).unwrap();
    verify(&after, &registry).unwrap();
    let transforms = |name: &str| {
        let body = after.body(name).unwrap();
        body.walk().filter(|op| body.op_name(*op) == "relay.layout_transform").count()
    };
    // The result is brought back in the end, the input and the weight there before the first call.
    assert_eq!((transforms("steps"), transforms("main")), (1, 2), "{}", printed(&after, &registry));
}
