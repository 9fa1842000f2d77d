//! The post-dominator tree of a block's dataflow graph.
//!
//! Every node comes before its users, so one sweep from the last to the first node builds the tree: the
//! immediate post-dominator of a node is the least common ancestor of its users. Ancestors are
//! found over skew-binary jump pointers in O(log n), where walking parents would make a residual
//! network quadratic.

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
