//! Passes: what they are made from. The driver is in the pipeline.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::diagnostics::{Diagnostic, Diagnostics, did_you_mean};
use crate::files::FilesRead;
use crate::interrupt::Interrupt;
use crate::location::{SourceMap, Span};
use crate::module::Module;
use crate::registry::Registry;
use crate::rewriter::FuncMut;

/// The outcome of a pass: an `Err` ends the pipeline with that diagnostic.
pub type PassResult = Result<(), Diagnostics>;

/// What a pass may use besides what it edits.
pub struct PassContext<'a> {
    /// What exists.
    pub registry: &'a Registry,
    /// Worker threads that the pass may use; what it makes must not depend on them.
    pub threads: usize,
    /// Findings so far; an error among them ends the pipeline after the pass.
    pub diagnostics: Diagnostics,
    /// Counters, printed by `--stats`.
    pub statistics: IndexMap<&'static str, u64, FxBuildHasher>,
    /// Texts besides the program's: files of rewrite rules given to the run, and what the pass
    /// reads. Findings may point into them.
    pub sources: SourceMap,
    /// The files that the pass reads, and reads them: whoever keeps what it makes looks here.
    pub files: FilesRead,
    /// Text for whoever watches the run.
    pub log: Vec<u8>,
    /// Whether passes that can are to explain what they do.
    pub explain: bool,
    /// Their explanations.
    pub explanations: Vec<Explanation>,
    /// Whether the pass is to end with what it has. A pass that does says so by
    /// [`PassContext::cut_short`].
    pub interrupt: Interrupt,
    cut: bool,
    rounds: bool,
}

/// Why what a pass made computes what was there: text that can be checked, and the places that it
/// is about, which are no part of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// Lines of text.
    pub text: String,
    /// Places, in the order of the text.
    pub places: Vec<Place>,
}

/// The places that a part of an explanation is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Before which byte of the text it is of interest, the first of a line.
    pub offset: usize,
    /// What stands there, and where.
    pub spans: Vec<(&'static str, Span)>,
}

impl Explanation {
    /// The text, with a comment for each of its places in `sources`.
    pub fn located(&self, sources: &SourceMap) -> String {
        let mut columns = sources.columns();
        let (mut text, mut done) = (String::with_capacity(2 * self.text.len()), 0);
        for place in &self.places {
            let spans = place.spans.iter().filter_map(|(what, span)| {
                let (line, column) = columns.line_column(span.file, span.start)?;
                Some(format!("{what} {}:{line}:{column}", span.file))
            });
            let spans: Vec<String> = spans.collect();
            let Some(before) = self.text.get(done..place.offset) else { continue };
            text += before;
            done = place.offset;
            if !spans.is_empty() {
                text += &format!("  // {}\n", spans.join(", "));
            }
        }
        text += self.text.get(done..).unwrap_or_default();
        text
    }
}

impl<'a> PassContext<'a> {
    /// A context without findings.
    pub fn new(registry: &'a Registry, threads: usize) -> PassContext<'a> {
        let statistics = IndexMap::default();
        let sources = SourceMap::default();
        PassContext {
            registry,
            threads,
            diagnostics: Diagnostics::new(),
            statistics,
            sources,
            files: FilesRead::default(),
            log: vec![],
            explain: false,
            explanations: vec![],
            interrupt: Interrupt::default(),
            cut: false,
            rounds: false,
        }
    }

    /// Adds `amount` to counter `name`.
    pub fn count(&mut self, name: &'static str, amount: u64) {
        *self.statistics.entry(name).or_default() += amount;
    }

    /// Says that the pass ended early because it was interrupted.
    pub fn cut_short(&mut self) {
        self.cut = true;
    }

    /// Whether the pass ended early because it was interrupted.
    pub fn was_cut_short(&self) -> bool {
        self.cut
    }

    /// Says that the pass changed how numbers are rounded: results are the same up to rounding as
    /// long as all numbers on the way are finite, and may be others where one is infinite or NaN.
    pub fn rounded_otherwise(&mut self) {
        self.rounds = true;
    }

    /// Whether the pass changed how numbers are rounded.
    pub fn has_rounded_otherwise(&self) -> bool {
        self.rounds
    }

    /// Reports a finding and goes on.
    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }
}

/// A pass over one function at a time; runs on all functions in parallel.
pub trait FunctionPass: Send + Sync {
    /// Edits the function. Whether anything changed is read from the body, never declared.
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult;
}

/// A pass over the whole module.
pub trait ModulePass: Send + Sync {
    /// Edits the module.
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult;
}

/// A pass with its options set.
pub enum PassInstance {
    /// Runs on one function at a time.
    Function(Box<dyn FunctionPass>),
    /// Runs on the module.
    Module(Box<dyn ModulePass>),
}

/// A declared pass. Derive it with `#[derive(Pass)]` on the struct of its options.
pub trait Pass {
    /// Name, docs, options and constructor.
    fn def() -> PassDef;
}

/// Name, docs, options and constructor of a pass.
#[derive(Clone, Copy)]
pub struct PassDef {
    /// Name in pipelines.
    pub name: &'static str,
    /// What it does, as Markdown; the first line is the summary.
    pub doc: &'static str,
    /// The passes that no pipeline runs before it: what they make has lost what it asks for.
    pub never_after: &'static [&'static str],
    /// Its options.
    pub options: &'static [OptionField],
    /// Makes it from `key=value` options, a flag having an empty value. The error is a message.
    pub make: fn(&[(String, String)]) -> Result<PassInstance, String>,
}

/// Declared options. Derive it with `#[derive(Options)]`; `#[derive(Pass)]` does so too.
pub trait Options: Sized {
    /// What the options belong to, as messages call it: ``pass `fuse` ``.
    const OWNER: &'static str;
    /// The options.
    const FIELDS: &'static [OptionField];
    /// Reads `key=value` options, a flag having an empty value. The error is a message.
    fn read(options: &[(String, String)]) -> Result<Self, String>;
}

/// The message for an option that `owner`, which has `options`, does not have.
pub fn unknown_option(owner: &str, options: &[OptionField], key: &str) -> String {
    let names = options.iter().map(|option| option.name);
    let help = match did_you_mean(key, names.clone()) {
        Some(help) => help,
        None if options.is_empty() => "it takes none".to_string(),
        None => format!("it takes {}", names.collect::<Vec<_>>().join(", ")),
    };
    format!("{owner} has no option `{key}`; {help}")
}

/// A declared option.
#[derive(Clone, Copy, Debug)]
pub struct OptionField {
    /// Key in text.
    pub name: &'static str,
    /// What it takes.
    pub expects: &'static str,
    /// The default, as it would be written.
    pub default: fn() -> String,
    /// What stands for a written value in pipelines; see [`OptionValue::settle`].
    pub settle: fn(&str, &Registry) -> Result<String, Diagnostics>,
    /// What it does, as Markdown.
    pub doc: &'static str,
}

/// A Rust type that an option may have.
pub trait OptionValue: Sized {
    /// What it takes, for messages and docs.
    const EXPECTS: &'static str;
    /// Reads a written value.
    fn parse(text: &str) -> Option<Self>;
    /// Writes a value so that it reads back.
    fn print(&self) -> String;
    /// The text that stands for `text` once a pipeline is read, where it names something that only
    /// the registry knows. Then what the name stands for is a part of the pipeline: passes, keys of
    /// results and reproducers depend on nothing else.
    ///
    /// # Errors
    /// When there is nothing of that name.
    fn settle(text: &str, registry: &Registry) -> Result<String, Diagnostics> {
        let _ = registry;
        Ok(text.to_string())
    }
}

/// A flag: `flag`, `flag=true` or `flag=false`.
impl OptionValue for bool {
    const EXPECTS: &'static str = "true or false";
    fn parse(text: &str) -> Option<bool> {
        match text {
            "" | "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }
    }
    fn print(&self) -> String {
        self.to_string()
    }
}

macro_rules! number_options {
    ($($ty:ty, $expects:literal;)*) => {$(
        impl OptionValue for $ty {
            const EXPECTS: &'static str = $expects;
            fn parse(text: &str) -> Option<$ty> {
                text.parse().ok()
            }
            fn print(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

number_options! {
    usize, "a number";
    u64, "a number";
    i64, "an integer";
    f64, "a decimal number";
}

impl OptionValue for String {
    const EXPECTS: &'static str = "text";
    fn parse(text: &str) -> Option<String> {
        Some(text.to_string())
    }
    fn print(&self) -> String {
        self.clone()
    }
}

/// Absent, or a value.
impl<T: OptionValue> OptionValue for Option<T> {
    const EXPECTS: &'static str = T::EXPECTS;
    fn parse(text: &str) -> Option<Option<T>> {
        T::parse(text).map(Some)
    }
    fn print(&self) -> String {
        self.as_ref().map_or(String::new(), T::print)
    }
}

/// A list, written `a+b+c` or `[a, b, c]`.
impl<T: OptionValue> OptionValue for Vec<T> {
    const EXPECTS: &'static str = T::EXPECTS;
    fn parse(text: &str) -> Option<Vec<T>> {
        let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let (items, separator) = match bracketed {
            Some(inner) => (inner.trim(), ','),
            None => (text, '+'),
        };
        if items.is_empty() {
            return Some(vec![]);
        }
        items.split(separator).map(|item| T::parse(item.trim())).collect()
    }
    fn print(&self) -> String {
        self.iter().map(T::print).collect::<Vec<_>>().join("+")
    }
}
