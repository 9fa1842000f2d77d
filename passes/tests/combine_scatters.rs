//! Scatters to the same places change the same elements together.

use crate::common;

use std::fmt::Write;

use common::{cases, keeps_meaning, parse, printed, registry, run};
use relay::interpreter::Random;

/// Scatters of tensors of one or two axes, of which some depend on others.
fn program(seed: u64) -> String {
    let mut random = Random::new(seed);
    let dtype = *random.choose(&["float32", "float64", "int8", "int32"]).expect("one");
    let [rows, updates] = [1 + random.below(5), 1 + random.below(12)];
    let columns: Vec<usize> = (0..3).map(|_| random.below(9)).collect();
    let of = |rows: usize, columns: usize| match columns {
        0 => format!("Tensor[({rows}), {dtype}]"),
        columns => format!("Tensor[({rows}, {columns}), {dtype}]"),
    };
    let mut parameters = String::new();
    for (index, &columns) in columns.iter().enumerate() {
        let (table, change) = (of(rows, columns), of(updates, columns));
        write!(parameters, "%t{index}: {table}, %u{index}: {change}, ").unwrap();
    }
    let last = rows - 1;
    let mut body = format!(
        "let %a = clip(%i, a_min=0f, a_max={last}f);
         let %b = clip(%j, a_min=0f, a_max={last}f);\n"
    );
    let mut tables: Vec<(String, usize)> = (0..3).map(|n| (format!("%t{n}"), n)).collect();
    for step in 0..2 + random.below(8) {
        let (table, kind) = tables[random.below(tables.len())].clone();
        let places = *random.choose(&["%a", "%a", "%b"]).expect("one");
        let mode = *random.choose(&["add", "add", "update", "min", "mul"]).expect("one");
        let update = match random.below(3) {
            0 => format!("negative(%u{kind})"),
            1 => format!("add(%u{kind}, take({table}, {places}_0, axis=0))"),
            _ => format!("%u{kind}"),
        };
        let update = update.replace(&format!("{places}_0"), "%k");
        writeln!(body, "let %s{step} = scatter_nd({table}, {places}, {update}, mode=\"{mode}\");")
            .unwrap();
        tables.push((format!("%s{step}"), kind));
    }
    let results: Vec<&str> = tables[3..].iter().map(|(name, _)| name.as_str()).collect();
    format!(
        "def @main({parameters}%i: Tensor[(1, {updates}), int32], %j: Tensor[(1, {updates}), int32]) {{
           let %k = clip(reshape(%j, newshape=[{updates}]), a_min=0f, a_max={last}f);
           {body}
           ({},)
         }}",
        results.join(", ")
    )
}

#[test]
fn what_is_changed_together_is_the_same() {
    let registry = registry();
    let mut changed = 0;
    for seed in cases(400) {
        let text = program(seed);
        let module =
            parse("in", &text, &registry).unwrap_or_else(|e| panic!("{seed}: {e}\n{text}"));
        if let Err(error) = keeps_meaning(&module, "combine-scatters", &registry) {
            panic!("seed {seed}: {error}\n{text}");
        }
        let mut together = module.clone();
        run(&mut together, "combine-scatters", &registry).unwrap();
        changed += u64::from(printed(&together, &registry) != printed(&module, &registry));
    }
    assert!(changed > 40, "{changed}");
}
