//! An extraction that changes: what is chosen, how often each class is used, and the cost, kept up
//! to date change by change.

use super::problem::{Class, Node, Parents, Problem};
use super::reduce::Stamps;
use super::strategy::ROUNDING;

/// A choice for every class, needed or not, that has no cycle. Classes that are used make up the
/// extraction; the choices of the others say what using them would bring.
#[derive(Debug)]
pub(super) struct Cover<'a> {
    pub(super) problem: &'a Problem,
    pub(super) parents: &'a Parents,
    choice: Vec<Node>,
    /// How many chosen nodes of used classes, roots and pins use each class.
    uses: Vec<u32>,
    /// The cost of the used classes.
    total: f64,
    /// Children of chosen nodes stand before their parents.
    order: Vec<Class>,
    ranks: Vec<u32>,
    /// What each change replaced.
    journal: Vec<(Class, Node)>,
    /// Visits of classes.
    pub(super) work: u64,
    /// Smaller differences of costs are rounding.
    tolerance: f64,
    has_rewards: bool,
    stamps: Stamps,
    stack: Vec<Class>,
    moved: Vec<Class>,
}

/// A state to go back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    changes: usize,
    total: f64,
}

/// How many classes a search for a cycle, or for the cost of a node, visits before it gives the
/// node up.
const REACH: u64 = 4000;

impl<'a> Cover<'a> {
    /// The cover of `choice`, which has a node for every class and no cycle.
    pub(super) fn new(problem: &'a Problem, parents: &'a Parents, choice: Vec<Node>) -> Cover<'a> {
        let order = order_of(problem, &choice);
        let mut ranks = vec![0; problem.class_count()];
        for (rank, &class) in order.iter().enumerate() {
            ranks[class as usize] = rank as u32;
        }
        let largest = (0..problem.node_count() as u32).map(|node| problem.cost(node).abs());
        let mut cover = Cover {
            problem,
            parents,
            choice,
            uses: vec![0; problem.class_count()],
            total: 0.0,
            order,
            ranks,
            journal: vec![],
            work: 0,
            tolerance: ROUNDING * largest.fold(0.0, f64::max),
            has_rewards: problem.has_rewards(),
            stamps: Stamps::new(problem.class_count()),
            stack: vec![],
            moved: vec![],
        };
        for &root in problem.roots() {
            cover.use_once(root);
        }
        cover
    }

    pub(super) fn choice(&self) -> &[Node] {
        &self.choice
    }

    pub(super) fn into_choice(self) -> Vec<Node> {
        self.choice
    }

    /// The cost of the used classes, up to rounding.
    pub(super) fn total(&self) -> f64 {
        self.total
    }

    pub(super) fn chosen(&self, class: Class) -> Node {
        self.choice[class as usize]
    }

    pub(super) fn is_used(&self, class: Class) -> bool {
        self.uses[class as usize] > 0
    }

    /// The classes, children of chosen nodes first.
    pub(super) fn order(&self) -> &[Class] {
        &self.order
    }

    pub(super) fn rank(&self, class: Class) -> u32 {
        self.ranks[class as usize]
    }

    /// The present state.
    pub(super) fn mark(&self) -> Mark {
        Mark { changes: self.journal.len(), total: self.total }
    }

    /// Whether the cost is less than it was at `mark`.
    pub(super) fn is_below(&self, mark: Mark) -> bool {
        self.total < mark.total - self.tolerance
    }

    /// Whether the cost is no more than it was at `mark`.
    pub(super) fn is_at_most(&self, mark: Mark) -> bool {
        self.total <= mark.total + self.tolerance
    }

    /// Takes back all changes since `mark`, which is older than no other mark in use. Pins stay.
    pub(super) fn undo(&mut self, mark: Mark) {
        while self.journal.len() > mark.changes
            && let Some((class, node)) = self.journal.pop()
        {
            self.replace(class, node);
        }
        self.total = mark.total;
    }

    /// Forgets the changes so far; older marks are no longer in use.
    pub(super) fn commit(&mut self) {
        self.journal.clear();
    }

    /// Adds a use to `class`, and to what it needs if it was not used.
    pub(super) fn use_once(&mut self, class: Class) {
        self.stack.push(class);
        while let Some(class) = self.stack.pop() {
            let uses = &mut self.uses[class as usize];
            *uses += 1;
            if *uses == 1 {
                let node = self.choice[class as usize];
                self.total += self.problem.cost(node);
                self.work += 1;
                self.stack.extend(self.problem.children(node));
            }
        }
    }

    /// Takes a use from `class`, and from what it needs if that was the last.
    pub(super) fn release(&mut self, class: Class) {
        self.stack.push(class);
        while let Some(class) = self.stack.pop() {
            let uses = &mut self.uses[class as usize];
            *uses -= 1;
            if *uses == 0 {
                let node = self.choice[class as usize];
                self.total -= self.problem.cost(node);
                self.work += 1;
                self.stack.extend(self.problem.children(node));
            }
        }
    }

    /// What choosing `node` would add to the cost: its own, and that of what is not used yet. Where
    /// this is `limit` or more, or too much to find out, some number that is `limit` or more.
    pub(super) fn price(&mut self, node: Node, limit: f64) -> f64 {
        let mut price = self.problem.cost(node);
        let limit = if self.has_rewards { f64::INFINITY } else { limit };
        if price >= limit {
            return price;
        }
        let end = self.work + REACH;
        self.stamps.start();
        self.stack.extend(self.problem.children(node));
        while let Some(class) = self.stack.pop() {
            if self.uses[class as usize] > 0 || !self.stamps.mark(class) {
                continue;
            }
            self.work += 1;
            let node = self.choice[class as usize];
            price += self.problem.cost(node);
            if price >= limit || self.work >= end {
                self.stack.clear();
                return price.max(limit);
            }
            self.stack.extend(self.problem.children(node));
        }
        price
    }

    /// Lets `class` choose the node that adds least to the cost; whether that is another one. A
    /// class that is not used chooses what would add least. No more nodes are looked at once the
    /// work has reached `budget`.
    pub(super) fn improve(&mut self, class: Class, budget: u64) -> bool {
        let nodes = self.problem.nodes(class);
        if nodes.len() == 1 || self.work >= budget {
            return false;
        }
        let current = self.choice[class as usize];
        let is_used = self.is_used(class);
        if is_used {
            for &child in self.problem.children(current) {
                self.release(child);
            }
        }
        let mut best = (current, self.price(current, f64::INFINITY));
        for node in nodes {
            if self.work >= budget {
                break;
            }
            self.work += 1;
            if node == current {
                continue;
            }
            let limit = best.1 - self.tolerance;
            let price = self.price(node, limit);
            if price < limit && self.is_legal(class, node) {
                best = (node, price);
            }
        }
        if best.0 != current {
            self.arrange(class, best.0);
            self.choice[class as usize] = best.0;
            self.journal.push((class, current));
        }
        if is_used {
            self.total += self.problem.cost(best.0) - self.problem.cost(current);
            for &child in self.problem.children(best.0) {
                self.use_once(child);
            }
        }
        best.0 != current
    }

    /// Lets `class` choose `node`; whether it may, without a cycle.
    pub(super) fn choose(&mut self, class: Class, node: Node) -> bool {
        let current = self.choice[class as usize];
        if node == current || !self.is_legal(class, node) {
            return node == current;
        }
        self.replace(class, node);
        self.journal.push((class, current));
        true
    }

    /// Lets `class` choose `node`, which makes no cycle.
    fn replace(&mut self, class: Class, node: Node) {
        let current = self.choice[class as usize];
        self.arrange(class, node);
        self.choice[class as usize] = node;
        if self.is_used(class) {
            self.total += self.problem.cost(node) - self.problem.cost(current);
            for &child in self.problem.children(node) {
                self.use_once(child);
            }
            for &child in self.problem.children(current) {
                self.release(child);
            }
        }
    }

    /// Whether `class` may choose `node`: no child of it reaches the class. What stands before the
    /// class cannot.
    fn is_legal(&mut self, class: Class, node: Node) -> bool {
        let rank = self.ranks[class as usize];
        let children = self.problem.children(node);
        if children.iter().all(|&child| self.ranks[child as usize] < rank) {
            return true;
        }
        let end = self.work + REACH;
        let is_legal = self.collect_above(rank, node, end);
        self.moved.clear();
        is_legal
    }

    /// Collects the classes below `node` that stand after `rank`; whether none stands there, which
    /// is found out before the work reaches `end`.
    fn collect_above(&mut self, rank: u32, node: Node, end: u64) -> bool {
        self.stamps.start();
        self.moved.clear();
        self.stack.extend(self.problem.children(node));
        while let Some(class) = self.stack.pop() {
            let other = self.ranks[class as usize];
            if other == rank || self.work >= end {
                self.stack.clear();
                return false;
            }
            if other < rank || !self.stamps.mark(class) {
                continue;
            }
            self.work += 1;
            self.moved.push(class);
            self.stack.extend(self.problem.children(self.choice[class as usize]));
        }
        true
    }

    /// Moves the classes below `node` that stand after `class` in front of it, in their order.
    fn arrange(&mut self, class: Class, node: Node) {
        let rank = self.ranks[class as usize];
        let children = self.problem.children(node);
        if children.iter().all(|&child| self.ranks[child as usize] < rank) {
            return;
        }
        self.collect_above(rank, node, u64::MAX);
        let ranks = &self.ranks;
        let last = self.moved.iter().map(|&class| ranks[class as usize]).max().unwrap_or(rank);
        let (start, end) = (rank as usize, last as usize + 1);
        self.work += (end - start) as u64;
        let stamps = &self.stamps;
        let others = self.order[start..end].iter().filter(|&&class| !stamps.is_marked(class));
        let others: Vec<Class> = others.copied().collect();
        self.moved.sort_unstable_by_key(|&class| ranks[class as usize]);
        let arranged = self.moved.drain(..).chain(others);
        for (at, class) in (start..end).zip(arranged) {
            self.order[at] = class;
            self.ranks[class as usize] = at as u32;
        }
    }
}

/// The classes of `choice`, which has no cycle, children before parents. Where the whole problem
/// has an order without a cycle, it is one of that.
fn order_of(problem: &Problem, choice: &[Node]) -> Vec<Class> {
    let components = components(problem);
    // Within a component, children of chosen nodes first.
    let mut order = Vec::with_capacity(problem.class_count());
    let mut done = vec![false; problem.class_count()];
    let mut stack: Vec<(Class, usize)> = Vec::new();
    let mut members: Vec<Class> = problem.classes().collect();
    members.sort_by_key(|&class| components[class as usize]);
    for class in members {
        if std::mem::replace(&mut done[class as usize], true) {
            continue;
        }
        stack.push((class, 0));
        while let Some((class, at)) = stack.last_mut() {
            match problem.children(choice[*class as usize]).get(*at) {
                Some(&child) => {
                    *at += 1;
                    if !std::mem::replace(&mut done[child as usize], true) {
                        stack.push((child, 0));
                    }
                }
                None => {
                    order.push(*class);
                    stack.pop();
                }
            }
        }
    }
    order
}

/// The number of each class's strongly connected component; children have smaller numbers, or the
/// same (Tarjan 1972).
pub(super) fn components(problem: &Problem) -> Vec<u32> {
    const UNSEEN: u32 = u32::MAX;
    let count = problem.class_count();
    let mut index = vec![UNSEEN; count];
    let mut low = vec![0u32; count];
    let mut component = vec![UNSEEN; count];
    let mut open: Vec<Class> = Vec::new();
    let (mut seen, mut components) = (0u32, 0u32);
    // A class, the node of it that is being walked, and the next of that node's children.
    let mut stack: Vec<(Class, Node, usize)> = Vec::new();
    for start in problem.classes() {
        if index[start as usize] != UNSEEN {
            continue;
        }
        let mut next = Some(start);
        loop {
            if let Some(class) = next.take() {
                index[class as usize] = seen;
                low[class as usize] = seen;
                seen += 1;
                open.push(class);
                stack.push((class, problem.nodes(class).start, 0));
            }
            let Some((class, node, at)) = stack.last_mut() else { break };
            let class = *class;
            if *node < problem.nodes(class).end {
                let Some(&child) = problem.children(*node).get(*at) else {
                    (*node, *at) = (*node + 1, 0);
                    continue;
                };
                *at += 1;
                if index[child as usize] == UNSEEN {
                    next = Some(child);
                } else if component[child as usize] == UNSEEN {
                    low[class as usize] = low[class as usize].min(index[child as usize]);
                }
                continue;
            }
            stack.pop();
            if let Some(&(above, ..)) = stack.last() {
                low[above as usize] = low[above as usize].min(low[class as usize]);
            }
            if low[class as usize] == index[class as usize] {
                while let Some(member) = open.pop() {
                    component[member as usize] = components;
                    if member == class {
                        break;
                    }
                }
                components += 1;
            }
        }
    }
    component
}
