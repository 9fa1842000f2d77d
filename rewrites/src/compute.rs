//! Computing what depends on constants alone.

use ir_core::{AttrData, AttrDict, Registry, SmallVec, Symbol, TensorData, Type};

use crate::instantiate::{Operand, Plan, Planned};
use crate::matching::TermGraph;

/// The result of an operation on constants, from its name, attributes, operands and type; `None`
/// where it has none.
pub type Compute = fn(&Registry, Symbol, AttrDict, &[TensorData], Type) -> Option<TensorData>;

/// What computes operations on constants, which a crate that can evaluate them registers as an
/// [extension](Registry::extension_mut).
#[derive(Clone, Copy, Default)]
pub struct Evaluator(pub Option<Compute>);

/// The constant in place of `value`, where that is an operation on constants that has a result no
/// larger than they are: what makes more of less, such as a broadcast, is cheaper than its result.
pub fn computed<G: TermGraph>(
    graph: &G,
    value: G::Value,
    registry: &Registry,
) -> Option<Plan<G::Value>> {
    let compute = registry.extension::<Evaluator>()?.0?;
    (graph.forms(value) > 0).then_some(())?;
    let operands = graph.operands(value, 0);
    if operands.is_empty() {
        return None;
    }
    let constants = operands.iter().map(|operand| match graph.constant(*operand)?.data() {
        AttrData::Tensor(tensor) => Some(tensor.clone()),
        _ => None,
    });
    let constants: SmallVec<[TensorData; 2]> = constants.collect::<Option<_>>()?;
    let (name, ty) = (graph.name(value, 0), graph.ty(value));
    let tensor = ty.as_tensor()?;
    let bytes = ir_core::tensor::tensor_bytes(&tensor.known_shape()?, tensor.dtype)?;
    (bytes <= constants.iter().map(|constant| constant.bytes().len()).sum()).then_some(())?;
    let result = compute(registry, name, graph.attrs(value, 0), &constants, ty)?;
    let constant = Planned::constant(name, &result);
    (constant.ty == ty).then(|| Plan {
        ops: vec![constant],
        replacements: std::iter::once((value, Operand::New(0))).collect(),
    })
}
