//! Matches directives against the input, in LLVM's order: labels cut the input
//! into regions first, then each region is checked by its own directives.

use std::ops::Range;

use super::diagnostics::{Failure, Location};
use super::directives::Directive;
use super::options::Options;
use super::pattern::{Kind, Match, Miss, Pattern, Variables};
use super::source::Source;

/// A place that is not worth suggesting as the intended match.
const FARTHEST_SUGGESTION: usize = 4096;
/// Edits that make a line too different to be the intended match.
const LARGEST_DISTANCE: usize = 50;

/// One run of the directives over an input.
pub(super) struct Matcher<'a> {
    input: &'a Source,
    options: &'a Options,
    variables: Variables,
    failures: Vec<Failure>,
    matched: usize,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(input: &'a Source, options: &'a Options, variables: Variables) -> Self {
        Self { input, options, variables, failures: Vec::new(), matched: 0 }
    }

    /// Checks every directive; the number of matches, or all failures.
    pub(super) fn run(mut self, directives: &[Directive<'_>]) -> Result<usize, Vec<Failure>> {
        let mut first = 0;
        let mut start = 0;
        while first < directives.len() {
            // A region ends with the match of its label, which is checked again
            // as the region's last directive.
            let label =
                (first..directives.len()).find(|&i| directives[i].pattern.kind == Kind::Label);
            let (end, last) = match label {
                None => (self.input.text().len(), directives.len()),
                Some(index) => match self.find_label(&directives[index].pattern, start) {
                    Some(found) => (found.end(), index + 1),
                    None => break,
                },
            };
            if first > 0 && self.options.enable_var_scope {
                self.variables.clear_locals();
            }
            let mut at = start;
            for directive in &directives[first..last] {
                match self.check(directive, at..end) {
                    Some(found) => at = found.end(),
                    None => break,
                }
            }
            start = end;
            first = last;
        }
        if self.failures.is_empty() { Ok(self.matched) } else { Err(self.failures) }
    }

    fn find_label(&mut self, label: &Pattern<'_>, start: usize) -> Option<Match> {
        let region = start..self.input.text().len();
        match self.find(label, region.clone()) {
            Ok(found) => Some(found),
            Err(miss) => {
                self.report_miss(label, miss, region, "");
                None
            }
        }
    }

    /// The first match in a region, at offsets of the whole input. The region
    /// is searched as if it were all of the input, so `{{^}}` matches at its start.
    fn find(&mut self, pattern: &Pattern<'_>, region: Range<usize>) -> Result<Match, Miss> {
        let found = pattern.find(&self.input.text()[region.clone()], &mut self.variables)?;
        Ok(Match { start: region.start + found.start, length: found.length })
    }

    /// Checks a directive and those that precede it; its match, all repeats included.
    fn check(&mut self, directive: &Directive<'_>, region: Range<usize>) -> Option<Match> {
        let pattern = &directive.pattern;
        let (start, exclusions) = self.check_dags(&directive.preceding, region.clone())?;
        let count = match pattern.kind {
            Kind::Count(count) => count,
            _ => 1,
        };
        let mut matches: Option<Match> = None;
        for repeat in 1..=count {
            let rest = matches.map_or(start, Match::end)..region.end;
            match self.find(pattern, rest.clone()) {
                Ok(found) => {
                    self.matched += 1;
                    let first = matches.map_or(found.start, |m| m.start);
                    matches = Some(Match { start: first, length: found.end() - first });
                }
                Err(miss) => {
                    let progress = match pattern.kind {
                        Kind::Count(_) => format!(" ({repeat} out of {count})"),
                        _ => String::new(),
                    };
                    self.report_miss(pattern, miss, rest, &progress);
                    return None;
                }
            }
        }
        let found = matches?;
        let skipped = start..found.start;
        if !self.is_on_the_right_line(pattern, skipped.clone()) {
            return None;
        }
        self.excludes(&exclusions, skipped).then_some(found)
    }

    /// Checks `NEXT`, `EMPTY` and `SAME` by the text between two matches.
    fn is_on_the_right_line(&mut self, pattern: &Pattern<'_>, skipped: Range<usize>) -> bool {
        let between = &self.input.text()[skipped.clone()];
        let newlines = between.matches('\n').count();
        let complaint = match (pattern.kind, newlines) {
            (Kind::Next | Kind::Empty, 1) | (Kind::Same, 0) => return true,
            (Kind::Next | Kind::Empty, 0) => "is on the same line as previous match",
            (Kind::Next | Kind::Empty, _) => "is not on the line after the previous match",
            (Kind::Same, _) => "is not on the same line as the previous match",
            _ => return true,
        };
        let location = Location::new(pattern.source, pattern.at, 0);
        let name = pattern.name.trim_end_matches("{LITERAL}");
        let mut failure = Failure::mismatch(format!("{name}: {complaint}"), Some(location))
            .with_note("'next' match was here", self.location(skipped.end, 0))
            .with_note("previous match ended here", self.location(skipped.start, 0));
        if pattern.kind != Kind::Same
            && newlines > 1
            && let Some(newline) = between.find('\n')
        {
            let line = skipped.start + newline + 1;
            failure = failure.with_note(
                "non-matching line after previous match is here",
                self.location(line, 0),
            );
        }
        self.failures.push(failure);
        false
    }

    /// Whether none of the patterns occurs in the region.
    fn excludes(&mut self, patterns: &[&Pattern<'_>], region: Range<usize>) -> bool {
        let mut holds = true;
        for pattern in patterns {
            match self.find(pattern, region.clone()) {
                Err(Miss::NotFound) => {}
                Err(miss) => {
                    self.report_miss(pattern, miss, region.clone(), "");
                    holds = false;
                }
                Ok(found) => {
                    let message = format!("{}: excluded string found in input", pattern.name);
                    let location = Location::new(pattern.source, pattern.at, 0);
                    let mut failure = Failure::mismatch(message, Some(location))
                        .with_note("found here", self.location(found.start, found.length));
                    for note in pattern.substitutions(&self.variables) {
                        failure = failure.with_note(note, self.location(found.start, 0));
                    }
                    self.failures.push(failure);
                    holds = false;
                }
            }
        }
        holds
    }

    /// Matches groups of `DAG`, with the `NOT`s before each group; returns the
    /// end of the last group and the `NOT`s that follow it.
    fn check_dags<'p>(
        &mut self,
        patterns: &'p [Pattern<'p>],
        region: Range<usize>,
    ) -> Option<(usize, Vec<&'p Pattern<'p>>)> {
        let mut start = region.start;
        let mut exclusions: Vec<&Pattern<'_>> = Vec::new();
        // The matches of the current group, sorted and, unless allowed, disjoint.
        let mut group: Vec<Match> = Vec::new();
        for (index, pattern) in patterns.iter().enumerate() {
            if pattern.kind == Kind::Not {
                exclusions.push(pattern);
                continue;
            }
            self.find_dag(pattern, start..region.end, &mut group)?;
            let group_ends = patterns.get(index + 1).is_none_or(|next| next.kind == Kind::Not);
            if group_ends {
                let first = group.first().map_or(start, |m| m.start);
                if !self.excludes(&exclusions, start..first) {
                    return None;
                }
                exclusions.clear();
                start = group.last().map_or(start, |m| m.end());
                group.clear();
            }
        }
        Some((start, exclusions))
    }

    /// Adds the first match that overlaps no other match of the group.
    fn find_dag(
        &mut self,
        pattern: &Pattern<'_>,
        region: Range<usize>,
        group: &mut Vec<Match>,
    ) -> Option<()> {
        let mut from = region.start;
        loop {
            let rest = from..region.end;
            let found = match self.find(pattern, rest.clone()) {
                Ok(found) => found,
                Err(miss) => {
                    self.report_miss(pattern, miss, rest, "");
                    return None;
                }
            };
            let place = group.partition_point(|other| other.end() <= found.start);
            let overlapped = group.get(place).filter(|other| other.start < found.end());
            match overlapped {
                Some(other) if !self.options.allow_deprecated_dag_overlap => from = other.end(),
                _ => {
                    self.matched += 1;
                    if self.options.allow_deprecated_dag_overlap {
                        // One range stands for the whole group.
                        let all = group.pop().unwrap_or(found);
                        let first = all.start.min(found.start);
                        let length = all.end().max(found.end()) - first;
                        group.push(Match { start: first, length });
                    } else {
                        group.insert(place, found);
                    }
                    return Some(());
                }
            }
        }
    }

    fn location(&self, at: usize, length: usize) -> Location {
        Location::new(self.input, at, length)
    }

    fn report_miss(
        &mut self,
        pattern: &Pattern<'_>,
        miss: Miss,
        region: Range<usize>,
        progress: &str,
    ) {
        let here = region.start;
        let mut failures = match miss {
            Miss::NotFound => {
                let message =
                    format!("{}: expected string not found in input{progress}", pattern.name);
                let location = Location::new(pattern.source, pattern.at, 0);
                let mut failure = Failure::mismatch(message, Some(location))
                    .with_note("scanning from here", self.location(here, 0));
                for note in pattern.substitutions(&self.variables) {
                    failure = failure.with_note(note, self.location(here, 0));
                }
                vec![failure]
            }
            Miss::Invalid(problems) => problems
                .into_iter()
                .map(|(at, message)| {
                    Failure::mismatch(message, Some(Location::new(pattern.source, at, 0)))
                })
                .collect(),
        };
        if pattern.kind != Kind::Not
            && let Some(at) = self.nearest(&pattern.example(), region)
            && let Some(last) = failures.pop()
        {
            failures.push(last.with_note("possible intended match here", self.location(at, 0)));
        }
        self.failures.extend(failures);
    }

    /// Where the input looks most like `example`, other than at once.
    fn nearest(&self, example: &str, region: Range<usize>) -> Option<usize> {
        let example: Vec<char> = example.chars().collect();
        let text = &self.input.text()[region.clone()];
        let mut lines = 0;
        let mut best: Option<(usize, usize)> = None;
        for (at, c) in text.char_indices().take_while(|&(at, _)| at < FARTHEST_SUGGESTION) {
            match c {
                '\n' => lines += 1,
                ' ' | '\t' => continue,
                _ => {}
            }
            let line = text[at..].split('\n').next().unwrap_or("");
            let prefix: Vec<char> = line.chars().take(example.len()).collect();
            // Of equal distances, the nearer line wins: 100 lines weigh an edit.
            if let Some(distance) = distance(&example, &prefix) {
                let quality = distance * 100 + lines;
                if best.is_none_or(|(lowest, _)| quality < lowest) {
                    best = Some((quality, at));
                }
            }
        }
        let (quality, at) = best?;
        (at > 0 && quality < LARGEST_DISTANCE * 100).then_some(region.start + at)
    }
}

/// The edit distance of two texts, if less than [`LARGEST_DISTANCE`].
fn distance(a: &[char], b: &[char]) -> Option<usize> {
    if a.len().abs_diff(b.len()) >= LARGEST_DISTANCE {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &c) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        let mut least = row[0];
        for (j, &d) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(c != d);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
            least = least.min(row[j + 1]);
        }
        if least >= LARGEST_DISTANCE {
            return None;
        }
    }
    row.last().copied().filter(|&d| d < LARGEST_DISTANCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits() {
        let measure = |a: &str, b: &str| {
            distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
        };
        assert_eq!(measure("kitten", "sitting"), Some(3));
        assert_eq!(measure("", "ab"), Some(2));
        assert_eq!(measure(&"a".repeat(60), &"b".repeat(60)), None);
    }
}
