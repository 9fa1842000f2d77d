//! Checking a certificate: each of its steps is made again from the program, and nothing that its
//! maker knew is taken for granted.

use ir_core::{Body, Diagnostic, Diagnostics, Registry, Span, Symbol};

use crate::codes;
use crate::library::RuleSet;

use super::fit::Line;
use super::program;
use super::store::{Origin, Refusal, Store};
use super::terms::{Operands, Term, Terms};

/// The first line of a certificate.
pub const HEADER: &str = "certificate 1\n";

/// The part of a certificate that is about one function.
#[derive(Clone, Debug)]
pub struct Part<'t> {
    /// The function.
    pub name: Symbol,
    /// Its lines, from the one that names the function to its `end`.
    lines: Vec<Text<'t>>,
}

impl Part<'_> {
    /// The line that names the function.
    pub fn span(&self) -> Option<Span> {
        self.lines.first().map(|line| line.span())
    }
}

/// A line, or a part of one, and where it stands.
#[derive(Clone, Copy, Debug)]
struct Text<'t> {
    text: &'t str,
    file: Symbol,
    start: u32,
}

impl<'t> Text<'t> {
    fn span(self) -> Span {
        let end = self.start + self.text.len() as u32;
        Span { file: self.file, start: self.start, end }
    }

    /// What follows `prefix`.
    fn after(self, prefix: &str) -> Option<Text<'t>> {
        let text = self.text.strip_prefix(prefix)?;
        Some(Text { text, start: self.start + prefix.len() as u32, ..self })
    }

    fn wrong(self, code: &'static str, message: String) -> Diagnostic {
        Diagnostic::error(code, message).at(self.span())
    }

    fn expected(self, what: &str) -> Diagnostic {
        self.wrong(codes::CERTIFICATE, format!("expected {what}"))
    }

    fn is_comment(self) -> bool {
        self.text.trim().is_empty() || self.text.trim_start().starts_with("//")
    }

    /// A name such as `%3` and what follows.
    fn name(self) -> Option<(u32, Text<'t>)> {
        let digits = self.after("%")?;
        let end = digits.text.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.text.len());
        let number = digits.text[..end].parse().ok()?;
        Some((number, digits.after(&digits.text[..end])?))
    }
}

/// The parts of the certificate `text`.
///
/// # Errors
/// Where it does not begin as one, or ends too early.
pub fn parts<'t>(file: &str, text: &'t str) -> Result<Vec<Part<'t>>, Diagnostics> {
    let file = Symbol::new(file);
    let mut start = 0;
    let mut lines = text.split_inclusive('\n').map(|line| {
        let at = start;
        start += line.len() as u32;
        Text { text: line.trim_end_matches(['\n', '\r']), file, start: at }
    });
    let header = lines.find(|line| !line.is_comment());
    if header.is_none_or(|line| line.text != HEADER.trim_end()) {
        let at = header.unwrap_or(Text { text: "", file, start: 0 });
        let help = "`relay-opt --explain-rewrites=FILE` writes certificates";
        return Err(at.expected("`certificate 1`").help(help).into());
    }
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut open = false;
    let mut last = Text { text: "", file, start: 0 };
    for line in lines.filter(|line| !line.is_comment()) {
        last = line;
        match line.after("function @") {
            Some(rest) if !open => {
                let name = rest.text.rsplit_once(", ").map_or(rest.text, |(name, _)| name);
                parts.push(Part { name: Symbol::new(name), lines: vec![] });
                open = true;
            }
            None if open => {}
            _ if open => return Err(line.expected("`end` before the next function").into()),
            _ => return Err(line.expected("`function @name, N values`").into()),
        }
        parts.iter_mut().next_back().iter_mut().for_each(|part| part.lines.push(line));
        open &= line.text != "end";
    }
    match open {
        true => Err(last.expected("`end`: the certificate is cut off after this line").into()),
        false => Ok(parts),
    }
}

/// A step that was checked.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Its number, from 1.
    pub number: usize,
    /// What it applied: a rule, and whether from right to left, or a grouping.
    pub what: String,
    /// Where it stands in the certificate.
    pub span: Span,
    /// Where its rule stands.
    pub rule: Option<Span>,
    /// What was found to be equal.
    pub equal: Vec<(Term, Term)>,
    /// Its left side.
    pub left: Vec<String>,
    /// Its right side.
    pub right: Vec<String>,
    /// What was found to be equal, as text.
    pub says: Vec<String>,
}

/// What a part of a certificate shows.
pub struct Verdict {
    /// Its steps.
    pub steps: Vec<Checked>,
    /// The values whose replacement it justifies: what was used, and what is.
    pub results: Vec<(Term, Term)>,
    /// The terms that it is about.
    pub terms: Terms,
}

/// Checks that `part` holds for the function `body`, whose source begins at `base`, and, where
/// there is one, that it shows that `rewritten` computes the same.
///
/// # Errors
/// The first line that does not hold, or what is not shown.
pub fn replay(
    part: &Part<'_>,
    body: &Body,
    rewritten: Option<(&Body, Option<Span>)>,
    rules: &RuleSet,
    registry: &Registry,
) -> Result<Verdict, Diagnostics> {
    let Some((first, lines)) = part.lines.split_first() else {
        return Err(Diagnostic::error(codes::CERTIFICATE, "the certificate is empty").into());
    };
    let mut replay =
        Replay { store: Store::new(body, rules, registry), steps: vec![], results: vec![] };
    replay.function(*first)?;
    let mut lines = lines;
    while let Some((line, rest)) = lines.split_first() {
        lines = rest;
        if let Some(rest) = line.after("step ") {
            let count = lines.iter().take_while(|line| line.text.starts_with("  ")).count();
            let (own, rest_of_part) = lines.split_at(count);
            lines = rest_of_part;
            replay.step(*line, rest, own)?;
        } else if let Some(rest) = line.after("let ") {
            replay.define(rest)?;
        } else if let Some(rest) = line.after("result ") {
            replay.store.end_round();
            replay.result(rest)?;
        } else if line.text == "round" || line.text == "end" {
            replay.store.end_round();
        } else {
            return Err(line.expected("`let`, `round`, `step`, `result` or `end`").into());
        }
    }
    if let Some((rewritten, base)) = rewritten {
        replay.program(*first, body, rewritten, base)?;
    }
    let Replay { store, steps, results } = replay;
    Ok(Verdict { steps, results, terms: store.terms })
}

struct Replay<'a> {
    store: Store<'a>,
    steps: Vec<Checked>,
    results: Vec<(Term, Term)>,
}

impl Replay<'_> {
    /// `function @main, 12 values`.
    fn function(&self, line: Text<'_>) -> Result<(), Diagnostics> {
        let count = line
            .text
            .rsplit_once(", ")
            .and_then(|(_, count)| count.strip_suffix(" values")?.parse::<usize>().ok());
        let found = self.store.names.count();
        match count {
            Some(count) if count == found => Ok(()),
            Some(_) => {
                let message = format!("the function of this program has {found} values");
                let help = "give the program as it was before the pass";
                Err(line.wrong(codes::UNPROVEN, message).help(help).into())
            }
            None => Err(line.expected("`function @name, N values`").into()),
        }
    }

    fn term(&self, number: u32, at: Text<'_>) -> Result<Term, Diagnostics> {
        self.store
            .names
            .term(number)
            .ok_or_else(|| {
                let message = format!("`%{number}` is not made by the program or an earlier step");
                at.wrong(codes::STEP, message)
            })
            .map_err(Diagnostics::from)
    }

    /// `%7 = op(%1, %2) : type`.
    fn define(&mut self, line: Text<'_>) -> Result<(), Diagnostics> {
        let form = || line.expected("`%N = operation(%A, %B) : type`");
        let (_, rest) = line.name().ok_or_else(form)?;
        let rest = rest.after(" = ").ok_or_else(form)?;
        let (name, rest) = rest.text.split_once('(').ok_or_else(form)?;
        let (operands, tail) = rest.split_once(')').ok_or_else(form)?;
        let mut of_line = Operands::new();
        for operand in operands.split(", ").filter(|operand| !operand.is_empty()) {
            let operand = Text { text: operand, ..line };
            let (number, end) = operand.name().ok_or_else(form)?;
            if !end.text.is_empty() {
                return Err(form().into());
            }
            of_line.push(self.term(number, line)?);
        }
        let Some(kind) = self.store.kind(name, tail) else {
            let message = "this operation is neither in the program nor made by an earlier step";
            return Err(line.wrong(codes::STEP, message.to_string()).into());
        };
        let term = self.store.add_numbered(kind, of_line);
        self.same(line, &self.store.definition(Line { term, swapped: false }))
    }

    /// That a line is what it has to be.
    fn same(&self, line: Text<'_>, expected: &str) -> Result<(), Diagnostics> {
        match line.text == expected {
            true => Ok(()),
            false => {
                let message = "this does not follow".to_string();
                Err(line
                    .wrong(codes::STEP, message)
                    .note(format!("expected `{}`", expected.trim()))
                    .into())
            }
        }
    }

    /// `step 3: rule-name`, with `lines` below.
    fn step(
        &mut self,
        line: Text<'_>,
        rest: Text<'_>,
        lines: &[Text<'_>],
    ) -> Result<(), Diagnostics> {
        let number = self.steps.len() + 1;
        let what = rest.after(&format!("{number}: "));
        let what = what.ok_or_else(|| line.expected(&format!("`step {number}: rule`")))?;
        let mut words = what.text.split(' ');
        let origin = match (words.next(), words.next()) {
            (Some("compute"), Some("constant")) => Origin::Compute,
            (Some(name), None) => Origin::Rule(Symbol::new(name), false),
            (Some(name), Some("reversed")) => Origin::Rule(Symbol::new(name), true),
            (Some("group"), Some(_)) => {
                let places: Result<Vec<usize>, _> =
                    what.text.split(' ').skip(1).map(str::parse).collect();
                Origin::Group(places.map_err(|_| what.expected("`group` and numbers"))?)
            }
            _ => return Err(what.expected("the name of a rule").into()),
        };
        let is_left = |line: &&Text<'_>| line.text.starts_with("  from ");
        let count = lines.iter().take_while(is_left).count();
        let (from, then) = lines.split_at(count);
        let left = from.iter().map(|line| self.line(*line)).collect::<Result<Vec<Line>, _>>()?;
        let holds = self.store.check(&origin, &left).map_err(|refusal| match refusal {
            Refusal::UnknownRule => {
                let message = format!("there is no rule `{}`", what.text);
                what.wrong(codes::STEP, message).help("give the files of rules that were used")
            }
            Refusal::Match => {
                let message = format!("`{}` does not match what step {number} names", what.text);
                line.wrong(codes::STEP, message)
            }
            Refusal::Condition => {
                let message = format!("a condition of `{}` does not hold here", what.text);
                line.wrong(codes::STEP, message)
            }
        })?;
        let before = self.store.queued().len();
        let (expected, _) = self.store.apply(&holds);
        for (place, expected) in expected.iter().enumerate() {
            match then.get(place) {
                Some(line) => self.same(*line, expected)?,
                None => {
                    let expected = expected.trim();
                    let message = format!("step {number} does not say `{expected}`");
                    return Err(line.wrong(codes::STEP, message).into());
                }
            }
        }
        if let Some(more) = then.get(expected.len()) {
            return Err(more.wrong(codes::STEP, "this does not follow".to_string()).into());
        }
        let text_of = |prefix: &str| {
            let lines = lines.iter().filter_map(|line| line.text.strip_prefix(prefix));
            lines.map(str::to_string).collect()
        };
        self.steps.push(Checked {
            number,
            what: what.text.to_string(),
            span: line.span(),
            rule: Store::span(&holds),
            equal: self.store.queued()[before..].to_vec(),
            left: text_of("  from "),
            right: text_of("  make "),
            says: text_of("  equal "),
        });
        Ok(())
    }

    /// `  from %5 = op(%1, %2) : type`: a term, whose operands may be swapped.
    fn line(&self, line: Text<'_>) -> Result<Line, Diagnostics> {
        let name = line.after("  from ").and_then(Text::name);
        let (number, _) = name.ok_or_else(|| line.expected("`from %N = ...`"))?;
        let term = self.term(number, line)?;
        let written = |swapped| format!("  from {}", self.store.definition(Line { term, swapped }));
        let swapped = self.store.terms.commutes(term) && written(true) == line.text;
        match swapped && written(false) != line.text {
            true => Ok(Line { term, swapped }),
            false => {
                self.same(line, &written(false))?;
                Ok(Line { term, swapped: false })
            }
        }
    }

    /// `result %3 = %9`.
    fn result(&mut self, line: Text<'_>) -> Result<(), Diagnostics> {
        let names = line.name().and_then(|(before, rest)| {
            let (after, end) = rest.after(" = ")?.name()?;
            end.text.is_empty().then_some((before, after))
        });
        let (before, after) = names.ok_or_else(|| line.expected("`result %A = %B`"))?;
        let (before, after) = (self.term(before, line)?, self.term(after, line)?);
        if !self.store.terms.equal(before, after) {
            let message = "the steps do not show that these are equal".to_string();
            return Err(line.wrong(codes::UNPROVEN, message).into());
        }
        self.results.push((before, after));
        Ok(())
    }

    /// That `rewritten` computes what `body` does.
    fn program(
        &mut self,
        line: Text<'_>,
        body: &Body,
        rewritten: &Body,
        base: Option<Span>,
    ) -> Result<(), Diagnostics> {
        let Store { terms, values, registry, .. } = &mut self.store;
        let at = |op| rewritten.loc(op).span(base).unwrap_or(line.span());
        let uses = program::uses((body, values), rewritten, terms, registry);
        let uses = uses.map_err(|mismatch| {
            let span = match mismatch.op {
                Some((op, true)) => at(op),
                _ => line.span(),
            };
            let message = format!("the programs cannot be compared: {}", mismatch.message);
            Diagnostic::error(codes::UNPROVEN, message).at(span)
        })?;
        for used in uses {
            if !terms.equal(used.before, used.after) {
                let name = rewritten.op_name(used.op);
                let message =
                    format!("the certificate does not show that `{name}` gets what it got before");
                let error = Diagnostic::error(codes::UNPROVEN, message).at(at(used.op));
                return Err(error.related(Some(line.span()), "the certificate").into());
            }
        }
        Ok(())
    }
}
