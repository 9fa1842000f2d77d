//! The order in which the nodes of a graph are converted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::importer::MAX_DEPTH;
use crate::proto::{AttributeValue, Graph, Node};

/// The nodes of `graph`, of which graphs inside are in `file`, as they stand there, but that those whose operands are
/// made later wait for them. What waits for itself comes last. Nobody waits for names that are known before.
pub(crate) fn in_order<'g, 'a>(
    file: &'a [u8],
    graph: &'g Graph<'a>,
    is_known: impl Fn(&str) -> bool,
) -> Vec<&'g Node<'a>> {
    let mut makers: FxHashMap<&str, usize> = FxHashMap::default();
    for (index, node) in graph.nodes.iter().enumerate() {
        for output in node.outputs.iter().filter(|name| !name.is_empty()) {
            makers.entry(output).or_insert(index);
        }
    }
    let mut readers: Vec<Vec<usize>> = vec![vec![]; graph.nodes.len()];
    let mut awaited = vec![0usize; graph.nodes.len()];
    let mut is_ordered = true;
    for (index, node) in graph.nodes.iter().enumerate() {
        for name in names_read(file, node, 0) {
            if let Some(&maker) = makers.get(name)
                && (maker < index || !is_known(name))
            {
                readers[maker].push(index);
                awaited[index] += 1;
                is_ordered &= maker < index;
            }
        }
    }
    if is_ordered {
        return graph.nodes.iter().collect();
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..graph.nodes.len()).filter(|index| awaited[*index] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(graph.nodes.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(&graph.nodes[index]);
        for &reader in &readers[index] {
            awaited[reader] -= 1;
            if awaited[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    order.extend(graph.nodes.iter().zip(&awaited).filter(|(_, n)| **n > 0).map(|(node, _)| node));
    order
}

/// The names that `node` reads of the graph that it is in: its operands, and what graphs inside read and do not make.
fn names_read<'a>(file: &'a [u8], node: &Node<'a>, depth: usize) -> FxHashSet<&'a str> {
    let mut names: FxHashSet<&str> = node.inputs.iter().copied().collect();
    for attribute in &node.attributes {
        let AttributeValue::Graph(range) = &attribute.value else { continue };
        // What cannot be read is reported when it is converted.
        let Some(inner) = Graph::read(file, range.clone()).ok().filter(|_| depth < MAX_DEPTH)
        else {
            continue;
        };
        let mut read: FxHashSet<&str> = inner.outputs.iter().map(|output| output.name).collect();
        for node in &inner.nodes {
            read.extend(names_read(file, node, depth + 1));
        }
        let inputs = inner.inputs.iter().map(|input| input.name);
        let sparse = inner.sparse_initializers.iter().map(|constant| constant.values.name);
        let constants = inner.initializers.iter().map(|constant| constant.name).chain(sparse);
        let made = inner.nodes.iter().flat_map(|node| node.outputs.iter().copied());
        for name in inputs.chain(constants).chain(made) {
            read.remove(name);
        }
        names.extend(read);
    }
    names
}
