//! Bodies as drawings: operations, what flows between them, and where they stand.

use indexmap::IndexMap;
use ir_core::text::PrintOptions;
use ir_core::text::attributes::write_attr;
use ir_core::text::layout::Line;
use ir_core::{Attr, AttrData, BlockId, Body, Item, OpId, Registry, Symbol, Traits, ValueId};
use relay::language::{Call, Fn};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// Graphs of more operations are not drawn: nobody could read them.
pub(super) const MOST_NODES: usize = 3000;

/// Pixels between rows, between neighbours, and of a letter.
const ROW: f64 = 56.0;
const GAP: f64 = 18.0;
const LETTER: f64 = 6.6;

/// An operation, or a parameter.
struct Node {
    label: String,
    title: String,
    /// The kernel that it is part of.
    group: Option<usize>,
    layer: usize,
    x: f64,
}

/// What flows where; within, out of a nested block to its operation.
struct Edge {
    from: usize,
    to: usize,
    within: bool,
}

/// The graph of an item, as data for the page; how many operations it has, where that is too many.
pub(super) fn graph(item: &Item, registry: &Registry) -> Option<Result<Value, usize>> {
    let body = item.body.as_deref()?;
    let count = body.op_count();
    if count > MOST_NODES {
        return Some(Err(count));
    }
    let mut drawing = Drawing { body, registry, nodes: vec![], edges: vec![], groups: 0 };
    drawing.fill();
    drawing.place();
    let Drawing { nodes, edges, groups, .. } = &drawing;
    let nodes: Vec<Value> = nodes
        .iter()
        .map(|node| {
            json!({
                "l": node.label, "t": node.title, "g": node.group,
                "x": node.x.round(), "y": node.layer as f64 * ROW, "w": width(&node.label),
            })
        })
        .collect();
    let edges: Vec<Value> =
        edges.iter().map(|edge| json!([edge.from, edge.to, u8::from(edge.within)])).collect();
    Some(Ok(json!({ "nodes": nodes, "edges": edges, "groups": groups })))
}

fn width(label: &str) -> f64 {
    (label.chars().count() as f64 * LETTER + 16.0).round()
}

struct Drawing<'a> {
    body: &'a Body,
    registry: &'a Registry,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    groups: usize,
}

/// A block on the way: its operations from `next` on, drawn for the operation `owner`.
struct Frame {
    next: Option<OpId>,
    owner: Option<usize>,
    group: Option<usize>,
    /// The result of the call of a kernel that the block computes.
    result: Option<ValueId>,
}

impl Drawing<'_> {
    fn node(&mut self, label: String, title: String, group: Option<usize>) -> usize {
        self.nodes.push(Node { label, title, group, layer: 0, x: 0.0 });
        self.nodes.len() - 1
    }

    fn argument(&mut self, value: ValueId, group: Option<usize>) -> usize {
        let name = self.body.name_hint(value).name;
        let name = name.map_or("_".to_string(), |name| name.to_string());
        self.node(format!("%{name}"), self.body.ty(value).to_string(), group)
    }

    /// Makes the nodes and edges. Kernels are drawn where they are called, once for each call.
    fn fill(&mut self) {
        let body = self.body;
        let mut sources: FxHashMap<ValueId, usize> = FxHashMap::default();
        for &argument in body.block_args(body.entry()) {
            let node = self.argument(argument, None);
            sources.insert(argument, node);
        }
        let first = body.first_op(body.entry());
        let mut frames = vec![Frame { next: first, owner: None, group: None, result: None }];
        while let Some(frame) = frames.last_mut() {
            let Some(op) = frame.next else {
                frames.pop();
                continue;
            };
            frame.next = body.next_op(op);
            let (owner, group, result) = (frame.owner, frame.group, frame.result);
            if self.registry.traits(body, op).contains(Traits::TERMINATOR) {
                for value in body.operands(op) {
                    let Some(&from) = sources.get(&value) else { continue };
                    match (result, owner) {
                        (Some(result), _) => {
                            sources.insert(result, from);
                        }
                        (None, Some(to)) => self.edges.push(Edge { from, to, within: true }),
                        (None, None) => {
                            let to = self.node("result".to_string(), String::new(), None);
                            self.edges.push(Edge { from, to, within: false });
                        }
                    }
                }
                continue;
            }
            // A kernel is drawn at its calls.
            if is_kernel(body, op) {
                continue;
            }
            if let Some((block, arguments)) = self.kernel_called(op) {
                let inner = body.block_args(block).iter().zip(&arguments);
                for (parameter, argument) in inner {
                    if let Some(&node) = sources.get(argument) {
                        sources.insert(*parameter, node);
                    }
                }
                let group = Some(self.groups);
                self.groups += 1;
                let result = body.results(op).next();
                frames.push(Frame { next: body.first_op(block), owner, group, result });
                continue;
            }
            let name = body.op_name(op).as_str();
            let node =
                self.node(name.trim_start_matches("relay.").to_string(), self.title(op), group);
            for value in body.operands(op) {
                if let Some(&from) = sources.get(&value) {
                    self.edges.push(Edge { from, to: node, within: false });
                }
            }
            for value in body.results(op) {
                sources.insert(value, node);
            }
            for &region in body.regions(op).iter().rev() {
                let block = body.block_of(region);
                for &argument in body.block_args(block) {
                    let argument_node = self.argument(argument, group);
                    sources.insert(argument, argument_node);
                }
                let next = body.first_op(block);
                frames.push(Frame { next, owner: Some(node), group, result: None });
            }
        }
    }

    /// The block and the arguments of the kernel that `op` calls.
    fn kernel_called(&self, op: OpId) -> Option<(BlockId, Vec<ValueId>)> {
        let call = self.body.view::<Call>(op)?;
        let kernel = self.body.defining_op(call.callee).filter(|op| is_kernel(self.body, *op))?;
        Some((self.body.region_block(kernel, 0), call.args))
    }

    /// What is shown of an operation that is pointed at.
    fn title(&self, op: OpId) -> String {
        let attributes = self.body.attrs(op);
        let attributes: Vec<String> = attributes
            .entries()
            .iter()
            .map(|(key, value)| format!("{key} = {}", shortened(*value)))
            .collect();
        let types: Vec<String> =
            self.body.results(op).map(|value| self.body.ty(value).to_string()).collect();
        let attributes = attributes.join("\n");
        format!("{}\n{attributes}", types.join(", ")).trim().to_string()
    }

    /// Puts every node into the row after those it reads, and nodes of a row near them.
    fn place(&mut self) {
        let mut order = vec![0; self.nodes.len()];
        // Nodes are made after what they read, but for operations with nested blocks.
        let mut changed = true;
        let mut rounds = 0;
        while changed && rounds < 64 {
            changed = false;
            rounds += 1;
            for edge in &self.edges {
                let layer = self.nodes[edge.from].layer + 1;
                if self.nodes[edge.to].layer < layer {
                    self.nodes[edge.to].layer = layer;
                    changed = true;
                }
            }
        }
        // What reads nothing stands right above what reads it first.
        let mut reads = vec![false; self.nodes.len()];
        let mut first = vec![usize::MAX; self.nodes.len()];
        for edge in &self.edges {
            reads[edge.to] = true;
            first[edge.from] = first[edge.from].min(self.nodes[edge.to].layer);
        }
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if !reads[index] && first[index] != usize::MAX {
                node.layer = first[index].saturating_sub(1);
            }
        }
        let mut layers: IndexMap<usize, Vec<usize>> = IndexMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            layers.entry(node.layer).or_default().push(index);
        }
        layers.sort_keys();
        let mut neighbours = vec![vec![]; self.nodes.len()];
        for edge in &self.edges {
            neighbours[edge.from].push(edge.to);
            neighbours[edge.to].push(edge.from);
        }
        for layer in layers.values_mut() {
            self.spread(layer, None, &mut order);
        }
        for _ in 0..8 {
            for layer in layers.values_mut() {
                self.spread(layer, Some(&neighbours), &mut order);
            }
            for layer in layers.values_mut().rev() {
                self.spread(layer, Some(&neighbours), &mut order);
            }
        }
    }

    /// Places the nodes of a row beside each other, sorted by the middle of their neighbours.
    fn spread(&mut self, layer: &mut [usize], near: Option<&[Vec<usize>]>, order: &mut [usize]) {
        let middle = |nodes: &[Node], index: usize| {
            let near = near.map_or(&[][..], |near| &near[index]);
            match near.len() {
                0 => nodes[index].x,
                count => near.iter().map(|other| nodes[*other].x).sum::<f64>() / count as f64,
            }
        };
        let wanted: FxHashMap<usize, f64> =
            layer.iter().map(|index| (*index, middle(&self.nodes, *index))).collect();
        layer.sort_by(|a, b| wanted[a].total_cmp(&wanted[b]).then(order[*a].cmp(&order[*b])));
        let total: f64 = layer.iter().map(|index| width(&self.nodes[*index].label) + GAP).sum();
        let center: f64 = wanted.values().sum::<f64>() / layer.len().max(1) as f64;
        let mut edge = f64::NEG_INFINITY;
        let mut placed = Vec::with_capacity(layer.len());
        for index in layer.iter() {
            let half = (width(&self.nodes[*index].label) + GAP) / 2.0;
            let at =
                if near.is_some() { wanted[index].max(edge + half) } else { edge.max(0.0) + half };
            placed.push(at);
            edge = at + half;
        }
        // What was pushed to the right comes back to the middle.
        let mean = placed.iter().sum::<f64>() / placed.len().max(1) as f64;
        let shift = if near.is_some() { center - mean } else { -total / 2.0 };
        for (position, (index, at)) in layer.iter().zip(placed).enumerate() {
            self.nodes[*index].x = at + shift;
            order[*index] = position;
        }
    }
}

/// Whether `op` is a function that is marked as a kernel.
fn is_kernel(body: &Body, op: OpId) -> bool {
    let Some(function) = body.view::<Fn>(op) else { return false };
    function.attributes.get(Symbol::new("Primitive")).is_some()
}

/// An attribute, cut to what fits a line.
fn shortened(value: Attr) -> String {
    let text = match value.data() {
        AttrData::Tensor(tensor) => tensor.ty().to_string(),
        _ => {
            let mut line = Line::default();
            write_attr(value, &PrintOptions::default(), &mut line);
            std::mem::take(line.text())
        }
    };
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
