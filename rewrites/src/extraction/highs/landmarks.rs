//! Landmarks that a solution of the linear relaxation violates.
//!
//! For a set of classes, the nodes of these classes that need none of them are a landmark: every
//! extraction with one of the classes has one of these nodes, since the first of the classes to be
//! computed is computed by one. The relaxation may use a class and yet not have this much of its
//! landmark, in particular where classes need one another in a cycle.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::problem::{Class, NONE, Node, Parents, Problem};
use super::super::reduce::Stamps;
use super::super::tree_greedy::Cost;

/// A landmark is violated if it has less than its class by this.
const VIOLATION: f64 = 1e-3;
/// How many classes a set has at most.
const CLASSES: usize = 200;
/// How many landmarks are returned at most.
const LANDMARKS: usize = 100;
/// How many visits of nodes and edges a search for landmarks may take, for each there is.
const VISITS: u64 = 20;

/// An extraction with `class` has one of `nodes`.
#[derive(Debug)]
pub(super) struct Landmark {
    pub(super) class: Class,
    /// Sorted.
    pub(super) nodes: Vec<Node>,
}

/// Finds landmarks of one problem for one solution after the other.
#[derive(Debug)]
pub(super) struct Landmarks<'a> {
    problem: &'a Problem,
    /// How much of each node is chosen.
    values: Vec<f64>,
    /// For each class, how much of it can be computed in a single way: the greatest, over the
    /// choices without a cycle, of the least value that the class stands on.
    strengths: Vec<f64>,
    /// For each class, the node of that way.
    choice: Vec<Node>,
    set: Stamps,
    /// Visits of nodes and edges.
    pub(super) work: u64,
}

impl<'a> Landmarks<'a> {
    pub(super) fn new(problem: &'a Problem) -> Landmarks<'a> {
        Landmarks {
            problem,
            values: vec![],
            strengths: vec![],
            choice: vec![],
            set: Stamps::new(problem.class_count()),
            work: 0,
        }
    }

    /// Takes up a solution: how much of each node is chosen.
    pub(super) fn support(&mut self, parents: &Parents, values: &[f64]) {
        let problem = self.problem;
        self.values = values[..problem.node_count()].to_vec();
        self.strengths = vec![0.0; problem.class_count()];
        self.choice = vec![NONE; problem.class_count()];
        let mut missing: Vec<u32> = Vec::with_capacity(problem.node_count());
        let mut queue = BinaryHeap::new();
        for node in 0..problem.node_count() as u32 {
            missing.push(problem.children(node).len() as u32);
            if problem.children(node).is_empty() {
                queue.push((Cost(self.values[node as usize]), Reverse(node)));
            }
        }
        while let Some((Cost(strength), Reverse(node))) = queue.pop() {
            let class = problem.owner(node);
            if self.choice[class as usize] != NONE {
                continue;
            }
            self.choice[class as usize] = node;
            self.strengths[class as usize] = strength;
            for &parent in parents.of(class) {
                let missing = &mut missing[parent as usize];
                *missing -= 1;
                if *missing == 0 {
                    // Classes come from the strongest on, so this is the weakest child.
                    let strength = strength.min(self.values[parent as usize]);
                    queue.push((Cost(strength), Reverse(parent)));
                }
            }
        }
        self.work += (problem.node_count() + problem.edge_count()) as u64;
    }

    /// A choice without a cycle that follows the solution, for all classes.
    pub(super) fn choice(&self) -> &[Node] {
        &self.choice
    }

    /// Landmarks that the solution violates, the most violated first.
    pub(super) fn violated(&mut self) -> Vec<Landmark> {
        let problem = self.problem;
        let end = self.work + VISITS * (problem.node_count() + problem.edge_count()) as u64;
        let is_root = |class: Class| problem.roots().binary_search(&class).is_ok();
        let others = problem.classes().filter(|&class| !is_root(class));
        let mut found: Vec<(f64, Landmark)> = Vec::new();
        for class in problem.roots().iter().copied().chain(others) {
            let used: f64 = problem.nodes(class).map(|node| self.values[node as usize]).sum();
            // What computes the class has a node of every landmark.
            if self.strengths[class as usize] < used - VIOLATION {
                found.extend(self.below(class, used));
            }
            if self.work >= end {
                break;
            }
        }
        found.sort_by(|(a, first), (b, second)| {
            let by_nodes = || first.nodes.cmp(&second.nodes).then(first.class.cmp(&second.class));
            b.total_cmp(a).then_with(by_nodes)
        });
        // The same landmark of two roots says the same.
        let is_same = |a: &Landmark, b: &Landmark| {
            a.nodes == b.nodes && (a.class == b.class || is_root(a.class) && is_root(b.class))
        };
        found.dedup_by(|(_, a), (_, b)| is_same(a, b));
        found.truncate(LANDMARKS);
        found.into_iter().map(|(_, landmark)| landmark).collect()
    }

    /// The landmark with the least value that growing a set from `class` down meets, and by how
    /// much it falls short of `used`. The set follows what is chosen most, to where that stands on
    /// least.
    fn below(&mut self, class: Class, used: f64) -> Option<(f64, Landmark)> {
        let problem = self.problem;
        let value = |nodes: &[Node], values: &[f64]| -> f64 {
            nodes.iter().map(|&node| values[node as usize]).sum()
        };
        self.set.start();
        self.set.mark(class);
        let mut nodes: Vec<Node> = problem.nodes(class).collect();
        let mut best: Option<(f64, Vec<Node>)> = None;
        for _ in 1..CLASSES {
            let inner = nodes.iter().copied().filter(|&node| !problem.children(node).is_empty());
            let most = inner.max_by_key(|&node| (Cost(self.values[node as usize]), Reverse(node)));
            let Some(node) = most.filter(|&node| self.values[node as usize] > VIOLATION) else {
                break;
            };
            let strength = |child: &Class| Cost(self.strengths[*child as usize]);
            let weakest = problem.children(node).iter().copied().min_by_key(strength);
            let Some(child) = weakest else { break };
            self.set.mark(child);
            nodes.retain(|&node| problem.children(node).binary_search(&child).is_err());
            let set = &self.set;
            nodes.extend(
                problem.nodes(child).filter(|&node| {
                    problem.children(node).iter().all(|&child| !set.is_marked(child))
                }),
            );
            self.work += (nodes.len() + problem.nodes(child).len()) as u64;
            let sum = value(&nodes, &self.values);
            if best.as_ref().is_none_or(|(least, _)| sum < least - VIOLATION) {
                best = Some((sum, nodes.clone()));
            }
        }
        let (least, mut nodes) = best?;
        nodes.sort_unstable();
        (least < used - VIOLATION).then_some((used - least, Landmark { class, nodes }))
    }
}
