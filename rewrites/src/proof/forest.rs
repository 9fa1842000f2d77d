//! Why two terms are equal: the path between them in the forest of what was united.
//!
//! A union adds an edge only where it joins two trees, so that there is one path between terms, and
//! it has only edges that were there when they became equal.

use super::terms::Term;

/// Why two terms are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// By the step at this place.
    Step(u32),
    /// They are the same operation on equal operands.
    Congruent,
}

/// What was united.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// One term.
    pub a: Term,
    /// The other.
    pub b: Term,
    /// Why they are equal.
    pub why: Why,
    /// Of congruent terms: whether the operands of one are those of the other swapped.
    pub swapped: bool,
}

const NONE: u32 = u32::MAX;

/// The forest, as it is in the end. An edge that was given out is contracted, so that giving out all
/// takes little more than linear time.
pub struct Forest {
    /// By term, the edge towards its root.
    up: Vec<u32>,
    parents: Vec<u32>,
    depths: Vec<u32>,
    /// By term, the highest one that edges given out lead to, or one on the way there.
    tops: Vec<u32>,
}

impl Forest {
    /// The forest of `edges` over `terms` terms.
    pub fn new(terms: usize, edges: &[Edge]) -> Forest {
        let mut starts = vec![0u32; terms + 1];
        let ends = || edges.iter().flat_map(|edge| [edge.a, edge.b]);
        ends().for_each(|term| starts[term.0 as usize + 1] += 1);
        for term in 0..terms {
            starts[term + 1] += starts[term];
        }
        let mut next = starts.clone();
        let mut around = vec![0u32; 2 * edges.len()];
        for (place, edge) in edges.iter().enumerate() {
            for term in [edge.a, edge.b] {
                let slot = &mut next[term.0 as usize];
                around[*slot as usize] = place as u32;
                *slot += 1;
            }
        }
        let mut forest = Forest {
            up: vec![NONE; terms],
            parents: (0..terms as u32).collect(),
            depths: vec![0; terms],
            tops: (0..terms as u32).collect(),
        };
        let mut seen = vec![false; terms];
        let mut pending = Vec::new();
        for root in 0..terms as u32 {
            if std::mem::replace(&mut seen[root as usize], true) {
                continue;
            }
            pending.push(root);
            while let Some(term) = pending.pop() {
                let of_term = starts[term as usize] as usize..starts[term as usize + 1] as usize;
                for place in &around[of_term] {
                    let edge = edges[*place as usize];
                    let other = if edge.a.0 == term { edge.b.0 } else { edge.a.0 };
                    if !std::mem::replace(&mut seen[other as usize], true) {
                        forest.up[other as usize] = *place;
                        forest.parents[other as usize] = term;
                        forest.depths[other as usize] = forest.depths[term as usize] + 1;
                        pending.push(other);
                    }
                }
            }
        }
        forest
    }

    fn top(&mut self, mut term: u32) -> u32 {
        while self.tops[term as usize] != term {
            let above = self.tops[term as usize];
            self.tops[term as usize] = self.tops[above as usize];
            term = above;
        }
        term
    }

    /// The edges between `a` and `b` that were not given out before; `false` where there is no path.
    pub fn path(&mut self, a: Term, b: Term, out: &mut Vec<u32>) -> bool {
        let (mut a, mut b) = (self.top(a.0), self.top(b.0));
        while a != b {
            if self.depths[a as usize] < self.depths[b as usize] {
                (a, b) = (b, a);
            }
            let edge = self.up[a as usize];
            if edge == NONE {
                return false;
            }
            out.push(edge);
            self.tops[a as usize] = self.parents[a as usize];
            a = self.top(a);
        }
        true
    }
}
