//! A lower bound of the DAG cost: landmark cuts.
//!
//! Read classes as facts and nodes as actions that establish the fact of their class and delete
//! nothing. A landmark is a set of nodes of which every extraction has one. Cuts are found and paid
//! for one by one, so that no node is charged more than it costs (Helmert and Domshlak, ICAPS 2009,
//! "Landmarks, critical paths and abstractions: what's the difference anyway?").

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ir_core::Interrupt;

use super::problem::{Class, NONE, Node, Parents, Problem};
use super::reduce::Stamps;
use super::tree_greedy::Cost;

/// What is computed again and again on one problem, with costs that change. A node of infinite cost
/// is not there.
#[derive(Debug)]
pub(super) struct Cuts<'a> {
    problem: &'a Problem,
    parents: Parents,
    /// What is left of the cost of each node.
    pub(super) costs: Vec<f64>,
    /// For each class, the least cost of its dearest path; see [`Cuts::settle`].
    heights: Vec<f64>,
    /// For each class the node that made its height.
    best: Vec<Node>,
    /// For each node the child with the greatest height; [`NONE`] where it has no children.
    supporters: Vec<Class>,
    missing: Vec<u32>,
    queue: BinaryHeap<Reverse<(Cost, Node)>>,
    zone: Stamps,
    stack: Vec<Class>,
    cut: Vec<Node>,
    tolerance: f64,
    interrupt: Interrupt,
    /// Visits of nodes.
    pub(super) work: u64,
}

/// A lower bound and the smallest cut that it stands on.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) bound: f64,
    /// The nodes of one cut; empty if nothing costs anything.
    pub(super) cut: Vec<Node>,
}

/// What taking the least from a queue is worth, in visits.
const POP: u64 = 2;

impl<'a> Cuts<'a> {
    /// Costs are not negative; what is less than `tolerance` is nothing.
    pub(super) fn new(problem: &'a Problem, tolerance: f64, interrupt: Interrupt) -> Cuts<'a> {
        let (nodes, classes) = (problem.node_count(), problem.class_count());
        Cuts {
            problem,
            parents: problem.parents(),
            costs: (0..nodes as u32).map(|node| problem.cost(node)).collect(),
            heights: vec![f64::INFINITY; classes],
            best: vec![NONE; classes],
            supporters: vec![NONE; nodes],
            missing: vec![0; nodes],
            queue: BinaryHeap::new(),
            zone: Stamps::new(classes),
            stack: vec![],
            cut: vec![],
            tolerance,
            interrupt,
            work: 0,
        }
    }

    /// Whether the work has reached `end`, or is to end.
    pub(super) fn is_over(&self, end: u64) -> bool {
        self.work >= end || self.interrupt.is_raised()
    }

    /// The lower bound of the present costs, which it uses up, or `None` where the roots have no
    /// extraction. After the first cut it stops when it reaches `limit`, or the work `end`.
    pub(super) fn bound(&mut self, limit: f64, end: u64) -> Option<Bound> {
        let mut bound = Bound { bound: 0.0, cut: vec![] };
        self.settle();
        loop {
            let roots = self.problem.roots().iter().copied();
            let height = |class: &Class| Cost(self.heights[*class as usize]);
            // Of equally high roots the first, so that results do not depend on chance.
            let Some(goal) = roots.rev().max_by_key(height) else { return Some(bound) };
            let height = self.heights[goal as usize];
            if height == f64::INFINITY {
                return None;
            }
            let is_enough = bound.bound >= limit || self.is_over(end);
            if height <= 0.0 || is_enough && !bound.cut.is_empty() {
                return Some(bound);
            }
            bound.bound += self.cut(goal);
            if bound.cut.is_empty() || self.cut.len() < bound.cut.len() {
                bound.cut.clone_from(&self.cut);
            }
            self.lower();
        }
    }

    /// Computes the heights: that of a class is the least over its nodes of the node's cost and the
    /// greatest height of its children.
    fn settle(&mut self) {
        let problem = self.problem;
        self.heights.fill(f64::INFINITY);
        self.best.fill(NONE);
        for node in 0..problem.node_count() as u32 {
            let at = node as usize;
            self.missing[at] = problem.children(node).len() as u32;
            self.supporters[at] = NONE;
            if self.missing[at] == 0 && self.costs[at] < f64::INFINITY {
                self.queue.push(Reverse((Cost(self.costs[at]), node)));
            }
        }
        self.work += problem.node_count() as u64;
        while let Some(Reverse((Cost(height), node))) = self.queue.pop() {
            self.work += POP;
            let class = problem.owner(node);
            if self.best[class as usize] != NONE {
                continue;
            }
            self.best[class as usize] = node;
            self.heights[class as usize] = height;
            for &parent in self.parents.of(class) {
                let at = parent as usize;
                self.work += 1;
                // Classes are settled from the lowest on, so the last child is the highest.
                self.supporters[at] = class;
                self.missing[at] -= 1;
                if self.missing[at] == 0 && self.costs[at] < f64::INFINITY {
                    self.queue.push(Reverse((Cost(height + self.costs[at]), parent)));
                }
            }
        }
    }

    /// Brings the heights up to date after the nodes of the cut became cheaper. A class takes
    /// another node only if that is lower, so that the best nodes still make no cycle.
    fn lower(&mut self) {
        let problem = self.problem;
        for at in 0..self.cut.len() {
            self.offer(self.cut[at]);
        }
        while let Some(Reverse((Cost(height), node))) = self.queue.pop() {
            self.work += POP;
            let class = problem.owner(node);
            if height >= self.heights[class as usize] {
                continue;
            }
            self.best[class as usize] = node;
            self.heights[class as usize] = height;
            for at in 0..self.parents.of(class).len() {
                let parent = self.parents.of(class)[at];
                self.work += 1;
                if self.supporters[parent as usize] == class && self.is_usable(parent) {
                    let children = problem.children(parent);
                    self.work += children.len() as u64;
                    let height = |child: &Class| Cost(self.heights[*child as usize]);
                    if let Some(&highest) = children.iter().max_by_key(|child| height(child)) {
                        self.supporters[parent as usize] = highest;
                    }
                    self.offer(parent);
                }
            }
        }
    }

    /// Queues `node` if it is lower than the best of its class.
    fn offer(&mut self, node: Node) {
        let below = match self.supporters[node as usize] {
            NONE => 0.0,
            class => self.heights[class as usize],
        };
        let height = below + self.costs[node as usize];
        if height < self.heights[self.problem.owner(node) as usize] {
            self.queue.push(Reverse((Cost(height), node)));
        }
    }

    /// Finds the nodes that lead into what reaches `goal` for nothing, and pays the least of their
    /// costs for all of them. Each node counts as needing its supporter only.
    fn cut(&mut self, goal: Class) -> f64 {
        let problem = self.problem;
        self.zone.start();
        self.zone.mark(goal);
        self.stack.push(goal);
        self.cut.clear();
        while let Some(class) = self.stack.pop() {
            self.work += 1;
            for node in problem.nodes(class) {
                if !self.is_usable(node) {
                    continue;
                }
                self.work += 1;
                let supporter = self.supporters[node as usize];
                if self.costs[node as usize] > 0.0 {
                    self.cut.push(node);
                } else if supporter != NONE && self.zone.mark(supporter) {
                    self.stack.push(supporter);
                }
            }
        }
        // What leads from within the zone into it is no way in.
        let (zone, supporters) = (&self.zone, &self.supporters);
        self.cut.retain(|&node| {
            let supporter = supporters[node as usize];
            supporter == NONE || !zone.is_marked(supporter)
        });
        let costs = self.cut.iter().map(|&node| self.costs[node as usize]);
        let least = costs.fold(f64::INFINITY, f64::min);
        for &node in &self.cut {
            let cost = &mut self.costs[node as usize];
            *cost -= least;
            if *cost < self.tolerance {
                *cost = 0.0;
            }
        }
        least
    }

    fn is_usable(&self, node: Node) -> bool {
        self.missing[node as usize] == 0 && self.costs[node as usize] < f64::INFINITY
    }

    /// After [`Cuts::bound`]: what an extraction with `node` costs at least besides the bound.
    pub(super) fn excess(&self, node: Node) -> f64 {
        let children = self.problem.children(node).iter();
        let heights = children.map(|&child| self.heights[child as usize]);
        self.costs[node as usize] + heights.fold(0.0, f64::max)
    }

    /// After [`Cuts::bound`]: a choice that follows the heights, without a cycle.
    pub(super) fn choice(&self) -> &[Node] {
        &self.best
    }
}
