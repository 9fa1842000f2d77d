//! Gradients that a model asks for.

use ir_core::{AttrDict, Type};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Fault, Importer, Value};
use crate::proto::{AttributeValue, Graph, ValueInfo};

/// The name of the operator that gives them.
pub(super) const GRADIENT: &str = "ai.onnx.preview.training.Gradient";

impl<'a> Importer<'a> {
    /// The gradient of the value `y` of the innermost graph by its values `xs`, where these and the values
    /// `others`, which count as constants, are what is given for each.
    pub(crate) fn gradient(
        &mut self,
        xs: Vec<(&'a str, Value)>,
        others: Vec<(&'a str, Value)>,
        y: &'a str,
    ) -> Result<Vec<Value>, Fault> {
        let graph = self.differentiated.last().cloned().ok_or("expected a graph around it")?;
        let graph = between(&graph, xs.iter().chain(&others).map(|(name, _)| *name), y)?;
        let types: Vec<Type> = xs.iter().map(|(_, value)| self.ty(value)).collect();
        let op = self.insert_op("relay.fn", &[], &[Type::unknown()], AttrDict::empty(), 1);
        let inner = self.body.region_block(op, 0);
        let params = types.iter().map(|ty| Value::Computed(self.body.add_block_arg(inner, *ty)));
        let params: Vec<Value> = params.collect();
        let mut given: FxHashMap<&'a str, Value> = others.into_iter().collect();
        given.extend(xs.iter().map(|(name, _)| *name).zip(params));
        let outer = std::mem::replace(&mut self.block, inner);
        let value = self.inline_with(&graph, given).map(|results| {
            let value = self.materialize(&results[0]);
            self.insert("relay.yield", &[value], &[], AttrDict::empty(), 0);
            self.body.ty(value)
        });
        self.block = outer;
        let function = self.body.result(op, 0);
        match value {
            Ok(value) => self.body.set_ty(function, Type::function(types, value)),
            Err(fault) => {
                self.body.erase(op);
                return Err(fault);
            }
        }
        let gradient = self.apply("grad", &[Value::Computed(function)], AttrDict::empty())?;
        let result = match self.ty(&gradient).as_function() {
            Some(function) => function.result,
            None => return Err("expected a function as gradient".into()),
        };
        let arguments: Vec<Value> = xs.into_iter().map(|(_, value)| value).collect();
        let gradient = self.materialize(&gradient);
        let both = self.call(gradient, &arguments, result);
        let both = self.sequence(&Value::Computed(both))?;
        Ok(self.sequence(&both[1])?)
    }
}

/// The part of `graph` that makes the value `y` from those of `given` names.
fn between<'a>(
    graph: &Graph<'a>,
    given: impl Iterator<Item = &'a str>,
    y: &'a str,
) -> Result<Graph<'a>, Fault> {
    let given: FxHashSet<&str> = given.collect();
    let mut wanted = FxHashSet::from_iter([y]);
    let mut nodes = Vec::new();
    for node in graph.nodes.iter().rev() {
        let makes = |name: &&str| wanted.contains(name) && !given.contains(name);
        if !node.outputs.iter().any(makes) {
            continue;
        }
        // What the graphs inside of a node take from around them would count as constant.
        let has_graph =
            node.attributes.iter().any(|attr| matches!(attr.value, AttributeValue::Graph(_)));
        if has_graph {
            let (operator, title) = (node.operator(), node.title());
            return Err(format!("expected nodes without graphs, found {operator} `{title}`").into());
        }
        wanted.extend(node.inputs.iter().copied());
        nodes.push(node.clone());
    }
    nodes.reverse();
    let outputs = vec![ValueInfo { name: y, ..ValueInfo::default() }];
    Ok(Graph { nodes, outputs, ..Graph::default() })
}
