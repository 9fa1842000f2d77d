//! Sums of products by Einstein's notation.

use std::fmt;

use ir_core::infer::tuple;
use ir_core::{
    DType, Dim, InferCx, Op, Registry, Stop, TensorData, TensorType, Type, ValueId, Work,
};
use relay::define::{Define, DefineCx, Defined, Operand, sums_of};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::Combiner;

use super::numeric::{Number, dispatch, result_shape, size};
use super::relation::require;
use crate::{FusionPattern, elements, multiply_adds, relation};

/// A sum of products, written with a letter per axis: `ij,jk->ik` is a matrix product.
///
/// The operand is a tuple of as many tensors as there are lists of letters before the arrow. Axes
/// with the same letter have the same extent; the sum runs over the letters that are not after
/// the arrow. In `...ij,...jk->...ik` the dots are all axes without a letter: aligned at the last
/// of them, they broadcast. Without an arrow the result has the axes of the dots, then the letters
/// that occur once, in alphabetical order. The result has the element type of the first tensor.
/// Relay operator level 11.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.einsum",
    infer = einsum_relation,
    hooks(
        FusionPattern::Injective,
        Work(multiply_adds::<Einsum>),
        Evaluate(evaluate_einsum),
        Define(define_einsum)
    )
)]
pub struct Einsum<V = ValueId> {
    /// The tensors, a tuple.
    pub data: V,
    /// The letters and dots.
    pub equation: String,
}

/// What an axis is called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Axis {
    /// Under the dots, with so many axes to the right of it there.
    Dots(usize),
    Letter(char),
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Axis::Dots(_) => f.write_str("..."),
            Axis::Letter(letter) => write!(f, "{letter}"),
        }
    }
}

/// The axes of every operand and of the result.
struct Equation {
    operands: Vec<Vec<Axis>>,
    result: Vec<Axis>,
}

impl Equation {
    /// Reads an equation between tensors of `ranks`.
    fn parse(text: &str, ranks: &[usize]) -> Result<Equation, String> {
        let wrong =
            |what: &str| format!("expected an equation such as ij,jk->ik, found `{text}`: {what}");
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (operands, result) = match compact.split_once("->") {
            Some((operands, result)) => (operands, Some(result)),
            None => (compact.as_str(), None),
        };
        let lists: Vec<&str> = operands.split(',').collect();
        if lists.len() != ranks.len() {
            return Err(format!(
                "expected {} tensors for `{text}`, found {}",
                lists.len(),
                ranks.len()
            ));
        }
        // The axes of a list in which the dots stand for so many.
        let axes = |list: &str, dots: usize| {
            let (before, after) = list.split_once("...").unwrap_or((list, ""));
            let letters = before.chars().chain(after.chars());
            if letters.clone().any(|c| !c.is_ascii_alphabetic()) {
                return Err(wrong("axes are letters, or three dots for several"));
            }
            let mut axes: Vec<Axis> = letters.map(Axis::Letter).collect();
            let place = before.chars().count();
            axes.splice(place..place, (0..dots).rev().map(Axis::Dots));
            Ok(axes)
        };
        let mut operands: Vec<Vec<Axis>> = Vec::with_capacity(lists.len());
        let mut most_dots = 0;
        for (list, &rank) in lists.iter().zip(ranks) {
            let letters = axes(list, 0)?.len();
            let dots = match (rank.checked_sub(letters), list.contains("...")) {
                (Some(0), false) => 0,
                (Some(dots), true) => dots,
                (_, has_dots) => {
                    let more = if has_dots { " or more" } else { "" };
                    return Err(format!("expected a tensor of rank {letters}{more}, found {rank}"));
                }
            };
            most_dots = most_dots.max(dots);
            operands.push(axes(list, dots)?);
        }
        let mut all: Vec<Axis> = operands.iter().flatten().copied().collect();
        all.sort_unstable();
        let count = |axis: Axis| all.iter().filter(|&&a| a == axis).count();
        let result = match result {
            Some(list) if most_dots > 0 && !list.contains("...") => {
                return Err(wrong("the axes under the dots are not in the result"));
            }
            Some(list) => axes(list, if list.contains("...") { most_dots } else { 0 })?,
            None => {
                let once = |axis: &Axis| matches!(axis, Axis::Letter(_)) && count(*axis) == 1;
                let dots = (0..most_dots).rev().map(Axis::Dots);
                dots.chain(all.iter().copied().filter(once)).collect()
            }
        };
        for (i, &axis) in result.iter().enumerate() {
            if count(axis) == 0 {
                return Err(wrong(&format!("no operand has the axis {axis}")));
            }
            if result[..i].contains(&axis) {
                return Err(wrong(&format!("the result has the axis {axis} twice")));
            }
        }
        Ok(Equation { operands, result })
    }

    /// The axes of the result, then those that are summed over.
    fn axes(&self) -> Vec<Axis> {
        let mut axes = self.result.clone();
        for &axis in self.operands.iter().flatten() {
            if !axes.contains(&axis) {
                axes.push(axis);
            }
        }
        axes
    }
}

fn einsum_relation(op: Einsum<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let tensors = tuple(op.data)?.iter().map(|&field| ir_core::infer::tensor(field));
    let tensors: Vec<&TensorType> = tensors.collect::<Result<_, _>>()?;
    let ranks: Vec<usize> = tensors.iter().map(|tensor| tensor.rank()).collect();
    let equation = Equation::parse(&op.equation, &ranks)?;
    let Some(&first) = tensors.first() else {
        return Err(Stop::error("expected at least one tensor"));
    };
    let mut extents: Vec<(Axis, Dim)> = Vec::new();
    for (axes, tensor) in equation.operands.iter().zip(&tensors) {
        if first.dtype != tensor.dtype {
            return Err(Stop::Error(format!("expected {}, found {}", first.dtype, tensor.dtype)));
        }
        for (&axis, &dim) in axes.iter().zip(&tensor.shape) {
            match (axis, extents.iter_mut().find(|(known, _)| *known == axis)) {
                (_, None) => extents.push((axis, dim)),
                (Axis::Dots(_), Some((_, known))) => {
                    *known = relation::broadcast_dims(cx, &[*known], &[dim])?[0];
                }
                (Axis::Letter(_), Some((_, known))) => {
                    require(cx, &format!("extent of axis {axis}"), *known, dim)?;
                    if *known == Dim::Any {
                        *known = dim;
                    }
                }
            }
        }
    }
    let extent = |axis: &Axis| extents.iter().find(|(known, _)| known == axis).map(|e| e.1);
    let shape: Vec<Dim> = equation.result.iter().filter_map(extent).collect();
    Ok(Type::tensor(shape, first.dtype))
}

fn evaluate_einsum(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Einsum<Value>>()?;
    let (shape, dtype) = result_shape::<Einsum>(cx)?;
    let tensors = elements::tensors(&op.data)?;
    let ranks: Vec<usize> = tensors.iter().map(|tensor| tensor.rank()).collect();
    let equation = Equation::parse(&op.equation, &ranks)?;
    dispatch!(dtype, run(&equation, &tensors, &shape, dtype))
}

fn define_einsum(cx: &mut DefineCx<'_>) -> Defined {
    let (op, tensors) = (cx.fields::<Einsum<Operand>>()?, cx.tensors(0)?);
    let ranks: Vec<usize> = tensors.iter().map(|tensor| tensor.shape.len()).collect();
    let equation = Equation::parse(&op.equation, &ranks)?;
    let axes = equation.axes();
    let extent = |axis: &Axis| {
        let operands = equation.operands.iter().zip(&tensors);
        let extents = operands.flat_map(|(axes, tensor)| axes.iter().zip(&tensor.shape));
        // An extent of 1 broadcasts.
        extents
            .filter(|(own, _)| *own == axis)
            .map(|(_, extent)| *extent)
            .fold(1, |a, b| if a == 1 { b } else { a })
    };
    let extents: Vec<i64> = axes[equation.result.len()..].iter().map(extent).collect();
    cx.reduce(&extents, Combiner::Sum, |e, i, r| {
        let indices: Vec<ValueId> = i.iter().chain(r).copied().collect();
        let mut product = None;
        for (own, tensor) in equation.operands.iter().zip(&tensors) {
            let mut at = Vec::with_capacity(own.len());
            for (axis, &extent) in own.iter().zip(&tensor.shape) {
                let place = axes.iter().position(|other| other == axis);
                at.push(match place.filter(|_| extent != 1) {
                    Some(place) => indices[place],
                    None => e.index(0),
                });
            }
            let factor = e.load(tensor, &at);
            let factor = e.cast(factor, sums_of(tensor.dtype));
            product = Some(product.map_or(factor, |product| e.mul(product, factor)));
        }
        product.unwrap_or_else(|| e.index(1))
    })
}

fn run<T: Number>(
    equation: &Equation,
    tensors: &[&TensorData],
    shape: &[i64],
    dtype: DType,
) -> Result<Value, EvalError> {
    let names = equation.axes();
    let position = |axis: &Axis| names.iter().position(|name| name == axis);
    let mut extents: Vec<usize> = shape.iter().map(|&extent| extent as usize).collect();
    extents.resize(names.len(), 0);
    // Per operand, the distance of neighbours along every axis.
    let mut strides = vec![vec![0usize; names.len()]; tensors.len()];
    for ((tensor, axes), strides) in tensors.iter().zip(&equation.operands).zip(&mut strides) {
        let mut stride = 1;
        for (axis, &extent) in axes.iter().zip(tensor.shape()).rev() {
            let extent = extent as usize;
            if let Some(position) = position(axis) {
                if position >= shape.len() {
                    extents[position] = extent;
                }
                // An extent of 1 broadcasts.
                if extent == extents[position] {
                    strides[position] += stride;
                }
            }
            stride *= extent;
        }
    }
    let elements: Vec<Vec<T>> = tensors.iter().map(|tensor| T::read(tensor)).collect();
    let summed: usize = extents[shape.len()..].iter().product();
    let mut out = vec![T::ZERO; size(shape)];
    let mut index = vec![0usize; names.len()];
    let mut places = vec![0usize; tensors.len()];
    for out in &mut out {
        for _ in 0..summed {
            let factors = elements.iter().zip(&places).map(|(elements, &place)| elements[place]);
            *out = out.plus(factors.fold(T::of(1.0), T::times));
            for axis in (0..names.len()).rev() {
                index[axis] += 1;
                let wraps = index[axis] == extents[axis];
                for (place, strides) in places.iter_mut().zip(&strides) {
                    match wraps {
                        true => *place -= strides[axis] * (extents[axis] - 1),
                        false => *place += strides[axis],
                    }
                }
                if !wraps {
                    break;
                }
                index[axis] = 0;
            }
        }
    }
    T::write(dtype, shape, &out)
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<Einsum>();
}
