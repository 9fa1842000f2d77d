//! Programs of any size, each large in another way.

use std::fmt::Write as _;

/// A way in which a program may be large.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// The text of a program of that size.
    pub(crate) text: fn(usize) -> String,
}

const T: &str = "Tensor[(4), float32]";

macro_rules! shapes {
    ($($name:ident)*) => {
        /// All of them.
        pub(crate) const SHAPES: &[Shape] =
            &[$(Shape { name: stringify!($name), text: $name }),*];
    };
}

shapes! {
    chain expression diamonds fan_out sums constants layers convolutions
    functions scaled_functions calls inlined_calls ring
    nested_ifs nested_ifs_with_work ifs nested_lets lets nested_functions local_functions closures
    nested_matches constructors clauses construction data_types references
    outputs equal_outputs wide_tuple projections siblings convolution_siblings
    parameters arguments dynamic_shapes
}

/// `count` times what `part` makes of a number.
fn all(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect()
}

fn list(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(", ")
}

/// `@main` of `%x` that binds what `part` makes of its number and the value before.
fn bound(params: &str, count: usize, part: impl Fn(usize, &str) -> String) -> String {
    let (mut text, mut last) = (format!("def @main({params}) {{\n"), "%x".to_string());
    for index in 0..count {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  %{index} = {};", part(index, &last));
        last = format!("%{index}");
    }
    text + "  " + &last + "\n}\n"
}

fn chain(n: usize) -> String {
    bound(&format!("%x: {T}"), n, |i, last| {
        format!("{}({last})", ["exp", "tanh", "negative"][i % 3])
    })
}

fn expression(n: usize) -> String {
    format!("def @main(%x: {T}) {{ {}%x{} }}", "exp(".repeat(n), ")".repeat(n))
}

fn diamonds(n: usize) -> String {
    let part = |i: usize, last: &str| match i % 3 {
        0 => format!("exp({last})"),
        1 => format!("tanh({last})"),
        _ => format!("add(%{}, {last})", i - 2),
    };
    bound(&format!("%x: {T}"), 3 * (n / 3), part)
}

fn fan_out(n: usize) -> String {
    bound(&format!("%x: {T}, %y: {T}"), n, |i, last| format!("add({last}, multiply(%y, {i}f))"))
}

fn sums(n: usize) -> String {
    bound(&format!("%x: {T}, %y: {T}"), n, |_, last| format!("add({last}, %y)"))
}

fn constants(n: usize) -> String {
    let sum = |i: usize| format!("  %{} = add(%{i}, {i}f);\n", i + 1);
    format!("def @main(%x: {T}) {{\n  %0 = add(1f, 1f);\n{}  add(%x, %{n})\n}}", all(n, sum))
}

fn layers(n: usize) -> String {
    let part = |i: usize, last: &str| match i % 4 {
        0 => format!("nn.dense({last}, %w, units=8)"),
        1 => format!("nn.bias_add({last}, %b)"),
        2 => format!("nn.relu({last})"),
        _ => format!("nn.softmax({last})"),
    };
    let weights = "%w: Tensor[(8, 8), float32], %b: Tensor[(8), float32]";
    bound(&format!("%x: Tensor[(4, 8), float32], {weights}"), n, part)
}

const IMAGE: &str = "%x: Tensor[(1, 8, 4, 4), float32], %w: Tensor[(8, 8, 1, 1), float32], \
                     %s: Tensor[(8, 1, 1), float32]";
const SIZES: &str = "channels=8, kernel_size=[1, 1], padding=[0, 0, 0, 0]";

fn convolutions(n: usize) -> String {
    let part = |i: usize, last: &str| match i % 3 {
        0 => format!("nn.conv2d({last}, %w, {SIZES})"),
        1 => format!("multiply({last}, %s)"),
        _ => format!("nn.relu({last})"),
    };
    bound(IMAGE, n, part)
}

fn functions(n: usize) -> String {
    let function = |i| format!("def @f{i}(%x: {T}) {{ add(exp(%x), add(1f, {i}f)) }}\n");
    all(n, function) + &format!("def @main(%x: {T}) {{ %x }}")
}

fn scaled_functions(n: usize) -> String {
    let layer = format!("multiply(nn.conv2d(%x, %w, {SIZES}), %s)");
    all(n, |i| format!("def @f{i}({IMAGE}) {{ {layer} }}\n"))
        + &format!("def @main(%x: {T}) {{ %x }}")
}

/// A chain of calls, with `marks` on each function.
fn chain_of_calls(n: usize, marks: &str) -> String {
    let call = |i| format!("def @f{}(%x: {T}{marks}) {{ exp(@f{i}(%x)) }}\n", i + 1);
    let first = format!("def @f0(%x: {T}{marks}) {{ exp(%x) }}\n");
    first + &all(n, call) + &format!("def @main(%x: {T}) {{ @f{n}(%x) }}")
}

fn calls(n: usize) -> String {
    chain_of_calls(n, "")
}

fn inlined_calls(n: usize) -> String {
    chain_of_calls(n, ", Inline=1")
}

fn ring(n: usize) -> String {
    let call = |i| format!("def @f{i}(%x: {T}) -> {T} {{ exp(@f{}(%x)) }}\n", (i + 1) % n);
    all(n, call) + &format!("def @main(%x: {T}) {{ @f0(%x) }}")
}

fn nested_ifs(n: usize) -> String {
    let (open, close) = ("if (%c) {\n".repeat(n), "\n} else { %x }".repeat(n));
    format!("def @main(%x: {T}, %c: bool) {{\n{open}exp(%x){close}\n}}")
}

fn nested_ifs_with_work(n: usize) -> String {
    let open = all(n, |i| format!("let %a{i} = add(%x, {i}f);\nif (%c) {{\n"));
    let close = all(n, |i| format!("\n}} else {{ multiply(%a{}, %x) }}", n - 1 - i));
    format!("def @main(%x: {T}, %c: bool) {{\n{open}exp(%x){close}\n}}")
}

fn ifs(n: usize) -> String {
    bound(&format!("%x: {T}, %c: bool"), n, |_, last| {
        format!("if (%c) {{ exp({last}) }} else {{ tanh({last}) }}")
    })
}

fn nested_lets(n: usize) -> String {
    let open = all(n, |i| format!("let %a{i} = {{\n"));
    let close = all(n, |i| format!("\n}}; add(%a{}, %x)", n - 1 - i));
    format!("def @main(%x: {T}) {{\n{open}exp(%x){close}\n}}")
}

fn lets(n: usize) -> String {
    let bindings = all(n, |i| format!("let %x{} = exp(%x{i});\n", i + 1));
    format!("def @main(%x0: {T}) {{\n{bindings}%x{n}\n}}")
}

fn nested_functions(n: usize) -> String {
    let open = all(n, |i| format!("let %f{i} = fn (%a{i}: {T}) -> {T} {{\n"));
    let close = all(n, |i| format!("\n}}; add(%f{}(%x), %x)", n - 1 - i));
    format!("def @main(%x: {T}) {{\n{open}exp(%x){close}\n}}")
}

fn local_functions(n: usize) -> String {
    let function = |i| {
        let made = format!("let %f{i} = fn (%a: {T}) -> {T} {{ add(%a, %x0) }};\n");
        format!("{made}let %x{} = %f{i}(%x{i});\n", i + 1)
    };
    format!("def @main(%x0: {T}) {{\n{}%x{n}\n}}", all(n, function))
}

fn closures(n: usize) -> String {
    let apply = "def @apply(%f: fn (float32) -> float32, %x: float32) { %f(%x) }\n";
    let call = |i| {
        let function = format!("fn (%a: float32) -> float32 {{ add(%a, {i}f) }}");
        format!("let %x{} = @apply({function}, %x{i});\n", i + 1)
    };
    format!("{apply}def @main(%x0: float32) {{\n{}%x{n}\n}}", all(n, call))
}

fn nested_matches(n: usize) -> String {
    let open = all(n, |i| format!("match (%t{i}) {{ Nil => 0f, Cons(%h{i}, %t{}) => \n", i + 1));
    let data = "type L { Cons(float32, L), Nil }";
    format!("{data}\ndef @main(%t0: L) -> float32 {{\n{open}1f{}\n}}", " }".repeat(n))
}

/// A data type of `n` constructors.
fn many(n: usize) -> String {
    format!("type Many {{\n{}\n}}\n", list(n, |i| format!("C{i}({T})\n")))
}

fn constructors(n: usize) -> String {
    many(n) + &format!("def @main(%m: Many) -> {T} {{ match? (%m) {{ C0(%x) => %x, }} }}")
}

fn clauses(n: usize) -> String {
    let clauses = all(n, |i| format!("  C{i}(%x) => exp(%x),\n"));
    many(n) + &format!("def @main(%m: Many) -> {T} {{ match (%m) {{\n{clauses}}} }}")
}

fn construction(n: usize) -> String {
    let made = all(n, |i| format!("  let %a{i} = C{i}(%x);\n"));
    many(n) + &format!("def @main(%x: {T}) {{\n{made}  %a0\n}}")
}

fn data_types(n: usize) -> String {
    all(n, |i| format!("type T{i} {{ C{i}({T}) }}\n")) + &format!("def @main(%x: {T}) {{ C0(%x) }}")
}

fn references(n: usize) -> String {
    let writes = all(n, |i| format!("  let %u{i} = ref_write(%r, exp(ref_read(%r)));\n"));
    format!("def @main(%x: {T}) {{\n  let %r = ref(%x);\n{writes}  ref_read(%r)\n}}")
}

fn outputs(n: usize) -> String {
    format!("def @main(%x: {T}) {{ ({}) }}", list(n, |i| format!("add(%x, {i}f)")))
}

fn equal_outputs(n: usize) -> String {
    format!("def @main(%x: {T}) {{ ({}) }}", list(n, |_| "exp(%x)".to_string()))
}

fn wide_tuple(n: usize) -> String {
    let fields = list(n, |i| format!("add(%x, {i}f)"));
    format!("def @main(%x: {T}) {{ concatenate(({fields}), axis=0) }}")
}

fn projections(n: usize) -> String {
    let fields = list(n, |i| format!("add(%x, {i}f)"));
    let sum = |i| format!("  let %s{} = add(%s{i}, %t.{i});\n", i + 1);
    format!(
        "def @main(%x: {T}) {{\n  let %t = ({fields});\n  let %s0 = %x;\n{}  %s{n}\n}}",
        all(n, sum)
    )
}

fn siblings(n: usize) -> String {
    let layers = list(n, |i| format!("nn.dense(%x, add(%w, {i}f), units=6)"));
    let params = "%x: Tensor[(4, 8), float32], %w: Tensor[(6, 8), float32]";
    format!("def @main({params}) {{ ({layers}) }}")
}

fn convolution_siblings(n: usize) -> String {
    let layers = list(n, |i| format!("nn.conv2d(%x, add(%w, {i}f), {SIZES})"));
    format!("def @main({IMAGE}) {{ ({layers}) }}")
}

fn parameters(n: usize) -> String {
    let results = list(n, |i| format!("exp(%x{i})"));
    format!("def @main({}) {{ ({results}) }}", list(n, |i| format!("%x{i}: {T}")))
}

fn arguments(n: usize) -> String {
    let params = list(n, |i| format!("%x{i}: {T}"));
    let args = list(n, |_| "%x".to_string());
    format!("def @f({params}) {{ add(%x0, %x{}) }}\ndef @main(%x: {T}) {{ @f({args}) }}", n - 1)
}

fn dynamic_shapes(n: usize) -> String {
    bound(&format!("%x: {T}"), n, |i, last| match i % 2 {
        0 => format!("shape_of({last}, dtype=\"int64\")"),
        _ if i == 1 => format!("dyn.reshape(%x, {last})"),
        _ => format!("dyn.reshape(%{}, {last})", i - 2),
    })
}
