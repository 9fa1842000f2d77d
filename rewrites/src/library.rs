//! The rules that a registry has, and choosing among them and those of files.

use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;
use ir_core::diagnostics::did_you_mean;
use ir_core::registry::{RuleDefaults, RuleFile};
use ir_core::{Diagnostic, Diagnostics, FilesRead, Registry, SourceMap, Symbol};
use rustc_hash::FxHashMap;

use crate::codes;
use crate::family::{Siblings, expansions, has_families};
use crate::functions::Functions;
use crate::matching::Pattern;
use crate::parse::parse;
use crate::rule::{Node, Rule};

/// A family of operands is looked for up to this many.
const MAX_OPERANDS: usize = 8;

/// A rule that is ready to be applied.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The rule, read from left to right.
    pub rule: Rule,
    /// What it looks for.
    pub pattern: Pattern,
    /// Whether it is the reverse of a rule that holds in both directions.
    pub reverse: bool,
    /// What finds the operations of a family on the left side.
    pub siblings: Option<Siblings>,
}

impl Compiled {
    /// Whether it replaces several values at once.
    pub fn merges(&self) -> bool {
        self.rule.left.len() > 1 || self.siblings.is_some()
    }

    /// Whether it makes nothing new: its right side is a part of the left one.
    pub fn shrinks(&self) -> bool {
        let is_value = |node| matches!(self.rule.node(node), Node::Value(_));
        self.rule.right.iter().all(|equation| is_value(equation.node))
    }
}

/// Rules that are applied together.
pub struct RuleSet {
    /// The rules in the order in which they are tried.
    pub rules: Vec<Compiled>,
    /// Indices of the rules whose first root is an operation of this name.
    pub by_root: FxHashMap<Symbol, Vec<usize>>,
    /// What conditions may call.
    pub functions: Functions,
    /// Whether rules that promise less than the same floats are left out where there are floats.
    pub exact: bool,
    /// Whether a rule does not apply where its right side has no type or another one than the left
    /// side; else that is an error of the rule.
    pub lenient: bool,
}

impl RuleSet {
    /// `rules`, each in its direction or in both.
    pub fn new(rules: impl IntoIterator<Item = Rule>, registry: &Registry) -> RuleSet {
        let mut set = RuleSet {
            rules: vec![],
            by_root: FxHashMap::default(),
            functions: Functions::new(registry),
            exact: false,
            lenient: false,
        };
        for rule in rules {
            let reversed = rule.bidirectional.then(|| rule.reversed());
            set.push(rule, false, registry);
            // A rule that is its own reverse, such as a swap, would only be tried twice.
            if let Some(reversed) = reversed {
                set.push(reversed, true, registry);
            }
        }
        set
    }

    fn push(&mut self, rule: Rule, reverse: bool, registry: &Registry) {
        let siblings = Siblings::new(&rule);
        if has_families(&rule) && siblings.is_none() {
            let rules = (2..=MAX_OPERANDS).flat_map(|members| expansions(&rule, members));
            for rule in rules.collect::<Vec<_>>() {
                self.push(rule, reverse, registry);
            }
            return;
        }
        let looked_for = siblings.as_ref().map_or(&rule, |siblings| &siblings.member);
        let Some(mut pattern) = Pattern::new(looked_for, registry) else { return };
        if siblings.is_some() {
            // What it finds depends on more than what is below.
            pattern.depth = None;
        }
        self.by_root.entry(pattern.root).or_default().push(self.rules.len());
        self.rules.push(Compiled { rule, pattern, reverse, siblings });
    }
}

/// What a registry keeps: the rules of its files, read when they are first asked for. Copies of a
/// registry share them.
#[derive(Clone, Default)]
pub struct Kept(Arc<OnceLock<Read>>);

/// Rules as they were read, what was found, and what they were read with.
struct Read {
    with: Known,
    library: Library,
    found: Diagnostics,
}

/// What in a registry the meaning of rules depends on.
#[derive(PartialEq)]
struct Known {
    ops: Vec<&'static str>,
    functions: Vec<&'static str>,
    files: Vec<RuleFile>,
    defaults: RuleDefaults,
}

impl Known {
    fn of(registry: &Registry) -> Known {
        Known {
            ops: registry.ops().map(|op| op.def.name).collect(),
            functions: registry.rule_functions().map(|function| function.name).collect(),
            files: registry.rule_files().copied().collect(),
            defaults: registry.rule_defaults(),
        }
    }
}

/// Adds where `registry` keeps its rules.
pub fn register(registry: &mut Registry) {
    registry.extension_mut::<Kept>();
}

/// Rules by file.
#[derive(Clone, Default)]
pub struct Library {
    /// The rules in file order.
    pub rules: Vec<Rule>,
    /// The file of each rule.
    files: Vec<Symbol>,
    /// The texts.
    pub sources: SourceMap,
    /// The files that were read besides those given.
    pub read: FilesRead,
}

impl Library {
    /// The rules of the registry, and those of `files`.
    ///
    /// # Errors
    /// What is wrong in the files, and names that are given twice.
    pub fn new(registry: &Registry, files: &SourceMap) -> (Library, Diagnostics) {
        let (mut library, mut found) = Library::of(registry);
        for (file, text) in files.files() {
            found.extend(library.add(file.as_str(), text, registry));
        }
        (library, found)
    }

    /// The rules of the registry, which are read once.
    fn of(registry: &Registry) -> (Library, Diagnostics) {
        let with = Known::of(registry);
        let kept = registry.extension::<Kept>();
        let kept = kept.map(|kept| kept.0.get_or_init(|| Library::read(registry)));
        match kept {
            Some(kept) if kept.with == with => (kept.library.clone(), kept.found.clone()),
            _ => {
                let Read { library, found, .. } = Library::read(registry);
                (library, found)
            }
        }
    }

    fn read(registry: &Registry) -> Read {
        let (mut library, mut found) = (Library::default(), Diagnostics::new());
        for file in registry.rule_files() {
            found.extend(library.add(file.name, file.text, registry));
        }
        Read { with: Known::of(registry), library, found }
    }

    /// Adds the rules of a file; what is wrong in it.
    pub fn add(&mut self, file: &str, text: &str, registry: &Registry) -> Diagnostics {
        let file = self.sources.add(file, text);
        let (rules, mut found) = parse(file.as_str(), text, registry);
        let mut names: IndexMap<Symbol, ir_core::Span, rustc_hash::FxBuildHasher> =
            self.rules.iter().map(|rule| (rule.name, rule.span)).collect();
        for rule in rules {
            if let Some(earlier) = names.insert(rule.name, rule.span) {
                let message = format!("there is a rule `{}` already", rule.name);
                let error = Diagnostic::error(codes::TWICE, message).at(rule.span);
                found.push(error.related(earlier, "the other one"));
                continue;
            }
            self.rules.push(rule);
            self.files.push(file);
        }
        found
    }

    /// The rules that `names` choose: names of sets, tags and rules, and paths of files ending in
    /// `.rules`, which are read where they are not here yet.
    ///
    /// # Errors
    /// When a name means nothing, or a file cannot be read or is wrong.
    pub fn choose(
        &mut self,
        names: &[String],
        registry: &Registry,
    ) -> Result<Vec<Rule>, Diagnostics> {
        let mut chosen = vec![false; self.rules.len()];
        let mut found = Diagnostics::new();
        for name in names {
            if name.ends_with(".rules") && self.sources.text(Symbol::new(name)).is_none() {
                match self.read.read(name) {
                    Ok(text) => found.extend(self.add(name, &text, registry)),
                    Err(error) => {
                        let message = format!("cannot read `{name}`: {error}");
                        found.push(Diagnostic::error(codes::UNREADABLE, message));
                        continue;
                    }
                }
                chosen.resize(self.rules.len(), false);
            }
            let symbol = Symbol::new(name);
            let mut any = false;
            for (index, rule) in self.rules.iter().enumerate() {
                let named = rule.name == symbol || rule.set == Some(symbol);
                if named
                    || rule.tags.contains(&symbol)
                    || self.files[index] == symbol
                    || name == "all"
                {
                    chosen[index] = true;
                    any = true;
                }
            }
            let unread = name.ends_with(".rules") && found.has_errors();
            if !(any || unread) {
                let mut known: Vec<&str> = Vec::new();
                for rule in &self.rules {
                    known.extend(rule.set.iter().chain(&rule.tags).map(|name| name.as_str()));
                }
                known.extend(self.rules.iter().map(|rule| rule.name.as_str()));
                known.sort_unstable();
                known.dedup();
                let message = format!("there is no set, tag or rule `{name}`");
                let mut error = Diagnostic::error(codes::UNKNOWN_RULES, message);
                error.help = did_you_mean(name, known);
                found.push(error);
            }
        }
        if found.has_errors() {
            return Err(found);
        }
        let rules = self.rules.iter().zip(chosen).filter(|(_, chosen)| *chosen);
        Ok(rules.map(|(rule, _)| rule.clone()).collect())
    }

    /// The rules of `file`.
    pub fn of_file(&self, file: &str) -> Vec<Rule> {
        let file = Symbol::new(file);
        let rules = self.rules.iter().zip(&self.files).filter(|(_, of)| **of == file);
        rules.map(|(rule, _)| rule.clone()).collect()
    }
}
