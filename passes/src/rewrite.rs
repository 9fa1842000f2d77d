//! Rewriting by rules that are text.

use std::sync::OnceLock;

use ir_core::pass::{PassDef, PassInstance};
use ir_core::{
    Diagnostics, FilesRead, FuncMut, FunctionPass, Options, Pass, PassContext, PassResult,
    Registry, SourceMap,
};
use rewrites::greedy::{Limits, rewrite_with};
use rewrites::library::{Library, RuleSet};
use rewrites::proof::Recorder;
use rewrites::proof::replay::{HEADER, parts, replay};
use rewrites::rule::{FloatClass, Rule};

/// The options of [`Rewrite`].
#[derive(Options)]
#[options(of = "pass `rewrite`")]
pub struct RewriteOptions {
    /// Sets, tags, rules, and files ending in `.rules`. The default is what `--rules` gives, or
    /// the set `simplify`.
    #[default(vec![])]
    pub rules: Vec<String>,
    /// Rewrites of a function, for each of its operations.
    #[default(20)]
    pub limit: u64,
}

/// The greedy strategy: applies rules until none applies.
pub struct Rewrite {
    options: RewriteOptions,
    rules: Chosen,
}

const DOC: &str = "Applies rewrite rules until none applies.

The rules are text; `docs/rules.md` describes them. Operations are visited in program order, then \
what a rule made and whoever uses it. At one operation, the first rule that applies is taken. Rules \
that undo one another or grow the program without end are stopped at the limit, with a warning; \
`eqsat` is for those. `--stats` counts how often each rule was applied, and the locations of new \
operations name their rules.

```relay
def @main(%x: Tensor[(2, 3), float32]) {
  %0 = transpose(%x, axes=[1, 0]);
  transpose(%0, axes=[1, 0])
}
```
becomes
```relay
def @main(%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
  %x
}
```";

impl Pass for Rewrite {
    fn def() -> PassDef {
        PassDef {
            name: "rewrite",
            doc: DOC,
            never_after: &[],
            options: RewriteOptions::FIELDS,
            make: |options| {
                let options = RewriteOptions::read(options)?;
                let rules = Chosen::default();
                Ok(PassInstance::Function(Box::new(Rewrite { options, rules })))
            },
        }
    }
}

impl FunctionPass for Rewrite {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        let Some(rules) = self.rules.get(&self.options.rules, &["simplify"], cx) else {
            return Ok(());
        };
        let rewrites = self.options.limit.saturating_mul(f.body.op_count() as u64);
        apply(f, rules, rewrites, cx)
    }
}

/// Applies `rules` to `f` until none applies, or so many times; what they did is counted by rule, and
/// explained where that is asked for.
pub(crate) fn apply(
    f: &mut FuncMut<'_>,
    rules: &RuleSet,
    rewrites: u64,
    cx: &mut PassContext<'_>,
) -> PassResult {
    let mut recorder = cx.explain.then(|| Recorder::new(f));
    let active = vec![true; rules.rules.len()];
    let limits = Limits { rewrites, matches: 10_000, interrupt: cx.interrupt };
    let (statistics, warning) = rewrite_with(f, rules, &active, limits, recorder.as_mut())?;
    explain(f, rules, recorder, cx)?;
    if statistics.interrupted {
        cx.cut_short();
    }
    count_rules(rules, statistics.applied, cx);
    if statistics.computed > 0 {
        cx.count("computed", statistics.computed);
    }
    cx.diagnostics.extend(warning);
    Ok(())
}

/// Counts how often each of `rules` was applied, in their order.
pub(crate) fn count_rules(
    rules: &RuleSet,
    applied: impl IntoIterator<Item = u64>,
    cx: &mut PassContext<'_>,
) {
    for (compiled, count) in rules.rules.iter().zip(applied) {
        if count > 0 {
            cx.count(compiled.rule.name.as_str(), count);
            if compiled.rule.class != FloatClass::Exact {
                cx.rounded_otherwise();
            }
        }
    }
}

/// Hands out the certificate of what was noted, once it was checked.
pub(crate) fn explain(
    f: &FuncMut<'_>,
    rules: &RuleSet,
    recorder: Option<Recorder>,
    cx: &mut PassContext<'_>,
) -> PassResult {
    let Some(recorder) = recorder else { return Ok(()) };
    let source = recorder.source().clone();
    let explanation = recorder.finish(f, rules)?;
    let text = format!("{HEADER}{}", explanation.text);
    for part in parts("<certificate>", &text)? {
        replay(&part, &source, Some((f.body, f.base())), rules, f.registry)?;
    }
    cx.explanations.push(explanation);
    Ok(())
}

/// The rules that a pass was told to apply, read when it first runs.
#[derive(Default)]
pub(crate) struct Chosen {
    loaded: OnceLock<Loaded<RuleSet>>,
}

/// What was made of files, the texts, and the files that were read for it.
pub(crate) struct Loaded<T> {
    pub(crate) result: Result<T, Diagnostics>,
    pub(crate) sources: SourceMap,
    pub(crate) files: FilesRead,
}

impl<T> Loaded<T> {
    pub(crate) fn new(
        result: Result<T, Diagnostics>,
        sources: SourceMap,
        files: FilesRead,
    ) -> Loaded<T> {
        Loaded { result, sources, files }
    }
}

impl Chosen {
    /// The rules; `None` where they are wrong, which is reported once.
    pub(crate) fn get(
        &self,
        names: &[String],
        default: &[&str],
        cx: &mut PassContext<'_>,
    ) -> Option<&RuleSet> {
        self.get_where(names, default, |_| true, cx)
    }

    /// Those of the rules that `keep` keeps; `None` where they are wrong, which is reported once.
    pub(crate) fn get_where(
        &self,
        names: &[String],
        default: &[&str],
        keep: fn(&Rule) -> bool,
        cx: &mut PassContext<'_>,
    ) -> Option<&RuleSet> {
        let mut first = false;
        let loaded = self.loaded.get_or_init(|| {
            first = true;
            load(names, default, keep, cx.registry, &cx.sources)
        });
        cx.sources.extend(&loaded.sources);
        cx.files.extend(&loaded.files);
        match &loaded.result {
            Ok(rules) => Some(rules),
            Err(found) => {
                if first {
                    cx.diagnostics.extend(found.iter().cloned());
                }
                None
            }
        }
    }
}

fn load(
    names: &[String],
    default: &[&str],
    keep: fn(&Rule) -> bool,
    registry: &Registry,
    files: &SourceMap,
) -> Loaded<RuleSet> {
    let (mut library, found) = Library::new(registry, files);
    if found.has_errors() {
        return Loaded::new(Err(found), library.sources, library.read);
    }
    let given: Vec<String> = files.files().map(|(file, _)| file.to_string()).collect();
    let default: Vec<String> = default.iter().map(|name| name.to_string()).collect();
    let names = match (names, &*given) {
        ([], []) => &default,
        ([], given) => given,
        (names, _) => names,
    };
    let chosen = library.choose(names, registry);
    let chosen = chosen.map(|rules| RuleSet::new(rules.into_iter().filter(keep), registry));
    Loaded::new(chosen, library.sources, library.read)
}
