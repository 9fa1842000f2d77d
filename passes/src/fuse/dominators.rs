//! The post-dominator tree of a block's dataflow graph.
//!
//! Every node comes before its users, so one sweep from the last to the first node builds the tree: the
//! immediate post-dominator of a node is the least common ancestor of its users. Ancestors are
//! found over skew-binary jump pointers in O(log n), and with them the least fusable edge on the way,
//! which a general algorithm does not tell.
//!
//! `petgraph::algo::dominators::simple_fast` gives the same tree, without edges, and walks parents,
//! which is quadratic where many nodes are used at both ends of a chain. A test compares the two.

use relay_operators::FusionPattern;

use super::graph::Graph;

/// A node's place in the tree.
#[derive(Clone, Copy)]
struct TreeNode {
    depth: u32,
    parent: usize,
    jump: usize,
    /// The least fusable edge on any path to the parent.
    pattern: FusionPattern,
    /// The least fusable edge on any path to `jump`.
    jump_pattern: FusionPattern,
}

/// Immediate post-dominators.
pub(super) struct PostDominators {
    nodes: Vec<TreeNode>,
    /// Index of the virtual exit: the parent of every value that escapes.
    exit: usize,
}

impl PostDominators {
    pub(super) fn of(graph: &Graph) -> PostDominators {
        let exit = graph.nodes.len();
        let root = TreeNode {
            depth: 0,
            parent: exit,
            jump: exit,
            pattern: FusionPattern::Opaque,
            jump_pattern: FusionPattern::Opaque,
        };
        let mut tree = PostDominators { nodes: vec![root; exit + 1], exit };
        for (index, node) in graph.nodes.iter().enumerate().rev() {
            let mut pattern = FusionPattern::Elementwise;
            let mut parent = exit;
            if !node.escapes {
                let mut outputs = node.outputs.iter();
                if let Some(&(first, edge)) = outputs.next() {
                    parent = first;
                    pattern = edge;
                    for &(output, edge) in outputs {
                        parent = tree.common_ancestor(parent, output, &mut pattern);
                        pattern = pattern.max(edge);
                    }
                }
            }
            tree.nodes[index] = tree.child_of(parent, pattern);
        }
        tree
    }

    /// The immediate post-dominator of `node` and the least fusable edge on any path to it;
    /// `None` where only the exit post-dominates it.
    pub(super) fn parent(&self, node: usize) -> Option<(usize, FusionPattern)> {
        let TreeNode { parent, pattern, .. } = self.nodes[node];
        (parent != self.exit).then_some((parent, pattern))
    }

    fn child_of(&self, parent: usize, pattern: FusionPattern) -> TreeNode {
        let up = self.nodes[parent];
        let far = self.nodes[up.jump];
        let (jump, jump_pattern) = if up.depth - far.depth == far.depth - self.nodes[far.jump].depth
            && parent != self.exit
        {
            (far.jump, pattern.max(up.jump_pattern).max(far.jump_pattern))
        } else {
            (parent, pattern)
        };
        TreeNode { depth: up.depth + 1, parent, jump, pattern, jump_pattern }
    }

    /// The least common ancestor of two nodes; `pattern` grows by the edges on the way.
    fn common_ancestor(&self, a: usize, b: usize, pattern: &mut FusionPattern) -> usize {
        let (mut a, mut b) = (a, b);
        if self.nodes[a].depth < self.nodes[b].depth {
            std::mem::swap(&mut a, &mut b);
        }
        while self.nodes[a].depth > self.nodes[b].depth {
            let node = self.nodes[a];
            if self.nodes[node.jump].depth >= self.nodes[b].depth {
                *pattern = (*pattern).max(node.jump_pattern);
                a = node.jump;
            } else {
                *pattern = (*pattern).max(node.pattern);
                a = node.parent;
            }
        }
        while a != b {
            let (x, y) = (self.nodes[a], self.nodes[b]);
            if x.jump != y.jump {
                *pattern = (*pattern).max(x.jump_pattern).max(y.jump_pattern);
                (a, b) = (x.jump, y.jump);
            } else {
                *pattern = (*pattern).max(x.pattern).max(y.pattern);
                (a, b) = (x.parent, y.parent);
            }
        }
        a
    }
}

#[cfg(test)]
mod tests {
    use ir_core::{EntityId, OpId, Random};
    use petgraph::algo::dominators::simple_fast;
    use petgraph::graph::{DiGraph, NodeIndex};

    use super::*;
    use crate::fuse::graph::Node;

    /// A graph of `count` nodes with up to three later users each.
    fn random_graph(count: usize, random: &mut Random) -> Graph {
        let mut graph = Graph { nodes: vec![] };
        for index in 0..count {
            let later = (count - index - 1).min(1 + index % 7);
            let users = if later == 0 { 0 } else { random.below(4) };
            let edges = [FusionPattern::Elementwise, FusionPattern::Injective];
            let outputs = (0..users)
                .map(|_| (index + 1 + random.below(later), edges[random.below(2)]))
                .collect();
            let escapes = random.below(8) == 0;
            let (op, pattern) = (OpId::from_index(index), FusionPattern::Elementwise);
            graph.nodes.push(Node { op, pattern, escapes, outputs, constants: 0 });
        }
        graph
    }

    /// The least fusable edge on any path from `node` to its post-dominator `sink`.
    fn least_fusable(graph: &Graph, node: usize, sink: usize) -> FusionPattern {
        let mut reached = vec![false; sink + 1];
        reached[node] = true;
        let mut least = FusionPattern::Elementwise;
        for from in node..sink {
            if !reached[from] {
                continue;
            }
            for &(to, edge) in &graph.nodes[from].outputs {
                reached[to] = true;
                least = least.max(edge);
            }
        }
        least
    }

    #[test]
    fn a_general_algorithm_finds_the_same_tree() {
        let mut random = Random::new(7);
        for count in 1..200 {
            let graph = random_graph(count, &mut random);
            let mut upside_down = DiGraph::<(), ()>::new();
            (0..=count).for_each(|_| _ = upside_down.add_node(()));
            for (index, node) in graph.nodes.iter().enumerate() {
                let exit = node.escapes || node.outputs.is_empty();
                let users = node.outputs.iter().map(|(user, _)| *user).filter(|_| !exit);
                for user in users.chain(exit.then_some(count)) {
                    upside_down.add_edge(NodeIndex::new(user), NodeIndex::new(index), ());
                }
            }
            let expected = simple_fast(&upside_down, NodeIndex::new(count));
            let tree = PostDominators::of(&graph);
            for node in 0..count {
                let found = tree.parent(node).map_or(count, |(parent, _)| parent);
                let parent = expected.immediate_dominator(NodeIndex::new(node));
                assert_eq!(Some(NodeIndex::new(found)), parent, "node {node} of {count}");
                if let Some((parent, edge)) = tree.parent(node) {
                    assert_eq!(edge, least_fusable(&graph, node, parent), "node {node} of {count}");
                }
            }
        }
    }
}
