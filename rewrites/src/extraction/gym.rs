//! The JSON of the extraction gym and of `egraph-serialize`, in and out.

use std::borrow::Cow;
use std::fmt;

use ir_core::{Diagnostic, Diagnostics, SmallVec, Span, Symbol};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::{Error, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use super::problem::{Builder, Class, NONE, Node, Problem};
use super::strategy::{Extraction, Unavailable};

/// A problem whose classes and nodes have names.
#[derive(Clone, PartialEq, Debug)]
pub struct Gym {
    /// The problem.
    pub problem: Problem,
    /// The id of each class.
    pub classes: Vec<String>,
    /// The id of each node.
    pub nodes: Vec<String>,
    /// The operator of each node.
    pub operators: Vec<String>,
    /// The children of each node in their order, with repetitions.
    operands: Vec<SmallVec<[Class; 4]>>,
    /// Where the id of each root's first node stands in the text, for messages.
    root_spans: Vec<Option<Span>>,
}

/// A string of the text; where it has no escapes, it is a part of it and so has a place.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct RawGym<'a> {
    #[serde(borrow)]
    nodes: RawNodes<'a>,
    #[serde(borrow)]
    root_eclasses: Vec<Text<'a>>,
}

#[derive(Deserialize)]
struct RawNode<'a> {
    #[serde(borrow)]
    op: Text<'a>,
    #[serde(borrow)]
    eclass: Text<'a>,
    #[serde(borrow, default)]
    children: Vec<Text<'a>>,
    #[serde(default = "one")]
    cost: f64,
}

fn one() -> f64 {
    1.0
}

/// The nodes in the order of the text.
struct RawNodes<'a>(Vec<(Text<'a>, RawNode<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawNodes<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Nodes;
        impl<'de> Visitor<'de> for Nodes {
            type Value = RawNodes<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of nodes by id")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut nodes = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    if nodes.len() as u32 == NONE - 1 {
                        return Err(M::Error::custom("expected less than 2^32 nodes"));
                    }
                    nodes.push(entry);
                }
                Ok(RawNodes(nodes))
            }
        }
        deserializer.deserialize_map(Nodes)
    }
}

/// Reads a problem from `text`, whose name in diagnostics is `file`.
///
/// # Errors
/// JSON that is not of the format, twice the same id, and children and roots that do not exist.
pub fn read(file: &str, text: &str) -> Result<Gym, Diagnostics> {
    let file = Symbol::new(file);
    let raw: RawGym<'_> =
        serde_json::from_str(text).map_err(|error| malformed(file, text, &error))?;
    let place = Place { file, text };
    let entries = &raw.nodes.0;
    let mut class_of_name: FxHashMap<&str, Class> = FxHashMap::default();
    let mut names: Vec<&str> = Vec::new();
    let mut members: Vec<Vec<usize>> = Vec::new();
    let mut class_of_id: FxHashMap<&str, Class> = FxHashMap::default();
    let mut errors = Diagnostics::new();
    for (at, (id, node)) in entries.iter().enumerate() {
        let class = *class_of_name.entry(&node.eclass.0).or_insert_with(|| {
            names.push(&node.eclass.0);
            members.push(vec![]);
            names.len() as u32 - 1
        });
        members[class as usize].push(at);
        if class_of_id.insert(&id.0, class).is_some() {
            let message = format!("the id `{}` stands for two nodes", id.0);
            errors.push(Diagnostic::error("E0940", message).at(place.of(id)));
        }
    }
    let mut builder = Builder::default();
    let (mut nodes, mut operators, mut operands) = (Vec::new(), Vec::new(), Vec::new());
    for of_class in &members {
        builder.class();
        for (id, node) in of_class.iter().map(|&at| &entries[at]) {
            let mut children = SmallVec::new();
            for child in &node.children {
                match class_of_id.get(&*child.0) {
                    Some(&class) => children.push(class),
                    None => errors.push(unknown_child(id, child, &place)),
                }
            }
            builder.node(node.cost, children.iter().copied());
            operands.push(children);
            nodes.push(id.0.to_string());
            operators.push(node.op.0.to_string());
        }
    }
    let mut roots: Vec<Class> = Vec::new();
    for root in &raw.root_eclasses {
        match class_of_name.get(&*root.0) {
            Some(&class) => roots.push(class),
            None => errors.push(
                Diagnostic::error("E0941", format!("no node has the root class `{}`", root.0))
                    .at(place.of(root))
                    .help("the entries of `root_eclasses` are values of `eclass`"),
            ),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let first = |class: &Class| {
        let at = members[*class as usize].first()?;
        place.of(&entries[*at].0)
    };
    let problem = builder.finish(roots);
    let root_spans = problem.roots().iter().map(first).collect();
    let classes = names.into_iter().map(str::to_string).collect();
    Ok(Gym { problem, classes, nodes, operators, operands, root_spans })
}

fn unknown_child(id: &Text<'_>, child: &Text<'_>, place: &Place<'_>) -> Diagnostic {
    Diagnostic::error(
        "E0941",
        format!("node `{}` has the child `{}`, which is no node", id.0, child.0),
    )
    .at(place.of(child))
    .help("children are ids of nodes; any node of the class that is meant will do")
}

/// Where strings stand in a text.
struct Place<'a> {
    file: Symbol,
    text: &'a str,
}

impl Place<'_> {
    /// The place of a string that is part of the text, without its quotes.
    fn of(&self, string: &Text<'_>) -> Option<Span> {
        let Cow::Borrowed(part) = string.0 else { return None };
        let start = part.as_ptr().addr().checked_sub(self.text.as_ptr().addr())?;
        let end = start + part.len();
        (end <= self.text.len()).then(|| self.span(start, end))
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start: start as u32, end: end as u32 }
    }
}

fn malformed(file: Symbol, text: &str, error: &serde_json::Error) -> Diagnostic {
    let line: usize =
        text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let mut start = (line + error.column().saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let message = error.to_string();
    // The place is shown, so the message need not say it.
    let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
    let place = Place { file, text };
    Diagnostic::error("E0940", format!("expected an e-graph as JSON: {message}"))
        .at(place.span(start, (start + 1).min(text.len())))
        .help(
            "expected {\"nodes\": {ID: {\"op\", \"eclass\", \"children\", \"cost\"}}, \
             \"root_eclasses\": [..]}, with finite costs",
        )
}

impl Gym {
    /// A problem whose names are numbers: `3` for a class, `3.0` for its first node. Operators and
    /// operands are those of the nodes; the problem has the same operands.
    pub fn new(
        problem: Problem,
        operators: Vec<String>,
        operands: Vec<SmallVec<[Class; 4]>>,
    ) -> Gym {
        let classes = problem.classes().map(|class| class.to_string()).collect();
        let nodes = (0..problem.node_count() as u32).map(|node| {
            let class = problem.owner(node);
            format!("{class}.{}", node - problem.nodes(class).start)
        });
        let root_spans = vec![None; problem.roots().len()];
        Gym { classes, nodes: nodes.collect(), operators, operands, root_spans, problem }
    }

    /// The children of `node` in their order, with repetitions.
    pub fn operands(&self, node: Node) -> &[Class] {
        self.operands.get(node as usize).map_or(&[], |operands| operands)
    }

    /// The problem as the JSON of the gym. Nodes with a child class that has no nodes, which
    /// nothing can choose, are left out.
    pub fn to_json(&self) -> Value {
        let problem = &self.problem;
        let mut nodes = Map::new();
        for node in 0..problem.node_count() as u32 {
            let children = self.operands(node).iter();
            let children: Option<Vec<&str>> = children
                .map(|&child| problem.nodes(child).next().map(|node| &*self.nodes[node as usize]))
                .collect();
            let Some(children) = children else { continue };
            let at = node as usize;
            let json = json!({
                "op": self.operators.get(at).map_or("", |operator| operator),
                "eclass": self.classes[problem.owner(node) as usize],
                "children": children,
                "cost": problem.cost(node),
            });
            nodes.insert(self.nodes[at].clone(), json);
        }
        let roots = problem.roots().iter().map(|&root| &*self.classes[root as usize]);
        json!({ "nodes": nodes, "root_eclasses": roots.collect::<Vec<_>>() })
    }

    /// The choice of `extraction` as JSON: the id of a node for each class, and the cost.
    pub fn choice_to_json(&self, extraction: &Extraction) -> Value {
        let chosen = self.classes.iter().zip(&extraction.choice);
        let chosen = chosen.filter(|&(_, &node)| node != NONE);
        let choices: Map<String, Value> = chosen
            .map(|(class, &node): (&String, &Node)| {
                (class.clone(), self.nodes[node as usize].as_str().into())
            })
            .collect();
        json!({ "cost": extraction.cost, "bound": extraction.bound, "choices": choices })
    }

    /// The diagnostic of a root without an extraction.
    pub fn unavailable(&self, Unavailable(class): Unavailable) -> Diagnostic {
        let name = self.classes.get(class as usize).map_or("", |name| name);
        let place = self.problem.roots().iter().position(|&root| root == class);
        let span = place.and_then(|at| *self.root_spans.get(at)?);
        Diagnostic::error("E0942", format!("the root class `{name}` has no extraction"))
            .at(span)
            .labelled("the first of its nodes")
            .note("each of its nodes needs the class itself in the end")
            .help("give the class a node that does not lead back to it")
    }
}
