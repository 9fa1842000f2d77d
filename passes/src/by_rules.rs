//! Passes that are rules: the built-in ones of a tag, applied greedily.

use std::sync::{Arc, Mutex, OnceLock};

use ir_core::{
    AttrDict, Diagnostic, FuncMut, PassContext, PassResult, Registry, SourceMap, Symbol,
    TensorData, Type,
};
use relay::interpreter::{EvalCx, Evaluate, Value};
use rewrites::compute::{Evaluator, Known};
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
    library: OnceLock<Result<Library, Diagnostic>>,
    sets: Mutex<FxHashMap<(&'static str, bool), Arc<RuleSet>>>,
}

/// Adds what passes need of the registry.
pub(crate) fn register(registry: &mut Registry) {
    registry.extension_mut::<ByRules>();
    *registry.extension_mut::<Evaluator>() = Evaluator(Some(compute));
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
    let library = library.map_err(Diagnostic::clone)?;
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

fn library(registry: &Registry) -> Result<Library, Diagnostic> {
    let (library, found) = Library::new(registry, &SourceMap::default());
    match found.into_iter().find(Diagnostic::is_error) {
        Some(error) => Err(error),
        None => Ok(library),
    }
}

fn chosen(library: &Library, tag: &str, exact: bool, registry: &Registry) -> RuleSet {
    let tag = Symbol::new(tag);
    let tagged = library.rules.iter().filter(|rule| rule.tags.contains(&tag));
    let forward = tagged.map(|rule| Rule { bidirectional: false, ..rule.clone() });
    RuleSet { exact, lenient: true, ..RuleSet::new(forward, registry) }
}

/// The result of an operation on constants, by its evaluator; `None` where it has none, or fails.
pub(crate) fn compute(
    registry: &Registry,
    name: Symbol,
    attrs: AttrDict,
    operands: &[Known],
    result: Type,
) -> Option<Known> {
    let value = |known: &Known| match known {
        Known::Tensor(tensor) => Value::Tensor(tensor.clone()),
        Known::Tuple(fields) => Value::tuple(fields.iter().cloned().map(Value::Tensor)),
    };
    let operands: Vec<Value> = operands.iter().map(value).collect();
    let value = match name.as_str() {
        "relay.tuple" => Value::tuple(operands),
        "relay.tuple_get" => {
            let index = usize::try_from(attrs.value::<i64>("index")?).ok()?;
            operands.first()?.as_tuple()?.get(index)?.clone()
        }
        _ => {
            let evaluate = registry.hook::<Evaluate>(name)?;
            (evaluate.0)(&EvalCx { operands: &operands, attrs, result }).ok()?
        }
    };
    match value {
        Value::Tensor(tensor) => (tensor.ty() == result).then_some(Known::Tensor(tensor)),
        value => {
            let fields = value.as_tuple()?.iter().map(|field| field.as_tensor().cloned());
            let fields: Vec<TensorData> = fields.collect::<Option<_>>()?;
            let ty = Type::tuple(fields.iter().map(TensorData::ty));
            (ty == result).then_some(Known::Tuple(fields))
        }
    }
}
