//! Random programs whose extents are `?`, a parameter or known, and flow into each other.

use ir_core::Random;

/// Functions of which programs call some.
const FUNCTIONS: &str = "\
type List[A] {
  Cons(A, List[A]),
  Nil,
}

type Cell[A] {
  Cell(ref(A)),
}

type Pair[n] {
  Pair(Tensor[(n), float32], Tensor[(n), float32]),
}

def @id[A](%x: A) -> A { %x }
def @second[A](%x: A, %y: A) -> A { %y }
def @same[n](%x: Tensor[(n), float32], %y: Tensor[(n), float32]) -> Tensor[(n), float32] { %y }
def @open(%x: Tensor[(?), float32]) -> Tensor[(?), float32] { %x }
def @three(%x: Tensor[(3), float32]) -> Tensor[(3), float32] { %x }
def @narrow(%x: Tensor[(?), float32]) -> Tensor[(3), float32] { %x }
def @swap[A](%x: A, %y: A) -> A {
  let %cell = ref(%x);
  ref_write(%cell, %y);
  ref_read(%cell)
}
def @apply[A](%f: fn (A) -> A, %x: A) -> A { %f(%x) }
";

/// Parameters of `@main`, all of rank 1.
const PARAMETERS: [(&str, &str); 5] = [("p", "?"), ("q", "3"), ("r", "4"), ("s", "?"), ("t", "3")];

/// The text of a program of `steps` statements, whose `@main` takes tensors of rank 1 and a `bool`,
/// and returns all that it computes as one tuple, so that what inference says of any value is the
/// type of a field. Whether it is well typed, and whether it runs to its end, depends on how `?` is
/// treated.
pub fn dynamic_program(seed: u64, steps: usize) -> String {
    let mut random = Random::new(seed);
    let params = PARAMETERS.map(|(name, extent)| format!("%{name}: Tensor[({extent}), float32]"));
    let mut text = format!("{FUNCTIONS}def @main({}, %c: bool) {{\n", params.join(", "));
    let mut values: Vec<String> = PARAMETERS.iter().map(|(name, _)| name.to_string()).collect();
    for step in 0..steps {
        let statement = statement(&mut random, &values, step);
        text.push_str(&statement);
        values.push(format!("v{step}"));
    }
    let fields: Vec<String> = values.iter().map(|value| format!("%{value}")).collect();
    text.push_str(&format!("  ({})\n}}\n", fields.join(", ")));
    text
}

/// A statement that makes `%v{step}`, a tensor of rank 1.
fn statement(random: &mut Random, values: &[String], step: usize) -> String {
    let any = String::new();
    let mut value = || random.choose(values).unwrap_or(&any).clone();
    let (a, b) = (value(), value());
    let annotation = ["", ": Tensor[(?), float32]", ": Tensor[(3), float32]"];
    let annotation = annotation[if random.one_in(3) { 1 + random.below(2) } else { 0 }];
    let cell = ["", ": ref(Tensor[(?), float32])"][random.below(2)];
    let list = ["", ": List[Tensor[(?), float32]]"][random.below(2)];
    let extent = ["?", "3"][random.below(2)];
    let ty = format!("Tensor[({extent}), float32]");
    let before = format!("  let %w{step}");
    let (setup, value) = match random.below(20) {
        0 => (String::new(), format!("@second(%{a}, %{b})")),
        1 => (String::new(), format!("@same(%{a}, %{b})")),
        2 => (String::new(), format!("@open(%{a})")),
        3 => (String::new(), format!("@three(%{a})")),
        4 => (String::new(), format!("@narrow(%{a})")),
        5 => (String::new(), format!("@swap(%{a}, %{b})")),
        6 => (String::new(), format!("@id(%{a})")),
        7 | 8 => (String::new(), format!("if (%c) {{ %{a} }} else {{ %{b} }}")),
        9 => {
            let write = format!("  ref_write(%w{step}, %{b});\n");
            (format!("{before}{cell} = ref(%{a});\n{write}"), format!("ref_read(%w{step})"))
        }
        10 => {
            let made = format!("{before}{list} = Cons(%{a}, Cons(%{b}, Nil()));\n");
            (made, format!("match? (%w{step}) {{ Cons(_, Cons(%h, _)) => {{ %h }} }}"))
        }
        11 => {
            let made = format!("{before} = Cell(ref(%{a}));\n");
            let write =
                format!("  match (%w{step}) {{ Cell(%h) => {{ ref_write(%h, %{b}) }} }};\n");
            let read = format!("match (%w{step}) {{ Cell(%h) => {{ ref_read(%h) }} }}");
            (format!("{made}{write}"), read)
        }
        12 => {
            let made = format!("Pair(%{a}, %{b})");
            (String::new(), format!("match ({made}) {{ Pair(_, %h) => {{ %h }} }}"))
        }
        13 => {
            let made = format!("{before} = fn (%h) {{ tanh(%h) }};\n");
            (format!("{made}  %w{step}(%{a});\n"), format!("%w{step}(%{b})"))
        }
        14 => {
            let made = format!("{before} = fn (%h: {ty}) {{ @second(%h, %{b}) }};\n");
            (made, format!("%w{step}(%{a})"))
        }
        15 => {
            let made = format!("{before}: (Tensor[(?), float32], {ty}) = (%{a}, %{b});\n");
            (made, format!("%w{step}.1"))
        }
        16 => {
            let made = format!("{before} = (%{a}, %{b});\n");
            let branch = format!("if (%c) {{ %w{step} }} else {{ (%{b}, %{a}) }}");
            (format!("{made}  let %u{step} = {branch};\n"), format!("%u{step}.0"))
        }
        17 => (String::new(), format!("@apply(fn (%h: {ty}) {{ tanh(%h) }}, %{a})")),
        18 => (String::new(), format!("concatenate((%{a}, %{b}))")),
        _ => (String::new(), format!("add(%{a}, %{b})")),
    };
    format!("{setup}  let %v{step}{annotation} = {value};\n")
}
