//! Why two terms are equal: the path between them in the forest of what was united.
//!
//! A union adds an edge only where it joins two trees, so that there is one path between terms, and
//! it has only edges that were there when they became equal.

use rustc_hash::FxHashSet;

use super::terms::Term;

/// Why two terms are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// By the step at this place.
    Step(u32),
    /// They are the same operation on equal operands.
    Congruent,
    /// One is an operation whose result is its operand, which is the other.
    Identity,
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

/// A part of the reason why two terms are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// The step at this place.
    Step(u32),
    /// Two terms are the same operation on equal operands, those of one swapped where it says so.
    Congruent(Term, Term, bool),
}

const NONE: u32 = u32::MAX;

/// Edges that are walked more than once, for each term. Past this, reasons are no longer shortened.
const WALKS: usize = 32;

/// The forest, as it is in the end. An edge that was given out is contracted, so that giving out
/// all takes little more than linear time.
pub struct Forest<'e> {
    edges: &'e [Edge],
    /// By term, the edge towards its root.
    up: Vec<u32>,
    parents: Vec<u32>,
    depths: Vec<u32>,
    /// By term, the highest one that edges given out lead to, or one on the way there.
    tops: Vec<u32>,
    /// What was given out in place of several edges, and how many more may be walked for that.
    shortened: FxHashSet<Reason>,
    walks: usize,
}

/// An edge on a path, in the direction of the path.
struct Hop {
    from: u32,
    to: u32,
    edge: u32,
}

impl<'e> Forest<'e> {
    /// The forest of `edges` over `terms` terms.
    pub fn new(terms: usize, edges: &'e [Edge]) -> Forest<'e> {
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
            edges,
            up: vec![NONE; terms],
            parents: (0..terms as u32).collect(),
            depths: vec![0; terms],
            tops: (0..terms as u32).collect(),
            shortened: FxHashSet::default(),
            walks: WALKS * terms,
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

    /// Why `a` and `b` are equal, without what was given out before; `false` where there is no
    /// path.
    ///
    /// Terms that are congruent one after the other are so at once, so that what lies between them
    /// is not needed: their operands were equal when the last of them became so.
    pub fn path(&mut self, a: Term, b: Term, out: &mut Vec<Reason>) -> bool {
        let Some(hops) = self.hops(a, b) else { return false };
        let mut rest = &*hops;
        while let Some((first, _)) = rest.split_first() {
            let edge = self.edges[first.edge as usize];
            if edge.why != Why::Congruent {
                if let Why::Step(step) = edge.why {
                    out.push(Reason::Step(step));
                }
                self.contract(first);
                rest = &rest[1..];
                continue;
            }
            let is_next = |pair: &[Hop]| {
                let why = self.edges[pair[1].edge as usize].why;
                pair[0].to == pair[1].from && why == Why::Congruent
            };
            let mut count = 1 + rest.windows(2).take_while(|pair| is_next(pair)).count();
            if count > self.walks {
                count = 1;
            }
            let run = &rest[..count];
            rest = &rest[count..];
            let swaps = run.iter().filter(|hop| self.edges[hop.edge as usize].swapped).count();
            let (from, to) = (Term(first.from), Term(run[count - 1].to));
            let reason = Reason::Congruent(from, to, swaps % 2 == 1);
            if count == 1 {
                out.push(reason);
                self.contract(first);
                continue;
            }
            self.walks -= count;
            if self.shortened.insert(reason) {
                out.push(reason);
            }
        }
        true
    }

    /// The edges between `a` and `b` in order, but for those that are contracted.
    fn hops(&mut self, a: Term, b: Term) -> Option<Vec<Hop>> {
        let (mut a, mut b) = (self.top(a.0), self.top(b.0));
        let (mut hops, mut back) = (Vec::new(), Vec::new());
        while a != b {
            let is_left = self.depths[a as usize] >= self.depths[b as usize];
            let low = if is_left { a } else { b };
            let (edge, high) = (self.up[low as usize], self.parents[low as usize]);
            if edge == NONE {
                return None;
            }
            if is_left {
                hops.push(Hop { from: low, to: high, edge });
                a = self.top(high);
            } else {
                back.push(Hop { from: high, to: low, edge });
                b = self.top(high);
            }
        }
        hops.extend(back.into_iter().rev());
        Some(hops)
    }

    fn contract(&mut self, hop: &Hop) {
        let is_up =
            self.parents[hop.from as usize] == hop.to && self.up[hop.from as usize] == hop.edge;
        let (low, high) = if is_up { (hop.from, hop.to) } else { (hop.to, hop.from) };
        self.tops[low as usize] = high;
    }
}
