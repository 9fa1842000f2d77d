//! Smaller problems with the same best extractions.

use super::problem::{Builder, Class, NONE, Node, Problem};

/// A problem without what no best extraction needs, and where its nodes come from.
#[derive(Debug)]
pub(super) struct Reduced {
    pub(super) problem: Problem,
    /// The node of the original problem that each node is.
    nodes: Vec<Node>,
    /// The class of the original problem that each class is.
    classes: Vec<Class>,
    /// The new class of each original class, or [`NONE`].
    renamed: Vec<Class>,
}

/// How many comparisons a node may cost when nodes are looked for that others make needless.
const COMPARISONS: usize = 64;

impl Reduced {
    /// The problem without classes that the roots do not reach, without nodes that cannot be
    /// chosen (they need themselves, or classes without any extraction), and without nodes that
    /// cost no less than another of their class and need no less. `keep` leaves out more nodes.
    ///
    /// # Errors
    /// A root without any extraction: all of its nodes need themselves in the end.
    pub(super) fn new(problem: &Problem, keep: impl Fn(Node) -> bool) -> Result<Reduced, Class> {
        let available = available(problem, &keep);
        if let Some(&root) = problem.roots().iter().find(|&&root| !available[root as usize]) {
            return Err(root);
        }
        let usable = |node: Node| {
            let children = problem.children(node);
            keep(node)
                && !children.contains(&problem.owner(node))
                && children.iter().all(|&child| available[child as usize])
        };
        let has_rewards = problem.has_rewards();
        let mut kept: Vec<Vec<Node>> = Vec::new();
        let mut classes: Vec<Class> = Vec::new();
        let mut renamed = vec![NONE; problem.class_count()];
        let mut stamps = Stamps::new(problem.class_count());
        let mut pending: Vec<Class> = problem.roots().iter().rev().copied().collect();
        while let Some(class) = pending.pop() {
            if renamed[class as usize] != NONE {
                continue;
            }
            renamed[class as usize] = classes.len() as u32;
            classes.push(class);
            let mut nodes: Vec<Node> = problem.nodes(class).filter(|&node| usable(node)).collect();
            if nodes.len() > 1 && !has_rewards {
                nodes = minimal(problem, nodes, &mut stamps);
            }
            for &node in nodes.iter().rev() {
                pending.extend(problem.children(node).iter().rev());
            }
            kept.push(nodes);
        }
        let mut builder = Builder::default();
        let mut nodes = Vec::new();
        for of_class in &kept {
            builder.class();
            for &node in of_class {
                let children = problem.children(node).iter();
                builder.node(problem.cost(node), children.map(|&child| renamed[child as usize]));
                nodes.push(node);
            }
        }
        let roots = problem.roots().iter().map(|&root| renamed[root as usize]);
        Ok(Reduced { problem: builder.finish(roots), nodes, classes, renamed })
    }

    /// The problem, and the node of the original problem that each node is.
    pub(super) fn into_parts(self) -> (Problem, Vec<Node>) {
        (self.problem, self.nodes)
    }

    /// A choice of the reduced problem as one of the original.
    pub(super) fn original(&self, choice: &[Node]) -> Vec<Node> {
        let mut original = vec![NONE; self.renamed.len()];
        for (&node, &class) in choice.iter().zip(&self.classes) {
            if node != NONE {
                original[class as usize] = self.nodes[node as usize];
            }
        }
        original
    }

    /// `choice` of the original problem, an extraction, as one of the reduced problem; see
    /// [`adopt`].
    pub(super) fn adopt(&self, original: &Problem, choice: &[Node]) -> Option<Vec<Node>> {
        adopt(original, choice, &self.problem, &self.nodes)
    }
}

/// `choice`, an extraction of `original`, in a problem that was made of it by leaving out what no
/// best extraction needs; `names` are the nodes of `original` that its nodes are. Where a node is
/// gone, another that costs no more and needs no more takes its place.
pub(super) fn adopt(
    original: &Problem,
    choice: &[Node],
    problem: &Problem,
    names: &[Node],
) -> Option<Vec<Node>> {
    let mut adopted = vec![NONE; problem.class_count()];
    let mut pending = problem.roots().to_vec();
    while let Some(class) = pending.pop() {
        if adopted[class as usize] != NONE {
            continue;
        }
        let mut nodes = problem.nodes(class);
        let owner = original.owner(names[nodes.start as usize]);
        let old = *choice.get(owner as usize).filter(|&&old| old != NONE)?;
        let owner = |class: Class| original.owner(names[problem.nodes(class).start as usize]);
        let covers = |&node: &Node| {
            let mut children = problem.children(node).iter().map(|&child| owner(child));
            problem.cost(node) <= original.cost(old)
                && children.all(|child| original.children(old).binary_search(&child).is_ok())
        };
        let same = nodes.clone().find(|&node| names[node as usize] == old);
        let node = same.or_else(|| nodes.find(covers))?;
        adopted[class as usize] = node;
        pending.extend(problem.children(node));
    }
    Some(adopted)
}

/// Which classes have an extraction.
fn available(problem: &Problem, keep: &impl Fn(Node) -> bool) -> Vec<bool> {
    let parents = problem.parents();
    let mut available = vec![false; problem.class_count()];
    let mut missing: Vec<u32> = Vec::with_capacity(problem.node_count());
    let mut pending: Vec<Class> = Vec::new();
    for node in 0..problem.node_count() as u32 {
        let count = if keep(node) { problem.children(node).len() as u32 } else { NONE };
        missing.push(count);
        if count == 0 {
            pending.push(problem.owner(node));
        }
    }
    while let Some(class) = pending.pop() {
        if std::mem::replace(&mut available[class as usize], true) {
            continue;
        }
        for &node in parents.of(class) {
            let count = &mut missing[node as usize];
            if *count != NONE {
                *count -= 1;
                if *count == 0 {
                    pending.push(problem.owner(node));
                }
            }
        }
    }
    available
}

/// `nodes` without those that cost no less than another and need all that it needs. Exact for
/// small classes; in large ones each node is compared with some others only.
fn minimal(problem: &Problem, mut nodes: Vec<Node>, stamps: &mut Stamps) -> Vec<Node> {
    let key = |node: Node| (problem.children(node).len(), problem.cost(node));
    nodes.sort_by(|&a, &b| {
        let ((few_a, cost_a), (few_b, cost_b)) = (key(a), key(b));
        few_a.cmp(&few_b).then(cost_a.total_cmp(&cost_b)).then(a.cmp(&b))
    });
    let mut kept: Vec<Node> = Vec::with_capacity(nodes.len());
    for node in nodes {
        stamps.start();
        for &child in problem.children(node) {
            stamps.mark(child);
        }
        let covers = |&other: &Node| {
            problem.cost(other) <= problem.cost(node)
                && problem.children(other).iter().all(|&child| stamps.is_marked(child))
        };
        // Equal nodes are next to each other, and the smallest make most others needless.
        let some = COMPARISONS.min(kept.len());
        let covered = kept[..some].iter().any(covers)
            || kept[some..].iter().rev().take(COMPARISONS).any(covers);
        if !covered {
            kept.push(node);
        }
    }
    kept
}

/// A set of classes that is emptied in constant time.
#[derive(Debug)]
pub(super) struct Stamps {
    stamps: Vec<u32>,
    current: u32,
}

impl Stamps {
    pub(super) fn new(classes: usize) -> Stamps {
        Stamps { stamps: vec![0; classes], current: 0 }
    }

    /// Empties the set.
    pub(super) fn start(&mut self) {
        if self.current == u32::MAX {
            self.stamps.fill(0);
            self.current = 0;
        }
        self.current += 1;
    }

    /// Adds `class`; whether it is new.
    pub(super) fn mark(&mut self, class: Class) -> bool {
        let stamp = &mut self.stamps[class as usize];
        std::mem::replace(stamp, self.current) != self.current
    }

    pub(super) fn is_marked(&self, class: Class) -> bool {
        self.stamps[class as usize] == self.current
    }
}
