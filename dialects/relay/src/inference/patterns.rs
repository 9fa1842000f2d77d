//! Which cases the clauses of a `match` cover.
//!
//! The matrix of patterns is split column by column, from left to right (Maranget, "Warnings for
//! pattern matching", 2007). Every leaf of the splitting is either a case that the first of the
//! clauses left takes, or one that no clause takes. The work is bounded: there are matches whose
//! splitting is exponential.

use ir_core::{Symbol, Type, TypeData};
use rustc_hash::FxHashMap;

use super::environment::DataTypes;
use crate::language::Pattern;

/// Pattern cells looked at before the check gives up, and how many more for each clause.
const BUDGET: (usize, usize) = (200_000, 8);

/// Cases named in one message.
const MAX_MISSING: usize = 3;

/// What the clauses of a match cover.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Coverage {
    /// Some cases that no clause takes, smallest first.
    pub(crate) missing: Vec<String>,
    /// The clauses that no case reaches, in order. Only known where the check did not give up.
    pub(crate) unreachable: Vec<usize>,
    /// Whether the check gave up. `missing` is right as far as it goes.
    pub(crate) gave_up: bool,
}

/// A step of writing a case down, in preorder: a head with its number of fields.
#[derive(Clone, Copy)]
struct Head {
    /// `None` for a tuple or, without fields, a wildcard.
    constructor: Option<Symbol>,
    wildcard: bool,
    fields: usize,
}

const WILDCARD: Head = Head { constructor: None, wildcard: true, fields: 0 };

/// What is left to distinguish.
struct State<'p> {
    /// The clauses that may still fit: number, and the patterns of the columns, next one last.
    rows: Vec<(usize, Vec<&'p Pattern>)>,
    /// Types of the columns, next one last.
    columns: Vec<Type>,
    /// What is known about the value.
    heads: Vec<Head>,
}

static ANYTHING: Pattern = Pattern::Wildcard;

/// Checks well-typed `patterns` for values of type `data`.
pub(crate) fn check(types: &DataTypes, patterns: &[Pattern], data: Type) -> Coverage {
    let mut missing: Vec<Vec<Head>> = Vec::new();
    let mut reached = vec![false; patterns.len()];
    let mut gave_up = false;
    let budget = BUDGET.0 + BUDGET.1 * patterns.len();
    let mut work = 0;
    let rows = patterns.iter().enumerate().map(|(i, pattern)| (i, vec![pattern])).collect();
    let mut states = vec![State { rows, columns: vec![data], heads: Vec::new() }];
    while let Some(mut state) = states.pop() {
        work += 1 + state.rows.iter().map(|(_, row)| row.len()).sum::<usize>();
        if work > budget {
            gave_up = true;
            break;
        }
        let Some((first, row)) = state.rows.first() else {
            if state.columns.iter().any(|ty| constructors(types, *ty) == Some(0)) {
                // No value has this type: there is no such case.
            } else if missing.len() < MAX_MISSING {
                missing.push(state.heads);
            }
            continue;
        };
        if row.iter().all(|pattern| matches!(pattern, Pattern::Wildcard | Pattern::Variable)) {
            reached[*first] = true;
            continue;
        }
        let Some(column) = state.columns.pop() else { continue };
        let heads: Vec<&Pattern> =
            state.rows.iter_mut().map(|(_, row)| row.pop().unwrap_or(&ANYTHING)).collect();
        // The state where the rows at `places` fit.
        let split = |head: Head, fields: &[Type], places: &[usize]| {
            let rows = places.iter().filter_map(|&place| {
                let (clause, mut row) = state.rows[place].clone();
                match heads[place] {
                    Pattern::Wildcard | Pattern::Variable => {
                        row.extend(std::iter::repeat_n(&ANYTHING, head.fields));
                    }
                    Pattern::Constructor(name, inner) if head.constructor == Some(*name) => {
                        row.extend(inner.iter().rev());
                    }
                    Pattern::Tuple(inner) if head.constructor.is_none() && !head.wildcard => {
                        row.extend(inner.iter().rev());
                    }
                    Pattern::Constructor(..) | Pattern::Tuple(_) => return None,
                }
                Some((clause, row))
            });
            State {
                rows: rows.collect(),
                columns: state.columns.iter().chain(fields.iter().rev()).copied().collect(),
                heads: state.heads.iter().copied().chain([head]).collect(),
            }
        };
        let all: Vec<usize> = (0..heads.len()).collect();
        if heads.iter().all(|head| matches!(head, Pattern::Wildcard | Pattern::Variable)) {
            states.push(split(WILDCARD, &[], &all));
            continue;
        }
        match column.data() {
            TypeData::Tuple(fields) => {
                let head = Head { constructor: None, wildcard: false, fields: fields.len() };
                states.push(split(head, fields, &all));
            }
            TypeData::Named { name, params } => {
                let Some(adt) = types.adts.get(name) else { continue };
                let (mut by_name, open) = by_constructor(&heads);
                let mut parts = Vec::new();
                let mut made = work;
                for (tag, constructor) in adt.decl.constructors.iter().enumerate() {
                    let mut places = by_name.remove(&constructor.name).unwrap_or_default();
                    places.extend(&open);
                    places.sort_unstable();
                    made += 1 + places.len();
                    if made > budget {
                        gave_up = true;
                        break;
                    }
                    let fields = adt.fields(tag, params);
                    let constructor = Some(constructor.name);
                    let head = Head { constructor, wildcard: false, fields: fields.len() };
                    parts.push(split(head, &fields, &places));
                }
                if adt.decl.is_extern {
                    // Values of other constructors may come from outside.
                    parts.push(split(WILDCARD, &[], &open));
                }
                states.extend(parts.into_iter().rev());
            }
            // No pattern but a variable fits other types, as inference has reported.
            _ => {}
        }
    }
    let mut missing: Vec<String> = missing.iter().map(|heads| written(heads)).collect();
    missing.sort_by_key(String::len);
    let unreachable =
        if gave_up { vec![] } else { (0..patterns.len()).filter(|i| !reached[*i]).collect() };
    Coverage { missing, unreachable, gave_up }
}

/// The places of the patterns that name each constructor, and of those that name none.
fn by_constructor(heads: &[&Pattern]) -> (FxHashMap<Symbol, Vec<usize>>, Vec<usize>) {
    let (mut by_name, mut open) = (FxHashMap::<Symbol, Vec<usize>>::default(), vec![]);
    for (place, head) in heads.iter().enumerate() {
        match head {
            Pattern::Constructor(name, _) => by_name.entry(*name).or_default().push(place),
            Pattern::Wildcard | Pattern::Variable => open.push(place),
            Pattern::Tuple(_) => {}
        }
    }
    (by_name, open)
}

/// The number of constructors, where `ty` is a data type of which all are known.
fn constructors(types: &DataTypes, ty: Type) -> Option<usize> {
    let TypeData::Named { name, .. } = ty.data() else { return None };
    let adt = types.adts.get(name)?;
    (!adt.decl.is_extern).then_some(adt.decl.constructors.len())
}

/// The pattern of a case given in preorder; what is not given fits everything.
fn written(heads: &[Head]) -> String {
    let mut text = String::new();
    // Fields still to write of each open head.
    let mut open: Vec<usize> = Vec::new();
    let mut heads = heads.iter().copied();
    loop {
        let head = heads.next().unwrap_or(WILDCARD);
        match head.constructor {
            Some(name) => text.push_str(name.as_str()),
            None if head.wildcard => text.push('_'),
            None if head.fields == 0 => text.push_str("()"),
            None => {}
        }
        if head.fields > 0 {
            text.push('(');
            open.push(head.fields);
            continue;
        }
        loop {
            match open.last_mut() {
                None => return text,
                Some(1) => {
                    open.pop();
                    text.push(')');
                }
                Some(left) => {
                    *left -= 1;
                    text.push_str(", ");
                    break;
                }
            }
        }
    }
}

/// `pattern` as it is written, its variables as `_`.
pub(crate) fn shown(pattern: &Pattern) -> String {
    let mut heads = Vec::new();
    let mut pending = vec![pattern];
    while let Some(pattern) = pending.pop() {
        let (constructor, fields): (_, &[Pattern]) = match pattern {
            Pattern::Wildcard | Pattern::Variable => {
                heads.push(WILDCARD);
                continue;
            }
            Pattern::Constructor(name, fields) => (Some(*name), fields),
            Pattern::Tuple(fields) => (None, fields),
        };
        heads.push(Head { constructor, wildcard: false, fields: fields.len() });
        pending.extend(fields.iter().rev());
    }
    written(&heads)
}
