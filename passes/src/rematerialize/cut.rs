//! Which values to keep: a minimum cut.

use std::collections::VecDeque;

use super::graph::{Graph, Kind};
use super::schedule::Plan;

/// Most operators that are computed again one after the other from a value that is kept: what is computed on
/// the way lives at the same time.
const LONGEST: usize = 16;

/// Most edges on a way along which the cut is looked for. Chains have twice as many edges as operators, so only
/// ways that go back and forth between many chains are longer; where there are such, nothing is cut.
const FARTHEST: usize = 8 * LONGEST;

/// The operators to compute again behind `at`, where memory is scarcest: of the values that are made up to
/// there and read behind, as few bytes as possible are kept, and the others follow from these by operators that
/// are fused into what reads them (Chen et al., arXiv 1604.06174; He and Yu, MLSys 2023). What `plan` computes
/// again is there for nothing, and what is read again within `soon` operations is kept.
///
/// Each value is an edge that carries its bytes. From values that cannot be computed again, an endless supply
/// flows to those that are read behind `at`; the cheapest cut of all ways is what to keep. It is found by
/// blocking flows (Dinic 1970) along ways of at most [`FARTHEST`] edges: at most so many rounds, each of which
/// takes at most as many steps for each edge, so that the cost is linear in the size of the graph.
pub(super) fn recomputed(graph: &Graph, plan: &Plan, at: usize, soon: usize) -> Vec<usize> {
    let reads = graph.reads(at);
    // How many operators each value is behind those that are kept; 0 for these.
    let mut depth = vec![0; graph.nodes.len()];
    for (number, node) in graph.nodes.iter().enumerate().take(at + 1) {
        let before = || node.operands.iter().map(|operand| depth[*operand]).max().unwrap_or(0);
        depth[number] = match node.kind {
            _ if !node.can_be_again() || plan.has(number) => 0,
            Kind::Alias => before(),
            _ if reads[number].late.is_some_and(|late| late < reads[number].last + soon) => 0,
            // A chain that is too long is kept in between.
            Kind::Cheap => (before() + 1) % (LONGEST + 1),
            Kind::Fixed | Kind::Costly => 0,
        };
    }
    let mut network = Network::default();
    let mut vertex: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    let mut pending: Vec<usize> = vec![];
    let mut included: Vec<usize> = vec![];
    let reach = |network: &mut Network,
                 vertex: &mut Vec<Option<usize>>,
                 pending: &mut Vec<usize>,
                 node: usize| {
        *vertex[node].get_or_insert_with(|| {
            pending.push(node);
            network.value()
        })
    };
    for (reader, node) in graph.nodes.iter().enumerate().skip(at + 1) {
        for &operand in node.operands.iter().filter(|operand| **operand <= at) {
            if !plan.reads_again(operand, reader) {
                let from = reach(&mut network, &mut vertex, &mut pending, operand);
                network.edge(Network::out(from), Network::SINK, i64::MAX);
            }
        }
        while let Some(number) = pending.pop() {
            included.push(number);
            let own = vertex[number].expect("what is pending has an edge");
            let node = &graph.nodes[number];
            let bytes = match node.kind {
                _ if plan.has(number) => 0,
                // Whoever keeps a tuple or a part keeps what it is of.
                Kind::Alias => i64::MAX,
                _ => node.bytes,
            };
            network.edge(own, Network::out(own), bytes);
            if depth[number] == 0 && node.kind != Kind::Alias {
                network.edge(Network::SOURCE, own, i64::MAX);
                continue;
            }
            for &operand in &node.operands {
                let from = reach(&mut network, &mut vertex, &mut pending, operand);
                network.edge(Network::out(from), own, i64::MAX);
            }
        }
    }
    let Some(needed) = network.before_sink() else { return vec![] };
    let is_again = |number: &usize| {
        depth[*number] > 0
            && graph.nodes[*number].kind == Kind::Cheap
            && vertex[*number].is_some_and(|own| needed[own])
    };
    let mut again: Vec<usize> = included.into_iter().filter(is_again).collect();
    again.sort_unstable();
    again
}

struct Edge {
    to: usize,
    /// How much more may flow.
    left: i64,
}

/// A network of values, each of which is an edge between two vertices.
struct Network {
    /// Each behind its reverse, or before it: that of edge `e` is `e ^ 1`.
    edges: Vec<Edge>,
    /// The edges that leave each vertex.
    leaving: Vec<Vec<usize>>,
}

impl Default for Network {
    fn default() -> Network {
        Network { edges: vec![], leaving: vec![vec![], vec![]] }
    }
}

impl Network {
    const SOURCE: usize = 0;
    const SINK: usize = 1;

    /// A new value: the vertex before its edge.
    fn value(&mut self) -> usize {
        self.leaving.extend([vec![], vec![]]);
        self.leaving.len() - 2
    }

    /// The vertex behind the edge of a value.
    fn out(value: usize) -> usize {
        value + 1
    }

    fn edge(&mut self, from: usize, to: usize, left: i64) {
        for (from, to, left) in [(from, to, left), (to, from, 0)] {
            self.leaving[from].push(self.edges.len());
            self.edges.push(Edge { to, left });
        }
    }

    /// The vertices behind the minimum cut that is nearest to the sink; nothing where ways are too long.
    fn before_sink(&mut self) -> Option<Vec<bool>> {
        loop {
            let level = self.levels();
            match level[Network::SINK] {
                None => break,
                Some(level) if level > FARTHEST => return None,
                Some(_) => self.block(&level),
            }
        }
        let mut needed = vec![false; self.leaving.len()];
        needed[Network::SINK] = true;
        let mut pending = vec![Network::SINK];
        while let Some(vertex) = pending.pop() {
            for &edge in &self.leaving[vertex] {
                let from = self.edges[edge].to;
                if self.edges[edge ^ 1].left > 0 && !std::mem::replace(&mut needed[from], true) {
                    pending.push(from);
                }
            }
        }
        Some(needed)
    }

    /// How many edges each vertex is from the source, as long as something may flow.
    fn levels(&self) -> Vec<Option<usize>> {
        let mut level = vec![None; self.leaving.len()];
        level[Network::SOURCE] = Some(0);
        let mut pending = VecDeque::from([(Network::SOURCE, 0)]);
        while let Some((vertex, far)) = pending.pop_front() {
            for &edge in &self.leaving[vertex] {
                let Edge { to, left } = self.edges[edge];
                if left > 0 && level[to].is_none() {
                    level[to] = Some(far + 1);
                    pending.push_back((to, far + 1));
                }
            }
        }
        level
    }

    /// Lets flow what can along shortest ways.
    fn block(&mut self, level: &[Option<usize>]) {
        // How many of the edges that leave a vertex lead nowhere any more.
        let mut tried = vec![0; self.leaving.len()];
        let mut way: Vec<usize> = vec![];
        loop {
            let vertex = way.last().map_or(Network::SOURCE, |edge| self.edges[*edge].to);
            if vertex == Network::SINK {
                let flow = way.iter().map(|edge| self.edges[*edge].left).min().unwrap_or(0);
                for &edge in &way {
                    self.edges[edge].left -= flow;
                    self.edges[edge ^ 1].left = self.edges[edge ^ 1].left.saturating_add(flow);
                }
                // Goes on from the first edge that is full.
                let full = way.iter().position(|edge| self.edges[*edge].left == 0);
                way.truncate(full.unwrap_or(0));
                continue;
            }
            match self.leaving[vertex].get(tried[vertex]) {
                Some(&edge) => {
                    let Edge { to, left } = self.edges[edge];
                    let is_next =
                        level[to].is_some() && level[to] == level[vertex].map(|far| far + 1);
                    match left > 0 && is_next {
                        true => way.push(edge),
                        false => tried[vertex] += 1,
                    }
                }
                None => match way.pop() {
                    None => return,
                    Some(edge) => {
                        let from = self.edges[edge ^ 1].to;
                        tried[from] += 1;
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network of values with these bytes; those of `supplied` cannot be computed, and `read` are read.
    fn kept(
        bytes: &[i64],
        reads: &[(usize, usize)],
        supplied: &[usize],
        read: &[usize],
    ) -> Vec<usize> {
        let mut network = Network::default();
        let vertices: Vec<usize> = bytes.iter().map(|_| network.value()).collect();
        for (vertex, bytes) in vertices.iter().zip(bytes) {
            network.edge(*vertex, Network::out(*vertex), *bytes);
        }
        for (reader, of) in reads {
            network.edge(Network::out(vertices[*of]), vertices[*reader], i64::MAX);
        }
        supplied.iter().for_each(|of| network.edge(Network::SOURCE, vertices[*of], i64::MAX));
        read.iter()
            .for_each(|of| network.edge(Network::out(vertices[*of]), Network::SINK, i64::MAX));
        let needed = network.before_sink().expect("short ways");
        let is_kept = |of: &usize| !needed[vertices[*of]] && needed[Network::out(vertices[*of])];
        (0..bytes.len()).filter(is_kept).collect()
    }

    #[test]
    fn the_smallest_value_of_a_chain_is_kept() {
        let chain = [(1, 0), (2, 1), (3, 2)];
        assert_eq!(kept(&[8, 3, 9, 7], &chain, &[0], &[3]), [1]);
        // Of equal ones, the last: the fewest are computed again.
        assert_eq!(kept(&[8, 8, 8, 8], &chain, &[0], &[3]), [3]);
        assert_eq!(kept(&[8, 3, 9, 7], &chain, &[0], &[0, 3]), [0]);
    }

    #[test]
    fn values_that_are_made_of_one_are_exchanged_for_it() {
        let fan = [(1, 0), (2, 0), (3, 0)];
        assert_eq!(kept(&[5, 2, 2, 2], &fan, &[0], &[1, 2, 3]), [0]);
        assert_eq!(kept(&[7, 2, 2, 2], &fan, &[0], &[1, 2, 3]), [1, 2, 3]);
    }
}
