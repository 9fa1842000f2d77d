//! What signatures say.

use std::fmt;

use ir_core::{Body, FunctionType, Signature, Type, TypeData};

use crate::language::items::{EXTERNAL, FUNC};

/// The type of a function as its signature and its parameters declare it.
pub fn declared_type(signature: &Signature, body: &Body) -> Type {
    let params = body.block_args(body.entry());
    match signature.ty.as_function() {
        Some(function) if function.params.len() == params.len() => {
            let either = |(declared, value): (&Type, _)| match declared.is_unknown() {
                true => body.ty(value),
                false => *declared,
            };
            Type::new(TypeData::Function(FunctionType {
                type_params: function.type_params.clone(),
                params: function.params.iter().zip(params.iter().copied()).map(either).collect(),
                result: function.result,
            }))
        }
        // The block decides: it is what calls bind their arguments to.
        declared => Type::new(TypeData::Function(FunctionType {
            type_params: declared.map_or_else(Default::default, |f| f.type_params.clone()),
            params: params.iter().map(|value| body.ty(*value)).collect(),
            result: declared.map_or_else(Type::unknown, |f| f.result),
        })),
    }
}

/// Whether bodies may refer to the item.
pub fn is_callable(signature: &Signature) -> bool {
    is_function(signature) || signature.op == EXTERNAL
}

/// Whether `item` is a function.
pub(super) fn is_function(signature: &Signature) -> bool {
    signature.op == FUNC
}

/// Something written into a message: in full where it is short. A type may share parts, and be
/// exponentially larger in text than in memory.
pub(crate) fn shown<T: fmt::Display>(value: T) -> String {
    const LIMIT: usize = 400;
    struct Limited(String);
    impl fmt::Write for Limited {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            if self.0.len() + text.len() > LIMIT {
                return Err(fmt::Error);
            }
            self.0.push_str(text);
            Ok(())
        }
    }
    let mut text = Limited(String::new());
    if fmt::write(&mut text, format_args!("{value}")).is_err() {
        text.0.push('…');
    }
    text.0
}
