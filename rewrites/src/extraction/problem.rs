//! The problem: classes of equal nodes, what nodes cost, and which classes must be there.

use std::fmt;

/// A class, by its place in its problem.
pub type Class = u32;
/// A node, by its place in its problem.
pub type Node = u32;

/// In place of a node: none is chosen.
pub const NONE: Node = u32::MAX;

/// An extraction problem. The nodes of a class stand together; children are classes, sorted and
/// without repetition, since a class costs once however often it is used.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Problem {
    /// Where the nodes of each class start, and the end of the last.
    class_starts: Vec<u32>,
    /// The class of each node.
    owners: Vec<Class>,
    /// The cost of each node.
    costs: Vec<f64>,
    /// Where the children of each node start, and the end of the last.
    child_starts: Vec<u32>,
    children: Vec<Class>,
    roots: Vec<Class>,
}

/// Builds a problem class by class.
#[derive(Debug)]
pub struct Builder {
    problem: Problem,
}

impl Default for Builder {
    fn default() -> Builder {
        let problem =
            Problem { class_starts: vec![0], child_starts: vec![0], ..Problem::default() };
        Builder { problem }
    }
}

impl Builder {
    /// Starts the next class; the nodes that follow are its own.
    pub fn class(&mut self) -> Class {
        self.problem.class_starts.push(self.problem.owners.len() as u32);
        self.problem.class_starts.len() as u32 - 2
    }

    /// Adds a node to the last class. The cost is finite; children may be classes that come later.
    pub fn node(&mut self, cost: f64, children: impl IntoIterator<Item = Class>) -> Node {
        let problem = &mut self.problem;
        let start = problem.children.len();
        problem.children.extend(children);
        problem.children[start..].sort_unstable();
        // Without repetition, in place.
        let mut end = start;
        for at in start..problem.children.len() {
            if at == start || problem.children[at] != problem.children[end - 1] {
                problem.children[end] = problem.children[at];
                end += 1;
            }
        }
        problem.children.truncate(end);
        problem.child_starts.push(end as u32);
        problem.owners.push(problem.class_starts.len() as u32 - 2);
        problem.costs.push(cost);
        let nodes = problem.owners.len() as u32;
        if let Some(last) = problem.class_starts.last_mut() {
            *last = nodes;
        }
        nodes - 1
    }

    /// The problem of extracting `roots`.
    pub fn finish(self, roots: impl IntoIterator<Item = Class>) -> Problem {
        let mut problem = self.problem;
        problem.roots = roots.into_iter().collect();
        problem.roots.sort_unstable();
        problem.roots.dedup();
        problem
    }
}

impl Problem {
    /// The number of classes.
    pub fn class_count(&self) -> usize {
        self.class_starts.len().saturating_sub(1)
    }

    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        self.owners.len()
    }

    /// All classes.
    pub fn classes(&self) -> std::ops::Range<Class> {
        0..self.class_count() as u32
    }

    /// The nodes of `class`.
    pub fn nodes(&self, class: Class) -> std::ops::Range<Node> {
        self.class_starts[class as usize]..self.class_starts[class as usize + 1]
    }

    /// The class of `node`.
    pub fn owner(&self, node: Node) -> Class {
        self.owners[node as usize]
    }

    /// What `node` costs.
    pub fn cost(&self, node: Node) -> f64 {
        self.costs[node as usize]
    }

    /// The classes that `node` needs, sorted.
    pub fn children(&self, node: Node) -> &[Class] {
        let node = node as usize;
        &self.children[self.child_starts[node] as usize..self.child_starts[node + 1] as usize]
    }

    /// The classes that must be there, sorted.
    pub fn roots(&self) -> &[Class] {
        &self.roots
    }

    /// Whether a node costs less than nothing. Sharing more may then be cheaper, so that much of
    /// what strategies conclude from costs does not hold.
    pub fn has_rewards(&self) -> bool {
        self.costs.iter().any(|&cost| cost < 0.0)
    }

    /// How many children all nodes have together.
    pub fn edge_count(&self) -> usize {
        self.children.len()
    }

    /// The work of a pass over the problem: how many nodes and children there are.
    pub(super) fn size(&self) -> u64 {
        (self.node_count() + self.edge_count()) as u64
    }

    /// For each class, the nodes that it is a child of.
    pub fn parents(&self) -> Parents {
        let mut starts = vec![0u32; self.class_count() + 1];
        for &child in &self.children {
            starts[child as usize + 1] += 1;
        }
        for class in 0..self.class_count() {
            starts[class + 1] += starts[class];
        }
        let mut next = starts.clone();
        let mut nodes = vec![0; self.children.len()];
        for node in 0..self.node_count() as u32 {
            for &child in self.children(node) {
                let at = &mut next[child as usize];
                nodes[*at as usize] = node;
                *at += 1;
            }
        }
        Parents { starts, nodes }
    }

    /// The cost of `choice` (for each class a node of it, or [`NONE`] where the class is not
    /// needed): the sum over the classes that the roots reach. Classes are summed in their order,
    /// so that equal choices have equal costs.
    ///
    /// # Errors
    /// A class that is reached and has no node, or reaches itself.
    pub fn dag_cost(&self, choice: &[Node]) -> Result<f64, Invalid> {
        let reached = self.reached(choice)?;
        let nodes = choice.iter().zip(reached).filter(|(_, reached)| *reached);
        Ok(nodes.fold(0.0, |sum, (&node, _)| sum + self.cost(node)))
    }

    /// Takes out of `choice` what the roots do not reach, and returns the cost of the rest.
    ///
    /// # Errors
    /// Those of [`Problem::dag_cost`].
    pub fn prune(&self, choice: &mut [Node]) -> Result<f64, Invalid> {
        let reached = self.reached(choice)?;
        let mut cost = 0.0;
        for (node, reached) in choice.iter_mut().zip(reached) {
            if reached {
                cost += self.cost(*node);
            } else {
                *node = NONE;
            }
        }
        Ok(cost)
    }

    /// Which classes the roots reach along `choice`, without cycles.
    fn reached(&self, choice: &[Node]) -> Result<Vec<bool>, Invalid> {
        let mut reached = vec![false; self.class_count()];
        let mut done = vec![false; self.class_count()];
        // A class and the next of its node's children to visit.
        let mut stack: Vec<(Class, usize)> = Vec::new();
        for &root in &self.roots {
            let mut next = Some(root);
            loop {
                if let Some(class) = next.take()
                    && !done[class as usize]
                {
                    let node = choice.get(class as usize).copied().unwrap_or(NONE);
                    if node == NONE || !self.nodes(class).contains(&node) {
                        return Err(Invalid::Missing(class));
                    }
                    if std::mem::replace(&mut reached[class as usize], true) {
                        return Err(Invalid::Cycle(class));
                    }
                    stack.push((class, 0));
                }
                let Some((class, at)) = stack.last_mut() else { break };
                match self.children(choice[*class as usize]).get(*at) {
                    Some(&child) => {
                        *at += 1;
                        next = Some(child);
                    }
                    None => {
                        done[*class as usize] = true;
                        stack.pop();
                    }
                }
            }
        }
        Ok(reached)
    }
}

/// Which nodes use a class.
#[derive(Clone, Debug)]
pub struct Parents {
    starts: Vec<u32>,
    nodes: Vec<Node>,
}

impl Parents {
    /// The nodes that `class` is a child of, in order.
    pub fn of(&self, class: Class) -> &[Node] {
        let class = class as usize;
        &self.nodes[self.starts[class] as usize..self.starts[class + 1] as usize]
    }
}

/// Why a choice is no extraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// A class is needed and has no node of its own chosen.
    Missing(Class),
    /// A class needs itself.
    Cycle(Class),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Missing(class) => write!(f, "class {class} is needed and has no node"),
            Invalid::Cycle(class) => write!(f, "class {class} needs itself"),
        }
    }
}

impl std::error::Error for Invalid {}
