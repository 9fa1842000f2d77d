//! What a model is, without importing it.

use indexmap::IndexSet;
use ir_core::Diagnostics;
use ir_core::tensor::tensor_bytes;
use rustc_hash::FxHashSet;
use std::borrow::Cow;

use crate::proto::{Extent, Model, ValueInfo, ValueType};
use crate::tensors::element_type;
use crate::texts::TEXT;
use crate::{damaged, histogram, no_graph};

/// What a model is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Version of the file format.
    pub ir_version: i64,
    /// What wrote the file, and its version.
    pub producer: String,
    /// Operator sets and their versions; the default one is `ai.onnx`.
    pub opsets: Vec<(String, i64)>,
    /// Name of the graph.
    pub graph: String,
    /// Inputs without those that are constants.
    pub inputs: Vec<SummaryValue>,
    /// Outputs.
    pub outputs: Vec<SummaryValue>,
    /// Names of the extents of inputs, in order.
    pub extents: Vec<String>,
    /// Operators by name.
    pub operators: Vec<SummaryOperator>,
    /// Number of constants.
    pub constants: usize,
    /// Number of their elements.
    pub parameters: u64,
    /// Number of their bytes.
    pub bytes: u64,
}

/// An input or output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SummaryValue {
    /// Name.
    pub name: String,
    /// Type, `float32[batch, 3, 224, 224]`.
    pub ty: String,
}

/// An operator of the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SummaryOperator {
    /// Name, with its operator set where that is not the default one.
    pub name: String,
    /// Number of nodes, those in inner graphs included.
    pub count: usize,
    /// Whether it can be imported.
    pub is_supported: bool,
}

/// What the model `file` is.
///
/// # Errors
/// A diagnostic where it is no model.
pub fn summarize(file: &[u8]) -> Result<Summary, Diagnostics> {
    let model = Model::read(file).map_err(|error| damaged(&error))?;
    let Some(graph) = &model.graph else { return Err(no_graph().into()) };
    let operators = histogram(file, &model, graph).map_err(|error| damaged(&error))?;
    let mut operators: Vec<SummaryOperator> = operators
        .into_iter()
        .map(|(name, found)| {
            let (count, is_supported) = (found.count, found.is_supported);
            SummaryOperator { name, count, is_supported }
        })
        .collect();
    operators.sort_by(|a, b| a.name.cmp(&b.name));
    let constants: FxHashSet<&str> = graph.initializers.iter().map(|tensor| tensor.name).collect();
    let (mut parameters, mut bytes) = (0u64, 0u64);
    for tensor in &graph.initializers {
        // Texts have elements, but of no size.
        if tensor.data_type == TEXT {
            let count = tensor.dims.iter().try_fold(1i64, |count, dim| count.checked_mul(*dim));
            let count = count.and_then(|count| u64::try_from(count).ok());
            parameters = parameters.saturating_add(count.unwrap_or(0));
        }
        if let Ok(dtype) = element_type(tensor.data_type)
            && let Some(size) = tensor_bytes(&tensor.dims, dtype)
        {
            parameters = parameters.saturating_add((size / dtype.bytes()) as u64);
            bytes = bytes.saturating_add(size as u64);
        }
    }
    let inputs = graph.inputs.iter().filter(|input| !constants.contains(input.name));
    let extents: IndexSet<Cow<'_, str>> = inputs.clone().flat_map(extent_names).collect();
    Ok(Summary {
        ir_version: model.ir_version,
        producer: format!("{} {}", model.producer_name, model.producer_version).trim().to_string(),
        opsets: model
            .opsets
            .iter()
            .map(|(domain, version)| {
                let domain = if domain.is_empty() { "ai.onnx" } else { domain };
                (domain.to_string(), *version)
            })
            .collect(),
        graph: graph.name.to_string(),
        inputs: inputs.map(|input| value(input, true)).collect(),
        outputs: graph.outputs.iter().map(|output| value(output, false)).collect(),
        extents: extents.into_iter().map(Cow::into_owned).collect(),
        operators,
        constants: graph.initializers.len(),
        parameters,
        bytes,
    })
}

/// The names by which the extents of the input `info` may be given.
fn extent_names<'a>(info: &ValueInfo<'a>) -> Vec<Cow<'a, str>> {
    let ValueType::Tensor(element, Some(extents)) = &info.ty else { return vec![] };
    // Texts have their code points along one more axis.
    let length = (*element == TEXT).then_some(&Extent::Unknown);
    let extents = extents.iter().chain(length).enumerate();
    extents.filter_map(|(axis, extent)| extent.name(info.name, axis)).collect()
}

fn value(info: &ValueInfo<'_>, is_input: bool) -> SummaryValue {
    SummaryValue { name: info.name.to_string(), ty: described(info.name, &info.ty, is_input) }
}

/// The type `ty` of the value `name` in words.
fn described(name: &str, ty: &ValueType<'_>, is_input: bool) -> String {
    let dtype = |element: i64| match element_type(element) {
        Ok(dtype) => dtype.to_string(),
        Err(_) if element == TEXT => "text".to_string(),
        Err(_) => "?".to_string(),
    };
    match ty {
        ValueType::Unknown => "?".to_string(),
        ValueType::Other(what) => what.to_string(),
        ValueType::Sequence(element, _) => format!("sequence of {}[…]", dtype(*element)),
        ValueType::Maps => "sequence of maps".to_string(),
        // One level down: what is optional is a tensor or a sequence.
        ValueType::Optional(of) => format!("optional {}", described(name, of, is_input)),
        ValueType::Tensor(element, None) => format!("{}[…]", dtype(*element)),
        ValueType::Tensor(element, Some(extents)) => {
            let extents = extents.iter().enumerate().map(|(axis, extent)| match extent {
                Extent::Known(extent) => extent.to_string(),
                Extent::Unknown if !is_input => "?".to_string(),
                open => open.name(name, axis).unwrap_or_default().into_owned(),
            });
            format!("{}[{}]", dtype(*element), extents.collect::<Vec<_>>().join(", "))
        }
    }
}
