//! Groups of the post-dominator algorithm (arXiv 1904.08368, section 4.1).
//!
//! Three sweeps over the nodes, each merging a node, with everything on the way,
//! into its immediate post-dominator: first convolutions with their elementwise tails and
//! elementwise operators, then injective operators, then injective operators into tuples that were
//! absorbed meanwhile. Before them, which the original does not do, scatters take what only moves the
//! elements that they read.

use relay_operators::FusionPattern;

use super::dominators::PostDominators;
use super::graph::{Graph, Visited};

/// The group of every node.
pub(super) struct Groups {
    groups: Vec<Group>,
}

#[derive(Clone, Copy)]
struct Group {
    parent: usize,
    pattern: FusionPattern,
    has_anchor: bool,
    size: usize,
}

impl Groups {
    /// The representative of the group of `node`, which is the node whose value the group yields.
    fn root(&self, node: usize) -> usize {
        let mut root = node;
        while self.groups[root].parent != root {
            root = self.groups[root].parent;
        }
        root
    }

    /// The nodes of each group that has any, by their last node, which is the one that it yields.
    pub(super) fn members(&self) -> Vec<Vec<usize>> {
        let mut members: Vec<Vec<usize>> = vec![vec![]; self.groups.len()];
        for node in 0..self.groups.len() {
            members[self.root(node)].push(node);
        }
        members.retain(|members| !members.is_empty());
        members
    }

    fn find(&mut self, node: usize) -> usize {
        let root = self.root(node);
        let mut node = node;
        while node != root {
            node = std::mem::replace(&mut self.groups[node].parent, root);
        }
        root
    }

    fn pattern(&mut self, node: usize) -> FusionPattern {
        let root = self.find(node);
        self.groups[root].pattern
    }

    fn merge(&mut self, child: usize, target: usize) {
        let (child, target) = (self.find(child), self.find(target));
        if child == target {
            return;
        }
        let merged = self.groups[child];
        self.groups[child].parent = target;
        let group = &mut self.groups[target];
        group.size += merged.size;
        if merged.has_anchor {
            group.has_anchor = true;
            group.pattern = group.pattern.max(merged.pattern);
        }
    }
}

/// Which sweep of the algorithm runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Elementwise,
    Injective,
    Tuples,
}

/// Groups the nodes; no group grows over `max_depth` operators, and 0 groups nothing.
pub(super) fn partition(graph: &Graph, max_depth: usize) -> Groups {
    let groups = graph.nodes.iter().enumerate().map(|(index, node)| Group {
        parent: index,
        pattern: node.pattern,
        has_anchor: node.pattern == FusionPattern::OutFusable,
        size: 1 + node.constants,
    });
    let groups = Groups { groups: groups.collect() };
    if max_depth == 0 {
        return groups;
    }
    let visited = Visited::new(graph.nodes.len());
    let mut partitioner = Partitioner { graph, groups, visited, max_depth, pending: vec![] };
    let tree = PostDominators::of(graph);
    // From the last node, so that the way to a scatter is known where a node is looked at.
    for node in (0..graph.nodes.len()).rev() {
        if let Some((sink, edge)) = tree.parent(node) {
            partitioner.visit_move(node, sink, edge);
        }
    }
    for phase in [Phase::Elementwise, Phase::Injective, Phase::Tuples] {
        for node in 0..graph.nodes.len() {
            if let Some((sink, edge)) = tree.parent(node) {
                partitioner.visit(phase, node, sink, edge);
            }
        }
    }
    partitioner.groups
}

struct Partitioner<'a> {
    graph: &'a Graph,
    groups: Groups,
    visited: Visited,
    max_depth: usize,
    pending: Vec<usize>,
}

impl Partitioner<'_> {
    /// Merges `node` into the group of `sink` where it only moves what a scatter reads.
    fn visit_move(&mut self, node: usize, sink: usize, edge: FusionPattern) {
        use FusionPattern::{Injective, Opaque, Scatter, Tuple};
        let moves = matches!(self.graph.nodes[node].pattern, Injective | Tuple);
        if moves
            && edge != Opaque
            && self.path_is(node, sink, |kind, _| kind == Scatter)
            && !self.grows_too_large(node, sink)
        {
            self.fuse(node, sink);
        }
    }

    fn visit(&mut self, phase: Phase, node: usize, sink: usize, edge: FusionPattern) {
        use FusionPattern::{Broadcast, Elementwise, Injective, Opaque, OutFusable, Reduce, Tuple};
        let pattern = self.groups.groups[node].pattern;
        if pattern == Opaque || self.grows_too_large(node, sink) {
            return;
        }
        let sink_node_pattern = self.groups.groups[sink].pattern;
        let fuses = if phase == Phase::Tuples {
            let sink_group_pattern = self.groups.pattern(sink);
            pattern <= Injective
                && sink_node_pattern == Tuple
                && sink_group_pattern <= Injective
                && self.path_is(node, sink, |kind, _| kind <= Injective)
        } else if self.groups.find(node) == self.groups.find(sink) || sink_node_pattern == Tuple {
            false
        } else if pattern == OutFusable {
            phase == Phase::Elementwise
                && edge == Elementwise
                && self.path_is(node, sink, |kind, _| kind <= Broadcast)
        } else if pattern <= Broadcast {
            (edge <= Injective || edge == Reduce)
                && self.path_is(node, sink, |kind, is_sink| {
                    kind <= Injective || is_sink && matches!(kind, Reduce | OutFusable)
                })
        } else if matches!(pattern, Injective | Tuple) {
            phase == Phase::Injective && self.path_is(node, sink, |kind, _| kind <= Injective)
        } else {
            false
        };
        if fuses {
            self.fuse(node, sink);
        }
    }

    /// Whether merging `node` and all between into the group of `sink` exceeds `max_depth`.
    fn grows_too_large(&mut self, node: usize, sink: usize) -> bool {
        let root = self.groups.find(sink);
        let mut total = self.groups.groups[root].size;
        self.visited.clear();
        self.pending.clear();
        self.pending.push(node);
        while let Some(current) = self.pending.pop() {
            if current == sink || !self.visited.insert(current) {
                continue;
            }
            let root = self.groups.find(current);
            total += self.groups.groups[root].size;
            if total > self.max_depth {
                return true;
            }
            self.pending.extend(self.graph.nodes[current].outputs.iter().map(|output| output.0));
        }
        false
    }

    /// Whether the groups of all nodes after `node` up to `sink` satisfy `allowed`, which is also
    /// told whether it is asked about the sink.
    fn path_is(
        &mut self,
        node: usize,
        sink: usize,
        allowed: impl Fn(FusionPattern, bool) -> bool,
    ) -> bool {
        self.visited.clear();
        self.pending.clear();
        self.pending.extend(self.graph.nodes[node].outputs.iter().map(|output| output.0));
        while let Some(current) = self.pending.pop() {
            if !self.visited.insert(current) {
                continue;
            }
            if !allowed(self.groups.pattern(current), current == sink) {
                return false;
            }
            if current != sink {
                let outputs = &self.graph.nodes[current].outputs;
                self.pending.extend(outputs.iter().map(|output| output.0));
            }
        }
        true
    }

    /// Merges `node` and everything between into the group of `sink`.
    fn fuse(&mut self, node: usize, sink: usize) {
        self.visited.clear();
        self.pending.clear();
        self.pending.push(node);
        while let Some(current) = self.pending.pop() {
            if current == sink || !self.visited.insert(current) {
                continue;
            }
            self.groups.merge(current, sink);
            self.pending.extend(self.graph.nodes[current].outputs.iter().map(|output| output.0));
        }
    }
}
