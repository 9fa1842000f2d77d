//! Choosing one node for each class that is needed: greedy, aware of sharing, and never worse than
//! where it began.
//!
//! It begins with the program as it was. A class that is needed may change to another of its
//! nodes; what this costs is counted exactly: nodes that become needed, less those that nobody
//! needs any more. Several classes that could take a part of the same new value change together.

use rustc_hash::FxHashMap;

/// A node of a snapshot.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// What it costs by itself; not negative.
    pub cost: f64,
    /// The classes of its operands.
    pub operands: Vec<usize>,
}

/// An e-graph with costs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// The nodes of each class.
    pub classes: Vec<Vec<Node>>,
    /// Classes that must be computed.
    pub roots: Vec<usize>,
}

/// For each class the node that computes it; only those that are needed count.
pub type Selection = Vec<Option<usize>>;

/// The classes that `selection` needs, operands first; `None` where it has a cycle or a hole.
pub fn order(snapshot: &Snapshot, selection: &Selection) -> Option<Vec<usize>> {
    let mut order = Vec::new();
    let mut state = vec![0u8; snapshot.classes.len()];
    for root in &snapshot.roots {
        let mut pending = vec![(*root, false)];
        while let Some((class, done)) = pending.pop() {
            if done {
                state[class] = 2;
                order.push(class);
                continue;
            }
            match state[class] {
                2 => continue,
                1 => return None,
                _ => state[class] = 1,
            }
            pending.push((class, true));
            let node = &snapshot.classes[class][selection[class]?];
            for operand in node.operands.iter().rev() {
                match state[*operand] {
                    0 => pending.push((*operand, false)),
                    1 => return None,
                    _ => {}
                }
            }
        }
    }
    Some(order)
}

/// What `selection` costs, shared nodes counted once; `None` where it has a cycle or a hole.
pub fn cost(snapshot: &Snapshot, selection: &Selection) -> Option<f64> {
    let classes = order(snapshot, selection)?;
    classes.iter().map(|class| Some(snapshot.classes[*class][selection[*class]?].cost)).sum()
}

/// Improves `start` by at most `work` steps.
pub fn improve(snapshot: &Snapshot, start: &Selection, mut work: u64) -> Selection {
    let mut search = match Search::new(snapshot, start) {
        Some(search) => search,
        None => return start.clone(),
    };
    for _ in 0..16 {
        search.complete();
        let mut improved = false;
        // From the results to the operands: what is high up frees the most.
        let Some(mut classes) = order(snapshot, &search.selection) else { break };
        search.renumber(&classes);
        classes.reverse();
        for class in classes {
            if search.uses[class] == 0 {
                continue;
            }
            for node in 0..snapshot.classes[class].len() {
                if search.selection[class] != Some(node) {
                    improved |= search.change(&[(class, node)], &mut work);
                }
            }
            if work == 0 {
                return search.selection;
            }
        }
        for group in search.groups() {
            improved |= search.change(&group, &mut work);
        }
        if !improved {
            break;
        }
    }
    search.selection
}

const NEW: u32 = u32::MAX;

struct Search<'s> {
    snapshot: &'s Snapshot,
    selection: Selection,
    /// How many needed nodes and roots use each class.
    uses: Vec<u32>,
    /// No needed class has a larger number than its users; `NEW` is one that was not needed when
    /// numbers were given. So a class with a smaller number than another does not need it.
    number: Vec<u32>,
    /// What to put back when a change does not pay: class, uses, selection and number.
    journal: Vec<(usize, u32, Option<usize>, u32)>,
}

impl<'s> Search<'s> {
    fn new(snapshot: &'s Snapshot, start: &Selection) -> Option<Search<'s>> {
        let classes = order(snapshot, start)?;
        let mut uses = vec![0; snapshot.classes.len()];
        snapshot.roots.iter().for_each(|root| uses[*root] += 1);
        for class in &classes {
            let node = &snapshot.classes[*class][start[*class]?];
            node.operands.iter().for_each(|operand| uses[*operand] += 1);
        }
        let mut selection = vec![None; snapshot.classes.len()];
        classes.iter().for_each(|class| selection[*class] = start[*class]);
        let number = vec![NEW; snapshot.classes.len()];
        Some(Search { snapshot, selection, uses, number, journal: vec![] })
    }

    fn renumber(&mut self, classes: &[usize]) {
        self.number.fill(NEW);
        for (index, class) in classes.iter().enumerate() {
            self.number[*class] = index as u32;
        }
    }

    /// Chooses nodes for the classes that are not needed: the cheapest, where what is needed
    /// already costs nothing. (Knuth's generalization of Dijkstra's algorithm, as a worklist.)
    fn complete(&mut self) {
        let count = self.snapshot.classes.len();
        let mut best = vec![f64::INFINITY; count];
        let mut users: Vec<Vec<(usize, usize)>> = vec![vec![]; count];
        let mut waiting: Vec<Vec<u32>> = Vec::with_capacity(count);
        let mut heap = std::collections::BinaryHeap::new();
        for (class, nodes) in self.snapshot.classes.iter().enumerate() {
            waiting.push(nodes.iter().map(|node| node.operands.len() as u32).collect());
            if self.uses[class] > 0 {
                best[class] = 0.0;
                heap.push(Reached { cost: 0.0, class });
                continue;
            }
            self.selection[class] = None;
            for (index, node) in nodes.iter().enumerate() {
                for operand in &node.operands {
                    users[*operand].push((class, index));
                }
                if node.operands.is_empty() && node.cost < best[class] {
                    best[class] = node.cost;
                    self.selection[class] = Some(index);
                    heap.push(Reached { cost: node.cost, class });
                }
            }
        }
        let mut settled = vec![false; count];
        while let Some(Reached { cost, class }) = heap.pop() {
            if std::mem::replace(&mut settled[class], true) || cost > best[class] {
                continue;
            }
            for (user, index) in &users[class] {
                waiting[*user][*index] -= 1;
                if waiting[*user][*index] > 0 || settled[*user] {
                    continue;
                }
                let node = &self.snapshot.classes[*user][*index];
                let total = node.cost + node.operands.iter().map(|o| best[*o]).sum::<f64>();
                if total < best[*user] {
                    best[*user] = total;
                    self.selection[*user] = Some(*index);
                    heap.push(Reached { cost: total, class: *user });
                }
            }
        }
    }

    /// Changes of several needed classes to nodes that share an operand which is not needed yet.
    fn groups(&self) -> Vec<Vec<(usize, usize)>> {
        let mut groups: FxHashMap<usize, Vec<(usize, usize)>> = FxHashMap::default();
        for (class, nodes) in self.snapshot.classes.iter().enumerate() {
            if self.uses[class] == 0 {
                continue;
            }
            for (index, node) in nodes.iter().enumerate() {
                for operand in node.operands.iter().filter(|operand| self.uses[**operand] == 0) {
                    let group = groups.entry(*operand).or_default();
                    if group.last().is_none_or(|(last, _)| *last != class) {
                        group.push((class, index));
                    }
                }
            }
        }
        let mut groups: Vec<_> = groups.into_iter().filter(|(_, group)| group.len() > 1).collect();
        groups.sort_by_key(|(operand, _)| *operand);
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Changes classes to other nodes if that makes the whole cheaper.
    fn change(&mut self, changes: &[(usize, usize)], work: &mut u64) -> bool {
        self.journal.clear();
        let mut difference = 0.0;
        let mut possible = true;
        let mut before = Vec::new();
        for (class, node) in changes {
            if self.uses[*class] == 0 || self.selection[*class] == Some(*node) {
                continue;
            }
            let Some(old) = self.selection[*class] else { continue };
            self.record(*class);
            self.selection[*class] = Some(*node);
            let nodes = &self.snapshot.classes[*class];
            difference += nodes[*node].cost - nodes[old].cost;
            before.push((*class, old));
            let operands = nodes[*node].operands.clone();
            match self.need(operands, work) {
                Some(cost) => difference += cost,
                None => possible = false,
            }
        }
        for (class, old) in &before {
            let operands = self.snapshot.classes[*class][*old].operands.clone();
            difference -= self.release(operands, work);
        }
        let pays = possible && difference < -1e-9 && !before.is_empty();
        if pays && self.is_acyclic(&before, work) {
            return true;
        }
        while let Some((class, uses, selected, number)) = self.journal.pop() {
            self.uses[class] = uses;
            self.selection[class] = selected;
            self.number[class] = number;
        }
        false
    }

    fn record(&mut self, class: usize) {
        let entry = (class, self.uses[class], self.selection[class], self.number[class]);
        self.journal.push(entry);
    }

    /// Uses `operands` once more; what that adds. `None` where one cannot be computed.
    fn need(&mut self, operands: Vec<usize>, work: &mut u64) -> Option<f64> {
        let (mut pending, mut added) = (operands, 0.0);
        while let Some(class) = pending.pop() {
            *work = work.saturating_sub(1);
            self.record(class);
            self.uses[class] += 1;
            if self.uses[class] == 1 {
                self.number[class] = NEW;
                let node = &self.snapshot.classes[class][self.selection[class]?];
                added += node.cost;
                pending.extend(&node.operands);
            }
        }
        Some(added)
    }

    /// Uses `operands` once less; what that saves.
    fn release(&mut self, operands: Vec<usize>, work: &mut u64) -> f64 {
        let (mut pending, mut saved) = (operands, 0.0);
        while let Some(class) = pending.pop() {
            *work = work.saturating_sub(1);
            self.record(class);
            self.uses[class] = self.uses[class].saturating_sub(1);
            if self.uses[class] == 0
                && let Some(node) = self.selection[class]
            {
                let node = &self.snapshot.classes[class][node];
                saved += node.cost;
                pending.extend(&node.operands);
            }
        }
        saved
    }

    /// Whether none of the classes that changed needs itself. Numbers are brought up to date.
    fn is_acyclic(&mut self, changed: &[(usize, usize)], work: &mut u64) -> bool {
        let floor = changed.iter().map(|(class, _)| self.number[*class]).min().unwrap_or(NEW);
        let mut state: FxHashMap<usize, bool> = FxHashMap::default();
        let (mut new, mut above) = (Vec::new(), false);
        for (start, _) in changed {
            let mut pending = vec![(*start, false)];
            while let Some((class, done)) = pending.pop() {
                *work = work.saturating_sub(1);
                if done {
                    state.insert(class, true);
                    continue;
                }
                match state.get(&class) {
                    Some(true) => continue,
                    Some(false) => return false,
                    None => state.insert(class, false),
                };
                match self.number[class] {
                    NEW => new.push(class),
                    number => above |= number > floor && class != *start,
                }
                pending.push((class, true));
                let Some(node) = self.selection[class] else { return false };
                for operand in &self.snapshot.classes[class][node].operands {
                    match state.get(operand) {
                        Some(false) => return false,
                        Some(true) => {}
                        None if self.number[*operand] < floor => {}
                        None => pending.push((*operand, false)),
                    }
                }
            }
        }
        if !above {
            new.into_iter().for_each(|class| self.number[class] = floor);
        } else if let Some(classes) = order(self.snapshot, &self.selection) {
            self.renumber(&classes);
        } else {
            return false;
        }
        true
    }
}

/// A class whose cost is known; the least cost comes first, then the least class.
#[derive(PartialEq)]
struct Reached {
    cost: f64,
    class: usize,
}

impl Eq for Reached {}

impl Ord for Reached {
    fn cmp(&self, other: &Reached) -> std::cmp::Ordering {
        other.cost.total_cmp(&self.cost).then(other.class.cmp(&self.class))
    }
}

impl PartialOrd for Reached {
    fn partial_cmp(&self, other: &Reached) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
