//! The functions that conditions and computed attributes may call: those about types and lists,
//! which serve every dialect, and those that dialects register.

use indexmap::IndexMap;
use ir_core::{
    Attr, AttrData, AttrValue, DType, DTypeKind, Registry, RuleArgument, RuleFunction, Scalar,
    SmallFloat, Symbol, TensorData,
};
use rustc_hash::FxBuildHasher;

/// All functions by name.
pub struct Functions {
    /// Each with whether it may ask whether a value is computed from constants.
    functions: IndexMap<Symbol, (RuleFunction, bool), FxBuildHasher>,
}

impl Functions {
    /// The general functions, and those in `registry`; of two of one name the dialect's wins.
    pub fn new(registry: &Registry) -> Functions {
        let general = GENERAL.iter().map(|f| (f, f.name == "is_weight"));
        let all = general.chain(registry.rule_functions().map(|f| (f, true)));
        Functions { functions: all.map(|(f, asks)| (Symbol::new(f.name), (*f, asks))).collect() }
    }

    /// The function `name`, and whether it may ask whether a value is computed from constants,
    /// which takes a walk to see.
    pub fn get(&self, name: Symbol) -> Option<(&RuleFunction, bool)> {
        self.functions.get(&name).map(|(function, asks)| (function, *asks))
    }

    /// All functions, the general ones first.
    pub fn all(&self) -> impl Iterator<Item = &RuleFunction> {
        self.functions.values().map(|(function, _)| function)
    }
}

/// The functions that serve every dialect.
pub const GENERAL: &[RuleFunction] = &[
    RuleFunction {
        name: "type",
        params: &["x"],
        doc: "The type of a value.",
        eval: |a| Some(Attr::of(&a[0].ty()?)),
    },
    RuleFunction {
        name: "shape",
        params: &["x"],
        doc: "The extents of a tensor, where all are known.",
        eval: |a| Some(Attr::of(&a[0].shape()?)),
    },
    RuleFunction {
        name: "rank",
        params: &["x"],
        doc: "The number of axes of a tensor.",
        eval: |a| Some(Attr::of(&(a[0].ty()?.as_tensor()?.rank() as i64))),
    },
    RuleFunction {
        name: "size",
        params: &["x"],
        doc: "The number of elements of a tensor, where it is known.",
        eval: |a| Some(Attr::of(&a[0].ty()?.as_tensor()?.elements()?)),
    },
    RuleFunction {
        name: "dtype",
        params: &["x"],
        doc: "The element type of a tensor.",
        eval: |a| Some(Attr::of(&a[0].ty()?.as_tensor()?.dtype)),
    },
    RuleFunction {
        name: "is_float",
        params: &["x"],
        doc: "Whether a tensor holds floats, or an element type is one of floats.",
        eval: |a| Some(Attr::of(&element_type(a[0])?.is_float())),
    },
    RuleFunction {
        name: "is_integer",
        params: &["x"],
        doc: "Whether a tensor holds integers, or an element type is one of integers.",
        eval: |a| {
            let dtype = element_type(a[0])?;
            Some(Attr::of(&(dtype.is_integer() && !dtype.is_bool())))
        },
    },
    RuleFunction {
        name: "is_bool",
        params: &["x"],
        doc: "Whether a tensor holds truth values, or an element type is that of them.",
        eval: |a| Some(Attr::of(&element_type(a[0])?.is_bool())),
    },
    RuleFunction {
        name: "is_signed",
        params: &["x"],
        doc: "Whether the elements of a tensor, or of an element type, can be negative.",
        eval: |a| {
            let dtype = element_type(a[0])?;
            Some(Attr::of(&(dtype.is_float() || dtype.is_signed())))
        },
    },
    RuleFunction {
        name: "is_constant",
        params: &["x"],
        doc: "Whether a value is a constant.",
        eval: |a| match a[0] {
            RuleArgument::Value { constant, .. } => Some(Attr::of(&constant.is_some())),
            RuleArgument::Attr(_) => None,
        },
    },
    RuleFunction {
        name: "is_weight",
        params: &["x"],
        doc: "Whether a value is computed from constants alone.",
        eval: |a| match a[0] {
            RuleArgument::Value { weight, .. } => Some(Attr::of(&weight)),
            RuleArgument::Attr(_) => None,
        },
    },
    RuleFunction {
        name: "pays",
        params: &["condition"],
        doc: "The condition itself, which says where a rule is of use rather than where it holds.",
        eval: |a| match a[0] {
            RuleArgument::Attr(condition) => Some(condition),
            RuleArgument::Value { .. } => None,
        },
    },
    RuleFunction {
        name: "splat",
        params: &["x"],
        doc: "The number that all elements of a constant are.",
        eval: |a| match a[0] {
            RuleArgument::Value { constant: Some(constant), .. } => match splat(constant)? {
                Scalar::Int(value) => Some(Attr::of(&value)),
                Scalar::Float(value) => Some(Attr::of(&value)),
            },
            _ => None,
        },
    },
    RuleFunction {
        name: "scalar",
        params: &["number", "dtype"],
        doc: "A scalar tensor, for the attribute `value` of a constant.",
        eval: |a| {
            let number = match a[0].attr::<Attr>()?.data() {
                AttrData::Int(value) => Scalar::Int(*value),
                AttrData::Float(value) => Scalar::Float(value.0),
                _ => return None,
            };
            Some(Attr::of(&TensorData::scalar(a[1].attr()?, number)))
        },
    },
    RuleFunction {
        name: "tensor",
        params: &["list", "dtype"],
        doc: "A tensor with one axis that holds integers, for the attribute `value` of a constant.",
        eval: |a| {
            let items = a[0].attr::<Vec<i64>>()?;
            let tensor = TensorData::from_i64(a[1].attr()?, &[items.len() as i64], &items);
            Some(Attr::of(&tensor.ok()?))
        },
    },
    RuleFunction {
        name: "has_zero",
        params: &["x"],
        doc: "Whether a value is a constant with a zero among its elements.",
        eval: |a| has(a[0], |tensor| tensor.elements().any(|element| element.as_f64() == 0.0)),
    },
    RuleFunction {
        name: "has_extremes",
        params: &["x"],
        doc: "Whether a value is a constant, of at most 1 MiB, with floats so far from 1 that a \
              product of three such numbers is none of its type.",
        eval: |a| {
            has(a[0], |tensor| {
                let is_small = tensor.bytes().len() <= MAX_BYTES;
                is_small && tensor.dtype().is_float() && !is_moderate(tensor)
            })
        },
    },
    RuleFunction {
        name: "length",
        params: &["list"],
        doc: "The number of items of a list.",
        eval: |a| Some(Attr::of(&(list(a[0])?.len() as i64))),
    },
    RuleFunction {
        name: "range",
        params: &["n"],
        doc: "`[0, 1, …, n - 1]`.",
        eval: |a| {
            Some(Attr::of(&(0..a[0].attr::<i64>().filter(|n| *n <= 64)?).collect::<Vec<_>>()))
        },
    },
    RuleFunction {
        name: "permutation",
        params: &["axes", "rank"],
        doc: "The axes of a transpose, counted from the front; `None` is all in reverse.",
        eval: |a| {
            let rank = a[1].attr::<i64>()?;
            let axes = match a[0].attr::<Attr>()?.data() {
                AttrData::None => (0..rank).rev().collect(),
                _ => axes(a[0])?.into_iter().map(|axis| axis as i64).collect::<Vec<_>>(),
            };
            (axes.len() as i64 == rank).then(|| Attr::of(&axes))
        },
    },
    RuleFunction {
        name: "compose",
        params: &["p", "q"],
        doc: "`[p[q[0]], p[q[1]], …]`: the axes of a transpose by `p` and then by `q`.",
        eval: |a| {
            let (p, q) = (axes(a[0])?, axes(a[1])?);
            let composed = q.iter().map(|axis| p.get(*axis).map(|axis| *axis as i64));
            (p.len() == q.len()).then_some(())?;
            Some(Attr::of(&composed.collect::<Option<Vec<_>>>()?))
        },
    },
    RuleFunction {
        name: "inverse",
        params: &["p"],
        doc: "The axes of the transpose that undoes one by `p`.",
        eval: |a| {
            let p = axes(a[0])?;
            let mut inverse = vec![-1; p.len()];
            p.iter().enumerate().for_each(|(index, axis)| inverse[*axis] = index as i64);
            (!inverse.contains(&-1)).then(|| Attr::of(&inverse))
        },
    },
    RuleFunction {
        name: "axis",
        params: &["axis", "rank"],
        doc: "An axis counted from the front.",
        eval: |a| {
            let (axis, rank) = (a[0].attr::<i64>()?, a[1].attr::<i64>()?);
            let axis = if axis < 0 { axis.checked_add(rank)? } else { axis };
            (0..rank).contains(&axis).then(|| Attr::of(&axis))
        },
    },
    RuleFunction {
        name: "take",
        params: &["list", "n"],
        doc: "The first `n` items of a list.",
        eval: |a| Some(array(list(a[0])?.get(..a[1].attr::<i64>()?.try_into().ok()?)?)),
    },
    RuleFunction {
        name: "drop",
        params: &["list", "n"],
        doc: "A list without its first `n` items.",
        eval: |a| Some(array(list(a[0])?.get(a[1].attr::<i64>()?.try_into().ok()?..)?)),
    },
    RuleFunction {
        name: "replace",
        params: &["list", "index", "item"],
        doc: "A list with one item replaced.",
        eval: |a| {
            let mut items = list(a[0])?;
            let index: usize = a[1].attr::<i64>()?.try_into().ok()?;
            *items.get_mut(index)? = a[2].attr()?;
            Some(array(&items))
        },
    },
    RuleFunction {
        name: "fill",
        params: &["n", "item"],
        doc: "A list of `n` equal items, at most 64.",
        eval: |a| {
            let n: usize = a[0].attr::<i64>()?.try_into().ok()?;
            (n <= 64).then_some(())?;
            Some(array(&vec![a[1].attr::<Attr>()?; n]))
        },
    },
    RuleFunction {
        name: "product",
        params: &["list"],
        doc: "The product of a list of integers.",
        eval: |a| {
            let items = a[0].attr::<Vec<i64>>()?;
            Some(Attr::of(&items.iter().try_fold(1i64, |all, item| all.checked_mul(*item))?))
        },
    },
    RuleFunction {
        name: "sum",
        params: &["list"],
        doc: "The sum of a list of integers.",
        eval: |a| {
            let items = a[0].attr::<Vec<i64>>()?;
            Some(Attr::of(&items.iter().try_fold(0i64, |all, item| all.checked_add(*item))?))
        },
    },
    RuleFunction {
        name: "starts",
        params: &["list"],
        doc: "Where each part but the first begins, for parts of these lengths one after another.",
        eval: |a| {
            let items = a[0].attr::<Vec<i64>>()?;
            let (_, parts) = items.split_last()?;
            let ends = parts.iter().scan(0i64, |end, part| {
                *end = end.checked_add(*part)?;
                Some(*end)
            });
            let ends: Vec<i64> = ends.collect();
            (ends.len() == parts.len()).then(|| Attr::of(&ends))
        },
    },
    RuleFunction {
        name: "insert",
        params: &["list", "index", "item"],
        doc: "A list with one more item at a place.",
        eval: |a| {
            let mut items = list(a[0])?;
            let index: usize = a[1].attr::<i64>()?.try_into().ok()?;
            (index <= items.len()).then_some(())?;
            items.insert(index, a[2].attr()?);
            Some(array(&items))
        },
    },
    RuleFunction {
        name: "remove",
        params: &["list", "index"],
        doc: "A list without one of its items.",
        eval: |a| {
            let mut items = list(a[0])?;
            let index: usize = a[1].attr::<i64>()?.try_into().ok()?;
            (index < items.len()).then(|| items.remove(index))?;
            Some(array(&items))
        },
    },
    RuleFunction {
        name: "position",
        params: &["list", "item"],
        doc: "Where an item stands in a list; it has no value where it does not.",
        eval: |a| {
            let item = a[1].attr::<Attr>()?;
            let found = list(a[0])?.iter().position(|other| *other == item)?;
            Some(Attr::of(&(found as i64)))
        },
    },
    RuleFunction {
        name: "select",
        params: &["list", "indices"],
        doc: "`[list[indices[0]], list[indices[1]], …]`.",
        eval: |a| {
            let (items, indices) = (list(a[0])?, a[1].attr::<Vec<i64>>()?);
            let items =
                indices.iter().map(|index| items.get(usize::try_from(*index).ok()?).copied());
            Some(array(&items.collect::<Option<Vec<_>>>()?))
        },
    },
    RuleFunction {
        name: "axes",
        params: &["axis", "rank"],
        doc: "Axes that are given as one, as a list or as `None` for all: counted from the front, in order, each once.",
        eval: |a| {
            let rank = a[1].attr::<i64>()?;
            let given = match a[0].attr::<Attr>()?.data() {
                AttrData::None => (0..rank).collect(),
                AttrData::Int(axis) => vec![*axis],
                AttrData::Array(items) if items.is_empty() => (0..rank).collect(),
                _ => a[0].attr::<Vec<i64>>()?,
            };
            let front = given.iter().map(|axis| if *axis < 0 { axis + rank } else { *axis });
            let mut front: Vec<i64> = front.collect();
            front.sort_unstable();
            front.dedup();
            front.iter().all(|axis| (0..rank).contains(axis)).then(|| Attr::of(&front))
        },
    },
    RuleFunction {
        name: "preserves",
        params: &["from", "to"],
        doc: "Whether every value of one element type is one of another.",
        eval: |a| {
            let (from, to) = (a[0].attr::<DType>()?, a[1].attr::<DType>()?);
            Some(Attr::of(&preserves(from, to)))
        },
    },
    RuleFunction {
        name: "least",
        params: &["dtype"],
        doc: "The least number of an element type; minus infinity for floats.",
        eval: |a| {
            let dtype = a[0].attr::<DType>()?;
            Some(Attr::of(&if dtype.is_float() { f64::NEG_INFINITY } else { range(dtype).0 }))
        },
    },
    RuleFunction {
        name: "greatest",
        params: &["dtype"],
        doc: "The greatest number of an element type; infinity for floats.",
        eval: |a| {
            let dtype = a[0].attr::<DType>()?;
            Some(Attr::of(&if dtype.is_float() { f64::INFINITY } else { range(dtype).1 }))
        },
    },
    RuleFunction {
        name: "least_finite",
        params: &["dtype"],
        doc: "The least number of an element type, infinities aside.",
        eval: |a| Some(Attr::of(&range(a[0].attr()?).0)),
    },
    RuleFunction {
        name: "sqrt",
        params: &["number"],
        doc: "The square root of a number.",
        eval: |a| Some(Attr::of(&f64::from_attr(a[0].attr::<Attr>()?)?.sqrt())),
    },
    RuleFunction {
        name: "min",
        params: &["a", "b"],
        doc: "The smaller of two numbers.",
        eval: |a| number(a, |a, b| a < b),
    },
    RuleFunction {
        name: "max",
        params: &["a", "b"],
        doc: "The larger of two numbers.",
        eval: |a| number(a, |a, b| a > b),
    },
];

/// Larger constants are weights; to look at them again and again would cost more than it gives.
const MAX_BYTES: usize = 1 << 20;

/// Whether an argument is a constant of which `property` holds.
fn has(argument: RuleArgument, property: impl Fn(&TensorData) -> bool) -> Option<Attr> {
    let RuleArgument::Value { constant, .. } = argument else { return None };
    let holds = match constant.map(|constant| constant.data()) {
        Some(AttrData::Tensor(tensor)) => property(tensor),
        _ => false,
    };
    Some(Attr::of(&holds))
}

/// Whether the product of any three elements of `tensor` is a normal number of its type, or 0.
pub fn is_moderate(tensor: &TensorData) -> bool {
    let reach = range(tensor.dtype()).1.cbrt();
    let mut magnitudes = tensor.elements().map(|element| element.as_f64().abs());
    magnitudes.all(|number| number == 0.0 || (1.0 / reach..=reach).contains(&number))
}

/// The number that all elements of a constant are.
pub(crate) fn splat(constant: Attr) -> Option<Scalar> {
    let AttrData::Tensor(tensor) = constant.data() else { return None };
    let (first, bytes) = (tensor.elements().next()?, tensor.bytes());
    let size = bytes.len() / tensor.elements().len();
    // All are equal where each is equal to the one before it. A NaN is equal to nothing.
    let equal = bytes.len() <= MAX_BYTES && bytes[size..] == bytes[..bytes.len() - size];
    (equal && !first.as_f64().is_nan()).then_some(first)
}

fn element_type(argument: RuleArgument) -> Option<DType> {
    argument.attr().or_else(|| Some(argument.ty()?.as_tensor()?.dtype))
}

/// Bits of an integer that a type holds exactly, without the sign.
fn precision(dtype: DType) -> u32 {
    match (dtype.kind(), dtype.bits()) {
        (DTypeKind::BFloat, _) => 8,
        (DTypeKind::Small(_), _) => dtype.float_format().1 as u32 + 1,
        (DTypeKind::Float, 16) => 11,
        (DTypeKind::Float, 32) => 24,
        (DTypeKind::Float, _) => 53,
        (_, bits) => bits - u32::from(dtype.is_signed()),
    }
}

/// Whether every value of `from` is one of `to`.
fn preserves(from: DType, to: DType) -> bool {
    if from == to {
        return true;
    }
    match (from.is_float(), to.is_float()) {
        (true, false) => false,
        // Exponents: bfloat16 has that of float32, float16 a smaller one than all others.
        (true, true) => match (from.kind(), to.kind()) {
            (DTypeKind::Small(a), DTypeKind::Small(b)) => a == b,
            // Every one of at most eight bits is a bfloat16, but not every one a float16.
            (DTypeKind::Small(_), to_kind) => to_kind == DTypeKind::BFloat || to.bits() >= 32,
            (_, DTypeKind::Small(_)) => false,
            (DTypeKind::BFloat, _) => to.bits() >= 32,
            (_, DTypeKind::BFloat) => false,
            _ => from.bits() <= to.bits(),
        },
        // That of exponents alone has no zero.
        (false, true) => {
            precision(from) <= precision(to) && to.as_small_float() != Some(SmallFloat::E8M0FNU)
        }
        (false, false) => precision(from) <= precision(to) && (!from.is_signed() || to.is_signed()),
    }
}

/// The least and the greatest finite number of an element type.
fn range(dtype: DType) -> (f64, f64) {
    let greatest = match (dtype.kind(), dtype.bits()) {
        (DTypeKind::BFloat, _) => 3.389_531_389_251_535_5e38,
        (DTypeKind::Small(format), _) => format.max(),
        (DTypeKind::Float, 16) => 65504.0,
        (DTypeKind::Float, 32) => f64::from(f32::MAX),
        (DTypeKind::Float, _) => f64::MAX,
        _ => 2f64.powi(precision(dtype) as i32) - 1.0,
    };
    match dtype.kind() {
        DTypeKind::UInt => (0.0, greatest),
        DTypeKind::Int => (-greatest - 1.0, greatest),
        DTypeKind::Float | DTypeKind::BFloat | DTypeKind::Small(_) => (-greatest, greatest),
    }
}

fn list(argument: RuleArgument) -> Option<Vec<Attr>> {
    argument.attr()
}

fn array(items: &[Attr]) -> Attr {
    Attr::new(AttrData::Array(items.into()))
}

/// A permutation of axes, all counted from the front.
fn axes(argument: RuleArgument) -> Option<Vec<usize>> {
    let axes = argument.attr::<Vec<i64>>()?;
    let rank = axes.len() as i64;
    let front = axes.iter().map(|axis| if *axis < 0 { *axis + rank } else { *axis });
    front.map(|axis| usize::try_from(axis).ok().filter(|axis| *axis < axes.len())).collect()
}

fn number(arguments: &[RuleArgument], better: fn(f64, f64) -> bool) -> Option<Attr> {
    let (a, b) = (arguments[0].attr::<Attr>()?, arguments[1].attr::<Attr>()?);
    Some(if better(f64::from_attr(b)?, f64::from_attr(a)?) { b } else { a })
}
