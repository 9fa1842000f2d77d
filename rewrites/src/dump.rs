//! E-graphs as text: for people, for graphviz, and for other tools.

use std::fmt::Write;

use ir_core::text::PrintOptions;
use ir_core::text::attributes::write_dict;
use ir_core::text::layout::Line;
use ir_core::{AttrDict, Registry, Symbol, Type};

use crate::extraction::gym::Gym;
use crate::extraction::{NONE, Node};

/// How an e-graph is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DumpForm {
    /// A graph for `dot`, with one box for each class.
    Dot,
    /// The JSON of the extraction gym and of `egraph-serialize`, in one line.
    Json,
    /// Lines for people: each class with its type and its nodes.
    Ir,
}

impl DumpForm {
    /// All forms and their names.
    pub const ALL: [(&'static str, DumpForm); 3] =
        [("dot", DumpForm::Dot), ("json", DumpForm::Json), ("ir", DumpForm::Ir)];
}

/// An e-graph with what was extracted from it.
#[derive(Clone, PartialEq, Debug)]
pub struct Dump {
    /// The e-graph, whose classes are called by their numbers.
    pub gym: Gym,
    /// The type of each class.
    pub types: Vec<Type>,
    /// For each class the node that was taken, or [`NONE`].
    pub choice: Vec<Node>,
}

/// An operation without its operands, as in `relay.nn.dense {units = 4}`.
pub(crate) fn describe(name: Symbol, attrs: AttrDict, registry: &Registry) -> String {
    let mut line = Line::default();
    line.push(name.as_str());
    if !attrs.is_empty() {
        line.push(" ");
        write_dict(attrs, registry.def(name), &PrintOptions::default(), &mut line);
    }
    std::mem::take(line.text())
}

impl Dump {
    /// The e-graph in `form`, with a newline at the end; `name` is that of the function.
    pub fn write(&self, form: DumpForm, name: &str) -> String {
        match form {
            DumpForm::Dot => self.dot(name),
            DumpForm::Json => format!("{}\n", self.gym.to_json()),
            DumpForm::Ir => self.ir(name),
        }
    }

    fn is_chosen(&self, node: Node) -> bool {
        self.choice[self.gym.problem.owner(node) as usize] == node
    }

    /// `op(#1, #2) {attributes}`.
    fn call(&self, node: Node) -> String {
        let (operator, operands) = (&self.gym.operators[node as usize], self.gym.operands(node));
        if operands.is_empty() {
            return operator.clone();
        }
        let operands: Vec<String> = operands.iter().map(|class| format!("#{class}")).collect();
        let (name, attributes) = operator.split_once(' ').unwrap_or((operator, ""));
        let space = if attributes.is_empty() { "" } else { " " };
        format!("{name}({}){space}{attributes}", operands.join(", "))
    }

    fn ir(&self, name: &str) -> String {
        let problem = &self.gym.problem;
        let chosen = self.choice.iter().filter(|&&node| node != NONE);
        let cost = readable(problem.dag_cost(&self.choice).unwrap_or(f64::INFINITY));
        let mut text = format!(
            "// ----- @{name}: {} classes, {} nodes; {} chosen, cost {cost} -----\n",
            problem.class_count(),
            problem.node_count(),
            chosen.count(),
        );
        // Writing to a string does not fail.
        for class in problem.classes() {
            let is_root = problem.roots().binary_search(&class).is_ok();
            let root = if is_root { "  // result" } else { "" };
            _ = writeln!(text, "#{class}: {}{root}", self.types[class as usize]);
            for node in problem.nodes(class) {
                let mark = if self.is_chosen(node) { '*' } else { ' ' };
                let cost = readable(problem.cost(node));
                _ = writeln!(text, "  {mark} {}  // {cost}", self.call(node));
            }
        }
        text
    }

    fn dot(&self, name: &str) -> String {
        let problem = &self.gym.problem;
        let mut text = format!(
            "digraph {} {{\n  compound = true;\n  node [shape = box, fontname = monospace];\n",
            quoted(name)
        );
        for class in problem.classes() {
            let label = quoted(&format!("#{class}: {}", self.types[class as usize]));
            _ = writeln!(text, "  subgraph cluster_{class} {{");
            _ = writeln!(text, "    label = {label}; style = dashed;");
            for node in problem.nodes(class) {
                let style = if self.is_chosen(node) { ", style = bold" } else { "" };
                let label = quoted(&self.gym.operators[node as usize]);
                _ = writeln!(text, "    n{node} [label = {label}{style}];");
            }
            text.push_str("  }\n");
        }
        for node in 0..problem.node_count() as u32 {
            for (at, &class) in self.gym.operands(node).iter().enumerate() {
                // An edge ends at a node; graphviz cuts it at the border of the class.
                let Some(first) = problem.nodes(class).next() else { continue };
                let style = if self.is_chosen(node) { ", style = bold" } else { "" };
                _ = writeln!(
                    text,
                    "  n{node} -> n{first} [lhead = cluster_{class}, label = {at}{style}];"
                );
            }
        }
        text.push_str("}\n");
        text
    }
}

/// A cost without the digits that are rounding.
fn readable(cost: f64) -> f64 {
    let rounded = (cost * 1e6).round() / 1e6;
    if rounded.is_finite() { rounded } else { cost }
}

/// A string of graphviz.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
