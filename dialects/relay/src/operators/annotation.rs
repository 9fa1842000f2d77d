//! Annotations and devices: identity on values, meaning to passes.

use ir_core::{Attr, AttrData, DType, InferCx, Op, Registry, Stop, Type, ValueId};

use super::FusionPattern;
use crate::define::Define;
use crate::interpreter::{EvalCx, EvalError, Evaluate, Value};

fn none() -> Attr {
    Attr::new(AttrData::None)
}

/// The value of the only operand.
fn same(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    cx.operands.first().cloned().ok_or_else(|| EvalError::new("operand 0 is missing"))
}

/// Declares an operator that gives its operand back; what is before the name are its doc comment
/// and the name of the operator.
macro_rules! identity {
    ($(#[doc = $doc:tt])* $name:ident = $text:tt { $($fields:tt)* }) => {
        #[derive(Op, Clone, Debug)]
        $(#[doc = $doc])*
        #[op(
            name = $text,
            traits(IDENTITY),
            infer = |op: $name<Type>, _cx: &mut InferCx<'_>| known(op.data),
            hooks(FusionPattern::Opaque, Evaluate(same), Define(|cx| cx.tensors(0)))
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
    StopFusion = "relay.annotation.stop_fusion" {}
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
}
