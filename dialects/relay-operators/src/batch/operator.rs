//! The operator that applies another one to each of many examples.

use ir_core::registry::VerifyCx;
use ir_core::{
    Attr, AttrData, AttrDict, AttrValue, DType, Dim, InferCx, Item, Op, Stop, TensorData, Type,
    ValueId,
};
use relay::define::{Define, DefineCx, Defined, Operand, define_alone};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value, flatten};
use relay::language::short_name;
use te::compute::{Return, Tensor};

use super::{Examples, example, lead};
use crate::FusionPattern;
use crate::gradient::Term;
use crate::gradient::derived::{Attributes, operator};

/// An operator on each of many examples: operands that differ between examples have a leading axis of as many, and so
/// has the result, `result[i] = of(args[i])`.
///
/// Its definition is derived from that of the operator, where there is one: each stage that reads what differs between
/// examples has a leading axis. The pass `vmap` puts it where nothing faster is known. Relay has no such operator.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.batched",
    infer = infer,
    verify = verify,
    hooks(FusionPattern::Opaque, Evaluate(evaluate), Define(define))
)]
pub struct Batched<V = ValueId> {
    /// The operands of the operator, those in `over` with a leading axis.
    pub args: Vec<V>,
    /// The operator, such as `einsum`.
    pub of: String,
    /// The numbers of the operands that differ between examples, at least one; of a tuple, all fields do.
    pub over: Vec<i64>,
    /// The type of the result for one example: element type and extents, or a list of these for a tuple.
    pub result: Example,
    /// The attributes of the operator.
    #[default(Attributes(AttrDict::empty()))]
    pub attributes: Attributes,
}

/// The type of a value for one example: a tensor of known extents, or a tuple of such tensors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Example(Type);

impl Example {
    /// `ty` as the type of a value for one example; `None` where it is no tensor of known extents or flat tuple of
    /// such tensors.
    pub fn of(ty: Type) -> Option<Example> {
        let is_known =
            |ty: &Type| ty.as_tensor().is_some_and(|tensor| tensor.known_shape().is_some());
        let fields = ty.as_tuple();
        fields.map_or(is_known(&ty), |fields| fields.iter().all(is_known)).then_some(Example(ty))
    }

    /// The type.
    pub fn ty(self) -> Type {
        self.0
    }
}

impl AttrValue for Example {
    const EXPECTS: &'static str =
        "an element type with extents, such as [\"float32\", 2, 3], or a list of these";
    fn from_attr(attr: Attr) -> Option<Example> {
        let AttrData::Array(items) = attr.data() else { return None };
        match items.first().is_some_and(|item| matches!(item.data(), AttrData::Array(_))) {
            false if items.is_empty() => Some(Example(Type::unit())),
            false => tensor_of(items).map(Example),
            true => {
                let fields = items.iter().map(|item| match item.data() {
                    AttrData::Array(items) => tensor_of(items),
                    _ => None,
                });
                Some(Example(Type::tuple(fields.collect::<Option<Vec<Type>>>()?)))
            }
        }
    }
    fn to_attr(&self) -> Attr {
        match self.0.as_tuple() {
            None => attr_of(self.0),
            Some(fields) => {
                let fields: Vec<Attr> = fields.iter().map(|field| attr_of(*field)).collect();
                Attr::new(AttrData::Array(fields.into()))
            }
        }
    }
}

/// The type of the tensor whose element type and extents are `items`.
fn tensor_of(items: &[Attr]) -> Option<Type> {
    let (dtype, extents) = items.split_first()?;
    let dtype = DType::from_attr(*dtype)?;
    let extents = extents.iter().map(|extent| i64::from_attr(*extent).filter(|n| *n >= 0));
    let extents: Vec<Dim> = extents.map(|n| n.map(Dim::Known)).collect::<Option<_>>()?;
    Some(Type::tensor(extents, dtype))
}

/// The element type and the extents of a tensor.
fn attr_of(ty: Type) -> Attr {
    let tensor = ty.as_tensor().expect("an example is made of tensors");
    let shape = tensor.known_shape().expect("the extents of an example are known");
    let dtype = Attr::of(&tensor.dtype.to_string());
    let items: Vec<Attr> = std::iter::once(dtype).chain(shape.iter().map(Attr::of)).collect();
    Attr::new(AttrData::Array(items.into()))
}

/// Which of `count` operands `over` names.
fn flags(over: &[i64], count: usize) -> Result<Vec<bool>, String> {
    let mut flags = vec![false; count];
    for number in over {
        let flag = usize::try_from(*number).ok().and_then(|number| flags.get_mut(number));
        *flag.ok_or_else(|| {
            format!(
                "expected numbers below {count}, the number of operands, in `over`, found {number}"
            )
        })? = true;
    }
    match over {
        [] => Err("expected the number of an operand in `over`".to_string()),
        _ => Ok(flags),
    }
}

/// The first extent of all tensors of `types`, which is one; `None` where there are none.
fn extent(types: &[Type]) -> Result<Option<i64>, Stop> {
    let mut found = None;
    let mut pending: Vec<Type> = types.to_vec();
    while let Some(ty) = pending.pop() {
        if let Some(fields) = ty.as_tuple() {
            pending.extend(fields);
            continue;
        }
        if ty.facts().has_unknown || ty.facts().has_variable {
            return Err(Stop::Stuck);
        }
        let first = ty.as_tensor().and_then(|tensor| tensor.shape.first()?.known());
        let Some(first) = first else {
            return Err(Stop::error(format!(
                "expected tensors with a first axis of known extent, found {ty}"
            )));
        };
        if *found.get_or_insert(first) != first {
            return Err(Stop::error(format!(
                "expected as many examples in all operands, found {ty}"
            )));
        }
    }
    Ok(found)
}

fn infer(op: Batched<Type>, _cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let flags = flags(&op.over, op.args.len()).map_err(Stop::Error)?;
    let over = op.args.iter().zip(flags).filter(|(_, over)| *over).map(|(ty, _)| *ty);
    let extent = extent(&over.collect::<Vec<_>>())?;
    let extent = extent
        .ok_or_else(|| Stop::error("expected a tensor among what differs between examples"))?;
    lead(op.result.ty(), extent).ok_or(Stop::Stuck)
}

/// The types of the operands for one example.
fn examples(types: &[Type], over: &[bool]) -> Option<Vec<Type>> {
    types.iter().zip(over).map(|(ty, over)| if *over { example(*ty) } else { Some(*ty) }).collect()
}

fn verify(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(Batched { args, of, over, result, attributes }) = cx.body.view::<Batched>(cx.op)
    else {
        return Ok(());
    };
    let info = operator(cx.registry, &of)?;
    if info.hook::<Evaluate>().is_none() {
        return Err(format!("`{of}` has no evaluator"));
    }
    let attrs = info.def.normalize_attrs(attributes.0).map_err(|errors| errors.join("; "))?;
    let flags = flags(&over, args.len())?;
    let types: Vec<Type> = args.iter().map(|arg| cx.body.ty(*arg)).collect();
    let Some(types) = examples(&types, &flags) else { return Ok(()) };
    let constant = |number: usize| match flags.get(number) {
        Some(false) => cx.registry.constant(cx.body, args[number]),
        _ => None,
    };
    let mut infer = InferCx::with_constants(&types, attrs, &constant);
    let expected = match info.def.infer.map(|relation| infer.answer(relation)) {
        Some(Ok(expected)) => expected,
        Some(Err(Stop::Error(message))) => return Err(format!("`{of}`: {message}")),
        Some(Err(Stop::Stuck)) | None => return Ok(()),
    };
    let facts = expected.facts();
    let is_known =
        !(facts.has_any || facts.has_unknown || facts.has_variable || facts.has_parameter);
    match is_known && expected != result.ty() {
        true => {
            Err(format!("expected the result {expected} for one example, found {}", result.ty()))
        }
        false => Ok(()),
    }
}

// Recursion is bounded by the nesting of types.
/// Example `index` of `value`, a tensor with a leading axis or a tuple of such tensors.
fn example_of(value: &Value, index: usize) -> Result<Value, EvalError> {
    match value {
        Value::Tensor(tensor) => Ok(Value::Tensor(example_of_tensor(tensor, index)?)),
        Value::Tuple(fields) => {
            let fields = fields.iter().map(|field| example_of(field, index));
            Ok(Value::tuple(fields.collect::<Result<Vec<_>, _>>()?))
        }
        _ => Err(EvalError::new("expected tensors")),
    }
}

fn example_of_tensor(tensor: &TensorData, index: usize) -> Result<TensorData, EvalError> {
    let (_, shape) =
        tensor.shape().split_first().ok_or_else(|| EvalError::new("expected a leading axis"))?;
    let size = crate::elements::count(shape)?;
    let part = tensor.part(index * size, size);
    let part = part.ok_or_else(|| EvalError::new("expected as many examples in all operands"))?;
    Ok(part.reshaped(shape)?)
}

fn evaluate(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Batched<Value>>()?;
    let info = operator(cx.registry, &op.of)?;
    let Some(Evaluate(evaluate)) = info.hook::<Evaluate>() else {
        return Err(EvalError::new(format!("`{}` has no evaluator", op.of)));
    };
    let attrs = info.def.normalize_attrs(op.attributes.0).map_err(|errors| errors.join("; "))?;
    let over = flags(&op.over, op.args.len())?;
    let types = op.args.iter().zip(&over).filter(|(_, over)| **over);
    let types = types.map(|(value, _)| crate::elements::type_of(value));
    let extent = extent(&types.collect::<Result<Vec<_>, _>>()?)?.unwrap_or(0);
    let result = op.result.ty();
    let types = result.as_tuple().map_or(vec![result], <[Type]>::to_vec);
    let mut bytes: Vec<Vec<u8>> = vec![vec![]; types.len()];
    for index in 0..extent as usize {
        let operands = op.args.iter().zip(&over).map(|(value, over)| match over {
            true => example_of(value, index),
            false => Ok(value.clone()),
        });
        let operands = operands.collect::<Result<Vec<Value>, _>>()?;
        let cx = EvalCx { operands: &operands, attrs, result, registry: cx.registry };
        let value = evaluate(&cx)?;
        let found = crate::elements::type_of(&value)?;
        if found != result {
            return Err(EvalError::new(format!(
                "expected the result {result} for one example, found {found}"
            )));
        }
        let tensors = flatten(&value).map_err(|error| EvalError::new(error.to_string()))?;
        bytes.iter_mut().zip(&tensors).for_each(|(bytes, tensor)| bytes.extend(tensor.bytes()));
    }
    let stacked = types.iter().zip(bytes).map(|(ty, bytes)| {
        let tensor = ty.as_tensor().expect("an example is made of tensors");
        let shape = tensor.known_shape().expect("the extents of an example are known");
        let shape = [&[extent], &shape[..]].concat();
        Ok(Value::Tensor(TensorData::from_bytes(tensor.dtype, &shape, bytes)?))
    });
    let mut stacked = stacked.collect::<Result<Vec<Value>, EvalError>>()?;
    match (result.as_tuple(), stacked.pop()) {
        (None, Some(value)) => Ok(value),
        (_, last) => Ok(Value::tuple(stacked.into_iter().chain(last))),
    }
}

/// The compute function of an operator on each of `extent` examples; the types are those of one.
fn derived(cx: &DefineCx<'_>, op: &Batched<Operand>, types: &[Type]) -> Result<Item, String> {
    let info = operator(cx.registry, &op.of)?;
    let attrs = info.def.normalize_attrs(op.attributes.0).map_err(|errors| errors.join("; "))?;
    let over = flags(&op.over, op.args.len())?;
    let extent = cx.result.as_tuple().map_or(Some(&cx.result), <[Type]>::first);
    let extent = extent.and_then(|ty| ty.as_tensor()?.shape.first()?.known());
    let extent = extent.ok_or("expected a result that is a tensor")?;
    let one = examples(types, &over).ok_or("expected tensors with a leading axis")?;
    let item = define_alone(cx.registry, info, &one, attrs, op.result.ty())?;
    let flags = op.args.iter().zip(&over);
    let flags = flags.flat_map(|(arg, over)| vec![*over; arg.tensors().len()]);
    te::batch::batched(&item, &flags.collect::<Vec<_>>(), extent)
}

fn define(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Batched<Operand>>()?;
    let types: Vec<Type> = op.args.iter().map(crate::gradient::derived::type_of).collect();
    let item = derived(cx, &op, &types)?;
    let body = item.body.as_deref().expect("what is derived has a body");
    let arguments: Vec<Tensor> = cx.operands.iter().flat_map(Operand::tensors).cloned().collect();
    let tensors = cx.builder.append(body, &arguments);
    let end = body.last_op(body.entry()).and_then(|end| body.view::<Return>(end));
    let returned = end.expect("a compute function ends with what it returns").tensors;
    Ok(returned.iter().map(|tensor| tensors[tensor].clone()).collect())
}

/// The operator on each example.
///
/// # Errors
/// Where the result for one example is no tensor or tuple of tensors of known extents.
pub(super) fn emit<'p>(at: &Examples<'p>) -> Result<Term<'p>, String> {
    let result = Example::of(at.result()).ok_or_else(|| {
        format!("its result for one example is {}, and no tensor of known extents", at.result())
    })?;
    let args: Vec<ValueId> = at.operands().iter().map(|operand| operand.id()).collect();
    let over = (0..args.len()).filter(|index| at.over(*index)).map(|index| index as i64).collect();
    let of = short_name(at.applied.name.as_str()).to_string();
    let attributes = Attributes(at.attrs());
    let op = Batched { args, of, over, result, attributes };
    Ok(at.build(&op))
}
