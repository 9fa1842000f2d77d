//! Derivatives that follow from definitions: of operators that have no rule.

use ir_core::registry::VerifyCx;
use ir_core::{
    Attr, AttrData, AttrDict, AttrValue, InferCx, Item, Op, OpInfo, Registry, Stop, Symbol,
    TensorData, Type, ValueId,
};
use relay::define::{Define, DefineCx, Defined, Operand, define_alone, tensor_types};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value, flatten};
use relay::language::short_name;
use te::compute::{Return, Tensor};
use te::differentiate::vjp;

use super::{Change, Pullback, Term};
use crate::FusionPattern;

/// By how much an operand of an operator changes, where its result changes by `change`: the product of
/// `change` with the Jacobian of the operator by that operand.
///
/// It is derived from the definition of the operator as tensor expressions, and has a definition itself, from
/// which its own derivatives are. The pass `gradient` puts it where an operator has a definition, and no rule
/// of its own.
///
/// Where there are several derivatives, one is chosen as rules do; of `max(x, c)` with a constant, that of the
/// constant. What changes in steps, such as `floor`, does not change. Relay has no such operator.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.vjp",
    infer = infer,
    verify = verify,
    hooks(FusionPattern::Opaque, Evaluate(evaluate), Define(define))
)]
pub struct Vjp<V = ValueId> {
    /// The change of the result of the operator, of its type. What is no float in it is not read.
    pub change: V,
    /// The operands of the operator.
    pub args: Vec<V>,
    /// The operator, such as `nn.upsampling`.
    pub of: String,
    /// The number of the operand: a tensor of floats, or a tuple of them. The result has its type.
    #[default(0)]
    pub wrt: i64,
    /// The attributes of the operator.
    #[default(Attributes(AttrDict::empty()))]
    pub attributes: Attributes,
}

/// The attributes of another operator: as text gives them, so that what is written and read is equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes(pub AttrDict);

impl AttrValue for Attributes {
    const EXPECTS: &'static str = "the attributes of an operator in braces";
    fn from_attr(attr: Attr) -> Option<Attributes> {
        match plain(attr).data() {
            AttrData::Dict(attributes) => Some(Attributes(*attributes)),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        plain(Attr::of(&self.0))
    }
}

// Recursion is bounded by the nesting of attributes.
/// `attr` with texts for the types in it.
fn plain(attr: Attr) -> Attr {
    match attr.data() {
        AttrData::DType(dtype) => Attr::of(&dtype.to_string()),
        AttrData::Type(ty) => Attr::of(&ty.to_string()),
        AttrData::Array(items) => {
            let items: Vec<Attr> = items.iter().map(|item| plain(*item)).collect();
            Attr::new(AttrData::Array(items.into()))
        }
        AttrData::Dict(dict) => {
            let entries = dict.entries().iter().map(|(key, value)| (*key, plain(*value)));
            Attr::of(&AttrDict::new(entries))
        }
        _ => attr,
    }
}

/// The operator that text calls `of`.
pub(crate) fn operator<'r>(registry: &'r Registry, of: &str) -> Result<&'r OpInfo, String> {
    let info = registry.info(&*format!("relay.{of}")).or_else(|| registry.info(of));
    info.ok_or_else(|| format!("there is no operator `{of}`"))
}

fn infer(op: Vjp<Type>, _cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let operand = usize::try_from(op.wrt).ok().and_then(|number| op.args.get(number));
    let count = op.args.len();
    let operand = *operand.ok_or_else(|| {
        Stop::error(format!(
            "expected `wrt` below {count}, the number of operands, found {}",
            op.wrt
        ))
    })?;
    if operand.facts().has_unknown || operand.facts().has_variable {
        return Err(Stop::Stuck);
    }
    let is_float = |ty: &Type| ty.as_tensor().is_some_and(|tensor| tensor.dtype.is_float());
    match tensor_types(operand).is_some_and(|types| types.iter().all(is_float)) {
        true => Ok(operand),
        false => Err(Stop::error(format!("expected an operand of floats, found {operand}"))),
    }
}

fn verify(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(Vjp { change, args, of, attributes, .. }) = cx.body.view::<Vjp>(cx.op) else {
        return Ok(());
    };
    let info = operator(cx.registry, &of)?;
    if info.hook::<Define>().is_none() {
        return Err(format!("`{of}` has no definition"));
    }
    let attrs = info.def.normalize_attrs(attributes.0).map_err(|errors| errors.join("; "))?;
    let types: Vec<Type> = args.iter().map(|arg| cx.body.ty(*arg)).collect();
    let constant = |number: usize| cx.registry.constant(cx.body, *args.get(number)?);
    expect_result(info, &mut InferCx::with_constants(&types, attrs, &constant), cx.body.ty(change))
}

/// Errors where the operator `info` gives another type than `result`, as far as both are known.
fn expect_result(info: &OpInfo, cx: &mut InferCx<'_>, result: Type) -> Result<(), String> {
    let is_known = |ty: &Type| {
        let facts = ty.facts();
        !(facts.has_any || facts.has_unknown || facts.has_variable || facts.has_parameter)
    };
    // A relation may need more than the types of operands, such as what a constant is.
    let expected = info.def.infer.and_then(|infer| cx.answer(infer).ok()).filter(is_known);
    match expected.filter(|_| is_known(&result)) {
        Some(expected) if expected != result => {
            Err(format!("expected a change of type {expected}, found {result}"))
        }
        _ => Ok(()),
    }
}

/// A use of an operator whose derivative is derived.
#[derive(Clone, Copy, Debug)]
pub struct Derived<'a> {
    /// The operator, as text calls it.
    pub of: &'a str,
    /// Its attributes.
    pub attributes: AttrDict,
    /// The types of its operands, all extents known.
    pub operands: &'a [Type],
    /// The type of its result.
    pub result: Type,
    /// The number of the operand by which.
    pub wrt: usize,
}

impl Derived<'_> {
    /// The operator as a compute function.
    ///
    /// # Errors
    /// Where it has no definition for these operands.
    pub fn primal(&self, registry: &Registry) -> Result<Item, String> {
        let info = operator(registry, self.of)?;
        let attrs =
            info.def.normalize_attrs(self.attributes).map_err(|errors| errors.join("; "))?;
        expect_result(info, &mut InferCx::new(self.operands, attrs), self.result)?;
        define_alone(registry, info, self.operands, attrs, self.result)
    }

    /// The [product](te::differentiate::vjp) with its Jacobian. It takes the tensors of the change, then those
    /// of the operands.
    ///
    /// # Errors
    /// As [`primal`](Derived::primal), and where a stage is of a form that is not differentiated.
    pub fn vjp(&self, registry: &Registry) -> Result<te::differentiate::Vjp, String> {
        let count = |ty: &Type| tensor_types(*ty).map_or(0, |types| types.len());
        let operand = self.operands.get(self.wrt);
        let operand = operand.ok_or_else(|| format!("there is no operand {}", self.wrt))?;
        let first: usize = self.operands[..self.wrt].iter().map(count).sum();
        let wanted: Vec<usize> = (first..first + count(operand)).collect();
        vjp(&self.primal(registry)?, &wanted)
    }
}

fn number(wrt: i64) -> Result<usize, String> {
    usize::try_from(wrt).map_err(|_| format!("expected `wrt` of at least 0, found {wrt}"))
}

fn evaluate(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Vjp<Value>>()?;
    let types = |value: &Value| crate::elements::type_of(value);
    let operands: Vec<Type> = op.args.iter().map(types).collect::<Result<_, _>>()?;
    let wrt = number(op.wrt)?;
    let result = types(&op.change)?;
    let derived =
        Derived { of: &op.of, attributes: op.attributes.0, operands: &operands, result, wrt };
    let item = derived.vjp(cx.registry)?.item;
    let mut inputs: Vec<TensorData> = vec![];
    for value in cx.operands {
        inputs.extend(flatten(value).map_err(|error| EvalError::new(error.to_string()))?);
    }
    let body = item.body.as_deref().expect("what is derived has a body");
    let changes = te::interpreter::run_compute(body, &inputs);
    let changes = changes.map_err(|error| EvalError::new(error.to_string()))?;
    let mut changes = changes.into_iter().map(Value::Tensor);
    match operands[wrt].as_tuple() {
        Some(_) => Ok(Value::tuple(changes)),
        None => changes.next().ok_or_else(|| EvalError::new("expected an operand of floats")),
    }
}

/// The type of an operand.
pub(crate) fn type_of(operand: &Operand) -> Type {
    let of = |tensor: &Tensor| Type::tensor(tensor.shape.iter().copied(), tensor.dtype);
    match operand {
        Operand::Tensor(tensor) => of(tensor),
        Operand::Tuple(fields) => Type::tuple(fields.iter().map(of)),
    }
}

fn define(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Vjp<Operand>>()?;
    let operands: Vec<Type> = op.args.iter().map(type_of).collect();
    let result = type_of(&op.change);
    let wrt = number(op.wrt)?;
    let derived =
        Derived { of: &op.of, attributes: op.attributes.0, operands: &operands, result, wrt };
    let item = derived.vjp(cx.registry)?.item;
    let body = item.body.as_deref().expect("what is derived has a body");
    let arguments: Vec<Tensor> = cx.operands.iter().flat_map(Operand::tensors).cloned().collect();
    let tensors = cx.builder.append(body, &arguments);
    let end = body.last_op(body.entry()).and_then(|end| body.view::<Return>(end));
    let returned = end.expect("a compute function ends with what it returns").tensors;
    Ok(returned.iter().map(|tensor| tensors[tensor].clone()).collect())
}

/// Gives the operands of `at`, an application of the operator `name`, the changes that follow from its
/// definition.
///
/// # Errors
/// Where nothing follows from it; the message says why.
pub fn pull_derived(at: &Pullback<'_>, registry: &Registry, name: Symbol) -> Result<(), String> {
    let of = short_name(name.as_str());
    let types: Vec<Type> = at.applied.operands.iter().map(|(_, ty)| *ty).collect();
    let operands: Vec<ValueId> = at.applied.operands.iter().map(|(value, _)| *value).collect();
    let (result, attributes) = (at.applied.result.1, at.applied.attrs);
    let mut change = None;
    for wrt in (0..types.len()).filter(|wrt| at.wants(*wrt)) {
        let is_known = |ty: &Type| !ty.facts().has_any && !ty.facts().has_parameter;
        if types.iter().chain([&result]).all(is_known) {
            let derived = Derived { of, attributes, operands: &types, result, wrt };
            if derived.vjp(registry)?.is_zero {
                continue;
            }
        }
        let change = *change.get_or_insert_with(|| written(at, at.change(), result));
        let vjp = Vjp {
            change,
            args: operands.clone(),
            of: of.to_string(),
            wrt: wrt as i64,
            attributes: Attributes(attributes),
        };
        let vjp = at.build(&vjp);
        let change = match types[wrt].as_tuple() {
            None => Change::Tensor(vjp),
            Some(fields) => {
                let fields = (0..fields.len()).map(|field| Change::Tensor(at.field(vjp, field)));
                Change::Tuple(fields.collect())
            }
        };
        at.give(wrt, change);
    }
    Ok(())
}

// Recursion is bounded by the nesting of types.
/// The value that a change of a value of type `ty` is; of numbers that are no floats, zeros.
fn written(at: &Pullback<'_>, change: &Change<'_>, ty: Type) -> ValueId {
    match (change, ty.as_tuple()) {
        (Change::Tensor(term), _) => term.id(),
        (Change::Tuple(changes), Some(types)) => {
            let fields = changes.iter().zip(types).map(|(change, ty)| written(at, change, *ty));
            at.tuple(&fields.collect::<Vec<_>>())
        }
        (_, Some(types)) => {
            let fields = types.iter().map(|ty| written(at, &Change::None, *ty));
            at.tuple(&fields.collect::<Vec<_>>())
        }
        _ => Term::filled(at.emit, 0.0, ty).id(),
    }
}
