//! What weights start as.

use arrays::Arrays;
use ir_core::{Diagnostic, Diagnostics, Module, Random, Registry, Spread, TensorData};

use relay::interpreter::told_spreads;

use super::roles::Roles;
use crate::arguments::seed_of;
use crate::codes::NOT_TRAINED;
use crate::{MAIN, Parameter, Parameters};

/// A value for each weight of the loss `module`: its array among `given`, else what it starts as.
///
/// A weight of two or more axes starts at random, so that what the operator that reads it gives is about as
/// large as what that is given, see [`RandomOperand`](relay::interpreter::RandomOperand); a vector, such as a
/// bias, starts as zeros, or as ones where its operator multiplies by it.
///
/// # Errors
/// When a weight does not fit into memory.
pub(super) fn weights(
    module: &Module,
    registry: &Registry,
    roles: &Roles,
    given: &Arrays,
    seed: u64,
) -> Result<Arrays, Diagnostics> {
    // Extents are known here, on which it depends how large weights are.
    let parameters = Parameters::of_main(module, registry);
    let spreads = module.get(MAIN).map(|item| told_spreads(item, registry)).unwrap_or_default();
    let weight = |index: &usize| {
        let parameter = &parameters.all[*index];
        let name = parameter.name.clone();
        let value = match given.get(&name) {
            Some(value) => value.clone(),
            None => initial(parameter, spreads[*index], seed)?,
        };
        Ok((name, value))
    };
    roles.trained.iter().map(weight).collect()
}

/// What `parameter` starts as, of which its operator says that it should lie within `spread`.
fn initial(
    parameter: &Parameter,
    spread: Option<Spread>,
    seed: u64,
) -> Result<TensorData, Diagnostics> {
    let Parameter { name, ty, .. } = parameter;
    let failed = |message: String| {
        Diagnostic::error(NOT_TRAINED, format!("cannot start the weight `%{name}`: {message}"))
    };
    let tensor = ty.as_tensor().and_then(|tensor| Some((tensor.known_shape()?, tensor.dtype)));
    let (shape, dtype) = tensor.ok_or_else(|| failed(format!("it is of type {ty}")))?;
    let is_vector = shape.iter().filter(|extent| **extent != 1).count() <= 1;
    let Spread { least, width } = spread.unwrap_or_default();
    let spread = match is_vector && (shape.len() < 2 || spread.is_none()) {
        true => Spread { least: least + width / 2.0, width: 0.0 },
        false => Spread { least, width },
    };
    let made = Random::new(seed_of(seed, name)).tensor_within(&shape, dtype, spread);
    made.map_err(|message| failed(message).into())
}
