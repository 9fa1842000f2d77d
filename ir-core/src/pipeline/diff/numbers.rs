//! Numbers that stay the same across a change.
//!
//! Texts number values from the start, so that one operation more renumbers all that follow. Before
//! two texts are compared, the second one is written with the numbers of the first one: a value
//! that is in both keeps its number, one that takes the place of another among its users gets the
//! number of that, and others get numbers that the first text does not have.
//!
//! Texts are matched by their lines, in whatever syntax. **Within an item different numbers stay
//! different**, so that lines that are equal then mean the same: how lines were matched decides how
//! short a difference is, not whether it is true.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::lines::{Part, parts};

/// What a number stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    /// A value without a name, `%12`.
    Value,
    /// A constant in the metadata, `meta[relay.Constant][12]`.
    Constant,
}

/// A value or constant of a text, by its item and number. Constants belong to all items.
type Name = (Kind, usize, u64);

/// A number in a text.
struct Token {
    /// The digits.
    range: Range<usize>,
    /// Which name this is, by the first occurrence of each.
    name: usize,
    /// Whether this is the first occurrence, which for a value is its definition.
    first: bool,
}

struct Line {
    tokens: Range<usize>,
    /// The line without its numbers.
    shape: u64,
    /// The line, and the lines that its values come from.
    origin: u64,
    /// What a definition calls: the shape up to the first operand.
    head: u64,
}

/// A text, taken apart.
struct Numbered<'t> {
    text: &'t str,
    lines: Vec<Line>,
    tokens: Vec<Token>,
    names: Vec<Name>,
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The numbers in a line: their kinds and where their digits are.
fn numbers(line: &str) -> impl Iterator<Item = (Kind, Range<usize>)> {
    let bytes = line.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let kind = match bytes[at] {
                b'%' => Some(Kind::Value),
                b'[' if line[..at].ends_with(']') => Some(Kind::Constant),
                _ => None,
            };
            at += 1;
            let start = at;
            let Some(kind) = kind else { continue };
            let end = start + bytes[start..].iter().take_while(|b| b.is_ascii_digit()).count();
            let next = bytes.get(end).copied().unwrap_or(b' ');
            let ends = match kind {
                Kind::Value => !(next.is_ascii_alphanumeric() || next == b'_'),
                Kind::Constant => {
                    let word = line[..start - 2].rsplit([' ', '(', ',']).next();
                    next == b']' && word.is_some_and(|word| word.starts_with("meta["))
                }
            };
            if end > start && ends {
                at = end;
                return Some((kind, start..end));
            }
        }
        None
    })
}

impl<'t> Numbered<'t> {
    fn new(text: &'t str) -> Numbered<'t> {
        let (mut lines, mut tokens, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let mut known: FxHashMap<Name, usize> = FxHashMap::default();
        // Where each name comes from.
        let mut origins: Vec<u64> = Vec::new();
        let (mut item, mut start) = (0, 0);
        for line in text.split_inclusive('\n') {
            if line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '"') {
                item += 1;
            }
            let (first_token, first_name) = (tokens.len(), names.len());
            let (mut shape, mut origin) = (FxHasher::default(), FxHasher::default());
            let (mut end, mut head) = (0, 0);
            for (kind, digits) in numbers(line) {
                // Too long for a number: the text has another meaning.
                let Ok(number) = line[digits.clone()].parse::<u64>() else { continue };
                let item = if kind == Kind::Constant { 0 } else { item };
                let name = *known.entry((kind, item, number)).or_insert(names.len());
                let first = name == names.len();
                if first {
                    names.push((kind, item, number));
                    origins.push(0);
                    let call = line[digits.end..].split('(').next().unwrap_or_default();
                    head = if head == 0 { hash(call) } else { head };
                }
                let between = &line[end..digits.start];
                (between, kind).hash(&mut shape);
                (between, first, if first { 0 } else { origins[name] }).hash(&mut origin);
                let range = start + digits.start..start + digits.end;
                tokens.push(Token { range, name, first });
                end = digits.end;
            }
            line[end..].hash(&mut shape);
            line[end..].hash(&mut origin);
            let (shape, origin) = (shape.finish(), origin.finish());
            for (place, own) in origins[first_name..].iter_mut().enumerate() {
                *own = hash((origin, place));
            }
            lines.push(Line { tokens: first_token..tokens.len(), shape, origin, head });
            start += line.len();
        }
        Numbered { text, lines, tokens, names }
    }

    /// The text with other numbers.
    fn with(&self, mut number: impl FnMut(&Token) -> u64) -> String {
        let mut text = String::with_capacity(self.text.len());
        let mut end = 0;
        for token in &self.tokens {
            text.push_str(&self.text[end..token.range.start]);
            text.push_str(&number(token).to_string());
            end = token.range.end;
        }
        text.push_str(&self.text[end..]);
        text
    }

    fn tokens(&self, line: usize) -> &[Token] {
        &self.tokens[self.lines[line].tokens.clone()]
    }
}

/// Lines that two texts have in common, as pairs of places, and the lines between them.
type Common = (Vec<(usize, usize)>, Vec<(Range<usize>, Range<usize>)>);

/// The lines that two texts have in common: those of the same origin, and between them those of the
/// same shape.
fn common(old: &Numbered<'_>, new: &Numbered<'_>) -> Common {
    let (mut pairs, mut gaps) = (Vec::new(), Vec::new());
    let hashes = |lines: &[Line], of: fn(&Line) -> u64| lines.iter().map(of).collect::<Vec<_>>();
    let origins = [old, new].map(|text| hashes(&text.lines, |line| line.origin));
    for outer in parts(&origins[0], &origins[1]) {
        if outer.same {
            pairs.extend(outer.old.zip(outer.new));
            continue;
        }
        let (from, to) = (outer.old.start, outer.new.start);
        let before = hashes(&old.lines[outer.old], |line| line.shape);
        let after = hashes(&new.lines[outer.new], |line| line.shape);
        for Part { same, old, new } in parts(&before, &after) {
            let (old, new) = (from + old.start..from + old.end, to + new.start..to + new.end);
            match same {
                true => pairs.extend(old.zip(new)),
                false => gaps.push((old, new)),
            }
        }
    }
    (pairs, gaps)
}

/// Which names of two texts are one.
struct Names<'a> {
    old: &'a Numbered<'a>,
    new: &'a Numbered<'a>,
    /// For each name of the new text its number.
    numbers: Vec<Option<u64>>,
    /// Names of the old text that are taken.
    taken: Vec<bool>,
    /// The numbers in items of the new text that are taken.
    used: FxHashSet<Name>,
}

impl Names<'_> {
    /// Gives `new` the number of `old`, unless either has another.
    fn join(&mut self, old: usize, new: usize) {
        let (kind, _, number) = self.old.names[old];
        let (other, item, _) = self.new.names[new];
        let is_free = kind == other && !self.taken[old] && self.numbers[new].is_none();
        if is_free && self.used.insert((kind, item, number)) {
            self.taken[old] = true;
            self.numbers[new] = Some(number);
        }
    }
}

/// `new` with the numbers that its values have in `old`; other values get numbers from `fresh` on,
/// which is then behind them.
fn renumbered(old: &str, new: &str, fresh: &mut u64) -> String {
    let (old, new) = (&Numbered::new(old), &Numbered::new(new));
    let highest = old.names.iter().map(|(_, _, number)| number.saturating_add(1)).max();
    *fresh = highest.unwrap_or(0).max(*fresh);
    let (pairs, gaps) = common(old, new);
    let (numbers, taken) = (vec![None; new.names.len()], vec![false; old.names.len()]);
    let mut names = Names { old, new, numbers, taken, used: FxHashSet::default() };
    for definitions in [true, false] {
        for &(before, after) in &pairs {
            for (a, b) in old.tokens(before).iter().zip(new.tokens(after)) {
                if !definitions || (a.first && b.first) {
                    names.join(a.name, b.name);
                }
            }
        }
    }
    for (before, after) in gaps {
        let mut gone: FxHashMap<u64, VecDeque<usize>> = FxHashMap::default();
        let defined = |text: &Numbered<'_>, line: usize| {
            text.tokens(line).iter().find(|token| token.first).map(|token| token.name)
        };
        for line in before {
            if let Some(name) = defined(old, line).filter(|name| !names.taken[*name]) {
                gone.entry(old.lines[line].head).or_default().push_back(name);
            }
        }
        for line in after {
            if let Some(name) = defined(new, line).filter(|name| names.numbers[*name].is_none())
                && let Some(gone) = gone.get_mut(&new.lines[line].head)
                && let Some(other) = gone.pop_front()
            {
                names.join(other, name);
            }
        }
    }
    new.with(|token| {
        *names.numbers[token.name].get_or_insert_with(|| {
            *fresh += 1;
            *fresh - 1
        })
    })
}

/// Texts of a program that changes, with numbers that stay.
#[derive(Clone, Debug)]
pub struct Stages {
    last: String,
    /// Above all numbers so far.
    fresh: u64,
}

impl Stages {
    /// A program that starts as `text`, whose numbers are kept.
    pub fn new(text: &str) -> Stages {
        Stages { last: text.to_string(), fresh: 0 }
    }

    /// The program as it is next, `text` with the numbers that its values had so far. Values that
    /// are new get numbers that none had.
    pub fn next(&mut self, text: &str) -> &str {
        self.last = renumbered(&self.last, text, &mut self.fresh);
        &self.last
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `text` with values numbered in the order of their lines, as a printer does.
    fn in_order(text: &str) -> String {
        let text = Numbered::new(text);
        let mut next: FxHashMap<usize, u64> = FxHashMap::default();
        let count = |(_, item, _): &Name| {
            let next = next.entry(*item).or_default();
            *next += 1;
            *next - 1
        };
        let numbers: Vec<u64> = text.names.iter().map(count).collect();
        text.with(|token| numbers[token.name])
    }

    /// Programs of two items, whose values are numbered from the start.
    fn programs() -> impl Strategy<Value = String> {
        let line = (0..3_usize, 0..8_usize, 0..8_usize);
        let body = prop::collection::vec(line, 0..12);
        (body.clone(), body).prop_map(|bodies| {
            let item = |(name, body): (&str, Vec<(usize, usize, usize)>)| {
                let line = |(place, (call, a, b)): (usize, (usize, usize, usize))| {
                    let operand = |back: usize| match place.checked_sub(back + 1) {
                        Some(number) => format!("%{number}"),
                        None => "%x".to_string(),
                    };
                    format!("  %{place} = f{call}({}, {})\n", operand(a), operand(b))
                };
                let lines: String = body.into_iter().enumerate().map(line).collect();
                format!("{name} {{\n{lines}}}\n")
            };
            [("a", bodies.0), ("b", bodies.1)].into_iter().map(item).collect()
        })
    }

    proptest! {
        #[test]
        fn only_numbers_change(old in programs(), new in programs()) {
            let mut stages = Stages::new(&old);
            prop_assert_eq!(in_order(stages.next(&new)), new.clone());
            prop_assert_eq!(in_order(stages.next(&old)), old);
        }
    }

    #[test]
    fn values_keep_their_numbers() {
        let old = "\
def @main(%x: int32) {
  %0 = tanh(%x);
  %1 = multiply(%0, %x);
  %2 = exp(%1);
  add(%2, %0)
}
";
        let new = "\
def @main(%x: int32) {
  %0 = sqrt(%x);
  %1 = tanh(%x);
  %2 = divide(%1, %0);
  %3 = exp(%2);
  add(%3, %1)
}
";
        // The quotient takes the place of the product, and the root that of nothing.
        let expected = "\
def @main(%x: int32) {
  %3 = sqrt(%x);
  %0 = tanh(%x);
  %1 = divide(%0, %3);
  %2 = exp(%1);
  add(%2, %0)
}
";
        assert_eq!(Stages::new(old).next(new), expected);
    }

    #[test]
    fn different_values_stay_different() {
        let old = "a(%x) {\n  %0 = f(%x)\n  %1 = f(%0)\n  g(%1)\n}\n";
        let new = "a(%x) {\n  %0 = f(%x)\n  g(%0)\n}\n";
        assert_eq!(Stages::new(old).next(new), new);
        // Items number their values from the start.
        let two = format!("{old}{new}");
        assert_eq!(Stages::new(&two).next(&two), two);
    }

    #[test]
    fn constants_are_numbered_too() {
        let line = |value: usize, constant: usize| {
            format!("  %{value} = add(%x, meta[relay.Constant][{constant}] /* ty=int32 */);\n")
        };
        let old =
            format!("def @main() {{\n  negative(meta[relay.Constant][0])\n{}}}\n", line(0, 1));
        let new = format!("def @main() {{\n{}}}\n", line(0, 0));
        assert_eq!(Stages::new(&old).next(&new), format!("def @main() {{\n{}}}\n", line(0, 1)));
    }

    #[test]
    fn other_digits_are_no_numbers() {
        let text = "%p0 %0a %x[0][1] %18446744073709551616 [3] meta[Map][x]\n";
        assert_eq!(Stages::new("%7 = f()\n").next(text), text);
    }
}
