//! Pipeline text: `a,b{key=value,flag},c{list=[1, 2],nested={d,e{f}}}`.
//!
//! A value runs up to the `,` or `}` that ends it; `()`, `[]` and `{}` inside it balance, and text
//! in double quotes stands for itself. A value in braces is the text between them. Space around
//! names, keys and values is ignored.

use std::fmt;
use std::ops::Range;

use crate::diagnostics::{Diagnostic, Diagnostics, did_you_mean};
use crate::intern::Symbol;
use crate::location::Span;
use crate::pass::{OptionField, PassDef, PassInstance, unknown_option};
use crate::registry::Registry;

/// The file that spans of pipeline errors name. To render one, add the pipeline text under this
/// name to a [`SourceMap`](crate::SourceMap).
pub const PIPELINE_FILE: &str = "<pipeline>";

/// Passes with their options, in order. Prints as text that parses to the same passes, named
/// pipelines written out.
#[derive(Default, Debug)]
pub struct Pipeline {
    pub(super) steps: Vec<Step>,
}

/// One pass of a pipeline.
pub struct Step {
    /// The declaration of the pass.
    pub def: PassDef,
    /// The options as given.
    pub options: Vec<(String, String)>,
    /// Where the pass, or a pipeline with it, is named, in the file [`PIPELINE_FILE`]; nowhere where the
    /// pipeline was not read.
    pub span: Option<Span>,
    /// The pass, options set.
    pub pass: PassInstance,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is written for one pass, before names are looked up.
struct Entry {
    name: Range<usize>,
    options: Vec<Setting>,
}

/// One option as written.
struct Setting {
    key: Range<usize>,
    value: String,
    value_at: Range<usize>,
}

/// A mistake in a pipeline text, at a place of that text.
struct Mistake {
    at: Range<usize>,
    code: &'static str,
    message: String,
    help: Option<String>,
}

impl Mistake {
    fn diagnostic(self, file: &str) -> Diagnostic {
        let mut diagnostic = Diagnostic::error(self.code, self.message).at(span(file, &self.at));
        diagnostic.help = self.help;
        diagnostic
    }
}

fn span(file: &str, at: &Range<usize>) -> Span {
    let offset = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
    Span { file: Symbol::new(file), start: offset(at.start), end: offset(at.end) }
}

/// The entries of a named pipeline (or of the whole text) that are still to be resolved.
struct Frame<'a> {
    text: &'a str,
    name: Option<&'a str>,
    /// Where in the whole text this pipeline is named.
    origin: Range<usize>,
    entries: std::vec::IntoIter<Entry>,
}

impl Pipeline {
    /// The pipeline that `text` describes. The error lies in the file [`PIPELINE_FILE`]; one in a
    /// named pipeline lies where that is named.
    pub fn parse(text: &str, registry: &Registry) -> Result<Pipeline, Diagnostics> {
        let located = |frame: Option<(&str, &str, &Range<usize>)>, mistake: Mistake| {
            let at = frame.map_or(mistake.at.clone(), |(_, _, origin)| origin.clone());
            let diagnostic = Mistake { at, ..mistake }.diagnostic(PIPELINE_FILE);
            match frame {
                Some((name, text, _)) => {
                    diagnostic.note(format!("pipeline `{name}` stands for `{text}`"))
                }
                None => diagnostic,
            }
        };
        let whole = entries(text).map_err(|mistake| located(None, mistake))?;
        let mut frames = vec![Frame { text, name: None, origin: 0..0, entries: whole.into_iter() }];
        let mut steps = Vec::new();
        while let Some(frame) = frames.last_mut() {
            let Some(entry) = frame.entries.next() else {
                frames.pop();
                continue;
            };
            let (text, outer) = (frame.text, frame.name.map(|name| (name, frame.origin.clone())));
            let place = outer.as_ref().map(|(name, origin)| (*name, text, origin));
            let name = &text[entry.name.clone()];
            let Some(alias) = registry.find_pipeline(name) else {
                let at = place.map_or(&entry.name, |(_, _, origin)| origin);
                let step = resolve(text, &entry, at, registry);
                let located = |mistake| located(place, mistake);
                let step = step.and_then(|step| match misplaced(&step, &steps, &entry.name) {
                    Some(mistake) => Err(vec![mistake]),
                    None => Ok(step),
                });
                steps.push(
                    step.map_err(|found| found.into_iter().map(located).collect::<Diagnostics>())?,
                );
                continue;
            };
            let fault = if let Some(option) = entry.options.first() {
                Some(Mistake {
                    at: option.key.clone(),
                    code: "E0702",
                    message: format!("pipeline `{name}` takes no options"),
                    help: Some("write its passes out; `--print-pipeline` shows them".to_string()),
                })
            } else if frames.iter().any(|frame| frame.name == Some(name)) {
                Some(Mistake {
                    at: entry.name.clone(),
                    code: "E0705",
                    message: format!("pipeline `{name}` contains itself"),
                    help: None,
                })
            } else {
                None
            };
            if let Some(mistake) = fault {
                return Err(located(place, mistake).into());
            }
            let origin = outer.map_or(entry.name.clone(), |(_, origin)| origin);
            let inner = entries(&alias.text)
                .map_err(|mistake| located(Some((alias.name, &alias.text, &origin)), mistake))?;
            frames.push(Frame {
                text: &alias.text,
                name: Some(alias.name),
                origin,
                entries: inner.into_iter(),
            });
        }
        Ok(Pipeline { steps })
    }

    /// Sets option `key` of every pass called `pass` to `value`, whatever it was. Errors, a
    /// message, where the pass does not take it.
    pub fn set_option(&mut self, pass: &str, key: &str, value: &str) -> Result<(), String> {
        for step in self.steps.iter_mut().filter(|step| step.def.name == pass) {
            step.options.retain(|(option, _)| option != key);
            step.options.push((key.to_string(), value.to_string()));
            step.pass = (step.def.make)(&step.options)?;
        }
        Ok(())
    }

    /// The passes in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// What is wrong where `step`, which is named `at` a place, comes behind `earlier` ones.
fn misplaced(step: &Step, earlier: &[Step], at: &Range<usize>) -> Option<Mistake> {
    let before = earlier.iter().find(|before| step.def.never_after.contains(&before.def.name))?;
    let (name, before) = (step.def.name, before.def.name);
    Some(Mistake {
        at: at.clone(),
        code: "E0706",
        message: format!("pass `{name}` cannot come behind `{before}`"),
        help: Some(format!("write it before: `{name},{before}`")),
    })
}

/// The pass that `entry` names, with its options; it is named `at` a place of the whole text.
fn resolve(
    text: &str,
    entry: &Entry,
    at: &Range<usize>,
    registry: &Registry,
) -> Result<Step, Vec<Mistake>> {
    let name = &text[entry.name.clone()];
    let Some(def) = registry.find_pass(name) else {
        let passes = registry.passes().map(|pass| pass.name);
        let known = passes.chain(registry.pipelines().map(|pipeline| pipeline.name));
        let listing = || "`--list-passes` prints all passes and pipelines".to_string();
        return Err(vec![Mistake {
            at: entry.name.clone(),
            code: "E0701",
            message: format!("unknown pass `{name}`"),
            help: Some(did_you_mean(name, known).unwrap_or_else(listing)),
        }]);
    };
    let owner = format!("pass `{name}`");
    let (options, pass) = configure(text, entry, &owner, def.options, Some(registry), def.make)?;
    Ok(Step { def: *def, options, span: Some(span(PIPELINE_FILE, at)), pass })
}

/// The options of `entry`, settled in `registry`, where there is one, and what `make` makes of
/// them.
fn configure<T>(
    text: &str,
    entry: &Entry,
    owner: &str,
    fields: &[OptionField],
    registry: Option<&Registry>,
    make: impl Fn(&[(String, String)]) -> Result<T, String>,
) -> Result<(Vec<(String, String)>, T), Vec<Mistake>> {
    let mut options: Vec<(String, String)> = Vec::with_capacity(entry.options.len());
    for setting in &entry.options {
        let key = &text[setting.key.clone()];
        let fault = |at: &Range<usize>, code, message| {
            Err(vec![Mistake { at: at.clone(), code, message, help: None }])
        };
        let Some(field) = fields.iter().find(|option| option.name == key) else {
            return fault(&setting.key, "E0702", unknown_option(owner, fields, key));
        };
        if options.iter().any(|(earlier, _)| earlier == key) {
            let message = format!("option `{key}` of {owner} is given twice");
            return fault(&setting.key, "E0703", message);
        }
        let settled = match registry {
            Some(registry) => (field.settle)(&setting.value, registry),
            None => Ok(setting.value.clone()),
        };
        let value = settled.map_err(|found| {
            assert!(!found.is_empty(), "a value is refused for a reason");
            let mistake = |Diagnostic { code, message, help, .. }| Mistake {
                at: setting.value_at.clone(),
                code,
                message,
                help,
            };
            found.into_iter().map(mistake).collect::<Vec<_>>()
        })?;
        let option = (key.to_string(), value);
        // Each option is tried on its own, so that the error lies at the option at fault.
        if let Err(message) = make(std::slice::from_ref(&option)) {
            return fault(&setting.value_at, "E0703", message);
        }
        options.push(option);
    }
    match make(&options) {
        Ok(made) => Ok((options, made)),
        Err(message) => {
            Err(vec![Mistake { at: entry.name.clone(), code: "E0703", message, help: None }])
        }
    }
}

/// Something other than a pass that text such as `name{key=value,flag}` names and configures.
#[derive(Clone, Copy)]
pub struct Choice<T> {
    /// Its name.
    pub name: &'static str,
    /// Its options.
    pub options: &'static [OptionField],
    /// Makes it from `key=value` options. The error is a message.
    pub make: fn(&[(String, String)]) -> Result<T, String>,
}

/// The one of `choices`, each a `kind` such as `target`, that `text` names, with its options. The
/// error lies in a file called `<kind>`; `unknown` is its code for a name that is none of them.
pub fn choose<T>(
    text: &str,
    kind: &str,
    unknown: &'static str,
    choices: &[Choice<T>],
) -> Result<T, Diagnostics> {
    let made = entries(text).map_err(|mistake| vec![mistake]).and_then(|entries| {
        let names = choices.iter().map(|choice| choice.name);
        let listing = || format!("there are {}", names.clone().collect::<Vec<_>>().join(", "));
        let [entry] = entries.as_slice() else {
            let at = entries.get(1).map_or(0..text.len(), |second| second.name.clone());
            let message = format!("expected one {kind}, found {}", entries.len());
            return Err(vec![Mistake { at, code: "E0704", message, help: Some(listing()) }]);
        };
        let name = &text[entry.name.clone()];
        let Some(choice) = choices.iter().find(|choice| choice.name == name) else {
            return Err(vec![Mistake {
                at: entry.name.clone(),
                code: unknown,
                message: format!("unknown {kind} `{name}`"),
                help: Some(did_you_mean(name, names.clone()).unwrap_or_else(listing)),
            }]);
        };
        configure(text, entry, &format!("{kind} `{name}`"), choice.options, None, choice.make)
    });
    let file = format!("<{kind}>");
    made.map(|(_, made)| made)
        .map_err(|found| found.into_iter().map(|mistake| mistake.diagnostic(&file)).collect())
}

/// A position in a pipeline text.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

/// Splits a pipeline text into entries.
fn entries(text: &str) -> Result<Vec<Entry>, Mistake> {
    let mut cursor = Cursor { text, at: 0 };
    let mut entries = Vec::new();
    cursor.skip_space();
    if cursor.peek().is_none() {
        return Ok(entries);
    }
    loop {
        let name = cursor.name("a pass name")?;
        let mut options = Vec::new();
        if cursor.eat('{') && !cursor.eat('}') {
            loop {
                options.push(cursor.setting()?);
                if cursor.eat('}') {
                    break;
                }
                cursor.expect(',', "`,` or `}`")?;
            }
        }
        entries.push(Entry { name, options });
        if cursor.peek().is_none() {
            return Ok(entries);
        }
        cursor.expect(',', "`,` and another pass, or the end of the pipeline")?;
    }
}

impl Cursor<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes `token` and the space after it, where it comes next.
    fn eat(&mut self, token: char) -> bool {
        let found = self.peek() == Some(token);
        if found {
            self.at += token.len_utf8();
            self.skip_space();
        }
        found
    }

    fn expect(&mut self, token: char, what: &str) -> Result<(), Mistake> {
        if self.eat(token) { Ok(()) } else { Err(self.unexpected(what)) }
    }

    fn unexpected(&self, what: &str) -> Mistake {
        let (found, width) = match self.peek() {
            Some(c) => (format!("`{c}`"), c.len_utf8()),
            None => ("the end of the pipeline".to_string(), 0),
        };
        Mistake {
            at: self.at..self.at + width,
            code: "E0704",
            message: format!("expected {what}, found {found}"),
            help: None,
        }
    }

    /// A pass name or an option key, and the space after it.
    fn name(&mut self, what: &str) -> Result<Range<usize>, Mistake> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        let rest = &self.text[self.at..];
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        if length == 0 {
            return Err(self.unexpected(what));
        }
        let range = self.at..self.at + length;
        self.at = range.end;
        self.skip_space();
        Ok(range)
    }

    fn setting(&mut self) -> Result<Setting, Mistake> {
        let key = self.name("an option")?;
        if !self.eat('=') {
            return Ok(Setting { value_at: key.clone(), key, value: String::new() });
        }
        let start = self.at;
        let end = self.skip_value()?;
        let written = self.text[start..end].trim_end();
        let value_at = start..start + written.len();
        self.skip_space();
        Ok(Setting { key, value: unwrap_value(written), value_at })
    }

    /// Moves to the `,` or `}` that ends a value and returns where that is.
    fn skip_value(&mut self) -> Result<usize, Mistake> {
        let mut open: Vec<(char, usize)> = Vec::new();
        let mut quote: Option<usize> = None;
        let mut escaped = false;
        for (offset, c) in self.text[self.at..].char_indices() {
            let at = self.at + offset;
            if quote.is_some() {
                match c {
                    _ if escaped => escaped = false,
                    '\\' => escaped = true,
                    '"' => quote = None,
                    _ => {}
                }
                continue;
            }
            match c {
                '"' => quote = Some(at),
                '(' => open.push((')', at)),
                '[' => open.push((']', at)),
                '{' => open.push(('}', at)),
                ',' | '}' if open.is_empty() => {
                    self.at = at;
                    return Ok(at);
                }
                ')' | ']' | '}' => match open.pop() {
                    Some((close, _)) if close == c => {}
                    other => {
                        self.at = at;
                        let what = other.map_or("`,` or `}`".to_string(), |o| format!("`{}`", o.0));
                        return Err(self.unexpected(&what));
                    }
                },
                _ => {}
            }
        }
        let (unclosed, what) = match (quote, open.last()) {
            (Some(at), _) => (Some(at), "`\"`".to_string()),
            (None, Some((close, at))) => (Some(*at), format!("`{close}`")),
            (None, None) => (None, "`}`".to_string()),
        };
        self.at = self.text.len();
        let mut mistake = self.unexpected(&what);
        if let Some(at) = unclosed {
            mistake.at = at..at + 1;
        }
        Err(mistake)
    }
}

/// What a written value stands for: quotes and one pair of braces around it are taken off.
fn unwrap_value(written: &str) -> String {
    if let Some(inner) = written.strip_prefix('{').and_then(|text| text.strip_suffix('}'))
        && is_bare_between_braces(inner)
    {
        return inner.trim().to_string();
    }
    match written.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(inner) if !ends_quote_early(inner) => {
            let mut value = String::with_capacity(inner.len());
            let mut chars = inner.chars();
            while let Some(c) = chars.next() {
                value.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
            }
            value
        }
        _ => written.to_string(),
    }
}

/// Whether a quote without a backslash stands in `inner`, as in `"a" "b"` without its ends.
fn ends_quote_early(inner: &str) -> bool {
    let mut escaped = false;
    for c in inner.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return true,
            _ => {}
        }
    }
    escaped
}

/// Whether `inner` is balanced, so that braces around it belong together.
fn is_bare_between_braces(inner: &str) -> bool {
    let wrapped = format!("{inner}}}");
    let mut cursor = Cursor { text: &wrapped, at: 0 };
    loop {
        match cursor.skip_value() {
            Ok(end) if end == inner.len() => return true,
            // A comma on the outer level is fine between braces.
            Ok(end) if wrapped.as_bytes().get(end) == Some(&b',') => cursor.at = end + 1,
            _ => return false,
        }
    }
}

/// Whether `value` reads back as itself without quotes or braces.
fn is_bare(value: &str) -> bool {
    let wrapped = format!("{value}}}");
    let end = Cursor { text: &wrapped, at: 0 }.skip_value();
    matches!(end, Ok(end) if end == value.len())
        && value.trim() == value
        && unwrap_value(value) == value
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.def.name)?;
        for (index, (key, value)) in self.options.iter().enumerate() {
            f.write_str(if index == 0 { "{" } else { "," })?;
            f.write_str(key)?;
            if value.is_empty() {
                continue;
            }
            if is_bare(value) {
                write!(f, "={value}")?;
            } else if value.trim() == value && is_bare_between_braces(value) {
                write!(f, "={{{value}}}")?;
            } else {
                let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
                write!(f, "=\"{escaped}\"")?;
            }
        }
        f.write_str(if self.options.is_empty() { "" } else { "}" })
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            fmt::Display::fmt(step, f)?;
        }
        Ok(())
    }
}
