//! Bodies as drawings: operations, what flows between them, and where they stand.

use indexmap::IndexSet;
use ir_core::text::PrintOptions;
use ir_core::text::attributes::write_attr;
use ir_core::text::layout::Line;
use ir_core::{Attr, AttrData, BlockId, Body, Item, OpId, Registry, Symbol, Traits, ValueId};
use relay::language::{Call, Fn, short_name};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::layout::{Area, place};

/// Graphs of more operations are not drawn: the page would take too long to open.
pub(crate) const MOST_NODES: usize = 50_000;

/// Parameters that more operations read, one of them as its first operand, are data.
const MOST_USES: usize = 4;

/// Pixels of a letter, of a box, of a weight beside it, and around the operations of a kernel.
const LETTER: f64 = 6.6;
const HEIGHT: f64 = 24.0;
const WEIGHT: f64 = 18.0;
const MARGIN: f64 = 12.0;
/// Pixels of the name above a kernel.
const NAME: f64 = 16.0;

/// An operation, a parameter, or a weight beside what reads it.
struct Node {
    label: String,
    title: String,
    /// The kernel that it is part of.
    group: Option<usize>,
    kind: Kind,
    /// The weights beside it.
    weights: Vec<usize>,
    area: Area,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Operation,
    /// What the function gives.
    Result,
    Parameter,
    Constant,
    /// A parameter or constant at one of its uses.
    Weight,
    /// A parameter or constant that stands beside its uses instead.
    Moved,
}

/// What flows where; within, out of a nested block to its operation.
struct Edge {
    from: usize,
    to: usize,
    within: bool,
    /// Which operand it is.
    operand: usize,
}

/// The graph of an item, as data for the page; how many operations it has, where that is too many.
///
/// Nodes are `[label, title, kernel, kind, x, y, width]`, the first two as numbers of `strings`,
/// the kernel -1 for none, and `x` and `y` of the middle; edges are `from, to, within` one after
/// the other; kernels are `[name, x, y, width, height]`.
pub(crate) fn graph(item: &Item, registry: &Registry) -> Option<Result<Value, usize>> {
    let body = item.body.as_deref()?;
    let count = body.op_count();
    if count > MOST_NODES {
        return Some(Err(count));
    }
    let mut drawing =
        Drawing { body, registry, nodes: vec![], edges: vec![], groups: vec![], areas: vec![] };
    drawing.fill();
    drawing.move_weights();
    drawing.place();
    Some(Ok(drawing.data()))
}

fn width(label: &str) -> f64 {
    (label.chars().count() as f64 * LETTER + 16.0).round()
}

struct Drawing<'a> {
    body: &'a Body,
    registry: &'a Registry,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// The names of kernels, and where they stand.
    groups: Vec<String>,
    areas: Vec<Area>,
}

/// A block on the way: its operations from `next` on, drawn for the operation `owner`.
#[derive(Clone, Copy)]
struct Frame {
    next: Option<OpId>,
    owner: Option<usize>,
    group: Option<usize>,
    /// The result of the call of a kernel that the block computes.
    result: Option<ValueId>,
}

/// The node that each value comes from.
type Sources = FxHashMap<ValueId, usize>;

impl Drawing<'_> {
    fn node(&mut self, kind: Kind, label: String, title: String, group: Option<usize>) -> usize {
        let area = Area { width: width(&label), height: HEIGHT, ..Area::default() };
        self.nodes.push(Node { label, title, group, kind, weights: vec![], area });
        self.nodes.len() - 1
    }

    fn argument(&mut self, value: ValueId, group: Option<usize>) -> usize {
        let name = self.body.name_hint(value).name;
        let name = name.map_or("_".to_string(), |name| name.to_string());
        self.node(Kind::Parameter, format!("%{name}"), self.body.ty(value).to_string(), group)
    }

    /// Makes the nodes and edges. Kernels are drawn where they are called, once for each call.
    fn fill(&mut self) {
        let body = self.body;
        let mut sources = Sources::default();
        self.arguments(body.entry(), None, &mut sources);
        let first = body.first_op(body.entry());
        let mut frames = vec![Frame { next: first, owner: None, group: None, result: None }];
        while let Some(frame) = frames.last_mut() {
            let Some(op) = frame.next else {
                frames.pop();
                continue;
            };
            frame.next = body.next_op(op);
            let (owner, group) = (frame.owner, frame.group);
            if self.registry.traits(body, op).contains(Traits::TERMINATOR) {
                let ended = *frame;
                self.end_block(op, ended, &mut sources);
            } else if is_kernel(body, op) {
                // It is drawn at its calls.
            } else if let Some((block, arguments)) = self.kernel_called(op) {
                for (parameter, argument) in body.block_args(block).iter().zip(&arguments) {
                    if let Some(&node) = sources.get(argument) {
                        sources.insert(*parameter, node);
                    }
                }
                let group = Some(self.groups.len());
                self.groups.push(format!("kernel {}", self.groups.len() + 1));
                let result = body.results(op).next();
                frames.push(Frame { next: body.first_op(block), owner, group, result });
            } else {
                let node = self.operation(op, group, &mut sources);
                for &region in body.regions(op).iter().rev() {
                    let block = body.block_of(region);
                    self.arguments(block, group, &mut sources);
                    let next = body.first_op(block);
                    frames.push(Frame { next, owner: Some(node), group, result: None });
                }
            }
        }
    }

    /// Nodes for the arguments of a block.
    fn arguments(&mut self, block: BlockId, group: Option<usize>, sources: &mut Sources) {
        for &argument in self.body.block_args(block) {
            let node = self.argument(argument, group);
            sources.insert(argument, node);
        }
    }

    /// The edges of what a block gives: to its operation, or the result of the call of a kernel, or
    /// that of the function.
    fn end_block(&mut self, op: OpId, frame: Frame, sources: &mut Sources) {
        for value in self.body.operands(op) {
            let Some(&from) = sources.get(&value) else { continue };
            match (frame.result, frame.owner) {
                (Some(result), _) => {
                    sources.insert(result, from);
                }
                (None, Some(to)) => {
                    self.edges.push(Edge { from, to, within: true, operand: 0 });
                }
                (None, None) => {
                    let to = self.node(Kind::Result, "result".to_string(), String::new(), None);
                    self.edges.push(Edge { from, to, within: false, operand: 0 });
                }
            }
        }
    }

    /// The node of an operation, with the edges of its operands.
    fn operation(&mut self, op: OpId, group: Option<usize>, sources: &mut Sources) -> usize {
        let body = self.body;
        let is_constant = self.registry.traits(body, op).contains(Traits::CONSTANT);
        let kind = if is_constant { Kind::Constant } else { Kind::Operation };
        let name = short_name(body.op_name(op).as_str()).to_string();
        let node = self.node(kind, name, self.title(op), group);
        for (operand, value) in body.operands(op).enumerate() {
            if let Some(&from) = sources.get(&value) {
                self.edges.push(Edge { from, to: node, within: false, operand });
            }
        }
        for value in body.results(op) {
            sources.insert(value, node);
        }
        node
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

    /// Puts constants, and parameters but the first one, beside each of their uses, so that no line
    /// crosses the drawing for a bias. What many read, one of them first, is no weight.
    fn move_weights(&mut self) {
        let mut uses = vec![0usize; self.nodes.len()];
        let mut is_first = vec![false; self.nodes.len()];
        let mut is_weight: Vec<bool> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(index, node)| match node.kind {
                Kind::Constant => true,
                Kind::Parameter => index > 0,
                _ => false,
            })
            .collect();
        for edge in &self.edges {
            uses[edge.from] += 1;
            is_first[edge.from] |= edge.operand == 0;
            is_weight[edge.from] &= !edge.within && self.nodes[edge.to].kind != Kind::Result;
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let is_data = is_first[index] && uses[index] > MOST_USES;
            is_weight[index] &= node.kind == Kind::Constant || !is_data;
        }
        for index in 0..self.edges.len() {
            let Edge { from, to, .. } = self.edges[index];
            if !is_weight[from] {
                continue;
            }
            let (label, title) = (self.nodes[from].label.clone(), self.nodes[from].title.clone());
            let group = self.nodes[to].group;
            let weight = self.node(Kind::Weight, label, title, group);
            self.nodes[weight].area.height = WEIGHT - 2.0;
            self.nodes[to].weights.push(weight);
            self.nodes[from].kind = Kind::Moved;
            self.edges[index].from = weight;
        }
    }

    /// Places the operations of each kernel, then kernels and all other operations.
    fn place(&mut self) {
        // What is placed: operations with their weights, in each kernel, and at last in the whole.
        let mut members: Vec<Vec<usize>> = vec![vec![]; self.groups.len() + 1];
        let outside = self.groups.len();
        for (index, node) in self.nodes.iter().enumerate() {
            if !matches!(node.kind, Kind::Weight | Kind::Moved) {
                members[node.group.unwrap_or(outside)].push(index);
            }
        }
        // Where a node stands among the boxes that are placed with it.
        let mut position = vec![usize::MAX; self.nodes.len()];
        for members in &members {
            for (at, &node) in members.iter().enumerate() {
                position[node] = at;
            }
        }
        let is_weight = |index: usize| self.nodes[index].kind == Kind::Weight;
        let mut inner: Vec<Vec<(usize, usize)>> = vec![vec![]; self.groups.len() + 1];
        // A kernel is one box among those outside, behind the operations.
        let unit = |index: usize| match self.nodes[index].group {
            Some(group) => members[outside].len() + group,
            None => position[index],
        };
        for edge in self.edges.iter().filter(|edge| !is_weight(edge.from)) {
            let (from, to) = (self.nodes[edge.from].group, self.nodes[edge.to].group);
            match from == to && from.is_some() {
                true => {
                    inner[from.unwrap_or(outside)].push((position[edge.from], position[edge.to]))
                }
                false => inner[outside].push((unit(edge.from), unit(edge.to))),
            }
        }
        let mut kernels = Vec::new();
        for group in 0..outside {
            let mut boxes: Vec<Area> =
                members[group].iter().map(|&node| self.whole(node)).collect();
            let (width, height) = place(&mut boxes, &inner[group]);
            for (&node, area) in members[group].iter().zip(boxes) {
                self.nodes[node].area.x = area.x;
                self.nodes[node].area.y = area.y;
            }
            let (width, height) = (width + 2.0 * MARGIN, height + 2.0 * MARGIN + NAME);
            kernels.push(Area { width, height, anchor: width / 2.0, ..Area::default() });
        }
        let mut boxes: Vec<Area> = members[outside].iter().map(|&node| self.whole(node)).collect();
        boxes.extend(kernels);
        place(&mut boxes, &inner[outside]);
        self.areas = boxes.split_off(members[outside].len());
        for (&node, area) in members[outside].iter().zip(boxes) {
            self.settle(node, area.x, area.y);
        }
        for (group, members) in members[..outside].iter().enumerate() {
            let Area { x, y, .. } = self.areas[group];
            for &node in members {
                let area = self.nodes[node].area;
                self.settle(node, x + MARGIN + area.x, y + MARGIN + NAME + area.y);
            }
        }
    }

    /// The extents of an operation with its weights, which stand one above the other on its right.
    fn whole(&self, node: usize) -> Area {
        let Node { area, weights, .. } = &self.nodes[node];
        let widest = weights.iter().map(|&weight| self.nodes[weight].area.width + 8.0);
        let width = area.width + widest.fold(0.0, f64::max);
        let height = HEIGHT.max(weights.len() as f64 * WEIGHT);
        Area { width, height, anchor: area.width / 2.0, ..Area::default() }
    }

    /// Puts an operation with its weights at the place of their left upper corner.
    fn settle(&mut self, node: usize, x: f64, y: f64) {
        let height = self.whole(node).height;
        let weights = std::mem::take(&mut self.nodes[node].weights);
        let area = &mut self.nodes[node].area;
        (area.x, area.y) = (x, y + (height - HEIGHT) / 2.0);
        let left = x + area.width + 8.0;
        let top = y + (height - weights.len() as f64 * WEIGHT) / 2.0;
        for (index, &weight) in weights.iter().enumerate() {
            let area = &mut self.nodes[weight].area;
            (area.x, area.y) = (left, top + index as f64 * WEIGHT);
        }
        self.nodes[node].weights = weights;
    }

    fn data(&self) -> Value {
        let mut strings: IndexSet<&str> = IndexSet::new();
        let mut number = vec![usize::MAX; self.nodes.len()];
        let mut nodes = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let kind = match node.kind {
                Kind::Moved => continue,
                Kind::Operation | Kind::Result => 0,
                Kind::Parameter => 1,
                Kind::Constant => 2,
                Kind::Weight => 3,
            };
            number[index] = nodes.len();
            let (label, _) = strings.insert_full(&node.label);
            let (title, _) = strings.insert_full(&node.title);
            let group = node.group.map_or(-1, |group| group as i64);
            let Area { x, y, width, height, .. } = node.area;
            let middle =
                [x + width / 2.0, y + height / 2.0, width].map(|place| place.round() as i64);
            nodes.push(json!([label, title, group, kind, middle[0], middle[1], middle[2]]));
        }
        let edges = self.edges.iter().map(|edge| (number[edge.from], number[edge.to], edge.within));
        let drawn = edges.filter(|(from, to, _)| *from != usize::MAX && *to != usize::MAX);
        let edges: Vec<usize> =
            drawn.flat_map(|(from, to, within)| [from, to, usize::from(within)]).collect();
        let kernels = self.groups.iter().zip(&self.areas).map(|(name, area)| {
            let Area { x, y, width, height, .. } = area;
            json!([name, x.round(), y.round(), width.round(), height.round()])
        });
        let kernels: Vec<Value> = kernels.collect();
        let strings: Vec<&str> = strings.into_iter().collect();
        json!({ "strings": strings, "nodes": nodes, "edges": edges, "kernels": kernels })
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
