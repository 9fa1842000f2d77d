//! Passes that are rules: the built-in ones of a tag, applied greedily.

use std::sync::{Arc, Mutex, OnceLock};

use ir_core::{
    Diagnostic, Diagnostics, FuncMut, PassContext, PassResult, Registry, SourceMap, Symbol,
};
use rewrites::library::{Library, RuleSet};
use rewrites::rule::Rule;
use rustc_hash::FxHashMap;

use crate::rewrite::apply;

/// What the registry keeps for passes that are rules: the library, and the sets chosen from it, each
/// made when it is first asked for. Copies of a registry share it.
#[derive(Clone, Default)]
pub struct ByRules(Arc<Shared>);

#[derive(Default)]
struct Shared {
    library: OnceLock<Result<Library, Diagnostics>>,
    sets: Mutex<FxHashMap<(&'static str, bool), Arc<RuleSet>>>,
}

/// Adds where the registry keeps them.
pub(crate) fn register(registry: &mut Registry) {
    registry.extension_mut::<ByRules>();
}

/// Applies the rules tagged `tag` to `f`, each from left to right. With `exact`, where there are
/// floats, only those that promise the same floats. What they did is counted by rule.
pub(crate) fn run(
    tag: &'static str,
    exact: bool,
    f: &mut FuncMut<'_>,
    cx: &mut PassContext<'_>,
) -> PassResult {
    let kept = cx.registry.extension::<ByRules>().cloned().unwrap_or_default();
    let library = kept.0.library.get_or_init(|| library(cx.registry)).as_ref();
    let library = library.map_err(Diagnostics::clone)?;
    let rules = {
        // A panic leaves the map as it was.
        let mut sets = kept.0.sets.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let choose = || Arc::new(chosen(library, tag, exact, cx.registry));
        sets.entry((tag, exact)).or_insert_with(choose).clone()
    };
    if cx.explain {
        cx.sources.extend(&library.sources);
    }
    // Rules that passes are made of end; this many rewrites would be an error of theirs.
    let limit = 1000 + 100 * f.body.op_count() as u64;
    apply(f, &rules, limit, cx)
}

fn library(registry: &Registry) -> Result<Library, Diagnostics> {
    let (library, found) = Library::new(registry, &SourceMap::default());
    match found.into_iter().find(Diagnostic::is_error) {
        Some(error) => Err(error.into()),
        None => Ok(library),
    }
}

fn chosen(library: &Library, tag: &str, exact: bool, registry: &Registry) -> RuleSet {
    let tag = Symbol::new(tag);
    let tagged = library.rules.iter().filter(|rule| rule.tags.contains(&tag));
    let forward = tagged.map(|rule| Rule { bidirectional: false, ..rule.clone() });
    RuleSet { exact, lenient: true, ..RuleSet::new(forward, registry) }
}
