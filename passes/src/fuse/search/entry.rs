//! A window as an e-graph.

use ir_core::{Registry, SmallVec};
use rewrites::egraph::{Class, Graph, Leaf};

use super::window::{Input, Operation, Source, Window};

/// Where the parts of a window are in its e-graph.
pub(super) struct Entry {
    /// The class of each input.
    pub(super) inputs: Vec<Class>,
    /// The class of each operation.
    pub(super) ops: Vec<Class>,
    /// Those of its operands.
    pub(super) operands: Vec<Vec<Class>>,
}

/// The e-graph that holds the operations of `window`.
pub(super) fn enter(window: &Window, registry: &Registry) -> (Graph, Entry) {
    let mut graph = Graph::default();
    let leaf = |(number, input): (usize, &Input)| Leaf {
        number,
        ty: input.ty,
        constant: None,
        weight: input.weight,
    };
    let inputs: Vec<Class> =
        window.inputs.iter().enumerate().map(leaf).map(|leaf| graph.leaf(leaf)).collect();
    let mut entry = Entry { inputs, ops: vec![], operands: vec![] };
    for op in &window.ops {
        let operands: Vec<Class> = (op.operands.iter())
            .map(|source| match *source {
                Source::Input(input) => entry.inputs[input],
                Source::Constant(Operation { name, attrs, ty }) => {
                    graph.op(name, attrs, ty, [], registry)
                }
                Source::Op(op) => entry.ops[op],
            })
            .collect();
        let Operation { name, attrs, ty } = op.operation;
        let of_node: SmallVec<[Class; 4]> = operands.iter().copied().collect();
        let class = graph.op(name, attrs, ty, of_node, registry);
        if let Some(input) = op.stored {
            graph.unite(class, entry.inputs[input]);
        }
        entry.ops.push(class);
        entry.operands.push(operands);
    }
    graph.rebuild();
    (graph, entry)
}
