//! Passes with planted bugs, and programs that show them, for the tests of the debugging tools.

use std::fmt::Write as _;

use ir_core::pass::{PassDef, PassInstance};
use ir_core::{
    Body, DType, FuncMut, FunctionPass, InsertPoint, OpId, OpParts, PassContext, PassResult,
    Random, Registry, TensorData, Type, ValueId,
};

/// A pass with a bug.
pub(crate) struct Planted {
    /// Its name.
    pub(crate) name: &'static str,
    /// Statements in Relay text of which `%start` is the first value, a tensor of (4, 4) `float32`,
    /// and `%last` the last, likewise. They show the bug.
    pub(crate) trigger: &'static str,
    make: fn(&[(String, String)]) -> Result<PassInstance, String>,
}

struct Bug(fn(&mut FuncMut<'_>));

impl FunctionPass for Bug {
    fn run(&self, f: &mut FuncMut<'_>, _: &mut PassContext<'_>) -> PassResult {
        (self.0)(f);
        Ok(())
    }
}

macro_rules! planted {
    ($($name:literal, $trigger:literal, $bug:expr;)*) => {
        &[$(Planted {
            name: $name,
            trigger: $trigger,
            make: |_| Ok(PassInstance::Function(Box::new(Bug($bug)))),
        }),*]
    };
}

/// The operations called `relay.NAME`, in program order.
fn all(f: &FuncMut<'_>, name: &str) -> Vec<OpId> {
    f.body
        .walk()
        .filter(|op| f.body.op_name(*op).as_str().strip_prefix("relay.") == Some(name))
        .collect()
}

/// The operation that defines operand `index` of `op`, if it is `relay.NAME`.
fn operand(body: &Body, op: OpId, index: usize, name: &str) -> Option<OpId> {
    let def = body.defining_op(body.operand(op, index))?;
    (body.op_name(def).as_str().strip_prefix("relay.") == Some(name)).then_some(def)
}

fn swap(f: &mut FuncMut<'_>, op: OpId) {
    let (a, b) = (f.body.operand(op, 0), f.body.operand(op, 1));
    f.body.set_operands(op, &[b, a]);
}

/// Replaces `op` by `relay.NAME` on `operands`, of the same type.
fn again(f: &mut FuncMut<'_>, op: OpId, name: &str, operands: &[ValueId]) -> OpId {
    let types: Vec<Type> = f.body.results(op).map(|value| f.body.ty(value)).collect();
    let name = format!("relay.{name}");
    let new =
        f.body.insert_op(InsertPoint::Before(op), OpParts::new(name.as_str(), operands, &types));
    let value = f.body.result(new, 0);
    f.replace(op, value);
    new
}

/// Passes that change results.
pub(crate) const MISCOMPILES: &[Planted] = planted![
    "plant-swap-operands", "let %last = subtract(%start, tanh(%start));", |f| {
        for op in all(f, "subtract") {
            swap(f, op);
        }
    };
    "plant-drop-operation", "let %last = sigmoid(multiply(%start, %start));", |f| {
        for op in all(f, "sigmoid") {
            if let Some(product) = operand(f.body, op, 0, "multiply") {
                let value = f.body.result(product, 0);
                f.replace(op, value);
            }
        }
    };
    "plant-wrong-axis", "let %last = nn.softmax(%start);", |f| {
        for op in all(f, "nn.softmax") {
            f.body.set_attrs(op, f.body.attrs(op).with("axis", &0i64));
        }
    };
    "plant-wrong-constant", "let %last = multiply(%start, add(0.5f, 0.25f));", |f| {
        for op in all(f, "add") {
            let constants = [0, 1].map(|index| operand(f.body, op, index, "constant"));
            let [Some(a), Some(b)] = constants else { continue };
            let value = |op| f.body.attrs(op).value::<TensorData>("value");
            let (Some(a), Some(b)) = (value(a), value(b)) else { continue };
            let difference = a.to_f64()[0] - b.to_f64()[0];
            let value = TensorData::scalar(DType::FLOAT32, ir_core::Scalar::Float(difference));
            let new = again(f, op, "constant", &[]);
            f.body.set_attrs(new, f.body.attrs(new).with("value", &value));
        }
    };
    "plant-commute", "let %last = tanh(divide(%start, 3f));", |f| {
        for op in all(f, "divide") {
            let (a, b) = (f.body.operand(op, 0), f.body.operand(op, 1));
            again(f, op, "divide", &[b, a]);
        }
    };
    "plant-drop-casts", "let %wide = cast(multiply(%start, 1000f), dtype=\"int32\");
        let %narrow = cast(%wide, dtype=\"int8\");
        let %again = cast(%narrow, dtype=\"int32\");
        let %last = tanh(cast(%again, dtype=\"float32\"));", |f| {
        for op in all(f, "cast") {
            if let Some(inner) = operand(f.body, op, 0, "cast") {
                let value = f.body.operand(inner, 0);
                if f.body.ty(value) == f.body.ty(f.body.result(op, 0)) {
                    f.replace(op, value);
                }
            }
        }
    };
    "plant-wrong-branch", "let %last = if (True) { tanh(%start) } else { negative(%start) };", |f| {
        for op in all(f, "if") {
            if f.body.is_live(op) && operand(f.body, op, 0, "constant").is_some() {
                let block = f.body.region_block(op, 1);
                let end = f.body.last_op(block).unwrap();
                let value = f.body.operand(end, 0);
                f.body.erase(end);
                f.body.move_block_ops(block, InsertPoint::Before(op));
                f.replace(op, value);
            }
        }
    };
    "plant-drop-write", "let %cell = ref(%start);
        let %done = ref_write(%cell, negative(%start));
        let %last = ref_read(%cell);", |f| {
        for op in all(f, "ref_write") {
            again(f, op, "tuple", &[]);
        }
    };
    "plant-off-by-one", "let %part = strided_slice(%start, begin=[0, 0], end=[3, 4], strides=[1, 1]);
        let %last = concatenate((%part, ones(shape=[1, 4], dtype=\"float32\")));", |f| {
        for op in all(f, "strided_slice") {
            let attrs = f.body.attrs(op);
            if attrs.value("end") == Some(vec![3i64, 4]) {
                let moved = attrs.with("begin", &vec![1i64, 0]).with("end", &vec![4i64, 4]);
                f.body.set_attrs(op, moved);
            }
        }
    };
    "plant-over-effect", "let %cell = ref(%start);
        let %old = ref_read(%cell);
        let %done = ref_write(%cell, negative(%old));
        let %last = ref_read(%cell);", |f| {
        let reads = all(f, "ref_read");
        for (index, &read) in reads.iter().enumerate() {
            let same = |earlier: &&OpId| f.body.operand(**earlier, 0) == f.body.operand(read, 0);
            if let Some(&earlier) = reads[..index].iter().find(same) {
                let value = f.body.result(earlier, 0);
                f.replace(read, value);
            }
        }
    };
];

/// Passes that crash, or break the program.
pub(crate) const CRASHES: &[Planted] = planted![
    "plant-no-erf", "let %last = erf(%start);", |f| {
        assert!(all(f, "erf").is_empty(), "no way to do this");
    };
    "plant-no-int8", "let %last = cast(cast(%start, dtype=\"int8\"), dtype=\"float32\");", |f| {
        for op in f.body.walk() {
            for value in f.body.results(op) {
                let tensor = f.body.ty(value).as_tensor();
                let bits = tensor.map_or(32, |tensor| tensor.dtype.bits());
                let widths = [1, 16, 32, 64];
                assert!(widths.contains(&bits), "no registers of {bits} bits");
            }
        }
    };
    "plant-no-nesting", "let %last = if (%c) {
            if (%c) { tanh(%start) } else { abs(%start) }
        } else { %start };", |f| {
        for op in all(f, "if") {
            let outer = f.body.op_block(op).and_then(|block| f.body.block_parent(block));
            let outer = outer.map(|outer| f.body.op_name(outer).to_string());
            assert!(outer.as_deref() != Some("relay.if"), "too deep");
        }
    };
    "plant-no-constant", "let %last = multiply(%start, 42f);", |f| {
        for op in all(f, "constant") {
            let value: TensorData = f.body.attrs(op).value("value").unwrap();
            let found = value.to_f64();
            assert!(found != [42.0], "the question is missing");
        }
    };
    "plant-wrong-type", "let %last = sigmoid(%start);", |f| {
        for op in all(f, "sigmoid") {
            let result = f.body.result(op, 0);
            f.body.set_ty(result, Type::tensor([4, 4], DType::FLOAT16));
        }
    };
    "plant-unknown-operation", "let %last = multiply(cos(%start), %start);", |f| {
        for op in all(f, "cos") {
            let operand = f.body.operand(op, 0);
            let (operands, types) = ([operand], [f.body.ty(operand)]);
            let parts = OpParts::new("plant.nothing", &operands, &types);
            let new = f.body.insert_op(InsertPoint::Before(op), parts);
            let value = f.body.result(new, 0);
            f.replace(op, value);
        }
    };
    "plant-use-after-erase", "let %last = sin(exp(%start));", |f| {
        for op in all(f, "sin") {
            if let Some(inner) = operand(f.body, op, 0, "exp") {
                f.body.erase(inner);
            }
        }
    };
    "plant-endless", "let %last = exp(negative(%start));", |f| {
        let mut pending = all(f, "exp");
        while let Some(op) = pending.pop() {
            let value = f.body.operand(op, 0);
            pending.push(again(f, op, "exp", &[value]));
        }
    };
    "plant-no-field", "let %fields = (%start, tanh(%start), negative(%start));
        let %last = %fields.2;", |f| {
        for op in all(f, "tuple_get") {
            let index: i64 = f.body.attrs(op).value("index").unwrap();
            let supported = ["first", "second"];
            assert!(!supported[index as usize].is_empty());
        }
    };
    "plant-use-before-definition", "let %last = rsqrt(abs(%start));", |f| {
        for op in all(f, "rsqrt") {
            if let Some(inner) = operand(f.body, op, 0, "abs") {
                f.body.move_op(op, InsertPoint::Before(inner));
            }
        }
    };
];

/// Passes over tensor expressions and kernels that change results.
const TENSOR_EXPRESSIONS: &[Planted] = planted![
    "plant-swap-scalars", "", |f| {
        let subtract = |op: &OpId| f.body.op_name(*op).as_str() == "te.sub";
        for op in f.body.walk().filter(subtract).collect::<Vec<_>>() {
            swap(f, op);
        }
    };
];

/// Passes that do not end and edit nothing meanwhile.
const ENDLESS: &[Planted] = planted![
    "plant-asleep", "", |f| {
        if !all(f, "exp").is_empty() {
            assert!(all(f, "tanh").is_empty(), "no way to do both");
            loop {
                std::thread::park();
            }
        }
    };
];

/// What relay-opt knows, and the planted passes.
pub(crate) fn registry() -> Registry {
    let mut registry = tools::registry();
    for planted in MISCOMPILES.iter().chain(CRASHES).chain(TENSOR_EXPRESSIONS).chain(ENDLESS) {
        let (name, make) = (planted.name, planted.make);
        registry.add_pass(PassDef {
            name,
            doc: "Has a bug.",
            never_after: &[],
            options: &[],
            make,
        });
    }
    registry
}

/// A program of about `size` operations, in the middle of which is what shows the bug.
pub(crate) fn program(planted: &Planted, size: usize, seed: u64) -> String {
    let mut random = Random::new(seed);
    let tensor = "Tensor[(4, 4), float32]";
    let mut text = format!(
        "def @helper(%a: {tensor}, %b: {tensor}) -> {tensor} {{\n  \
           let %product = multiply(%a, %b);\n  tanh(%product)\n}}\n\
         def @main(%x: {tensor}, %y: {tensor}, %c: bool) {{\n"
    );
    let mut values = vec!["x".to_string(), "y".to_string()];
    let mut ops = 4;
    let mut planted_at = None;
    while ops < size {
        if planted_at.is_none() && ops >= size / 2 {
            let start = values.last().unwrap().clone();
            // What depends on an input is not 0, however long the way.
            writeln!(text, "  let %start = tanh(add(%{start}, %x));").unwrap();
            text += planted.trigger;
            text += "\n";
            planted_at = Some(values.len());
            values.push("last".to_string());
        }
        let mut value = || {
            let recent = values.len().saturating_sub(12);
            format!("%{}", values[recent + random.below(values.len() - recent)])
        };
        let (a, b) = (value(), value());
        let (line, count) = match random.below(24) {
            0 => (format!("@helper({a}, {b})"), 2),
            1 => (format!("if (%c) {{ tanh({a}) }} else {{ negative({b}) }}"), 5),
            2 => (format!("({a}, {b}).1"), 2),
            3 => (format!("(fn (%p: {tensor}) {{ maximum(%p, {b}) }})({a})"), 4),
            4 => (format!("multiply({a}, 0.5f)"), 2),
            5..8 => (format!("tanh(add({a}, {b}))"), 2),
            8..11 => (format!("maximum({a}, {b})"), 1),
            11..14 => (format!("minimum({a}, {b})"), 1),
            14..17 => (format!("multiply({a}, {b})"), 1),
            17 => (format!("nn.relu({a})"), 1),
            18 => (format!("negative({a})"), 1),
            19 => (format!("transpose({a}, axes=[1, 0])"), 1),
            _ => (format!("tanh({a})"), 1),
        };
        let name = format!("v{}", values.len());
        writeln!(text, "  let %{name} = {line};").unwrap();
        values.push(name);
        ops += count;
    }
    let at = planted_at.unwrap();
    let some = [at, at + 3, values.len() - 2, values.len() - 1];
    let some: Vec<String> = some.iter().map(|index| format!("%{}", values[*index])).collect();
    writeln!(text, "  ({})\n}}", some.join(", ")).unwrap();
    text
}
