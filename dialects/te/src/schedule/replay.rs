//! Applying the primitives of an item.

use ir_core::diagnostics::did_you_mean;
use ir_core::{Diagnostic, Diagnostics, Item, Module, OpId, Registry, Span, Symbol, ValueId};
use rustc_hash::FxHashMap;

use super::ops::{Apply, Call, FUNCTION, Handle, SCHEDULE};
use super::{Axis, Refused, Schedule, Stage, codes, verify};

/// Why a primitive could not be applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    code: &'static str,
    message: String,
    help: Option<String>,
}

impl From<Refused> for Failure {
    fn from(message: Refused) -> Failure {
        Failure { code: codes::REFUSED, message, help: None }
    }
}

impl Failure {
    /// There is no `name`; one of `known` may be meant.
    pub(super) fn unknown<'a>(
        message: String,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Failure {
        let known: Vec<&str> = known.collect();
        let help = did_you_mean(name, known.iter().copied());
        let help = help.unwrap_or_else(|| format!("there are {}", known.join(", ")));
        Failure { code: codes::UNKNOWN, message, help: Some(help) }
    }
}

/// The schedule that `item`, of kind [`SCHEDULE`], describes: that of the function it names in
/// `module`, with its primitives applied in order. The error lies at the primitive at fault.
pub fn replay(item: &Item, module: &Module, registry: &Registry) -> Result<Schedule, Diagnostics> {
    replay_steps(item, module, registry, &mut |_, _| {})
}

/// [`replay`], which calls `on_step` after each primitive with the schedule as it then is and the
/// operation of `item`. Looking up a stage is no step.
pub fn replay_steps(
    item: &Item,
    module: &Module,
    registry: &Registry,
    on_step: &mut dyn FnMut(&Schedule, OpId),
) -> Result<Schedule, Diagnostics> {
    let base = item.signature.span;
    let fail = |message: String| Diagnostic::error(codes::SCHEDULE, message).at(base);
    let body = item.body.as_ref().filter(|_| item.signature.op == SCHEDULE);
    let Some(body) = body else {
        return Err(
            fail(format!("expected a `{SCHEDULE}`, found a `{}`", item.signature.op)).into()
        );
    };
    let function = item.signature.attrs.value::<Symbol>(FUNCTION);
    let Some(function) = function.and_then(|function| module.get(function)) else {
        return Err(fail("the function of the schedule does not exist".to_string()).into());
    };
    let mut replay = Replay {
        schedule: Schedule::new(function).map_err(fail)?,
        handles: FxHashMap::default(),
        gone: FxHashMap::default(),
        place: |op| body.loc(op).span(base).or(base),
    };
    for op in body.block_ops(body.entry()) {
        let name = body.op_name(op);
        let error = |code, message: String| {
            Diagnostic::error(code, format!("`{name}`: {message}")).at((replay.place)(op))
        };
        if let Err(problem) = verify::primitive(body, op, registry) {
            return Err(problem.at((replay.place)(op)).into());
        }
        // What is left without the hook is the end.
        let Some(apply) = registry.hook::<Apply>(name) else { break };
        let operands: Option<Vec<Handle>> =
            body.operands(op).map(|value| replay.handles.get(&value).copied()).collect();
        let Some(operands) = operands else {
            return Err(error(codes::PRIMITIVE, "an operand is not defined".to_string()).into());
        };
        let call = Call { module, operands: &operands, attrs: body.attrs(op) };
        let before = replay.loops(&operands);
        let results = match (apply.apply)(&mut replay.schedule, &call) {
            Ok(results) => results,
            Err(failure) => return Err(replay.explain(op, name, &operands, failure).into()),
        };
        if let Err(message) = replay.schedule.check_tensorized() {
            return Err(replay.explain(op, name, &operands, message.into()).into());
        }
        if results.len() != body.result_count(op) {
            let (expected, found) = (results.len(), body.result_count(op));
            let message = format!("expected {expected} results here, found {found}");
            let found = error(codes::PRIMITIVE, message);
            return Err(found.help(format!("its results are {}", replay.list(&results))).into());
        }
        replay.handles.extend(body.results(op).zip(results));
        let after = replay.loops(&operands);
        for axis in before.into_iter().filter(|axis| !after.contains(axis)) {
            replay.gone.insert(axis, op);
        }
        if !operands.is_empty() {
            on_step(&replay.schedule, op);
        }
    }
    Ok(replay.schedule)
}

struct Replay<P> {
    schedule: Schedule,
    handles: FxHashMap<ValueId, Handle>,
    /// Which operation took a loop away.
    gone: FxHashMap<Axis, OpId>,
    /// The place of an operation.
    place: P,
}

impl<P: Fn(OpId) -> Option<Span>> Replay<P> {
    fn stages(&self, handles: &[Handle]) -> Vec<Stage> {
        let mut stages = Vec::new();
        for handle in handles {
            let stage = match *handle {
                Handle::Stage(stage) => stage,
                Handle::Axis(axis) => self.schedule.owner(axis),
            };
            if !stages.contains(&stage) {
                stages.push(stage);
            }
        }
        stages
    }

    /// The loops of the stages that `handles` belong to.
    fn loops(&self, handles: &[Handle]) -> Vec<Axis> {
        let stages = self.stages(handles);
        stages.iter().flat_map(|stage| self.schedule.loops(*stage)).copied().collect()
    }

    fn list(&self, handles: &[Handle]) -> String {
        let name = |handle: &Handle| match *handle {
            Handle::Stage(stage) => format!("the stage `{}`", self.schedule.stage_name(stage)),
            Handle::Axis(axis) => format!("`{}`", self.schedule.axis_name(axis)),
        };
        handles.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// Why `op` could not be applied to `operands`.
    fn explain(&self, op: OpId, name: Symbol, operands: &[Handle], failure: Failure) -> Diagnostic {
        let at = (self.place)(op);
        let stale = operands.iter().find_map(|operand| match operand {
            Handle::Axis(axis) => Some((*axis, *self.gone.get(axis)?)),
            Handle::Stage(_) => None,
        });
        if let (Some((axis, taken)), codes::REFUSED) = (stale, failure.code) {
            let axis = self.schedule.axis_name(axis);
            let message = format!("`{name}`: the loop `{axis}` is gone");
            return Diagnostic::error(codes::STALE, message)
                .at(at)
                .related((self.place)(taken), "it was replaced here")
                .help("use the results of the operation that replaced it");
        }
        let mut problem = Diagnostic::error(failure.code, format!("`{name}`: {}", failure.message));
        for stage in self.stages(operands) {
            let loops = self.schedule.loops(stage).iter().copied().map(Handle::Axis);
            let loops = self.list(&loops.collect::<Vec<_>>());
            let stage = self.schedule.stage_name(stage);
            problem = problem.note(format!("the loops of `{stage}` here: {loops}"));
        }
        let help = || format!("`relay-opt --help-op {name}` says what it does and refuses");
        problem.at(at).help(failure.help.unwrap_or_else(help))
    }
}
