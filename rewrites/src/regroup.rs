//! Sums and the like as one operation of many terms: instead of every order and grouping, only the
//! groups that rules could use, which are terms that have an operand in common.

use indexmap::IndexMap;
use ir_core::{AttrDict, Registry, SmallVec, Symbol, Traits, Type};
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::egraph::{Class, Graph};
use crate::instantiate::{Operand, Plan, Planned};
use crate::library::RuleSet;
use crate::matching::{Head, TermGraph};
use crate::proof::Recorder;
use crate::rule::FloatClass;
use crate::snapshot::Snapshot;

/// Terms of one sum that are looked at.
const MAX_TERMS: usize = 4096;

/// Groups of one sum.
const MAX_GROUPS: usize = 8;

/// The operations whose terms may be regrouped: those whose order and grouping do not matter but
/// for rounding, and of which a rule that allows it takes two terms together.
pub fn operations(rules: &RuleSet, registry: &Registry) -> Vec<Symbol> {
    let mut found: Vec<Symbol> = Vec::new();
    for compiled in &rules.rules {
        let name = compiled.pattern.root;
        let traits = registry.def(name).map_or(Traits::empty(), |def| def.traits);
        let of_two = matches!(&*compiled.pattern.heads, [Head::Op(_), Head::Op(_)]);
        if of_two
            && compiled.rule.class != FloatClass::Exact
            && traits.contains(Traits::ASSOCIATIVE | Traits::COMMUTATIVE)
            && !found.contains(&name)
        {
            found.push(name);
        }
    }
    found
}

/// Adds, to each sum of operation `name` in `snapshot`, itself with the terms that share an operand
/// together. No more than a few groups are made of each sum, so that the graph grows in proportion
/// to it. What is done is noted with `recorder`.
pub fn regroup(
    graph: &mut Graph,
    snapshot: &Snapshot,
    name: Symbol,
    registry: &Registry,
    nodes: usize,
    mut recorder: Option<&mut Recorder>,
) {
    let sums = snapshot.named(name);
    let inner: FxHashSet<Class> =
        sums.iter().copied().filter(|sum| is_inner(snapshot, *sum, name)).collect();
    for sum in sums.iter().filter(|sum| !inner.contains(sum)) {
        let Sum { ty, parts, terms } = terms(snapshot, *sum, name, &inner);
        if terms.len() < 3 || terms.len() > MAX_TERMS {
            continue;
        }
        let mut groups: IndexMap<Class, Vec<usize>, FxBuildHasher> = IndexMap::default();
        for (place, term) in terms.iter().enumerate() {
            for (_, operands) in snapshot.operations(*term) {
                for operand in operands {
                    let group = groups.entry(*operand).or_default();
                    if group.last() != Some(&place) {
                        group.push(place);
                    }
                }
            }
        }
        let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
        groups.retain(|group| group.len() > 1 && group.len() < terms.len());
        groups.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        groups.dedup();
        for group in groups.iter().take(MAX_GROUPS) {
            if graph.made() + 2 * terms.len() > nodes {
                return;
            }
            let plan = regrouped(name, ty, &terms, group, *sum);
            let (_, made) = graph.apply(&plan, registry);
            if let Some(recorder) = recorder.as_deref_mut() {
                recorder.regrouped((name, ty), &parts, group, &made, registry);
            }
        }
    }
}

/// Whether `sum` is needed by one other sum of its type alone.
fn is_inner(snapshot: &Snapshot, sum: Class, name: Symbol) -> bool {
    let users = snapshot.all_users(sum);
    let Some(user) = users.first() else { return false };
    users.iter().all(|other| other == user)
        && snapshot.ty(*user) == snapshot.ty(sum)
        && snapshot.operations(*user).any(|(op, operands)| op == name && operands.contains(&sum))
}

/// A sum, taken apart.
struct Sum {
    ty: Type,
    /// The operations that it is, the outer ones first.
    parts: Vec<[Class; 2]>,
    /// Its terms, in order.
    terms: Vec<Class>,
}

/// The terms of `sum`, as long as all have its type.
fn terms(snapshot: &Snapshot, sum: Class, name: Symbol, inner: &FxHashSet<Class>) -> Sum {
    let ty = snapshot.ty(sum);
    let mut found = Sum { ty, parts: vec![], terms: vec![] };
    let mut pending = vec![sum];
    let mut open = FxHashSet::default();
    while let Some(class) = pending.pop() {
        let parts = snapshot.operations(class).find_map(|(op, operands)| {
            let same = operands.iter().all(|operand| snapshot.ty(*operand) == ty);
            <[Class; 2]>::try_from(operands).ok().filter(|_| op == name && same)
        });
        match parts {
            Some(parts) if (class == sum || inner.contains(&class)) && open.insert(class) => {
                found.parts.push(parts);
                pending.extend(parts.iter().rev());
            }
            _ => found.terms.push(class),
        }
        if found.terms.len() > MAX_TERMS {
            break;
        }
    }
    found
}

/// The sum of `terms` by operations `name` of type `ty`: that of those at the places `group`, and
/// that of the others, each as a balanced tree, so that few rounds take it together. It stands for
/// `total`.
pub fn regrouped<V: Copy>(
    name: Symbol,
    ty: Type,
    terms: &[V],
    group: &[usize],
    total: V,
) -> Plan<V> {
    let mut of_group = vec![false; terms.len()];
    group.iter().for_each(|place| of_group[*place] = true);
    let mut ops: Vec<Planned<V>> = Vec::new();
    let mut parts: SmallVec<[Operand<V>; 2]> = SmallVec::new();
    for wanted in [true, false] {
        let chosen = terms.iter().zip(&of_group).filter(|(_, of)| **of == wanted);
        let mut level: Vec<Operand<V>> = chosen.map(|(term, _)| Operand::Value(*term)).collect();
        while level.len() > 1 {
            let pairs = level.chunks(2).map(|pair| match pair {
                [a, b] => sum_of(&mut ops, name, ty, [*a, *b]),
                _ => pair[0],
            });
            level = pairs.collect();
        }
        parts.extend(level);
    }
    let new = match parts[..] {
        [a, b] => sum_of(&mut ops, name, ty, [a, b]),
        [a] => a,
        _ => Operand::Value(total),
    };
    Plan { ops, replacements: SmallVec::from_iter([(total, new)]) }
}

fn sum_of<V>(
    ops: &mut Vec<Planned<V>>,
    name: Symbol,
    ty: Type,
    operands: [Operand<V>; 2],
) -> Operand<V> {
    let operands = SmallVec::from_iter(operands);
    ops.push(Planned { name, attrs: AttrDict::empty(), operands, ty });
    Operand::New(ops.len() - 1)
}
