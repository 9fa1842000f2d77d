//! What operators do with many examples at once: the hook through which an operator says so, and what is known of
//! the others.

pub mod operator;
mod rules;

use ir_core::{AttrDict, Dim, InferCx, OpFields, Registry, Symbol, Type, TypeData, ValueId};
use relay::define::{Define, define_alone, tensor_types};
use te::batch::by_rows;

pub use operator::Batched;
pub(crate) use rules::{JOINED, REDUCED, SLICED, along, behind, broadcast};

use crate::gradient::{Emit, Term};
use crate::{LayoutRule, ReshapeOnly};

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<Batched>();
}

/// How an operator does for many examples what it does for one: operands that differ between examples have a
/// leading axis of as many, and so has the result.
///
/// Attach it with `hooks(Batch(|at| …))`. A rule gives the result, or nothing where it has no case for these
/// operands or attributes. It is needed only where something is faster than what [`batch`] finds on its own.
#[derive(Clone, Copy)]
pub struct Batch(pub for<'p> fn(&Examples<'p>) -> Option<Term<'p>>);

/// What [`Examples::new`] is told of an operation.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Its full name.
    pub name: Symbol,
    /// Its operands, with the leading axis where they are among `over`.
    pub operands: Vec<(ValueId, Type)>,
    /// Which operands have the leading axis, as all tensors of a tuple do; at least one.
    pub over: Vec<bool>,
    /// The type of its result for one example.
    pub result: Type,
    /// Its attributes.
    pub attrs: AttrDict,
    /// The number of examples.
    pub extent: i64,
}

/// An application of an operator to many examples.
pub struct Examples<'p> {
    emit: &'p dyn Emit,
    applied: Applied,
}

// Recursion is bounded by the nesting of types.
/// `ty` for `extent` examples: tensors, and those of tuples, with a leading axis. `None` for other types.
pub fn lead(ty: Type, extent: i64) -> Option<Type> {
    match ty.data() {
        TypeData::Tensor(tensor) => {
            let shape = std::iter::once(Dim::Known(extent)).chain(tensor.shape.iter().copied());
            Some(Type::tensor(shape, tensor.dtype))
        }
        TypeData::Tuple(fields) => {
            let fields = fields.iter().map(|field| lead(*field, extent));
            Some(Type::tuple(fields.collect::<Option<Vec<Type>>>()?))
        }
        _ => None,
    }
}

// Recursion is bounded by the nesting of types.
/// `ty` without the leading axis of its tensors. `None` where one has none, and for other types.
pub fn example(ty: Type) -> Option<Type> {
    match ty.data() {
        TypeData::Tensor(tensor) => {
            let (_, shape) = tensor.shape.split_first()?;
            Some(Type::tensor(shape.iter().copied(), tensor.dtype))
        }
        TypeData::Tuple(fields) => {
            let fields = fields.iter().map(|field| example(*field));
            Some(Type::tuple(fields.collect::<Option<Vec<Type>>>()?))
        }
        _ => None,
    }
}

impl<'p> Examples<'p> {
    /// The operation `applied`, whose rule writes with `emit`.
    pub fn new(emit: &'p dyn Emit, applied: Applied) -> Examples<'p> {
        Examples { emit, applied }
    }

    /// The number of examples.
    pub fn extent(&self) -> i64 {
        self.applied.extent
    }

    /// Operand `index`, with the leading axis where it is [over](Examples::over) examples.
    pub fn operand(&self, index: usize) -> Term<'p> {
        let (value, ty) = self.applied.operands[index];
        Term::value(self.emit, value, ty)
    }

    /// Whether operand `index` differs between examples.
    pub fn over(&self, index: usize) -> bool {
        self.applied.over[index]
    }

    /// Whether of all operands the first one alone differs between examples.
    pub fn over_first(&self) -> bool {
        self.over(0) && !self.applied.over[1..].contains(&true)
    }

    /// The number of axes that operand `index`, a tensor, has for one example.
    pub fn rank(&self, index: usize) -> usize {
        self.operand(index).rank() - usize::from(self.over(index))
    }

    /// Operand `index` with the leading axis, of extent 1 where all examples share it.
    pub fn led(&self, index: usize) -> Term<'p> {
        let operand = self.operand(index);
        match self.over(index) {
            true => operand,
            false => operand.reshape(&[vec![1], operand.shape()].concat()),
        }
    }

    /// The type of the result for one example.
    pub fn result(&self) -> Type {
        self.applied.result
    }

    /// The attributes.
    pub fn attrs(&self) -> AttrDict {
        self.applied.attrs
    }

    /// The declared fields of the operator, its operands as terms; `None` where they are of another operator.
    pub fn fields<T: OpFields<Term<'p>>>(&self) -> Option<T> {
        let operands: Vec<Term<'p>> =
            (0..self.applied.operands.len()).map(|index| self.operand(index)).collect();
        T::decode(&operands, self.applied.attrs).ok()
    }

    /// Emits an operation.
    pub fn build<T: OpFields<ValueId>>(&self, op: &T) -> Term<'p> {
        Term::build(self.emit, op)
    }

    /// Emits the same operator on other operands, with other attributes.
    pub fn again(&self, operands: &[Term<'p>], attrs: AttrDict) -> Term<'p> {
        let operands: Vec<ValueId> = operands.iter().map(|operand| operand.id()).collect();
        let (value, ty) = self.emit.emit(self.applied.name, &operands, attrs);
        Term::value(self.emit, value, ty)
    }

    /// All operands as they are.
    pub fn operands(&self) -> Vec<Term<'p>> {
        (0..self.applied.operands.len()).map(|index| self.operand(index)).collect()
    }
}

/// What the operator does for many examples, as fast as is known: by its rule; pointwise, with ranks aligned; as
/// another shape; as more rows; or by [`Batched`], which follows from its definition and its evaluator.
///
/// # Errors
/// Where the result for one example is no tensor or tuple of tensors of known extents.
pub fn batch<'p>(at: &Examples<'p>, registry: &Registry) -> Result<Term<'p>, String> {
    let name = at.applied.name;
    if let Some(Batch(rule)) = registry.hook::<Batch>(name)
        && let Some(result) = rule(at)
    {
        return Ok(result);
    }
    if registry.hook::<LayoutRule>(name) == Some(&LayoutRule::Pointwise) {
        return Ok(rules::pointwise(at));
    }
    if registry.hook::<ReshapeOnly>(name).is_some()
        && let Some(result) = rules::reshaped(at)
    {
        return Ok(result);
    }
    if let Some(result) = as_rows(at, registry) {
        return Ok(result);
    }
    operator::emit(at)
}

/// The operator on the rows of all examples, where it computes each row of its result from that row of the operands
/// that differ between examples: a convolution does so with images, and a normalization with what it does not
/// normalize along. It is known from the definition.
fn as_rows<'p>(at: &Examples<'p>, registry: &Registry) -> Option<Term<'p>> {
    let Applied { name, operands, over, result, attrs, extent } = &at.applied;
    let info = registry.info(*name).filter(|info| info.hook::<Define>().is_some())?;
    let known = |ty: &Type| ty.as_tensor().and_then(|tensor| tensor.known_shape());
    // The operands of one example, those of all examples as rows, and the shapes of the latter.
    let (mut single, mut joined, mut shapes) = (vec![], vec![], vec![]);
    let mut rows = None;
    for ((_, ty), over) in operands.iter().zip(over) {
        if !over {
            single.push(*ty);
            joined.push(*ty);
            continue;
        }
        let shape = known(ty)?;
        let (count, rest) = (*shape.get(1)?, &shape[2..]);
        if *rows.get_or_insert(count) != count {
            return None;
        }
        let merged: Vec<i64> =
            std::iter::once(extent.checked_mul(count)?).chain(rest.iter().copied()).collect();
        single.push(example(*ty)?);
        joined.push(Type::tensor(merged.iter().copied(), ty.as_tensor()?.dtype));
        shapes.push(merged);
    }
    let rows = rows.filter(|rows| *rows > 0)?;
    let all = extent.checked_mul(rows)?;
    // Attributes may say how many rows there are.
    let found = InferCx::new(&joined, *attrs).answer(info.def.infer?).ok()?;
    let results =
        |ty: Type| -> Option<Vec<Vec<i64>>> { tensor_types(ty)?.iter().map(known_shape).collect() };
    let (of_one, of_all) = (results(*result)?, results(found)?);
    let is_by_rows = |(one, many): (&Vec<i64>, &Vec<i64>)| {
        one.first() == Some(&rows) && many.first() == Some(&all) && one[1..] == many[1..]
    };
    if of_one.len() != of_all.len() || !of_one.iter().zip(&of_all).all(is_by_rows) {
        return None;
    }
    // One row depends on no other, and its definition need not say which it is.
    let several = [(&single, *result, rows), (&joined, found, all)];
    for (types, result, _) in several.into_iter().filter(|(.., rows)| *rows > 1) {
        let item = define_alone(registry, info, types, *attrs, result).ok()?;
        let body = item.body.as_deref()?;
        // Tensors, so that there is a parameter for each operand; tuples were left out above where they matter.
        let params = body.block_args(body.entry());
        if params.len() != types.len() {
            return None;
        }
        let params = params.iter().zip(over).filter(|(_, over)| **over).map(|(param, _)| *param);
        by_rows(body, &params.collect::<Vec<_>>())?;
    }
    let mut shapes = shapes.into_iter();
    let operands: Vec<Term<'p>> = (0..operands.len())
        .map(|index| match over[index] {
            true => at.operand(index).reshape(&shapes.next().expect("each of these has a shape")),
            false => at.operand(index),
        })
        .collect();
    let joined = at.again(&operands, *attrs);
    let parted =
        |term: Term<'p>, shape: &[i64]| term.reshape(&[vec![*extent], shape.to_vec()].concat());
    match result.as_tuple() {
        None => Some(parted(joined, &of_one[0])),
        Some(fields) if fields.iter().all(|field| field.as_tensor().is_some()) => {
            let fields = of_one.iter().enumerate().map(|(index, shape)| {
                let get = relay::language::TupleGet { tuple: joined.id(), index: index as i64 };
                parted(at.build(&get), shape).id()
            });
            let (value, ty) = at.emit.tuple(&fields.collect::<Vec<_>>());
            Some(Term::value(at.emit, value, ty))
        }
        Some(_) => None,
    }
}

/// The extents of a tensor, where they are numbers.
fn known_shape(ty: &Type) -> Option<Vec<i64>> {
    Some(ty.as_tensor()?.known_shape()?.to_vec())
}
