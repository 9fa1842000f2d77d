//! Takes a problem apart into small ones that can be solved one by one.

use super::cover::components;
use super::problem::{Builder, Class, NONE, Node, Problem};
use super::reduce::Reduced;

/// What is left to decide of a problem.
#[derive(Debug, Default)]
pub(super) struct Presolved {
    /// Nodes of the original problem that every best extraction may have.
    pub(super) fixed: Vec<Node>,
    pub(super) parts: Vec<Part>,
    /// Visits of nodes and edges, all passes over the problem together.
    pub(super) work: u64,
}

/// A problem of its own.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) problem: Problem,
    /// The node of the original problem that each node is.
    pub(super) nodes: Vec<Node>,
}

/// How often a problem is made smaller; each time may open the way for the next.
const ROUNDS: u32 = 4;

impl Presolved {
    /// Simplifies a reduced problem, whose nodes are `nodes` of the original one: a class that
    /// every extraction has is a root, nobody needs to ask for a root, and what does not meet is
    /// decided apart. Stops where less than one in `share` nodes and edges would go, or the work
    /// has reached `work`.
    pub(super) fn new(
        mut problem: Problem,
        mut nodes: Vec<Node>,
        share: usize,
        work: u64,
    ) -> Presolved {
        let mut presolved = Presolved::default();
        for _ in 0..ROUNDS {
            if presolved.work >= work {
                break;
            }
            let Some((smaller, kept)) = presolved.drop_roots(&problem, &nodes, share) else {
                break;
            };
            presolved.work += problem.size();
            let Ok(reduced) = Reduced::new(&smaller, |_| true) else {
                unreachable!("what has an extraction keeps it")
            };
            let (reduced, places) = reduced.into_parts();
            let name = |place: Node| nodes[kept[place as usize] as usize];
            nodes = places.into_iter().map(name).collect();
            problem = reduced;
        }
        presolved.split(problem, nodes);
        presolved
    }

    /// Makes roots of what roots need in any case, and takes out the edges to them. An edge within
    /// a strongly connected component stays, since it may be part of a cycle. Roots with nothing
    /// left to decide or to forbid are fixed. Returns the problem and the nodes that are kept, or
    /// `None` where there is little to do.
    fn drop_roots(
        &mut self,
        problem: &Problem,
        names: &[Node],
        share: usize,
    ) -> Option<(Problem, Vec<Node>)> {
        let mut is_root = vec![false; problem.class_count()];
        let mut pending = problem.roots().to_vec();
        while let Some(class) = pending.pop() {
            if !std::mem::replace(&mut is_root[class as usize], true)
                && problem.nodes(class).len() == 1
            {
                pending.extend(problem.children(problem.nodes(class).start));
            }
        }
        let certain = |class: &Class| is_root[*class as usize];
        let edges = (0..problem.node_count() as u32).flat_map(|node| problem.children(node));
        let leaf = |class: &Class| {
            let mut nodes = problem.nodes(*class);
            nodes.len() == 1 && nodes.all(|node| problem.children(node).is_empty())
        };
        let removable = edges.copied().filter(certain).count()
            + problem.classes().filter(certain).filter(leaf).count();
        let size = problem.node_count() + problem.edge_count();
        if removable == 0 || removable.saturating_mul(share) < size {
            return None;
        }
        let components = components(problem);
        let stays = |class: Class, child: Class| {
            !is_root[child as usize] || components[child as usize] == components[class as usize]
        };
        let mut is_needed = vec![false; problem.class_count()];
        for node in 0..problem.node_count() as u32 {
            let class = problem.owner(node);
            for &child in problem.children(node).iter().filter(|&&child| stays(class, child)) {
                is_needed[child as usize] = true;
            }
        }
        let is_fixed = |class: Class| {
            let mut nodes = problem.nodes(class);
            let only = nodes.start;
            is_root[class as usize]
                && !is_needed[class as usize]
                && nodes.len() == 1
                && nodes.all(|_| problem.children(only).iter().all(|&child| !stays(class, child)))
        };
        let mut builder = Builder::default();
        let mut kept = Vec::new();
        let mut roots = Vec::new();
        for class in problem.classes() {
            // Classes keep their places; those that are fixed are out of reach.
            builder.class();
            if is_fixed(class) {
                self.fixed.push(names[problem.nodes(class).start as usize]);
                continue;
            }
            if is_root[class as usize] {
                roots.push(class);
            }
            for node in problem.nodes(class) {
                let children = problem.children(node).iter().copied();
                builder.node(problem.cost(node), children.filter(|&child| stays(class, child)));
                kept.push(node);
            }
        }
        let smaller = builder.finish(roots);
        let is_smaller = smaller.node_count() < problem.node_count()
            || smaller.edge_count() < problem.edge_count()
            || smaller.roots().len() > problem.roots().len();
        is_smaller.then_some((smaller, kept))
    }

    /// Adds the parts of `problem` that no edge connects.
    fn split(&mut self, problem: Problem, names: Vec<Node>) {
        let mut groups: Vec<Class> = problem.classes().collect();
        for node in 0..problem.node_count() as u32 {
            for &child in problem.children(node) {
                let a = find(&mut groups, problem.owner(node));
                let b = find(&mut groups, child);
                groups[a.max(b) as usize] = a.min(b);
            }
        }
        let is_whole = problem.class_count() > 0
            && problem.classes().all(|class| find(&mut groups, class) == 0);
        if is_whole {
            self.parts.push(Part { problem, nodes: names });
            return;
        }
        let mut members: Vec<Vec<Class>> = vec![vec![]; problem.class_count()];
        let mut renamed = vec![NONE; problem.class_count()];
        for class in problem.classes() {
            let members = &mut members[find(&mut groups, class) as usize];
            renamed[class as usize] = members.len() as u32;
            members.push(class);
        }
        for members in members.iter().filter(|members| !members.is_empty()) {
            let mut builder = Builder::default();
            let mut nodes = Vec::new();
            for &class in members {
                builder.class();
                for node in problem.nodes(class) {
                    let children = problem.children(node).iter();
                    builder
                        .node(problem.cost(node), children.map(|&child| renamed[child as usize]));
                    nodes.push(names[node as usize]);
                }
            }
            let roots = members.iter().filter(|class| problem.roots().binary_search(class).is_ok());
            let problem = builder.finish(roots.map(|&class| renamed[class as usize]));
            self.parts.push(Part { problem, nodes });
        }
    }
}

/// The first class of the group of `class`.
fn find(groups: &mut [Class], mut class: Class) -> Class {
    while groups[class as usize] != class {
        let above = groups[groups[class as usize] as usize];
        groups[class as usize] = above;
        class = above;
    }
    class
}
