//! Functions that `te.tensorize` puts in the place of loops.

use std::sync::Arc;

use ir_core::registry::ItemCx;
use ir_core::{Body, Diagnostic, Diagnostics, Item, OpId, Symbol, ValueId};

use super::{Combiner, Compute, FUNC, Load, LoadIf, Reduce, Return, Stage, counts};
use crate::schedule::codes;

/// The attribute of a compute function, one reduction, whose kernel combines into what its result
/// holds rather than starting from the identity. By default `false`. On its own, outside of calls,
/// the function is what it is without.
pub const UPDATE: &str = "update";

/// The attribute of a compute function or kernel: the name of a function of C that does the same.
pub const EXTERN: &str = "extern";

/// A compute function of one stage, as what loops can be replaced by.
#[derive(Clone, Debug)]
pub struct Intrinsic {
    /// Its name in the module.
    pub name: Symbol,
    /// What it computes.
    pub body: Arc<Body>,
    /// Its stage, in `body`.
    pub stage: OpId,
    /// Whether its kernel combines into its result: [`UPDATE`].
    pub update: bool,
}

impl Intrinsic {
    /// `item`, called `name`. Errors where it is more than one stage of one result that reads all
    /// parameters, and where it is to combine into its result and cannot.
    pub fn of(name: Symbol, item: &Item) -> Result<Intrinsic, String> {
        let signature = &item.signature;
        let Some(body) = item.body.as_ref().filter(|_| signature.op == FUNC) else {
            return Err(format!("`@{name}` is no `{FUNC}` with a body"));
        };
        let only = || format!("`@{name}` is not one stage with one result, which it returns");
        let mut stages = Stage::all(body).into_iter();
        let (Some(stage), None) = (stages.next(), stages.next()) else { return Err(only()) };
        let end = body.last_op(body.entry()).and_then(|end| body.view::<Return>(end));
        let results: Vec<ValueId> = body.results(stage.op).collect();
        if results.len() != 1 || end.is_none_or(|end| end.tensors != results) {
            return Err(only());
        }
        let is_read = |param: ValueId| {
            body.uses(param).any(|(user, _)| {
                body.view::<Load>(user).is_some() || body.view::<LoadIf>(user).is_some()
            })
        };
        if let Some(unread) = body.block_args(body.entry()).iter().position(|arg| !is_read(*arg)) {
            return Err(format!("`@{name}` does not read its parameter {}", unread + 1));
        }
        if !stage.counts.is_empty() {
            return Err(format!("`@{name}` has axes that end at counts"));
        }
        let update = updates(item);
        if update {
            combiner(body, stage.op).ok_or_else(|| {
                format!(
                    "`@{name}` is to combine into its result, and is no sum, product, max or min"
                )
            })?;
        }
        Ok(Intrinsic { name, body: body.clone(), stage: stage.op, update })
    }
}

/// Whether the kernel of `function` combines into its result: [`UPDATE`].
pub fn updates(function: &Item) -> bool {
    function.signature.attrs.value::<bool>(UPDATE).unwrap_or(false)
}

/// How `stage` combines, where that is one operation on two numbers.
pub(crate) fn combiner(body: &Body, stage: OpId) -> Option<Combiner> {
    let combiner = body.view::<Reduce>(stage)?.combiner;
    combiner.scalar().map(|_| combiner)
}

/// Checks the attributes of a compute function.
pub(super) fn verify(cx: &ItemCx<'_>) -> Diagnostics {
    let (name, signature) = (cx.name, &cx.item.signature);
    let mut found = Diagnostics::new();
    let mut report = |message: String| {
        found.push(Diagnostic::error(codes::INTRINSIC, message).at(signature.span));
    };
    if signature.attrs.get(Symbol::new(UPDATE)).is_some() {
        match signature.attrs.value::<bool>(UPDATE) {
            None => report(format!("expected `{UPDATE}` of `@{name}` to be True or False")),
            Some(false) => {}
            Some(true) => {
                if let Err(message) = Intrinsic::of(name, cx.item) {
                    report(message);
                }
            }
        }
    }
    let external = signature.attrs.value::<String>(EXTERN);
    if signature.attrs.get(Symbol::new(EXTERN)).is_some()
        && external.is_none_or(|name| name.is_empty())
    {
        report(format!("expected `{EXTERN}` of `@{name}` to be the name of a function in C"));
    }
    if let Err(message) = counts::verify(cx) {
        report(message);
    }
    found
}

/// The operation that gives the element of `stage`: a map or a reduction.
pub(crate) fn is_same_kind(a: &Body, stage: OpId, b: &Body, other: OpId) -> bool {
    match (a.view::<Reduce>(stage), b.view::<Reduce>(other)) {
        (Some(a), Some(b)) => a.combiner == b.combiner,
        (None, None) => a.view::<Compute>(stage).is_some() && b.view::<Compute>(other).is_some(),
        _ => false,
    }
}
