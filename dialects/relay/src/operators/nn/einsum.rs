//! Sums of products by Einstein's notation.

use ir_core::infer::tuple;
use ir_core::{DType, Dim, InferCx, Op, Registry, Stop, TensorData, Type, ValueId};

use te::compute::Combiner;

use super::numeric::{Number, dispatch, result_type};
use super::relation::require;
use crate::define::{Define, DefineCx, Defined, Operand};
use crate::interpreter::{EvalCx, EvalError, Evaluate, Value};
use crate::operators::FusionPattern;

/// A sum of products, written with a letter per axis: `ij,jk->ik` is a matrix product.
///
/// The operand is a tuple of as many tensors as there are lists of letters before the arrow. Axes
/// with the same letter have the same extent; the sum runs over the letters that are not after
/// the arrow. Without an arrow the result has the letters that occur once, in alphabetical order.
/// The result has the element type of the first tensor. Relay operator level 11.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.einsum",
    infer = einsum_relation,
    hooks(FusionPattern::Injective, Evaluate(evaluate_einsum), Define(define_einsum))
)]
pub struct Einsum<V = ValueId> {
    /// The tensors, a tuple.
    pub data: V,
    /// The letters.
    pub equation: String,
}

/// The letters of every operand and of the result.
struct Equation {
    operands: Vec<Vec<char>>,
    result: Vec<char>,
}

impl Equation {
    fn parse(text: &str) -> Result<Equation, String> {
        let wrong =
            |what: &str| format!("expected an equation such as ij,jk->ik, found `{text}`: {what}");
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (operands, result) = match compact.split_once("->") {
            Some((operands, result)) => (operands, Some(result.chars().collect::<Vec<_>>())),
            None => (compact.as_str(), None),
        };
        let operands: Vec<Vec<char>> =
            operands.split(',').map(|letters| letters.chars().collect()).collect();
        let mut all: Vec<char> = operands.iter().flatten().copied().collect();
        if all.iter().chain(result.iter().flatten()).any(|c| !c.is_ascii_alphabetic()) {
            return Err(wrong("axes are letters"));
        }
        all.sort_unstable();
        let count = |letter: char| all.iter().filter(|&&c| c == letter).count();
        let result = match result {
            Some(result) => result,
            None => all.iter().copied().filter(|&letter| count(letter) == 1).collect(),
        };
        for (i, &letter) in result.iter().enumerate() {
            if count(letter) == 0 {
                return Err(wrong(&format!("no operand has the axis {letter}")));
            }
            if result[..i].contains(&letter) {
                return Err(wrong(&format!("the result has the axis {letter} twice")));
            }
        }
        Ok(Equation { operands, result })
    }

    /// The letters of the result, then those that are summed over.
    fn letters(&self) -> Vec<char> {
        let mut letters = self.result.clone();
        for &letter in self.operands.iter().flatten() {
            if !letters.contains(&letter) {
                letters.push(letter);
            }
        }
        letters
    }
}

fn einsum_relation(op: Einsum<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let equation = Equation::parse(&op.equation).map_err(Stop::Error)?;
    let fields = tuple(op.data)?;
    if fields.len() != equation.operands.len() {
        return Err(Stop::Error(format!(
            "expected {} tensors for `{}`, found {}",
            equation.operands.len(),
            op.equation,
            fields.len()
        )));
    }
    let mut extents: Vec<(char, Dim)> = Vec::new();
    let mut dtype: Option<DType> = None;
    for (letters, &field) in equation.operands.iter().zip(fields) {
        let tensor = ir_core::infer::tensor(field)?;
        let expected = *dtype.get_or_insert(tensor.dtype);
        if expected != tensor.dtype {
            return Err(Stop::Error(format!("expected {expected}, found {}", tensor.dtype)));
        }
        if tensor.rank() != letters.len() {
            return Err(Stop::Error(format!(
                "expected a tensor of rank {}, found rank {}",
                letters.len(),
                tensor.rank()
            )));
        }
        for (&letter, &dim) in letters.iter().zip(&tensor.shape) {
            match extents.iter_mut().find(|(known, _)| *known == letter) {
                None => extents.push((letter, dim)),
                Some((_, known)) => {
                    require(cx, &format!("extent of axis {letter}"), *known, dim)?;
                    if *known == Dim::Any {
                        *known = dim;
                    }
                }
            }
        }
    }
    let extent = |letter: &char| extents.iter().find(|(known, _)| known == letter).map(|e| e.1);
    let shape: Vec<Dim> = equation.result.iter().filter_map(extent).collect();
    let Some(dtype) = dtype else { return Err(Stop::error("expected at least one tensor")) };
    Ok(Type::tensor(shape, dtype))
}

fn evaluate_einsum(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Einsum<Value>>()?;
    let ty = result_type::<Einsum>(cx)?;
    let Some((shape, dtype)) = ty.as_tensor().and_then(|t| Some((t.known_shape()?, t.dtype)))
    else {
        return Err(EvalError::new("expected tensors of known shape"));
    };
    let fields = op.data.as_tuple().unwrap_or_default();
    let tensors: Option<Vec<&TensorData>> = fields.iter().map(Value::as_tensor).collect();
    let Some(tensors) = tensors else { return Err(EvalError::new("expected tensors")) };
    let equation = Equation::parse(&op.equation)?;
    dispatch!(dtype, run(&equation, &tensors, &shape, dtype))
}

fn define_einsum(cx: &mut DefineCx<'_>) -> Defined {
    let equation = Equation::parse(&cx.fields::<Einsum<Operand>>()?.equation)?;
    let (tensors, letters) = (cx.tensors(0)?, equation.letters());
    let extent = |letter: &char| {
        let operands = equation.operands.iter().zip(&tensors);
        let mut axes = operands.flat_map(|(axes, tensor)| axes.iter().zip(&tensor.shape));
        axes.find(|(axis, _)| *axis == letter).map_or(1, |(_, extent)| *extent)
    };
    let extents: Vec<i64> = letters[equation.result.len()..].iter().map(extent).collect();
    cx.reduce(&extents, Combiner::Sum, |e, i, r| {
        let indices: Vec<ValueId> = i.iter().chain(r).copied().collect();
        let mut product = None;
        for (axes, tensor) in equation.operands.iter().zip(&tensors) {
            let places = axes.iter().filter_map(|axis| letters.iter().position(|l| l == axis));
            let at: Vec<ValueId> = places.map(|place| indices[place]).collect();
            let factor = e.load(tensor, &at);
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
    let letters = equation.letters();
    let position = |letter: &char| letters.iter().position(|l| l == letter);
    let mut extents = vec![0usize; letters.len()];
    // Per operand, the distance of neighbours along every letter.
    let mut strides = vec![vec![0usize; letters.len()]; tensors.len()];
    for ((tensor, axes), strides) in tensors.iter().zip(&equation.operands).zip(&mut strides) {
        let mut stride = 1;
        for (letter, &extent) in axes.iter().zip(tensor.shape()).rev() {
            if let Some(letter) = position(letter) {
                extents[letter] = extent as usize;
                strides[letter] += stride;
            }
            stride *= extent as usize;
        }
    }
    let elements: Vec<Vec<T>> = tensors.iter().map(|tensor| T::read(tensor)).collect();
    let summed: usize = extents[equation.result.len()..].iter().product();
    let mut out = vec![T::ZERO; shape.iter().product::<i64>() as usize];
    let mut index = vec![0usize; letters.len()];
    let mut places = vec![0usize; tensors.len()];
    for out in &mut out {
        for _ in 0..summed {
            let factors = elements.iter().zip(&places).map(|(elements, &place)| elements[place]);
            *out = out.plus(factors.fold(T::of(1.0), T::times));
            for letter in (0..letters.len()).rev() {
                index[letter] += 1;
                let wraps = index[letter] == extents[letter];
                for (place, strides) in places.iter_mut().zip(&strides) {
                    match wraps {
                        true => *place -= strides[letter] * (extents[letter] - 1),
                        false => *place += strides[letter],
                    }
                }
                if !wraps {
                    break;
                }
                index[letter] = 0;
            }
        }
    }
    T::write(dtype, shape, &out)
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<Einsum>();
}
