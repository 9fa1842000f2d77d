//! What is computed again: equal bits, and memory that is counted here once more.

use crate::common;

use common::{cases, parse, printed, registry, run};
use ir_core::{Body, Module, OpId, Registry, Type, TypeData, ValueId};
use relay::interpreter::{Interpreter, Options, Value, flatten, random_arguments};
use relay::language::{Constant, Tuple, TupleGet, yielded};
use relay_operators::annotation::StopFusion;
use rustc_hash::{FxHashMap, FxHashSet};

/// What the tensors of a type take, in lines of 64 bytes.
fn bytes(ty: Type) -> i64 {
    match ty.data() {
        TypeData::Tensor(tensor) => {
            let elements: i64 = tensor.shape.iter().map(|dim| dim.known().unwrap_or(1)).product();
            ((elements * tensor.dtype.bytes() as i64).max(1) + 63) / 64 * 64
        }
        TypeData::Tuple(fields) => fields.iter().map(|field| bytes(*field)).sum(),
        _ => 0,
    }
}

/// Whether an operation only names what is there when the program runs.
fn is_name(body: &Body, op: OpId) -> bool {
    body.is::<Tuple>(op) || body.is::<TupleGet>(op) || body.is::<StopFusion>(op)
}

/// The most that values of `@main` take at once, if each lives from its computation to what reads it last. What
/// a tuple or a part of a value is read by reads the value; parameters, constants and results are the caller's.
fn peak(module: &Module) -> i64 {
    let body = module.body("main").expect("a function");
    let entry = body.entry();
    let order: FxHashMap<OpId, usize> =
        body.block_ops(entry).enumerate().map(|(place, op)| (op, place)).collect();
    let mut results: FxHashSet<ValueId> = FxHashSet::default();
    let mut pending: Vec<ValueId> = yielded(body, entry).into_iter().collect();
    while let Some(value) = pending.pop() {
        match body.defining_op(value) {
            Some(op) if body.is::<Tuple>(op) => pending.extend(body.operands(op)),
            Some(op) if body.is::<TupleGet>(op) => {}
            _ => {
                results.insert(value);
            }
        }
    }
    let last_read = |value: ValueId| {
        let (mut last, mut pending) =
            (order[&body.defining_op(value).expect("computed")], vec![value]);
        while let Some(value) = pending.pop() {
            for (user, _) in body.uses(value) {
                let at = body.ancestor_in(user, entry).expect("a use in the function");
                last = last.max(order[&at]);
                if is_name(body, user) {
                    pending.extend(body.results(user));
                }
            }
        }
        last
    };
    let mut changes = vec![(0, 0); order.len()];
    for op in body.block_ops(entry) {
        if is_name(body, op) || body.is::<Constant>(op) || body.result_count(op) != 1 {
            continue;
        }
        let value = body.result(op, 0);
        if !results.contains(&value) {
            changes[order[&op]].0 += bytes(body.ty(value));
            changes[last_read(value)].1 += bytes(body.ty(value));
        }
    }
    let (mut live, mut most) = (0, 0);
    for (begins, ends) in changes {
        live += begins;
        most = most.max(live);
        live -= ends;
    }
    most
}

/// The bits of what `@main` gives of random arguments.
fn bits(module: &Module, registry: &Registry, seed: u64) -> Result<Vec<Vec<u8>>, String> {
    let main = module.get("main").expect("a function");
    let args = random_arguments(main, registry, &module.signatures(), seed)?;
    let options = Options { step_limit: Some(10_000_000), ..Options::default() };
    let value: Value = Interpreter::new(module, registry)
        .options(options)
        .call("main", args)
        .map_err(|found| format!("{found:?}"))?;
    let tensors = flatten(&value).map_err(|found| format!("{found:?}"))?;
    Ok(tensors.iter().map(|tensor| tensor.bytes().to_vec()).collect())
}

/// How often each operator stands in `@main`.
fn operators(module: &Module) -> FxHashMap<String, usize> {
    let body = module.body("main").expect("a function");
    let mut counts = FxHashMap::default();
    for op in body.block_ops(body.entry()) {
        *counts.entry(body.op_name(op).to_string()).or_default() += 1;
    }
    counts
}

/// `module` after `pass`, which keeps every bit, reads back, and takes no more memory, also behind `cse`.
fn after(module: &Module, pass: &str, registry: &Registry) -> Result<Module, String> {
    let mut after = module.clone();
    run(&mut after, pass, registry)?;
    let text = printed(&after, registry);
    ir_core::verify(&after, registry).map_err(|found| format!("{found:?}\n{text}"))?;
    let read = parse("out", &text, registry).map_err(|found| format!("{found}\n{text}"))?;
    let expected = bits(module, registry, 1);
    for found in [&after, &read] {
        if bits(found, registry, 1) != expected {
            return Err(format!("other bits:\n{}\n{text}", printed(module, registry)));
        }
    }
    let mut merged = module.clone();
    run(&mut merged, "cse", registry)?;
    let mut merged_after = after.clone();
    run(&mut merged_after, "cse", registry)?;
    for (before, after) in [(module, &after), (&merged, &merged_after)] {
        if peak(after) > peak(before) {
            let before = printed(before, registry);
            return Err(format!("{} bytes of {before}\n{text}", peak(after)));
        }
    }
    Ok(after)
}

/// The least that any plan reaches, which the error says.
fn least(error: &str) -> i64 {
    let number = error.split(" come down to ").nth(1).and_then(|rest| rest.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{error}"))
}

/// `layers` products of `rows` rows by weights, each followed by `activation` of `%h`, and the mean square.
fn network(layers: usize, rows: usize, activation: &str) -> String {
    let weights: Vec<String> =
        (0..layers).map(|layer| format!("%w{layer}: Tensor[(16, 16), float64]")).collect();
    let mut text =
        format!("def @main(%x: Tensor[({rows}, 16), float64], {}) {{\n", weights.join(", "));
    text += "let %a0 = %x;\n";
    for layer in 0..layers {
        text += &format!("let %h{layer} = nn.dense(%a{layer}, %w{layer});\n");
        let activation = activation.replace("%h", &format!("%h{layer}"));
        text += &format!("let %a{} = {activation};\n", layer + 1);
    }
    text + &format!("mean(multiply(%a{layers}, %a{layers}))\n}}\n")
}

fn gradient_of(text: &str, registry: &Registry) -> Module {
    let mut module = parse("network", text, registry).expect("a program");
    run(&mut module, "gradient", registry).expect("a gradient");
    module
}

#[test]
fn activations_are_computed_again_and_products_are_not() {
    let registry = registry();
    let before = gradient_of(&network(8, 64, "multiply(%h, sigmoid(%h))"), &registry);
    let after = after(&before, "rematerialize", &registry).expect("the same numbers");
    assert!(peak(&after) * 3 < peak(&before) * 2, "{} of {}", peak(&after), peak(&before));
    let (before, after) = (operators(&before), operators(&after));
    assert_eq!(before["relay.nn.dense"], after["relay.nn.dense"]);
    assert_eq!(before["relay.nn.matmul"], after["relay.nn.matmul"]);
    assert!(before["relay.sigmoid"] < after["relay.sigmoid"]);
}

/// Of `n` layers about twice the root of `n` are live at once.
#[test]
fn a_budget_is_kept_by_computing_segments_again() {
    let registry = registry();
    let before = gradient_of(&network(64, 64, "tanh(%h)"), &registry);
    let error = after(&before, "rematerialize{budget=1}", &registry).unwrap_err();
    let least = least(&error);
    let layer = 64 * 16 * 8;
    assert!(peak(&before) > 64 * layer && least < 24 * layer, "{least} of {}", peak(&before));
    for budget in [least, (least + peak(&before)) / 2, peak(&before)] {
        let pass = format!("rematerialize{{budget={budget}}}");
        let after = after(&before, &pass, &registry).expect("the same numbers");
        assert!(peak(&after) <= budget, "{} of {budget}", peak(&after));
        let products = |module: &Module| operators(module)["relay.nn.dense"];
        let again = products(&after) - products(&before);
        assert!(again < 64 && (budget < peak(&before)) == (again > 0), "{again} at {budget}");
    }
}

/// What takes little enough memory stays as it is.
#[test]
fn a_budget_that_is_kept_changes_nothing() {
    let registry = registry();
    let before = gradient_of(&network(4, 8, "tanh(%h)"), &registry);
    let pass = format!("rematerialize{{budget={}}}", peak(&before));
    let after = after(&before, &pass, &registry).expect("the same numbers");
    assert_eq!(printed(&after, &registry), printed(&before, &registry));
}

/// Gradients of random programs, without and with budgets.
#[test]
fn random_programs_keep_their_bits_and_their_budgets() {
    let registry = registry();
    let (mut smaller, mut fit) = (0, 0);
    for seed in cases(150) {
        let mut module = relay_generate::random_module(&registry, seed, 60);
        run(&mut module, "defuse", &registry).expect("operators");
        // Some have no gradient; they have values all the same.
        let mut gradient = module.clone();
        if run(&mut gradient, "gradient", &registry).is_ok() {
            module = gradient;
        }
        let after = |pass: &str| {
            after(&module, pass, &registry)
                .unwrap_or_else(|message| panic!("seed {seed}, {pass}: {message}"))
        };
        let before = peak(&module);
        smaller += u32::from(peak(&after("rematerialize")) < before);
        for budget in [before / 2, before * 3 / 4] {
            let pass = format!("rematerialize{{budget={budget}}}");
            match run(&mut module.clone(), &pass, &registry) {
                Err(error) if error.contains("unknown extents") => {}
                Err(error) => assert!(least(&error) > budget, "seed {seed}: {error}"),
                Ok(()) => {
                    assert!(peak(&after(&pass)) <= budget, "seed {seed}, budget {budget}");
                    fit += 1;
                }
            }
        }
    }
    assert!(smaller > 0 && fit > 20, "{smaller} are smaller, {fit} budgets are kept");
}

/// Chains of 100,000 operators that are cheap, or not, end, and take no more memory.
#[test]
fn long_chains_end() {
    let registry = registry();
    let long = |operators: usize, operator: &str| {
        let mut text = "def @main(%x: Tensor[(16), float64]) {\n".to_string();
        for number in 0..operators {
            let read = if number == 0 { "x".to_string() } else { (number - 1).to_string() };
            text += &format!("%{number} = {};\n", operator.replace("%h", &format!("%{read}")));
        }
        text + &format!("sum(%{})\n}}\n", operators - 1)
    };
    for operator in ["tanh(%h)", "cumsum(%h, axis=0)"] {
        let mut module = gradient_of(&long(100_000, operator), &registry);
        let before = peak(&module);
        run(&mut module, "rematerialize", &registry).expect("no budget");
        assert!(peak(&module) <= before, "{operator}: {} of {before}", peak(&module));
        let most = before / 4;
        match run(&mut module, &format!("rematerialize{{budget={most}}}"), &registry) {
            Ok(()) => assert!(peak(&module) <= most, "{operator}: {} of {most}", peak(&module)),
            Err(error) => assert!(least(&error) > most, "{operator}: {error}"),
        }
    }
}
