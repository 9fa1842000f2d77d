//! Random functions of random trees.

use std::fmt::Write;

use relay::interpreter::Random;

const TYPES: &str = "
type Tree { Leaf(ROW), Inner(Tree, ROW, Tree), Only(Tree), Many(Forest) }
type Forest { End, Also(Tree, Forest) }
";

/// A program that computes something of trees: of a single leaf, chains, even and uneven ones, alone or
/// several together.
pub(crate) fn program(seed: u64) -> String {
    let mut random = Random::new(seed);
    let width = [1, 2, 3, 17][random.below(4)];
    let row = format!("Tensor[(1, {width}), float32]");
    let pair = random.below(2) == 0;
    let result = if pair { format!("({row}, {row})") } else { row.clone() };
    // Whether nodes compute something for those below.
    let gives = random.below(2) == 0;
    let params = format!("%w: Tensor[({width}, {width}), float32], %b: {row}");
    let given = if gives { format!("{params}, %g: {row}") } else { params.clone() };
    let mut text = TYPES.replace("ROW", &row);
    let clause = |random: &mut Random, known: &[&str]| {
        let state = if pair { vec!["0", "1"] } else { vec![] };
        let fields = known.iter().flat_map(|name| match name.strip_prefix('!') {
            Some(name) if pair => state.iter().map(|index| format!("{name}.{index}")).collect(),
            Some(name) => vec![name.to_string()],
            None => vec![name.to_string()],
        });
        let below = if gives { vec!["%g".to_string()] } else { vec![] };
        let (body, last) = expression(random, fields.chain(below).collect(), width);
        let end = if pair { format!("({last}, tanh({last}))") } else { last };
        format!("{body} {end}")
    };
    let leaf = clause(&mut random, &["%x"]);
    let inner = clause(
        &mut random,
        if gives { &["%x", "!%l", "!%r", "%s"] } else { &["%x", "!%l", "!%r"] },
    );
    let only = clause(&mut random, &["!%l"]);
    let end = clause(&mut random, &["%b"]);
    let also = clause(&mut random, &["!%l", "!%r"]);
    // What a call is given besides data and what is handed on.
    let below = |random: &mut Random, known: &[&str]| match gives {
        true => format!(", {}", known[random.below(known.len())]),
        false => String::new(),
    };
    let of_node = [
        "%g",
        "%b",
        "%x",
        "%s",
        "%s",
        "tanh(%s)",
        "nn.dense(%s, %w)",
        "add(%x, tanh(%g))",
        "tanh(nn.dense(%b, %w))",
    ];
    let of_list = ["%g", "%g", "%b", "tanh(%g)", "multiply(tanh(nn.dense(%g, %w)), %b)"];
    let a = below(&mut random, &of_node);
    let c = below(&mut random, &of_node);
    let [one, all, first, rest] = [(); 4].map(|()| below(&mut random, &of_list));
    let shared = if gives { "let %s = nn.dense(add(%x, tanh(%g)), %w);" } else { "" };
    write!(
        text,
        "def @tree(%tree: Tree[], {given}) -> {result} {{
           match (%tree) {{
             Leaf(%x) => {{ {leaf} }},
             Inner(%a, %x, %c) => {{
               {shared}
               let %l = @tree(%a, %w, %b{a});
               let %r = @tree(%c, %w, %b{c});
               {inner}
             }},
             Only(%a) => {{ let %l = @tree(%a, %w, %b{one}); {only} }},
             Many(%a) => {{ let %l = @forest(%a, %w, %b{all}); {only} }},
           }}
         }}
         def @forest(%forest: Forest[], {given}) -> {result} {{
           match (%forest) {{
             End => {{ {end} }},
             Also(%a, %c) => {{
               let %l = @tree(%a, %w, %b{first});
               let %r = @forest(%c, %w, %b{rest});
               {also}
             }},
           }}
         }}"
    )
    .expect("memory takes it");
    let (mut trees, mut budget) = (vec![], 60);
    for _ in 0..1 + random.below(5) {
        trees.push(tree(&mut random, &mut budget));
    }
    let top = if gives { ", %y" } else { "" };
    let called: Vec<String> = match random.below(2) {
        0 => trees.iter().map(|tree| format!("@tree({tree}, %w, %b{top})")).collect(),
        _ => vec![format!("@forest({}, %w, %b{top})", forest(&trees))],
    };
    let called = called.join(", ");
    write!(text, "def @main(%x: {row}, %y: {row}, {params}) {{ ({called},) }}").expect("as above");
    text
}

fn forest(trees: &[String]) -> String {
    let start = "Also(";
    let trees: Vec<String> = trees.iter().map(|tree| format!("{start}{tree}, ")).collect();
    format!("{}End(){}", trees.concat(), ")".repeat(trees.len()))
}

/// A tree that takes at most about `budget` nodes.
fn tree(random: &mut Random, budget: &mut usize) -> String {
    let kind = random.below(4);
    let leaf =
        |random: &mut Random| format!("Leaf({})", ["%x", "%y", "add(%x, %y)"][random.below(3)]);
    let mut tree = leaf(random);
    let rounds = random.below(8);
    for _ in 0..rounds {
        *budget = budget.saturating_sub(2);
        if *budget == 0 {
            break;
        }
        let other = leaf(random);
        tree = match (kind, random.below(5)) {
            (0, _) => format!("Only({tree})"),
            (1, _) => format!("Inner({tree}, %x, {other})"),
            (_, 0) => format!("Inner({other}, %y, {tree})"),
            (_, 1) => format!("Many({})", forest(&[other, tree.clone(), leaf(random)])),
            (_, 2) => "Many(End())".to_string(),
            (_, 3) if tree.len() < 400 => format!("Inner({tree}, %x, {tree})"),
            _ => format!("Only({tree})"),
        };
    }
    tree
}

/// Statements, and the last value: of rows of `width`.
fn expression(random: &mut Random, mut known: Vec<String>, width: usize) -> (String, String) {
    let mut text = String::new();
    let id = random.below(1 << 30);
    for index in 0..1 + random.below(6) {
        let mut pick = || known[random.below(known.len())].clone();
        let (one, other) = (pick(), pick());
        let value = match random.below(14) {
            0..4 => format!("nn.dense({one}, %w)"),
            4 => format!("add({one}, {other})"),
            5 => format!("multiply(sigmoid({one}), {other})"),
            6 => format!("subtract({one}, %b)"),
            7 => format!(
                "split(concatenate(({one}, {other}), axis=1), indices_or_sections=2, axis=1).1"
            ),
            8 => format!("nn.softmax({one})"),
            // Of rows, not by rows.
            9 => format!("nn.softmax({one}, axis=0)"),
            10 => format!("reshape({one}, newshape=[1, {width}])"),
            11 => format!("reverse({one}, axis={})", random.below(2)),
            12 => format!("add({one}, sum({other}, axis=[0, 1]))"),
            _ => format!("multiply({one}, 0.5f)"),
        };
        write!(text, "let %v{id}_{index} = tanh({value});").expect("memory takes it");
        known.push(format!("%v{id}_{index}"));
    }
    (text, known.last().expect("something is known").clone())
}
