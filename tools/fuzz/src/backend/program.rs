//! Programs that bytes choose: few operators, over small tensors of every element type, of zero and
//! odd extents, that hold the ends of their ranges, signed zeros, subnormals, infinities and NaN.

use ir_core::{DType, Module, Registry, TensorData, Type};

/// Bytes as choices; 0 where there are no more.
pub(super) struct Choices<'a> {
    bytes: std::slice::Iter<'a, u8>,
}

impl Choices<'_> {
    pub(super) fn new(bytes: &[u8]) -> Choices<'_> {
        Choices { bytes: bytes.iter() }
    }

    fn byte(&mut self) -> u8 {
        self.bytes.next().copied().unwrap_or_default()
    }

    /// A number below `bound`, which is positive and at most 256.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// A program with what it takes.
pub(super) struct Made {
    /// As Relay text.
    pub(super) text: String,
    /// The same, inferred.
    pub(super) module: Module,
    /// The inputs.
    pub(super) inputs: Vec<TensorData>,
    /// How many operators it has.
    pub(super) operators: usize,
    /// How far results may be off; 0 where every way to compute them gives the same.
    pub(super) tolerances: Vec<f64>,
}

/// A name of the text, and what is known of it.
#[derive(Clone)]
struct Value {
    name: String,
    dtype: DType,
    shape: Vec<i64>,
    used: bool,
    /// Whether it is an input.
    given: bool,
    /// Whether its floats were rounded in a way that is nobody's to say. Then no operator takes it.
    rounded: bool,
}

const ELEMENTS: usize = 256;
const EXTENTS: [i64; 12] = [0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 9, 17];
const DTYPES: [DType; 13] = [
    DType::FLOAT32,
    DType::INT8,
    DType::UINT8,
    DType::INT16,
    DType::UINT16,
    DType::INT32,
    DType::UINT32,
    DType::INT64,
    DType::UINT64,
    DType::FLOAT16,
    DType::BFLOAT16,
    DType::FLOAT64,
    DType::BOOL,
];

/// What element types an operator takes.
#[derive(Clone, Copy)]
enum Takes {
    All,
    Numbers,
    Integers,
    Floats,
    Truths,
}
use Takes::{All, Floats, Integers, Numbers, Truths};

impl Takes {
    fn fits(self, dtype: DType) -> bool {
        match self {
            All => true,
            Numbers => !dtype.is_bool(),
            Integers => dtype.is_integer() && !dtype.is_bool(),
            Floats => dtype.is_float(),
            Truths => dtype.is_bool(),
        }
    }
}

/// What operators are like: calls on `%a`; `%b`, of the same type; `%c`, truths of its shape; `%r`,
/// which has one element in place of some; `%m`, rows of its length; `%k`, a filter; `%i`, places
/// of its shape.
const STEPS: [(&str, Takes); 98] = [
    ("add(%a, %b)", Numbers),
    ("subtract(%a, %b)", Numbers),
    ("multiply(%a, %b)", Numbers),
    ("add(%a, %r)", Numbers),
    ("maximum(%r, %a)", Numbers),
    ("divide(%a, %b)", Numbers),
    ("floor_divide(%a, %b)", Integers),
    ("trunc_divide(%a, %b)", Integers),
    ("mod(%a, %b)", Integers),
    ("floor_mod(%a, %b)", Integers),
    ("trunc_mod(%a, %b)", Integers),
    ("maximum(%a, %b)", Numbers),
    ("minimum(%a, %b)", Numbers),
    ("power(%a, %b)", Integers),
    ("negative(%a)", Numbers),
    ("abs(%a)", Numbers),
    ("sign(%a)", Numbers),
    ("nn.relu(%a)", Numbers),
    ("nn.leaky_relu(%a, alpha=0.5)", Floats),
    ("clip(%a, a_min=-2f, a_max=3f)", Numbers),
    ("floor(%a)", Floats),
    ("ceil(%a)", Floats),
    ("round(%a)", Floats),
    ("round_even(%a)", Floats),
    ("trunc(%a)", Floats),
    ("isnan(%a)", Floats),
    ("isfinite(%a)", Floats),
    ("isinf(%a)", Floats),
    ("equal(%a, %b)", All),
    ("not_equal(%a, %r)", All),
    ("less(%a, %b)", Numbers),
    ("less_equal(%r, %a)", Numbers),
    ("greater(%a, %b)", Numbers),
    ("greater_equal(%a, %b)", Numbers),
    ("logical_and(%a, %b)", Truths),
    ("logical_or(%a, %b)", Truths),
    ("logical_xor(%a, %b)", Truths),
    ("logical_not(%a)", Truths),
    ("bitwise_and(%a, %b)", Integers),
    ("bitwise_or(%a, %b)", Integers),
    ("bitwise_xor(%a, %b)", Integers),
    ("bitwise_not(%a)", Integers),
    ("left_shift(%a, %b)", Integers),
    ("right_shift(%a, %b)", Integers),
    ("cast(%a, dtype=\"{dtype}\")", All),
    ("cast(%a, dtype=\"{dtype}\")", Numbers),
    ("cast(%a, dtype=\"{dtype}\")", Floats),
    ("where(%c, %a, %b)", All),
    ("where(%c, %b, %r)", All),
    ("zeros_like(%a)", All),
    ("full_like(%a, 3f)", Numbers),
    ("reshape(%a, newshape=[-1])", All),
    ("transpose(%a, axes=None)", All),
    ("reverse(%a, axis={axis})", All),
    ("concatenate((%a, %b), axis={axis})", All),
    ("stack((%a, %b, %a), axis={axis})", All),
    ("expand_dims(%a, axis={axis})", All),
    ("squeeze(%a, axis=None)", All),
    ("tile(%a, reps=[2, {n}])", All),
    ("repeat(%a, repeats={n}, axis={axis})", All),
    ("strided_slice(%a, begin=[{n}], end=[{n}], strides=[1], axes=[{axis}])", All),
    ("strided_slice(%a, begin=[{n}], end=[9], strides=[{n}], axes=[{axis}])", All),
    ("strided_slice(%a, begin=[-1], end=[-9], strides=[-{n}], axes=[{axis}])", All),
    ("nn.pad(%a, 1, pad_width={pads})", Numbers),
    ("nn.mirror_pad(%a, pad_width={pads})", Numbers),
    ("take(%a, %i, axis={axis}, mode=\"clip\")", All),
    ("take(%a, %i, axis={axis}, mode=\"wrap\")", All),
    ("take(%a, %i, axis={axis}, mode=\"fast\")", All),
    ("gather(%a, %i, axis={axis})", All),
    ("one_hot(%a, 1, 0, depth=3, axis=-1, dtype=\"{dtype}\")", Integers),
    ("trilu(%a, {n}, upper=True)", Numbers),
    ("sum(%a, axis=[{axis}])", Integers),
    ("sum(%a, axis=[{axis}], keepdims=True)", Integers),
    ("prod(%a, axis=[{axis}])", Integers),
    ("max(%a, axis=[{axis}])", Numbers),
    ("min(%a, axis=[{axis}])", Numbers),
    ("argmax(%a, axis=[{axis}])", Numbers),
    ("argmin(%a, axis=[{axis}])", Numbers),
    ("all(%a, axis=[{axis}])", Truths),
    ("any(%a, axis=[{axis}])", Truths),
    ("cumsum(%a, axis={axis})", Integers),
    ("cumprod(%a, axis={axis})", Integers),
    ("sort(%a, axis={axis})", Numbers),
    ("argsort(%a, axis={axis}, dtype=\"int32\")", Numbers),
    ("nn.dense(%a, %m)", Integers),
    ("nn.matmul(%a, %m, transpose_b=True)", Integers),
    ("nn.conv1d(%a, %k, padding=[1, {n}])", Integers),
    ("nn.max_pool1d(%a, pool_size=[2], strides=[{n}])", Numbers),
    ("nn.max_pool1d(%a, pool_size=[3], padding=[1, 1])", Numbers),
    ("exp(%a)", Floats),
    ("log(%a)", Floats),
    ("tanh(%a)", Floats),
    ("sigmoid(%a)", Floats),
    ("erf(%a)", Floats),
    ("sqrt(%a)", Floats),
    ("rsqrt(%a)", Floats),
    ("nn.softmax(%a, axis={axis})", Floats),
    ("nn.log_softmax(%a, axis={axis})", Floats),
];

/// Those of [`STEPS`] from here on round floats.
const ROUNDING: &str = "exp(%a)";

/// The program that `choices` make; `None` where it has no operator. What is compiled has no
/// products of floats: compilers may put them together with sums.
pub(super) fn make(choices: &mut Choices<'_>, compiled: bool, registry: &Registry) -> Option<Made> {
    let mut draft = Draft { choices, inputs: vec![], lines: vec![], values: vec![], registry };
    let dtype = draft.choices.of(&DTYPES);
    let shape = draft.shape();
    draft.input(dtype, &shape);
    for _ in 0..=draft.choices.below(6) {
        draft.step(compiled);
    }
    draft.finish()
}

struct Draft<'c, 'd> {
    choices: &'c mut Choices<'d>,
    inputs: Vec<TensorData>,
    lines: Vec<String>,
    values: Vec<Value>,
    registry: &'c Registry,
}

impl Draft<'_, '_> {
    fn shape(&mut self) -> Vec<i64> {
        let rank = self.choices.below(5);
        let mut shape: Vec<i64> = (0..rank).map(|_| self.choices.of(&EXTENTS)).collect();
        while shape.iter().product::<i64>() as usize > ELEMENTS {
            shape.pop();
        }
        shape
    }

    /// One more input; its place among the values.
    fn input(&mut self, dtype: DType, shape: &[i64]) -> Option<usize> {
        let count = shape.iter().product::<i64>() as usize;
        let elements = (0..count).flat_map(|_| element(dtype, self.choices)).collect::<Vec<u8>>();
        let data = TensorData::from_little_endian_bytes(dtype, shape, &elements).ok()?;
        let name = format!("%p{}", self.inputs.len());
        self.inputs.push(data);
        let shape = shape.to_vec();
        let value = Value { name, dtype, shape, used: false, given: true, rounded: false };
        self.values.push(value);
        Some(self.values.len() - 1)
    }

    /// A value of this type: one that there is, or a new input.
    fn value(&mut self, dtype: DType, shape: &[i64]) -> Option<usize> {
        let fits = |value: &Value| value.dtype == dtype && value.shape == shape && !value.rounded;
        let fitting = self.values.iter().rposition(fits);
        match fitting {
            Some(index) if self.choices.below(3) > 0 => Some(index),
            _ => self.input(dtype, shape),
        }
    }

    /// One more operator, where it fits.
    fn step(&mut self, compiled: bool) -> Option<()> {
        let chosen = self.choices.below(STEPS.len());
        let (form, takes) = STEPS[chosen];
        let place = self.choices.below(self.values.len());
        let operand = self.values[place].clone();
        if operand.rounded || !takes.fits(operand.dtype) {
            return None;
        }
        if compiled && form.starts_with("multiply") && operand.dtype.is_float() {
            return None;
        }
        let (mut call, mut operands) = (form.replace("%a", &operand.name), vec![place]);
        for (mark, dtype, shape) in self.others(&operand) {
            if call.contains(mark) {
                let other = self.value(dtype, &shape)?;
                call = call.replace(mark, &self.values[other].name);
                operands.push(other);
            }
        }
        let call = self.filled(call, operand.shape.len());
        let name = format!("%{}", self.lines.len());
        self.lines.push(format!("  {name} = {call};\n"));
        let Some((dtype, shape)) = self.inferred(&name) else {
            self.lines.pop();
            return None;
        };
        operands.iter().for_each(|operand| self.values[*operand].used = true);
        let rounds = STEPS.iter().position(|(form, _)| *form == ROUNDING);
        let rounded = rounds.is_some_and(|first| chosen >= first);
        self.values.push(Value { name, dtype, shape, used: false, given: false, rounded });
        Some(())
    }

    /// What operators take besides `operand`.
    fn others(&mut self, operand: &Value) -> [(&'static str, DType, Vec<i64>); 6] {
        let (dtype, shape) = (operand.dtype, operand.shape.clone());
        let cut = self.choices.byte();
        let one_at = |(axis, extent): (usize, &i64)| if cut >> axis & 1 == 1 { 1 } else { *extent };
        let narrow = shape.iter().enumerate().map(one_at).collect();
        let rows = vec![3, shape.last().copied().unwrap_or(1)];
        let filter = vec![2, shape.get(1).copied().unwrap_or(1), 2];
        let index = if cut & 128 == 0 { DType::INT32 } else { DType::INT64 };
        [
            ("%b", dtype, shape.clone()),
            ("%c", DType::BOOL, shape.clone()),
            ("%r", dtype, narrow),
            ("%m", dtype, rows),
            ("%k", dtype, filter),
            ("%i", index, shape),
        ]
    }

    /// `call` with attributes for an operand of rank `rank`.
    fn filled(&mut self, mut call: String, rank: usize) -> String {
        let axes = 2 * rank.max(1);
        let axis = self.choices.below(axes) as i64 - rank.max(1) as i64;
        call = call.replace("{axis}", &axis.to_string());
        while call.contains("{n}") {
            call = call.replacen("{n}", &self.choices.below(4).to_string(), 1);
        }
        call = call.replace("{dtype}", &self.choices.of(&DTYPES).to_string());
        let pads = vec!["[1, 2]"; rank].join(", ");
        call.replace("{pads}", &format!("[{pads}]"))
    }

    fn text(&self, result: &str) -> String {
        let inputs = self.values.iter().filter(|value| value.given);
        let params: Vec<String> = inputs
            .map(|value| {
                let ty = Type::tensor(value.shape.iter().copied(), value.dtype);
                format!("{}: {ty}", value.name)
            })
            .collect();
        format!("def @main({}) {{\n{}  {result}\n}}\n", params.join(", "), self.lines.concat())
    }

    fn module(&self, text: &str) -> Option<Module> {
        let (mut module, mut found) = ir_core::text::module::parse("text", text, self.registry);
        found.extend(relay::inference::infer_module(&mut module, self.registry));
        (!found.iter().any(ir_core::Diagnostic::is_error)).then_some(module)
    }

    /// The type of the tensor `name`, where it has one and is small.
    fn inferred(&self, name: &str) -> Option<(DType, Vec<i64>)> {
        let module = self.module(&self.text(name))?;
        let ty = module.get("main")?.signature.ty.as_function()?.result;
        let tensor = ty.as_tensor()?;
        let shape = tensor.known_shape()?.to_vec();
        let small = shape.len() <= 6 && shape.iter().product::<i64>() as usize <= ELEMENTS;
        small.then_some((tensor.dtype, shape))
    }

    fn finish(self) -> Option<Made> {
        let results = self.values.iter().filter(|value| !value.used && !value.given);
        let results: Vec<&Value> = results.collect();
        if results.is_empty() {
            return None;
        }
        let tolerance = |value: &&Value| match value.dtype {
            _ if !value.rounded => 0.0,
            DType::BFLOAT16 => 1e-1,
            DType::FLOAT16 => 2e-2,
            _ => 1e-3,
        };
        let tolerances = results.iter().map(tolerance).collect();
        let names: String = results.iter().map(|value| format!("{}, ", value.name)).collect();
        let text = self.text(&format!("({})", names.trim_end()));
        let module = self.module(&text)?;
        let (inputs, operators) = (self.inputs, self.lines.len());
        Some(Made { text, module, inputs, operators, tolerances })
    }
}

/// The bytes of an element, the least first: often a special one, or a small number.
fn element(dtype: DType, choices: &mut Choices<'_>) -> Vec<u8> {
    let (bytes, chosen) = (dtype.bytes(), choices.byte());
    let bits: u64 = match chosen {
        _ if dtype.is_bool() => u64::from(chosen & 1),
        0..=15 => special(dtype, usize::from(chosen)),
        16..=191 if dtype.is_float() => {
            let number = f64::from(chosen) / 8.0 - 13.0;
            let data = TensorData::scalar(dtype, ir_core::Scalar::Float(number));
            return data.little_endian_bytes().into_owned();
        }
        16..=191 => u64::from(chosen).wrapping_sub(20),
        _ => (0..bytes).fold(0, |bits, _| bits << 8 | u64::from(choices.byte())),
    };
    bits.to_le_bytes()[..bytes].to_vec()
}

/// Ends of ranges and, of floats, zeros, subnormals, infinities and NaN, as bits.
fn special(dtype: DType, index: usize) -> u64 {
    let width = dtype.bits();
    let (all, sign) = (u64::MAX >> (64 - width), 1 << (width - 1));
    if !dtype.is_float() {
        return [0, 1, 2, all, all - 1, sign, sign - 1, sign + 1][index % 8];
    }
    let fraction = match dtype {
        DType::FLOAT16 => 10,
        DType::BFLOAT16 => 7,
        DType::FLOAT32 => 23,
        _ => 52,
    };
    let infinity = (all >> 1) & !((1u64 << fraction) - 1);
    let quiet = infinity | 1 << (fraction - 1);
    // Zero, the least number, the least normal one, the greatest one, infinity, NaN, 1, 2.
    let one = (all >> 2) & !((1u64 << fraction) - 1);
    let two = one + (1 << fraction);
    let magnitude = [0, 1, 1 << fraction, infinity - 1, infinity, quiet, one, two][index % 8];
    if index >= 8 { magnitude | sign } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::registry;
    use ir_core::random::Random;

    #[test]
    fn every_operator_is_in_some_program() {
        let mut missing: Vec<&str> = STEPS.iter().map(|(form, _)| *form).collect();
        for seed in 0..20_000 {
            let mut random = Random::new(seed);
            let bytes: Vec<u8> = (0..160).map(|_| random.below(256) as u8).collect();
            if let Some(made) = make(&mut Choices::new(&bytes), false, registry()) {
                let name = |form: &str| form.split('(').next().map(|name| format!(" {name}("));
                missing.retain(|form| !name(form).is_some_and(|name| made.text.contains(&name)));
            }
            if missing.is_empty() {
                return;
            }
        }
        panic!("no program has {missing:?}");
    }
}
