//! Annotations and devices: identity on values, meaning to passes.

use ir_core::registry::{FoldCx, Folded};
use ir_core::{Attr, AttrData, DType, Dim, InferCx, Op, Registry, Stop, Type, ValueId};
use relay::define::{Define, DefineCx, Defined};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use relay::types::Extents;

use super::{FusionPattern, LayoutRule, gradient, relation};

fn none() -> Attr {
    Attr::new(AttrData::None)
}

/// The value of the only operand.
fn same(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    cx.operands.first().cloned().ok_or_else(|| EvalError::new("operand 0 is missing"))
}

/// Declares an operator that gives its operand back: its doc comment, its name, and what another layout is to
/// it, if that is nothing.
macro_rules! identity {
    ($(#[doc = $doc:tt])* $name:ident = $text:tt $(as $layout:path)? { $($fields:tt)* }) => {
        #[derive(Op, Clone, Debug)]
        $(#[doc = $doc])*
        #[op(
            name = $text,
            traits(IDENTITY),
            infer = |op: $name<Type>, _cx: &mut InferCx<'_>| known(op.data),
            hooks(
                FusionPattern::Opaque,
                $($layout,)?
                Evaluate(same),
                gradient::IDENTITY,
                Define(|cx| cx.tensors(0))
            )
        )]
        pub struct $name<V = ValueId> {
            /// The value.
            pub data: V,
            $($fields)*
        }
    };
}

/// `ty`, once something is known about it.
fn known(ty: Type) -> Result<Type, Stop> {
    let unknown = matches!(ty.data(), ir_core::TypeData::Unknown | ir_core::TypeData::Variable(_));
    if unknown { Err(Stop::Stuck) } else { Ok(ty) }
}

identity! {
    /// Copies a value from one device to another.
    ///
    /// The result has the type of `data`. Relay operator level 10.
    DeviceCopy = "relay.device_copy" {
        /// Where the operand lies.
        #[default(none())]
        pub src_virtual_device: Attr,
        /// Where the result lies.
        #[default(none())]
        pub dst_virtual_device: Attr,
    }
}

identity! {
    /// Says on which device a value is computed.
    ///
    /// The result has the type of `data`. Relay operator level 10.
    OnDevice = "relay.on_device" {
        /// The device.
        #[default(none())]
        pub virtual_device: Attr,
        /// Whether the result must lie on the device.
        #[default(false)]
        pub constrain_result: bool,
        /// Whether the operand must be computed on the device.
        #[default(true)]
        pub constrain_body: bool,
    }
}

identity! {
    /// Keeps fusion from joining what is before and after.
    ///
    /// The result has the type of `data`. Relay operator level 10.
    StopFusion = "relay.annotation.stop_fusion" as LayoutRule::Pointwise {}
}

identity! {
    /// Marks a value that reverse-mode differentiation stores; others may be computed again.
    ///
    /// The result has the type of `data`. Relay operator level 10.
    Checkpoint = "relay.annotation.checkpoint" {}
}

identity! {
    /// Marks an input of a region for another compiler.
    ///
    /// The result has the type of `data`. Relay operator level 10.
    CompilerBegin = "relay.annotation.compiler_begin" {
        /// The compiler.
        pub compiler: String,
    }
}

identity! {
    /// Marks an output of a region for another compiler.
    ///
    /// The result has the type of `data`. Relay operator level 10.
    CompilerEnd = "relay.annotation.compiler_end" {
        /// The compiler.
        pub compiler: String,
    }
}

identity! {
    /// Says in which element type a value may be kept.
    ///
    /// The result has the type of `data`. Relay operator level 10.
    CastHint = "relay.annotation.cast_hint" {
        /// The element type.
        pub dtype: DType,
    }
}

identity! {
    /// Marks where bit packing starts.
    ///
    /// The result has the type of `data`. Relay operator level 10.
    BitpackStart = "relay.annotation.bitpack_start" {}
}

identity! {
    /// Marks where bit packing ends.
    ///
    /// The result has the type of `data`. Relay operator level 10.
    BitpackEnd = "relay.annotation.bitpack_end" {}
}

/// A value that a debugger shows when it is computed.
///
/// The result has the type of `data`. Relay operator level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.debug",
    effects(WRITE),
    infer = |op: Debug<Type>, _cx: &mut InferCx<'_>| known(op.data),
    hooks(FusionPattern::Opaque, Evaluate(same))
)]
pub struct Debug<V = ValueId> {
    /// The value.
    pub data: V,
    /// Name of the function that shows it.
    #[default(String::new())]
    pub debug_func: String,
}

/// A tensor that is checked to have a shape when the program runs.
///
/// The result is `data`, and its type has the extents of `shape`; where those are `?`, the extents of
/// `data`. Inference inserts it where a tensor with an extent `?` stands where a known one is expected.
///
/// ```relay
/// def @main(%x: Tensor[(?, 4), float32]) -> Tensor[(3, 4), float32] {
///   check_shape(%x, shape=[3, ?])
/// }
/// ```
///
/// Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.check_shape",
    infer = infer_check_shape,
    fold = fold_check_shape,
    hooks(gradient::IDENTITY, FusionPattern::Opaque, Evaluate(evaluate_check_shape), Define(define_check_shape))
)]
pub struct CheckShape<V = ValueId> {
    /// A tensor of the rank of `shape`.
    pub data: V,
    /// The extents, `?` where any will do.
    pub shape: Extents,
}

fn infer_check_shape(op: CheckShape<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    relation::expect_rank(data, op.shape.0.len())?;
    let mut dims = Vec::with_capacity(op.shape.0.len());
    for (found, wanted) in data.shape.iter().zip(op.shape.0) {
        // Where both are known and differ, it fails when it runs: passes may find that out, and a
        // program that does not get there is right.
        dims.push(if wanted == Dim::Any { *found } else { wanted });
    }
    Ok(Type::tensor(dims, data.dtype))
}

/// A check of what the type of the operand says already.
fn fold_check_shape(cx: &FoldCx<'_>) -> Option<Folded> {
    let data = cx.operand(0);
    let same = cx.body.ty(data) == cx.body.ty(cx.body.result(cx.op, 0));
    (same && !cx.body.ty(data).facts().has_unknown).then_some(Folded::Value(data))
}

/// Where the extents are known, nothing is left to check.
fn define_check_shape(cx: &mut DefineCx<'_>) -> Defined {
    let data = cx.tensors(0)?;
    let (shape, _) = cx.result()?;
    match data.first().is_some_and(|data| data.shape == shape) {
        true => Ok(data),
        false => Err(format!("expected a tensor of shape {shape:?}")),
    }
}

fn evaluate_check_shape(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (data, op) = (cx.tensor(0)?, cx.fields::<CheckShape<Value>>()?);
    let fits = |(wanted, found): (&Dim, &i64)| wanted.known().is_none_or(|known| known == *found);
    if data.shape().len() != op.shape.0.len() || !op.shape.0.iter().zip(data.shape()).all(fits) {
        let wanted = Type::tensor(op.shape.0, data.dtype());
        return Err(EvalError::new(format!("expected {wanted}, found {}", data.ty())));
    }
    same(cx)
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<DeviceCopy>();
    registry.op::<OnDevice>();
    registry.op::<StopFusion>();
    registry.op::<Checkpoint>();
    registry.op::<CompilerBegin>();
    registry.op::<CompilerEnd>();
    registry.op::<CastHint>();
    registry.op::<BitpackStart>();
    registry.op::<BitpackEnd>();
    registry.op::<Debug>();
    registry.op::<CheckShape>();
}
