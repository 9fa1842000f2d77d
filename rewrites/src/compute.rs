//! Computing what depends on constants alone.

use ir_core::{Attr, AttrData, AttrDict, Registry, SmallVec, Symbol, TensorData, Type};

use crate::instantiate::{Operand, Plan, Planned};
use crate::matching::TermGraph;

/// A value that is known.
#[derive(Clone, PartialEq, Debug)]
pub enum Known {
    /// A tensor.
    Tensor(TensorData),
    /// A tuple of tensors.
    Tuple(Vec<TensorData>),
}

impl Known {
    /// The constants that are this value, and for a tuple, the tuple of them; in the dialect of the
    /// operation `like`, whose result has the type `ty`.
    pub(crate) fn planned<V>(&self, like: Symbol, ty: Type) -> Vec<Planned<V>> {
        match self {
            Known::Tensor(tensor) => vec![Planned::constant(like, tensor)],
            Known::Tuple(fields) => {
                let mut ops: Vec<Planned<V>> =
                    fields.iter().map(|field| Planned::constant(like, field)).collect();
                let operands = (0..ops.len()).map(Operand::New).collect();
                let (name, attrs) = (Planned::<V>::beside(like, "tuple"), AttrDict::empty());
                ops.push(Planned { name, attrs, operands, ty });
                ops
            }
        }
    }
}

/// The result of an operation on constants, from its name, attributes, operands and type; `None`
/// where it has none.
pub type Compute = fn(&Registry, Symbol, AttrDict, &[Known], Type) -> Option<Known>;

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
    let constants = operands.iter().map(|operand| tensor(graph.constant(*operand)?));
    let constants: SmallVec<[TensorData; 2]> = constants.collect::<Option<_>>()?;
    let (name, ty) = (graph.name(value, 0), graph.ty(value));
    let of = ty.as_tensor()?;
    let bytes = ir_core::tensor::tensor_bytes(&of.known_shape()?, of.dtype)?;
    (bytes <= constants.iter().map(|constant| constant.bytes().len()).sum()).then_some(())?;
    let known: SmallVec<[Known; 2]> = constants.into_iter().map(Known::Tensor).collect();
    let Known::Tensor(result) = compute(registry, name, graph.attrs(value, 0), &known, ty)? else {
        return None;
    };
    let constant = Planned::constant(name, &result);
    (constant.ty == ty).then(|| Plan {
        ops: vec![constant],
        replacements: std::iter::once((value, Operand::New(0))).collect(),
    })
}

/// The tensor that the attribute of a constant is.
pub(crate) fn tensor(constant: Attr) -> Option<TensorData> {
    match constant.data() {
        AttrData::Tensor(tensor) => Some(tensor.clone()),
        _ => None,
    }
}
