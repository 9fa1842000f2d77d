//! A backtracking machine that explores every path once.

use std::ops::Range;

use rustc_hash::FxHashSet;

use super::Captures;

/// One step of a program. Jumps are relative to the instruction, so that a
/// fragment may be copied.
#[derive(Clone, Debug)]
pub(super) enum Instruction {
    /// One character.
    Char(char),
    /// Any character but a newline.
    Any,
    /// One character of a set.
    Set(Set),
    /// Start of a line.
    LineStart,
    /// End of a line.
    LineEnd,
    /// Start of a word.
    WordStart,
    /// End of a word.
    WordEnd,
    /// The text that a group matched.
    BackReference(usize),
    /// Records the position in a slot: two slots per group.
    Save(usize),
    /// Continues at the first offset, then at the second.
    Split(isize, isize),
    /// Continues elsewhere.
    Jump(isize),
    /// The match ends here.
    Match,
}

/// A bracket expression.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) negated: bool,
    pub(super) ranges: Vec<(char, char)>,
}

impl Set {
    fn contains(&self, c: char, ignore_case: bool) -> bool {
        let holds = |c: char| self.ranges.iter().any(|&(low, high)| low <= c && c <= high);
        let member = holds(c) || (ignore_case && (holds(lower(c)) || holds(upper(c))));
        if self.negated { !member && c != '\n' } else { member }
    }
}

fn lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

fn upper(c: char) -> char {
    c.to_uppercase().next().unwrap_or(c)
}

fn same(a: char, b: char, ignore_case: bool) -> bool {
    a == b || (ignore_case && lower(a) == lower(b))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// A choice that was explored: instruction, position, and the groups that
/// back-references read.
type State = (usize, usize, Captures);

/// What is still to be done on the explicit stack.
enum Job {
    Explore { pc: usize, at: usize },
    Restore { slot: usize, value: Option<usize> },
}

/// The longest match of `program` that starts at `start`.
pub(super) fn longest_match(
    program: &[Instruction],
    groups: usize,
    text: &str,
    start: usize,
    ignore_case: bool,
) -> Option<Captures> {
    // What a path can still match depends on the groups that it may refer to.
    let referred: Vec<usize> = program
        .iter()
        .filter_map(|i| match i {
            Instruction::BackReference(group) => Some(*group),
            _ => None,
        })
        .collect();
    let mut slots: Vec<Option<usize>> = vec![None; 2 * (groups + 1)];
    let mut best: Option<(usize, Vec<Option<usize>>)> = None;
    let mut visited: FxHashSet<State> = FxHashSet::default();
    let mut jobs = vec![Job::Explore { pc: 0, at: start }];
    while let Some(job) = jobs.pop() {
        let (mut pc, mut at) = match job {
            Job::Explore { pc, at } => (pc, at),
            Job::Restore { slot, value } => {
                slots[slot] = value;
                continue;
            }
        };
        loop {
            let next = text[at..].chars().next();
            let previous = text[..at].chars().next_back();
            let advance = match &program[pc] {
                Instruction::Char(c) => next.filter(|&n| same(n, *c, ignore_case)),
                Instruction::Any => next.filter(|&n| n != '\n'),
                Instruction::Set(set) => next.filter(|&n| set.contains(n, ignore_case)),
                assertion @ (Instruction::LineStart
                | Instruction::LineEnd
                | Instruction::WordStart
                | Instruction::WordEnd) => {
                    let before = previous.is_some_and(is_word);
                    let after = next.is_some_and(is_word);
                    let holds = match assertion {
                        Instruction::LineStart => previous.is_none_or(|p| p == '\n'),
                        Instruction::LineEnd => next.is_none_or(|n| n == '\n'),
                        Instruction::WordStart => !before && after,
                        _ => before && !after,
                    };
                    if !holds {
                        break;
                    }
                    pc += 1;
                    continue;
                }
                Instruction::BackReference(group) => {
                    let Some(range) = range_of(&slots, *group) else {
                        break;
                    };
                    let Some(length) = prefix_length(&text[at..], &text[range], ignore_case) else {
                        break;
                    };
                    at += length;
                    pc += 1;
                    continue;
                }
                Instruction::Save(slot) => {
                    jobs.push(Job::Restore { slot: *slot, value: slots[*slot] });
                    slots[*slot] = Some(at);
                    pc += 1;
                    continue;
                }
                Instruction::Split(first, second) => {
                    let state = referred.iter().map(|&g| range_of(&slots, g)).collect();
                    if !visited.insert((pc, at, state)) {
                        break;
                    }
                    jobs.push(Job::Explore { pc: pc.wrapping_add_signed(*second), at });
                    pc = pc.wrapping_add_signed(*first);
                    continue;
                }
                Instruction::Jump(offset) => {
                    pc = pc.wrapping_add_signed(*offset);
                    continue;
                }
                Instruction::Match => {
                    if best.as_ref().is_none_or(|(end, _)| at > *end) {
                        best = Some((at, slots.clone()));
                    }
                    None
                }
            };
            let Some(c) = advance else { break };
            at += c.len_utf8();
            pc += 1;
        }
    }
    let (end, slots) = best?;
    let mut captures: Captures = (0..=groups).map(|g| range_of(&slots, g)).collect();
    captures[0] = Some(start..end);
    Some(captures)
}

fn range_of(slots: &[Option<usize>], group: usize) -> Option<Range<usize>> {
    Some(slots[2 * group]?..slots[2 * group + 1]?).filter(|range| range.start <= range.end)
}

/// Bytes of `text` that its prefix equal to `prefix` takes.
fn prefix_length(text: &str, prefix: &str, ignore_case: bool) -> Option<usize> {
    let mut rest = text.chars();
    let equal = prefix.chars().all(|c| rest.next().is_some_and(|n| same(n, c, ignore_case)));
    equal.then(|| text.len() - rest.as_str().len())
}
