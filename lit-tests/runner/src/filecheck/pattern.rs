//! One pattern of a directive: text, `{{regex}}`, `[[variables]]`, `[[#numbers]]`.

use std::collections::{BTreeMap, BTreeSet};

use super::diagnostics::Failure;
use super::ere::{self, Regex};
use super::numeric::{EvaluationError, Expression, Format, ParseError, Value, name_length};
use super::options::Options;
use super::source::Source;

/// What a directive asks of its pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Next,
    Same,
    Not,
    Dag,
    Label,
    Empty,
    Count(usize),
    /// The end of the input, so that trailing `DAG` and `NOT` have an anchor.
    EndOfInput,
}

/// The part of a directive before its pattern.
pub(super) struct Heading<'p> {
    pub(super) kind: Kind,
    pub(super) prefix: &'p str,
    /// The directive as messages name it, such as `CHECK-NEXT`.
    pub(super) name: String,
    /// The pattern is text, whatever brackets it holds.
    pub(super) is_literal: bool,
}

/// The variables that the directives read so far define, and what is known of them.
#[derive(Default)]
pub(super) struct Declarations {
    strings: BTreeSet<String>,
    formats: BTreeMap<String, Format>,
}

/// The values of variables while matching.
#[derive(Default)]
pub(super) struct Variables {
    strings: BTreeMap<String, String>,
    numbers: BTreeMap<String, Value>,
}

impl Variables {
    /// Forgets the variables whose name does not start with `$`.
    pub(super) fn clear_locals(&mut self) {
        self.strings.retain(|name, _| name.starts_with('$'));
        self.numbers.retain(|name, _| name.starts_with('$'));
    }

    /// Adds a definition of the command line: `NAME=TEXT` or `#NAME=EXPRESSION`.
    pub(super) fn define(
        &mut self,
        declarations: &mut Declarations,
        definition: &str,
        index: usize,
    ) -> Result<(), Failure> {
        let Some((name, value)) = definition.split_once('=') else {
            let message = format!("Missing equal sign in command-line definition '-D{definition}'");
            return Err(Failure::usage(message));
        };
        if name.trim_start_matches('#').is_empty() {
            let message =
                format!("Missing variable name in command-line definition '-D{definition}'");
            return Err(Failure::usage(message));
        }
        let label = format!("Global define #{index}: {definition}");
        let block = name.strip_prefix('#').map(|name| format!("{name}:{value}"));
        let (text, start) = match &block {
            // Places are those of the block that the definition is read as.
            Some(block) => {
                let lead = format!("{label} (parsed as: [[#");
                (format!("{lead}{block}]])"), lead.len())
            }
            None => (label.clone(), label.len() - definition.len()),
        };
        let shown = Source::new("Global defines", &text, true);
        let failure = |(at, message): ParseError| Failure::usage_at(message, &shown, start + at);
        let Some(block) = block else {
            if name_length(name) == 0 {
                return Err(failure((0, "invalid variable name".to_owned())));
            }
            if name_length(name) != name.len() || name.starts_with('@') {
                let message = format!("invalid name in string variable definition '{name}'");
                return Err(failure((0, message)));
            }
            if declarations.formats.contains_key(name) {
                let message = format!("numeric variable with name '{name}' already exists");
                return Err(failure((0, message)));
            }
            declarations.strings.insert(name.to_owned());
            self.strings.insert(name.to_owned(), value.to_owned());
            return Ok(());
        };
        let block = NumericBlock::parse(&block, 0, declarations).map_err(failure)?;
        let evaluated = match &block.expression {
            None => return Err(failure((name.len(), "empty numeric expression".to_owned()))),
            Some((expression, _)) => expression.evaluate(&self.numbers),
        };
        match (evaluated, block.definition) {
            (Ok(value), Some((name, _))) => {
                declarations.formats.insert(name.clone(), block.format);
                self.numbers.insert(name, value);
                Ok(())
            }
            (Err(EvaluationError::Undefined(names)), _) => {
                let message = |(name, _): &(String, usize)| format!("undefined variable: {name}");
                let messages: Vec<String> = names.iter().map(message).collect();
                Err(Failure::usage(messages.join("\n")))
            }
            _ => Err(Failure::usage(OVERFLOW)),
        }
    }
}

const OVERFLOW: &str = "unable to substitute variable or numeric expression: overflow error";

/// A pattern that can be searched for.
#[derive(Debug)]
pub(super) struct Pattern<'a> {
    pub(super) kind: Kind,
    /// The directive as messages name it, such as `CHECK-NEXT`.
    pub(super) name: String,
    /// Where the pattern stands.
    pub(super) source: &'a Source,
    /// Offset of the pattern in its source.
    pub(super) at: usize,
    body: Body,
}

#[derive(Debug)]
enum Body {
    EndOfInput,
    Fixed(String),
    Template(Template),
}

/// A regular expression with holes for the values of variables.
#[derive(Debug, Default)]
struct Template {
    pieces: Vec<Piece>,
    groups: usize,
    ignore_case: bool,
    strings: Vec<StringDefinition>,
    numbers: Vec<NumericDefinition>,
    /// The expression itself, if there are no holes.
    compiled: Option<Regex>,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    /// A string variable, and where its name stands.
    Variable {
        name: String,
        at: usize,
    },
    /// An expression, where it and the block around it stand, and that block's text.
    Number {
        expression: Expression,
        format: Format,
        at: usize,
        block: usize,
        text: String,
    },
}

#[derive(Debug)]
struct StringDefinition {
    name: String,
    group: usize,
}

#[derive(Debug)]
struct NumericDefinition {
    name: String,
    group: usize,
    format: Format,
    at: usize,
}

/// A match: byte offsets in the text that was searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) length: usize,
}

impl Match {
    pub(super) fn end(self) -> usize {
        self.start + self.length
    }
}

/// Why a pattern did not match.
#[derive(Debug)]
pub(super) enum Miss {
    /// The text does not occur.
    NotFound,
    /// The pattern has no meaning here: messages with their check file offsets.
    Invalid(Vec<(usize, String)>),
}

impl<'a> Pattern<'a> {
    pub(super) fn end_of_input(source: &'a Source) -> Self {
        Self {
            kind: Kind::EndOfInput,
            name: "implicit EOF".to_owned(),
            source,
            at: source.text().len(),
            body: Body::EndOfInput,
        }
    }

    /// Parses the pattern `source[at..end]`.
    pub(super) fn parse(
        source: &'a Source,
        (at, end): (usize, usize),
        heading: Heading<'_>,
        options: &Options,
        declarations: &mut Declarations,
    ) -> Result<Self, Failure> {
        let exact = options.strict_whitespace && options.match_full_lines;
        let mut text = &source.text()[at..end];
        if !exact {
            text = text.trim_end_matches([' ', '\t']);
        }
        let fail = |at: usize, message: String| Failure::usage_at(message, source, at);
        let Heading { kind, prefix, name, is_literal } = heading;
        match kind {
            Kind::Empty if !text.is_empty() => {
                let message =
                    format!("found non-empty check string for empty check with prefix '{prefix}:'");
                return Err(fail(at, message));
            }
            Kind::Empty => {}
            _ if text.is_empty() => {
                let message = format!("found empty check string with prefix '{prefix}:'");
                return Err(fail(at, message));
            }
            _ => {}
        }
        // As in LLVM, text that is taken literally need not fill its line.
        let full_line = options.match_full_lines && kind != Kind::Not && !is_literal;
        let has_blocks = !is_literal && (text.contains("{{") || text.contains("[["));
        let body = if kind == Kind::Empty {
            let mut template = Template::default();
            template.push_text("(\n$)");
            Body::Template(template)
        } else if !full_line && !has_blocks && !options.ignore_case {
            Body::Fixed(text.to_owned())
        } else {
            let mut template = Template { ignore_case: options.ignore_case, ..Template::default() };
            let blank = if options.strict_whitespace { "" } else { " *" };
            if full_line {
                template.push_text("^");
                template.push_text(blank);
            }
            if is_literal {
                template.push_text(&ere::escape(text));
            } else {
                template.parse(source, at, text, declarations)?;
            }
            if full_line {
                template.push_text(blank);
                template.push_text("$");
            }
            Body::Template(template)
        };
        let mut pattern = Self { kind, name, source, at, body };
        if let Body::Template(template) = &mut pattern.body {
            template.compile().map_err(|message| fail(at, format!("invalid regex: {message}")))?;
        }
        Ok(pattern)
    }

    /// Whether the pattern defines or uses a variable.
    pub(super) fn has_variable(&self) -> bool {
        match &self.body {
            Body::Template(template) => {
                !template.strings.is_empty()
                    || !template.numbers.is_empty()
                    || template.pieces.iter().any(|p| !matches!(p, Piece::Text(_)))
            }
            _ => false,
        }
    }

    /// The first match in `text`; records the variables it defines.
    pub(super) fn find(&self, text: &str, variables: &mut Variables) -> Result<Match, Miss> {
        let found = match &self.body {
            Body::EndOfInput => Match { start: text.len(), length: 0 },
            Body::Fixed(fixed) => Match {
                start: text.find(fixed.as_str()).ok_or(Miss::NotFound)?,
                length: fixed.len(),
            },
            Body::Template(template) => template.find(text, variables)?,
        };
        // The newline that precedes an empty line belongs to the line before.
        Ok(match self.kind {
            Kind::Empty => Match { start: found.start + 1, length: found.length - 1 },
            _ => found,
        })
    }

    /// Notes on what the holes of the pattern stand for now.
    pub(super) fn substitutions(&self, variables: &Variables) -> Vec<String> {
        let Body::Template(template) = &self.body else {
            return Vec::new();
        };
        let note = |piece: &Piece| {
            let (text, value) = match piece {
                Piece::Text(_) => return None,
                Piece::Variable { name, .. } => {
                    (name.as_str(), variables.strings.get(name)?.clone())
                }
                Piece::Number { expression, format, text, .. } => {
                    let value = expression.evaluate(&variables.numbers).ok()?;
                    (text.as_str(), format.write(value)?)
                }
            };
            Some(format!("with \"{text}\" equal to \"{}\"", value.escape_default()))
        };
        template.pieces.iter().filter_map(note).collect()
    }

    /// The text that a near miss is compared with.
    pub(super) fn example(&self) -> String {
        match &self.body {
            Body::EndOfInput => String::new(),
            Body::Fixed(text) => text.clone(),
            Body::Template(template) => {
                let text = |piece: &Piece| match piece {
                    Piece::Text(text) => Some(text.clone()),
                    _ => None,
                };
                template.pieces.iter().filter_map(text).collect()
            }
        }
    }
}

impl Template {
    fn push_text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    fn open_group(&mut self) -> usize {
        self.push_text("(");
        self.groups += 1;
        self.groups
    }

    /// Adds a user's expression; the error is about that expression alone.
    fn push_regex(&mut self, regex: &str) -> Result<(), String> {
        let groups = Regex::new(regex, self.ignore_case)
            .map_err(|message| format!("invalid regex: {message}"))?
            .groups();
        self.groups += groups;
        self.push_text(regex);
        Ok(())
    }

    /// Parses `text`, which stands at `at` in `source`.
    fn parse(
        &mut self,
        source: &Source,
        at: usize,
        text: &str,
        declarations: &mut Declarations,
    ) -> Result<(), Failure> {
        let (line, _) = source.position(at);
        let mut rest = text;
        while !rest.is_empty() {
            let start = at + text.len() - rest.len();
            let fail =
                |offset: usize, message: String| Failure::usage_at(message, source, start + offset);
            if let Some(block) = rest.strip_prefix("{{") {
                let Some(end) = block.find("}}") else {
                    let message = "found start of regex string with no end '}}'";
                    return Err(fail(0, message.to_owned()));
                };
                self.open_group();
                self.push_regex(&block[..end]).map_err(|message| fail(2, message))?;
                self.push_text(")");
                rest = &block[end + 2..];
            } else if rest.starts_with("[[[") {
                // The first bracket is text: `[[[BASE]]]` is a variable in brackets.
                self.push_text(&ere::escape("["));
                rest = &rest[1..];
            } else if let Some(block) = rest.strip_prefix("[[") {
                let end = block_end(block)
                    .map_err(|offset| {
                        let message = "missing closing \"]\" for regex variable";
                        fail(2 + offset, message.to_owned())
                    })?
                    .ok_or_else(|| fail(0, "Invalid substitution block, no ]] found".to_owned()))?;
                let inner = &block[..end];
                match inner.strip_prefix('#') {
                    Some(numeric) => self.numeric_block(numeric, start + 3, line, declarations),
                    None => self.string_block(inner, start + 2, line, declarations),
                }
                .map_err(|(offset, message)| Failure::usage_at(message, source, offset))?;
                rest = &block[end + 2..];
            } else {
                let next = |marker: &str| rest.find(marker).unwrap_or(rest.len());
                let (fixed, after) = rest.split_at(next("{{").min(next("[[")));
                self.push_text(&ere::escape(fixed));
                rest = after;
            }
        }
        Ok(())
    }

    /// `[[NAME]]`, `[[NAME:regex]]` or the older `[[@LINE+1]]`; `at` is the
    /// offset of `inner` in the source.
    fn string_block(
        &mut self,
        inner: &str,
        at: usize,
        line: usize,
        declarations: &mut Declarations,
    ) -> Result<(), ParseError> {
        let head = inner.split(':').next().unwrap_or(inner);
        if let Some(space) = head.find([' ', '\t']) {
            return Err((at + space, "unexpected whitespace".to_owned()));
        }
        let is_definition = head.len() < inner.len();
        if inner.starts_with('@') && !is_definition {
            let expression = Expression::parse(inner, line)
                .map_err(|(offset, message)| (at + offset, message))?;
            // The older form knows numbers only.
            if let Some((_, offset)) = expression.variables().next() {
                return Err((at + offset, "invalid operand format".to_owned()));
            }
            let format = Format::default();
            self.pieces.push(Piece::Number {
                expression,
                format,
                at,
                block: at,
                text: inner.to_owned(),
            });
            return Ok(());
        }
        let length = name_length(inner);
        let name = &inner[..length];
        if length == 0 {
            return Err((at, "invalid variable name".to_owned()));
        }
        if length != head.len() || name.starts_with('@') {
            let role = if is_definition { "definition" } else { "use" };
            return Err((at, format!("invalid name in string variable {role}")));
        }
        if is_definition {
            if declarations.formats.contains_key(name) {
                let message = format!("numeric variable with name '{name}' already exists");
                return Err((at, message));
            }
            let regex = &inner[length + 1..];
            declarations.strings.insert(name.to_owned());
            let group = self.open_group();
            if !regex.is_empty() {
                self.push_regex(regex).map_err(|message| (at + length + 1, message))?;
            }
            self.push_text(")");
            self.strings.push(StringDefinition { name: name.to_owned(), group });
            return Ok(());
        }
        match self.strings.iter().rev().find(|d| d.name == name) {
            Some(definition) if definition.group > 9 => {
                Err((at, "Can't back-reference more than 9 variables".to_owned()))
            }
            Some(definition) => {
                // A digit that follows must not read as part of the number.
                let reference = format!("\\{}", definition.group);
                self.push_text(&reference);
                Ok(())
            }
            None => {
                let name = name.to_owned();
                self.pieces.push(Piece::Variable { name, at });
                Ok(())
            }
        }
    }

    /// `[[#%format,NAME:expression]]`; `at` is the offset of `inner` in the source.
    fn numeric_block(
        &mut self,
        inner: &str,
        at: usize,
        line: usize,
        declarations: &mut Declarations,
    ) -> Result<(), ParseError> {
        let block = NumericBlock::parse(inner, line, declarations)
            .map_err(|(offset, message)| (at + offset, message))?;
        let format = block.format;
        if let Some((expression, start)) = &block.expression {
            for (name, offset) in expression.variables() {
                if self.numbers.iter().any(|d| d.name == name) {
                    let message = format!(
                        "numeric variable '{name}' defined earlier in the same CHECK directive"
                    );
                    return Err((at + start + offset, message));
                }
            }
        }
        if let Some((name, end)) = &block.definition
            && declarations.formats.get(name).is_some_and(|known| *known != format)
        {
            let message = "format different from previous variable definition";
            return Err((at + end, message.to_owned()));
        }
        if let Some((expression, _)) = &block.expression {
            for (name, _) in expression.variables() {
                // A use before any definition settles the format too.
                declarations.formats.entry(name.to_owned()).or_default();
            }
        }
        let group = self.open_group();
        match block.expression {
            Some((expression, start)) => {
                self.pieces.push(Piece::Number {
                    expression,
                    format,
                    at: at + start,
                    block: at,
                    text: inner.to_owned(),
                });
            }
            None => self.push_regex(&format.wildcard()).map_err(|message| (at, message))?,
        }
        self.push_text(")");
        if let Some((name, _)) = block.definition {
            declarations.formats.insert(name.clone(), format);
            self.numbers.push(NumericDefinition { name, group, format, at });
        }
        Ok(())
    }

    fn compile(&mut self) -> Result<(), String> {
        if let [Piece::Text(text)] = self.pieces.as_slice() {
            self.compiled = Some(Regex::new(text, self.ignore_case)?);
        }
        Ok(())
    }

    /// The expression with its holes filled.
    fn filled(&self, variables: &Variables) -> Result<Regex, Miss> {
        let mut text = String::new();
        let mut problems = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Variable { name, at } => match variables.strings.get(name) {
                    Some(value) => text.push_str(&ere::escape(value)),
                    None => problems.push((*at, format!("undefined variable: {name}"))),
                },
                Piece::Number { expression, format, at, block, .. } => match expression
                    .evaluate(&variables.numbers)
                {
                    Ok(value) => match format.write(value) {
                        Some(number) => text.push_str(&number),
                        None => problems.push((*block, OVERFLOW.to_owned())),
                    },
                    Err(EvaluationError::Overflow) => problems.push((*block, OVERFLOW.to_owned())),
                    Err(EvaluationError::Undefined(names)) => {
                        problems.extend(names.into_iter().map(|(name, offset)| {
                            (at + offset, format!("undefined variable: {name}"))
                        }));
                    }
                },
            }
        }
        if !problems.is_empty() {
            return Err(Miss::Invalid(problems));
        }
        let start = self.pieces.iter().find_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Variable { at, .. } | Piece::Number { at, .. } => Some(*at),
        });
        Regex::new(&text, self.ignore_case).map_err(|message| {
            Miss::Invalid(vec![(start.unwrap_or(0), format!("invalid regex: {message}"))])
        })
    }

    fn find(&self, text: &str, variables: &mut Variables) -> Result<Match, Miss> {
        let captures = match &self.compiled {
            Some(regex) => regex.find(text),
            None => self.filled(variables)?.find(text),
        }
        .ok_or(Miss::NotFound)?;
        let group = |index: usize| captures.get(index).cloned().flatten();
        let whole = group(0).ok_or(Miss::NotFound)?;
        for definition in &self.strings {
            let value = group(definition.group).map_or("", |range| &text[range]);
            variables.strings.insert(definition.name.clone(), value.to_owned());
        }
        for definition in &self.numbers {
            let written = group(definition.group).map_or("", |range| &text[range]);
            let value = definition.format.read(written).ok_or_else(|| {
                let message = "unable to represent numeric value".to_owned();
                Miss::Invalid(vec![(definition.at, message)])
            })?;
            variables.numbers.insert(definition.name.clone(), value);
        }
        Ok(Match { start: whole.start, length: whole.len() })
    }
}

/// Length of a `[[` block before its `]]`; nothing if it does not end. The
/// error is the offset of a bracket that closes nothing.
fn block_end(text: &str) -> Result<Option<usize>, usize> {
    let mut depth = 0_usize;
    let mut skip = false;
    for (at, c) in text.char_indices() {
        if skip {
            skip = false;
            continue;
        }
        match c {
            ']' if depth == 0 && text[at..].starts_with("]]") => return Ok(Some(at)),
            ']' if depth == 0 => return Err(at),
            ']' => depth -= 1,
            '[' => depth += 1,
            '\\' => skip = true,
            _ => {}
        }
    }
    Ok(None)
}

/// The parts of a numeric block.
struct NumericBlock {
    /// The variable it defines, and the offset in the block after its name.
    definition: Option<(String, usize)>,
    format: Format,
    /// The expression with its offset in the block.
    expression: Option<(Expression, usize)>,
}

impl NumericBlock {
    fn parse(text: &str, line: usize, declarations: &Declarations) -> Result<Self, ParseError> {
        let at = |rest: &str| text.len() - rest.len();
        let mut rest = text.trim_start_matches([' ', '\t']);
        let mut explicit = None;
        if let Some(spec) = rest.strip_prefix('%')
            && let Some((spec, after)) = spec.split_once(',')
        {
            let start = at(rest) + 1;
            let format = Format::parse(spec.trim_end())
                .map_err(|(offset, message)| (start + offset, message))?;
            explicit = Some(format);
            rest = after;
        }
        let mut definition = None;
        if let Some((name, after)) = rest.split_once(':') {
            let start = at(rest) + name.len() - name.trim_start().len();
            let name = name.trim_start();
            let length = name_length(name);
            if length == 0 {
                return Err((start, "invalid variable name".to_owned()));
            }
            if name.starts_with('@') {
                let message = "definition of pseudo numeric variable unsupported";
                return Err((start, message.to_owned()));
            }
            if !name[length..].trim().is_empty() {
                let message = "unexpected characters after numeric variable name";
                return Err((start + length, message.to_owned()));
            }
            let name = &name[..length];
            if declarations.strings.contains(name) {
                let message = format!("string variable with name '{name}' already exists");
                return Err((start, message));
            }
            definition = Some((name.to_owned(), start + length));
            rest = after;
        }
        rest = rest.trim_start();
        let constraint = rest.strip_prefix("==");
        rest = constraint.unwrap_or(rest).trim_start();
        let start = at(rest);
        if rest.is_empty() {
            if constraint.is_some() {
                let message = "empty numeric expression should not have a constraint";
                return Err((start, message.to_owned()));
            }
            let format = explicit.unwrap_or_default();
            return Ok(Self { definition, format, expression: None });
        }
        let expression =
            Expression::parse(rest, line).map_err(|(offset, message)| (start + offset, message))?;
        let format = match explicit {
            Some(format) => format,
            None => expression
                .implied_format(&declarations.formats)
                .map_err(|message| (start, message))?
                .unwrap_or_default(),
        };
        Ok(Self { definition, format, expression: Some((expression, start)) })
    }
}
