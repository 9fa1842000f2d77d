//! What is computed of rows of a table is the same, computed before the rows are taken.

use crate::common;

use std::fmt::Write;

use common::{cases, keeps_meaning, parse, printed, registry, run};
use relay::interpreter::Random;
use relay_generate::random_module;

#[test]
fn random_programs_keep_their_results() {
    let registry = registry();
    for seed in cases(200) {
        let module = random_module(&registry, seed, 1 + (seed as usize * 7) % 60);
        if let Err(error) = keeps_meaning(&module, "sink-gathers", &registry) {
            panic!("seed {seed}: {error}\nbefore:\n{}", printed(&module, &registry));
        }
    }
}

/// What is computed of rows that are taken out of two tables, and of other tensors.
fn program(seed: u64) -> String {
    let mut random = Random::new(seed);
    let axis = random.below(2);
    let of = |rows: usize| if axis == 0 { format!("{rows}, 3") } else { format!("3, {rows}") };
    let mut pick = |of: &[&str]| (*random.choose(of).expect("one")).to_string();
    let mode = pick(&["clip", "wrap"]);
    let (i, j) = (pick(&["%i", "%i", "%j"]), pick(&["%i", "%i", "%j"]));
    let mut body = format!(
        "let %v0 = take(%a, {i}, axis={axis}, mode=\"{mode}\");
         let %v1 = take(%b, {j}, axis={axis}, mode=\"{mode}\");\n"
    );
    let mut names: Vec<String> = ["%v0", "%v1", "%x", "%y"].map(str::to_string).to_vec();
    let other = 1 - axis;
    for index in 2..2 + random.below(8) {
        let mut pick = || names[random.below(names.len())].clone();
        let (one, two) = (pick(), pick());
        let value = match random.below(9) {
            0 => format!("tanh({one})"),
            1 => format!("add({one}, {two})"),
            2 => format!("multiply({one}, 0.5f)"),
            3 => format!("multiply({one}, sum({one}, axis=[{other}], keepdims=True))"),
            4 => format!("add({one}, sum({two}, axis=[{axis}], keepdims=True))"),
            5 => format!("nn.softmax({one}, axis={other})"),
            6 => format!("add({one}, expand_dims(take({two}, 1, axis={other}), axis={other}))"),
            7 => format!("add({one}, strided_slice({two}, begin=[1], end=[2], axes=[{other}]))"),
            _ => format!("subtract({one}, {two})"),
        };
        writeln!(body, "let %v{index} = {value};").unwrap();
        names.push(format!("%v{index}"));
    }
    let (last, any) = (&names[names.len() - 1], &names[random.below(names.len())]);
    format!(
        "def @main(%a: Tensor[({table}), float32], %b: Tensor[({table}), float32],
                   %i: Tensor[(9), int32], %j: Tensor[(9), int32], %x: Tensor[({taken}), float32],
                   %y: Tensor[({one}), float32]) {{
           {body}
           ({last}, {any})
         }}",
        table = of(4),
        taken = of(9),
        one = of(1),
    )
}

#[test]
fn what_is_computed_of_rows_is_the_same() {
    let registry = registry();
    let mut changed = 0;
    for seed in cases(300) {
        let text = program(seed);
        let module =
            parse("in", &text, &registry).unwrap_or_else(|e| panic!("{seed}: {e}\n{text}"));
        if let Err(error) = keeps_meaning(&module, "sink-gathers", &registry) {
            panic!("seed {seed}: {error}\n{text}");
        }
        let mut sunk = module.clone();
        run(&mut sunk, "sink-gathers", &registry).unwrap();
        changed += u64::from(printed(&sunk, &registry) != printed(&module, &registry));
    }
    assert!(changed > 30, "{changed}");
}
