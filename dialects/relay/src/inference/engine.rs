//! The inference of a group of functions: relations are solved as soon as their operands are
//! known, and wait for variables otherwise.

use std::collections::VecDeque;

use ir_core::types::{MAX_TYPE_DEPTH, MAX_TYPE_PARTS};
use ir_core::{
    Attr, Body, Diagnostic, Diagnostics, Dim, InferCx, Loc, OpId, OpInfo, Signature, SmallVec,
    Span, Stop, Symbol, Type, TypeData, ValueDef, ValueId,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::checks::Place;
use super::codes;
use super::environment::{Environment, Rule};
use super::kinds::{Kinds, Problem, Scope};
use super::signatures::shown;
use super::solver::{Fit, Mismatch, Mode, RelationId, Solver, Variable};
use crate::language::{short_name, yielded};

/// A function under inference.
pub(super) struct Unit<'a> {
    pub(super) name: Symbol,
    pub(super) signature: &'a mut Signature,
    pub(super) body: &'a mut Body,
    /// Its type, with variables for what is not known.
    pub(super) ty: Type,
    /// Values that had variables in their types when they were visited.
    pub(super) open: Vec<ValueId>,
    /// The matches, for the check that they cover every case.
    pub(super) matches: Vec<OpId>,
}

/// An operation whose relation has not been settled.
struct Relation<'a> {
    unit: usize,
    op: OpId,
    /// The operator: that of `op`, or the one that `op` refers to.
    info: &'a OpInfo,
    /// The operand types, with variables; `None` for the operands of `op`.
    operands: Option<Vec<Type>>,
    result: Type,
    /// Whether some result type has been found.
    answered: bool,
    settled: bool,
    queued: bool,
}

pub(super) struct Engine<'e, 'a> {
    pub(super) env: &'e Environment<'a>,
    pub(super) units: Vec<Unit<'e>>,
    pub(super) solver: Solver<'e>,
    pub(super) kinds: Kinds<'e>,
    pub(super) diagnostics: Diagnostics,
    /// Where values are checked at run time, with what is expected of them.
    pub(super) checks: Vec<(Place, Type)>,
    relations: Vec<Relation<'a>>,
    queue: VecDeque<RelationId>,
    /// Operations visited and relations tried.
    visits: u64,
    /// The type parameters where the visit is.
    pub(super) scope: Scope,
    /// The unit of each function.
    pub(super) by_name: FxHashMap<Symbol, usize>,
    /// Functions with something wrong in a match: their matches are not checked further.
    pub(super) bad_matches: FxHashSet<(usize, OpId)>,
}

/// Operand types of one operation.
type Types = SmallVec<[Type; 4]>;

/// An open block: the operations of region `region` of `op` still to visit.
struct Frame {
    op: Option<OpId>,
    region: usize,
    next: Option<OpId>,
    /// The number of type parameters in scope around the operation.
    scope: usize,
}

impl<'e, 'a> Engine<'e, 'a> {
    pub(super) fn new(env: &'e Environment<'a>) -> Engine<'e, 'a> {
        Engine {
            env,
            units: Vec::new(),
            solver: Solver::new(&env.types),
            checks: Vec::new(),
            kinds: Kinds::new(&env.types),
            diagnostics: Diagnostics::new(),
            relations: Vec::new(),
            queue: VecDeque::new(),
            visits: 0,
            scope: Scope::default(),
            by_name: FxHashMap::default(),
            bad_matches: FxHashSet::default(),
        }
    }

    /// Adds a function. Its type is opened: unknown parts become variables.
    pub(super) fn add(&mut self, name: Symbol, signature: &'e mut Signature, body: &'e mut Body) {
        let declared = super::signatures::declared_type(signature, body);
        let ty = self.solver.open(declared, false);
        let (open, matches) = (Vec::new(), Vec::new());
        self.by_name.insert(name, self.units.len());
        self.units.push(Unit { name, signature, body, ty, open, matches });
    }

    /// Infers every function of the group.
    pub(super) fn run(&mut self) {
        for unit in 0..self.units.len() {
            self.signature(unit);
        }
        for unit in 0..self.units.len() {
            self.visit(unit);
        }
        self.solve();
        self.generalise();
        self.finish();
    }

    /// How much work the inference was.
    pub(super) fn steps(&self) -> u64 {
        self.visits + self.solver.steps()
    }

    // ---- places ----------------------------------------------------------------------------

    pub(super) fn body(&self, unit: usize) -> &Body {
        self.units[unit].body
    }

    pub(super) fn span(&self, unit: usize, loc: Loc) -> Option<Span> {
        loc.span(self.units[unit].signature.span)
    }

    pub(super) fn op_span(&self, unit: usize, op: OpId) -> Option<Span> {
        self.span(unit, self.body(unit).loc(op))
    }

    /// Where `value` comes from; an argument without a place is where its function or branch is.
    pub(super) fn value_span(&self, unit: usize, value: ValueId) -> Option<Span> {
        if let Some(span) = self.span(unit, self.body(unit).value_loc(value)) {
            return Some(span);
        }
        match self.body(unit).def(value) {
            ValueDef::Result(..) => None,
            ValueDef::Argument(block, _) => match self.body(unit).block_parent(block) {
                Some(op) => self.op_span(unit, op),
                None => self.units[unit].signature.span,
            },
        }
    }

    /// What to call `value` in a message.
    pub(super) fn value_name(&self, unit: usize, value: ValueId) -> String {
        let body = self.body(unit);
        match (body.name_hint(value).name, body.def(value)) {
            (Some(name), _) => format!("`%{name}`"),
            (None, ValueDef::Result(op, _)) => {
                let name = body.op_name(op).as_str();
                format!("the result of `{}`", short_name(name))
            }
            (None, ValueDef::Argument(_, index)) => format!("parameter {}", index + 1),
        }
    }

    /// What to call `op` in a message.
    pub(super) fn op_name(&self, unit: usize, op: OpId) -> &'static str {
        let name = self.body(unit).op_name(op).as_str();
        short_name(name)
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    // ---- types of values -------------------------------------------------------------------

    /// The type of `value` so far.
    pub(super) fn ty(&mut self, unit: usize, value: ValueId) -> Type {
        let ty = self.body(unit).ty(value);
        if !ty.facts().has_unknown {
            return ty;
        }
        // Not visited: in a body that was not verified, a use may come before its definition.
        let open = self.solver.open(ty, false);
        self.set(unit, value, open);
        open
    }

    /// Writes a type that may have variables.
    pub(super) fn set(&mut self, unit: usize, value: ValueId, ty: Type) {
        let unit = &mut self.units[unit];
        unit.body.set_ty(value, ty);
        if ty.facts().has_variable {
            unit.open.push(value);
        }
    }

    /// Gives `value` a type that no use will complain about, after an error at its definition.
    pub(super) fn poison(&mut self, unit: usize, value: ValueId) {
        let ty = self.body(unit).ty(value);
        if ty.facts().has_unknown {
            let open = self.solver.open(ty, true);
            self.set(unit, value, open);
        }
    }

    pub(super) fn poison_results(&mut self, unit: usize, op: OpId) {
        for result in self.body(unit).results(op) {
            self.poison(unit, result);
        }
    }

    /// Whether `ty` is an unknown whose cause has been reported.
    pub(super) fn is_poison(&mut self, ty: Type) -> bool {
        match *self.solver.shallow(ty).data() {
            TypeData::Variable(index) => self.solver.is_poisoned(Variable::Type(index)),
            _ => false,
        }
    }

    /// Checks the names and kinds in `ty`, where the visit of the function is.
    fn check_in_scope(&mut self, ty: Type, problems: &mut Vec<Problem>) {
        self.scope.forget_kinds();
        self.kinds.check(ty, &mut self.scope, problems);
    }

    /// Makes the type parameters of a function those in scope.
    fn enter_scope(&mut self, unit: usize) {
        self.scope = Scope::default();
        let binder = self.units[unit].ty.as_function().map_or(&[][..], |f| &f.type_params[..]);
        // Duplicates are reported where the type of the function is checked.
        self.scope.bind(binder, &mut Vec::new());
    }

    /// Checks the names and kinds in a written type of `value`, which is where the visit is.
    pub(super) fn check_kinds(&mut self, unit: usize, value: ValueId, ty: Type) {
        if self.kinds.is_checked(ty) {
            return;
        }
        let mut problems = Vec::new();
        self.check_in_scope(ty, &mut problems);
        if problems.is_empty() {
            return;
        }
        let (span, name) = (self.value_span(unit, value), self.value_name(unit, value));
        let found = problems.into_iter().map(|problem| problem.into_diagnostic(span, &name));
        self.diagnostics.extend(found);
    }

    /// Gives `value` the type that was found for it. A type that it has already is an annotation,
    /// or from an earlier inference: it is kept, and must fit.
    pub(super) fn assign(&mut self, unit: usize, value: ValueId, found: Type) {
        let present = self.body(unit).ty(value);
        if present == found {
            return;
        }
        if self.is_excessive(found) {
            let subject = self.value_name(unit, value);
            self.report_excess(self.value_span(unit, value), &subject, found);
            return self.poison(unit, value);
        }
        if present.is_unknown() {
            return self.set(unit, value, found);
        }
        if !present.facts().has_variable {
            self.check_kinds(unit, value, present);
        }
        let annotation = self.solver.open(present, false);
        if annotation != present {
            self.set(unit, value, annotation);
        }
        if let Err(mismatch) = self.fit_value(unit, value, annotation, found, true) {
            let subject = self.value_name(unit, value);
            let span = self.value_span(unit, value);
            self.report_mismatch(span, &subject, annotation, found, mismatch, None, "annotated as");
        }
    }

    /// Makes what is found for the type of `value` fit the type that it has to have, which is
    /// `written` or found from its uses; what `?` leaves open is checked where the value comes
    /// from.
    fn fit_value(
        &mut self,
        unit: usize,
        value: ValueId,
        annotation: Type,
        found: Type,
        written: bool,
    ) -> Result<(), Mismatch> {
        let body = self.body(unit);
        let op = match body.def(value) {
            ValueDef::Result(op, _) => Some(op),
            ValueDef::Argument(block, _) => {
                body.block_parent(block).filter(|op| body.op_name(*op) == "relay.match")
            }
        };
        let Some(op) = op else { return self.solver.flow(annotation, found) };
        let fit = self.solver.fit(annotation, found)?;
        // An operator looks at its result itself, where the text says what it has to be.
        let operator =
            matches!(self.env.rule(self.body(unit).op_name(op)), Some(Rule::Relation(_)));
        if fit == Fit::Checked && !(operator && written) {
            self.checks.push((Place::Value { unit, value, found }, annotation));
        }
        Ok(())
    }

    // ---- messages --------------------------------------------------------------------------

    /// Whether `ty` nests too deeply, or has too many parts.
    pub(super) fn is_excessive(&mut self, ty: Type) -> bool {
        self.solver.depth(ty) > MAX_TYPE_DEPTH || ty.facts().parts > MAX_TYPE_PARTS
    }

    /// Reports that the type `ty` of `subject` is excessive.
    pub(super) fn report_excess(&mut self, span: Option<Span>, subject: &str, ty: Type) {
        if self.solver.depth(ty) > MAX_TYPE_DEPTH {
            return self.report_deep(span, subject);
        }
        let message = format!("the type of {subject} has more than {MAX_TYPE_PARTS} parts");
        let help = "what its parts share counts each time; use a data type such as `List`, or `?` \
                    for an extent";
        self.report(Diagnostic::error(codes::DEEP, message).at(span).help(help));
    }

    fn report_deep(&mut self, span: Option<Span>, subject: &str) {
        self.report(
            Diagnostic::error(
                codes::DEEP,
                format!("the type of {subject} nests deeper than {MAX_TYPE_DEPTH} levels"),
            )
            .at(span)
            .help("use a recursive data type such as `List`"),
        );
    }

    /// Reports that `subject` is not as it should be; `origin` is where the expectation is from,
    /// and `reason` names it.
    #[expect(clippy::too_many_arguments, reason = "one message, all its parts")]
    pub(super) fn report_mismatch(
        &mut self,
        span: Option<Span>,
        subject: &str,
        expected: Type,
        found: Type,
        mismatch: Mismatch,
        origin: Option<(Option<Span>, String)>,
        reason: &str,
    ) {
        let open = [expected, found];
        let (expected, found) = (self.solver.close(expected), self.solver.close(found));
        let diagnostic = match mismatch {
            Mismatch::Deep => {
                // What contains it is as deep: once is enough.
                for ty in open {
                    let ty = self.solver.resolve(ty);
                    self.solver.poison_all(ty, &mut FxHashSet::default());
                }
                return self.report_deep(span, subject);
            }
            Mismatch::Infinite => Diagnostic::error(
                codes::INFINITE,
                format!("the type of {subject} would contain itself"),
            )
            .at(span)
            .note(format!("expected {}, found {}", shown(expected), shown(found)))
            .help("recursive data needs a declared data type such as `List`"),
            Mismatch::Types(..) | Mismatch::Dims(..) => {
                let mut diagnostic = Diagnostic::error(
                    codes::MISMATCH,
                    format!("{subject}: expected {}, found {}", shown(expected), shown(found)),
                )
                .at(span);
                let note = match mismatch {
                    Mismatch::Dims(a, b) => {
                        let (a, b) = (self.solver.resolve_dim(a), self.solver.resolve_dim(b));
                        if a == Dim::Any || b == Dim::Any {
                            let help = "declare it with `?`, or check the tensor before: \
                                        `check_shape(%x, shape=[…])`";
                            diagnostic = diagnostic.help(help);
                        }
                        Some(match (a, b) {
                            (Dim::Any, known) | (known, Dim::Any) => format!(
                                "`?` need not be {}, and cannot be checked here",
                                shown(known)
                            ),
                            _ => format!("the extents {} and {} differ", shown(a), shown(b)),
                        })
                    }
                    Mismatch::Types(a, b) => {
                        let (a, b) = (self.solver.close(a), self.solver.close(b));
                        let inner = (a, b) != (expected, found) && (b, a) != (expected, found);
                        inner.then(|| format!("{} and {} differ", shown(a), shown(b)))
                    }
                    _ => None,
                };
                diagnostic.notes.extend(note);
                diagnostic.labelled(format!("{reason} {}, is {}", shown(expected), shown(found)))
            }
        };
        let mut diagnostic = diagnostic;
        if let Some((span, message)) = origin {
            match span {
                Some(_) => diagnostic = diagnostic.related(span, message),
                None => diagnostic.notes.push(message),
            }
        }
        self.report(diagnostic);
    }

    /// Makes operand `at` of an operation fit, checks it where `?` leaves it open, and reports
    /// where neither is possible.
    pub(super) fn require_operand(
        &mut self,
        (unit, op, index): (usize, OpId, usize),
        span: Option<Span>,
        subject: impl FnOnce(&Self) -> String,
        expected: Type,
        found: Type,
        origin: impl FnOnce(&Self) -> Option<(Option<Span>, String)>,
    ) -> bool {
        match self.solver.fit(expected, found) {
            Ok(Fit::Whole) => true,
            Ok(Fit::Checked) => {
                self.checks.push((Place::Operand { unit, op, index }, expected));
                true
            }
            Err(mismatch) => {
                let (subject, origin) = (subject(self), origin(self));
                self.report_mismatch(span, &subject, expected, found, mismatch, origin, "must be");
                false
            }
        }
    }

    /// Makes `found` fit as it is, and reports where that fails.
    pub(super) fn require(
        &mut self,
        span: Option<Span>,
        subject: impl FnOnce(&Self) -> String,
        expected: Type,
        found: Type,
        origin: impl FnOnce(&Self) -> Option<(Option<Span>, String)>,
    ) -> bool {
        if expected == found {
            return true;
        }
        match self.solver.flow(expected, found) {
            Ok(()) => true,
            Err(mismatch) => {
                let (subject, origin) = (subject(self), origin(self));
                self.report_mismatch(span, &subject, expected, found, mismatch, origin, "must be");
                false
            }
        }
    }

    // ---- walking ---------------------------------------------------------------------------

    /// Checks the declared type of a function and gives its parameters their types.
    fn signature(&mut self, unit: usize) {
        let ty = self.units[unit].ty;
        let span = self.units[unit].signature.span;
        let subject = format!("`@{}`", self.units[unit].name);
        if !self.kinds.is_checked(ty) {
            let mut problems = Vec::new();
            self.kinds.check(ty, &mut Scope::default(), &mut problems);
            let found = problems.into_iter().map(|p| p.into_diagnostic(span, &subject));
            self.diagnostics.extend(found);
        }
        self.enter_scope(unit);
        let Some(function) = ty.as_function() else { return };
        let entry = self.body(unit).entry();
        let params = self.body(unit).block_args(entry).to_vec();
        for (value, ty) in params.into_iter().zip(&function.params) {
            self.assign(unit, value, *ty);
            // Where both have `?` in different places, the declared type decides.
            let kept = self.body(unit).ty(value);
            if kept != *ty && !kept.facts().has_unknown {
                self.set(unit, value, *ty);
            }
        }
    }

    fn visit(&mut self, unit: usize) {
        self.enter_scope(unit);
        let entry = self.body(unit).entry();
        let mut frames =
            vec![Frame { op: None, region: 0, next: self.body(unit).first_op(entry), scope: 0 }];
        while let Some(frame) = frames.last_mut() {
            if let Some(op) = frame.next {
                self.visits += 1;
                let scope = self.scope.len();
                let body = &*self.units[unit].body;
                frame.next = body.next_op(op);
                let regions = body.has_regions(op);
                let first = match regions {
                    true => body.first_op(body.region_block(op, 0)),
                    false => None,
                };
                match self.env.rule(body.op_name(op)) {
                    Some(Rule::Relation(info)) => self.relation(unit, op, info),
                    Some(Rule::Form(form)) => self.enter(unit, op, form),
                    // The verifier reports operations that do not exist.
                    None => self.poison_results(unit, op),
                }
                if regions {
                    frames.push(Frame { op: Some(op), region: 0, next: first, scope });
                }
                continue;
            }
            let Some(op) = frame.op else { break };
            let body = &*self.units[unit].body;
            frame.region += 1;
            if frame.region < body.regions(op).len() {
                frame.next = body.first_op(body.region_block(op, frame.region));
                continue;
            }
            self.scope.truncate(frame.scope);
            frames.pop();
            self.leave(unit, op);
        }
        let ty = self.units[unit].ty;
        let (Some(function), Some(value)) = (ty.as_function(), yielded(self.body(unit), entry))
        else {
            let span = self.units[unit].signature.span;
            let name = self.units[unit].name;
            return self.report(
                Diagnostic::error(codes::MALFORMED, format!("the body of `@{name}` has no value"))
                    .at(span),
            );
        };
        let found = self.ty(unit, value);
        let span = self.value_span(unit, value);
        let Some(end) = self.body(unit).last_op(entry) else { return };
        self.require_operand(
            (unit, end, 0),
            span,
            |this| format!("the result of `@{}`", this.units[unit].name),
            function.result,
            found,
            |this| {
                let unit = &this.units[unit];
                Some((unit.signature.span, format!("`@{}` declares its result", unit.name)))
            },
        );
    }

    // ---- relations -------------------------------------------------------------------------

    /// Finds the result type of an operator at once where its operand types are known.
    pub(super) fn relation(&mut self, unit: usize, op: OpId, info: &'a OpInfo) {
        let body = &*self.units[unit].body;
        if body.result_count(op) != 1 {
            return self.poison_results(unit, op);
        }
        let result = body.result(op, 0);
        let Some(infer) = info.def.infer else {
            if body.ty(result).facts().has_unknown {
                let (span, name) = (self.op_span(unit, op), self.op_name(unit, op));
                self.report(
                    Diagnostic::error(codes::AMBIGUOUS, format!("`{name}` has no type relation"))
                        .at(span)
                        .help("annotate its result"),
                );
                self.poison(unit, result);
            }
            return;
        };
        let types: Types = body.operands(op).map(|value| body.ty(value)).collect();
        let closed = types.iter().all(|ty| {
            let facts = ty.facts();
            !facts.has_variable && !facts.has_unknown
        });
        if !closed {
            // What is made from something wrong is not wrong a second time.
            if types.iter().any(|ty| self.is_poison(*ty)) {
                return self.poison(unit, result);
            }
            return self.suspend(unit, op, info, None, result);
        }
        let constants = |i: usize| -> Option<Attr> {
            (i < types.len()).then(|| self.env.registry.constant(body, body.operand(op, i)))?
        };
        let mut cx = InferCx::with_constants(&types, body.attrs(op), &constants);
        let answer = cx.answer(infer);
        let (refinements, equations) = (cx.refinements, cx.equations);
        match answer {
            Ok(ty) if refinements.is_empty() && equations.is_empty() => {
                // The common case: nothing but one table lookup and the relation itself.
                if !ty.facts().has_unknown && ty.facts().is_within_limits() {
                    let body = &mut *self.units[unit].body;
                    if body.ty(result).is_unknown() {
                        return body.set_ty(result, ty);
                    }
                }
                let ty = self.solver.open(ty, false);
                self.assign(unit, result, ty);
            }
            Ok(ty) => {
                if self.learn(unit, op, info, &types, &refinements, &equations) {
                    let ty = self.solver.open(ty, false);
                    self.assign(unit, result, ty);
                } else {
                    self.poison(unit, result);
                }
            }
            Err(Stop::Stuck) => {
                self.report_stuck(unit, op, info, &types);
                self.poison(unit, result);
            }
            Err(Stop::Error(message)) => {
                self.report_failed(unit, op, info, &types, &message);
                self.poison(unit, result);
            }
        }
    }

    /// Applies what a relation says about its operands; `false` after an error.
    fn learn(
        &mut self,
        unit: usize,
        op: OpId,
        info: &OpInfo,
        types: &[Type],
        refinements: &[(usize, Type)],
        equations: &[(ir_core::Dim, ir_core::Dim)],
    ) -> bool {
        for &(index, ty) in refinements {
            let Some(&found) = types.get(index) else { continue };
            let ty = self.solver.open(ty, false);
            if let Err(mismatch) = self.solver.refine(ty, found) {
                if matches!(mismatch, Mismatch::Deep | Mismatch::Infinite) {
                    let (span, name) = (self.op_span(unit, op), self.op_name(unit, op));
                    let subject = format!("operand {} of `{name}`", index + 1);
                    self.report_mismatch(span, &subject, ty, found, mismatch, None, "must be");
                    return false;
                }
                let (ty, found) = (self.solver.close(ty), self.solver.close(found));
                let field = info.def.operands.get(index).map_or("operand", |field| field.name);
                let message = format!("expected `{field}` {}, found {}", shown(ty), shown(found));
                self.report_failed(unit, op, info, types, &message);
                return false;
            }
        }
        for &(a, b) in equations {
            if self.solver.relate_dims(a, b, Mode::Operand).is_err() {
                let (a, b) = (self.solver.resolve_dim(a), self.solver.resolve_dim(b));
                let message =
                    format!("expected equal extents, found {} and {}", shown(a), shown(b));
                self.report_failed(unit, op, info, types, &message);
                return false;
            }
        }
        true
    }

    fn operand_note(&mut self, types: &[Type]) -> String {
        let types: Vec<String> =
            types.iter().map(|ty| shown(self.solver.close(*ty)).to_string()).collect();
        match types.as_slice() {
            [] => "it has no operands".to_string(),
            [one] => format!("operand type: {one}"),
            many => format!("operand types: {}", many.join(", ")),
        }
    }

    fn report_failed(&mut self, unit: usize, op: OpId, info: &OpInfo, types: &[Type], why: &str) {
        let (span, note) = (self.op_span(unit, op), self.operand_note(types));
        let name = short_name(info.def.name);
        let mut diagnostic =
            Diagnostic::error(codes::RELATION, format!("`{name}`: {why}")).at(span).note(note);
        for value in self.body(unit).operands(op).collect::<Vec<_>>() {
            if self.body(unit).operand_count(op) != types.len() {
                break;
            }
            let ty = self.body(unit).ty(value);
            let ty = self.solver.close(ty);
            let from = self.value_span(unit, value);
            if from != span {
                let text = format!("{} is {}", self.value_name(unit, value), shown(ty));
                diagnostic = diagnostic.related(from, text);
            }
        }
        self.report(diagnostic);
    }

    fn report_stuck(&mut self, unit: usize, op: OpId, info: &OpInfo, types: &[Type]) {
        let (span, note) = (self.op_span(unit, op), self.operand_note(types));
        let name = short_name(info.def.name);
        self.report(
            Diagnostic::error(
                codes::AMBIGUOUS,
                format!("cannot infer the result type of `{name}` from its operands"),
            )
            .at(span)
            .note(note)
            .help("annotate the result"),
        );
    }

    /// Queues the relation of an operator for when more is known.
    pub(super) fn suspend(
        &mut self,
        unit: usize,
        op: OpId,
        info: &'a OpInfo,
        operands: Option<Vec<Type>>,
        value: ValueId,
    ) {
        let result = match &operands {
            // The operator as a value: the relation's result is that of the function type.
            Some(_) => self.solver.fresh(),
            None => {
                for operand in self.body(unit).operands(op).collect::<Vec<_>>() {
                    self.ty(unit, operand);
                }
                self.ty_of_result(unit, value)
            }
        };
        let id = self.relations.len() as RelationId;
        let relation = Relation {
            unit,
            op,
            info,
            operands,
            result,
            answered: false,
            settled: false,
            queued: false,
        };
        self.relations.push(relation);
        self.attempt(id);
    }

    /// The result variable of the last suspended relation.
    pub(super) fn last_result(&self) -> Option<Type> {
        self.relations.last().map(|relation| relation.result)
    }

    fn ty_of_result(&mut self, unit: usize, value: ValueId) -> Type {
        let present = self.body(unit).ty(value);
        if !present.is_unknown() && !present.facts().has_variable {
            self.check_kinds(unit, value, present);
        }
        self.ty(unit, value)
    }

    /// Tries a relation: settles it, or leaves it waiting for the variables of its operands.
    fn attempt(&mut self, id: RelationId) {
        let relation = &mut self.relations[id as usize];
        if relation.settled {
            return;
        }
        relation.queued = false;
        self.visits += 1;
        let (unit, op, info, result) = (relation.unit, relation.op, relation.info, relation.result);
        let Some(infer) = info.def.infer else { return };
        let given = relation.operands.clone();
        let direct = given.is_none();
        let types: Types = match given {
            Some(types) => types.into_iter().map(|ty| self.solver.resolve(ty)).collect(),
            None => {
                let body = &*self.units[unit].body;
                let types: Types = body.operands(op).map(|value| body.ty(value)).collect();
                types.into_iter().map(|ty| self.solver.resolve(ty)).collect()
            }
        };
        let body = &*self.units[unit].body;
        let constants = |i: usize| -> Option<Attr> {
            (direct && i < types.len())
                .then(|| self.env.registry.constant(body, body.operand(op, i)))?
        };
        let attrs = if direct { body.attrs(op) } else { ir_core::AttrDict::empty() };
        let mut cx = InferCx::with_constants(&types, attrs, &constants);
        let answer = cx.answer(infer);
        let (refinements, equations) = (cx.refinements, cx.equations);
        let closed = !types.iter().any(|ty| ty.facts().has_variable);
        if closed {
            self.relations[id as usize].settled = true;
        } else {
            for &ty in &types {
                for variable in self.solver.variables(ty) {
                    self.solver.wait(variable, id);
                }
            }
        }
        let failed = match answer {
            Err(Stop::Error(message)) => {
                // An operand that is wrong already explains it.
                if !types.iter().any(|ty| self.is_poison(*ty)) {
                    self.report_failed(unit, op, info, &types, &message);
                }
                true
            }
            Err(Stop::Stuck) if closed => {
                self.report_stuck(unit, op, info, &types);
                true
            }
            Err(Stop::Stuck) => !self.learn(unit, op, info, &types, &refinements, &equations),
            Ok(ty) => {
                self.relations[id as usize].answered = true;
                let learnt = self.learn(unit, op, info, &types, &refinements, &equations);
                let ty = self.solver.open(ty, false);
                let fit = match direct {
                    true => self.fit_value(unit, self.body(unit).result(op, 0), result, ty, false),
                    // Nobody sees the calls of an operator that is a value.
                    false => self.solver.flow(result, ty),
                };
                match fit {
                    _ if !learnt => true,
                    Ok(()) => false,
                    Err(mismatch) => {
                        let (span, name) = (self.op_span(unit, op), self.op_name(unit, op));
                        let subject = format!("the result of `{name}`");
                        self.report_mismatch(span, &subject, result, ty, mismatch, None, "must be");
                        true
                    }
                }
            }
        };
        if failed {
            self.relations[id as usize].settled = true;
            for variable in self.solver.variables(result) {
                self.solver.poison(variable);
            }
        }
    }

    /// Runs the queue until nothing more becomes known.
    pub(super) fn solve(&mut self) {
        loop {
            // Relations that a new assignment affects go first.
            for id in std::mem::take(&mut self.solver.woken).into_iter().rev() {
                let relation = &mut self.relations[id as usize];
                if !relation.queued && !relation.settled {
                    relation.queued = true;
                    self.queue.push_front(id);
                }
            }
            match self.queue.pop_front() {
                Some(id) => self.attempt(id),
                None if self.solver.equations.is_empty() => return,
                None => {
                    let failed = self.solver.retry_equations();
                    for mismatch in failed {
                        if let Mismatch::Dims(a, b) = mismatch {
                            let span = self.units.first().and_then(|unit| unit.signature.span);
                            self.report(
                                Diagnostic::error(
                                    codes::MISMATCH,
                                    format!(
                                        "expected equal extents, found {} and {}",
                                        shown(a),
                                        shown(b)
                                    ),
                                )
                                .at(span),
                            );
                        }
                    }
                    if self.solver.woken.is_empty() {
                        return;
                    }
                }
            }
        }
    }

    /// The variables that some relation still needs to give any answer.
    pub(super) fn needed(&mut self) -> FxHashSet<Variable> {
        let mut needed = FxHashSet::default();
        for id in 0..self.relations.len() {
            let relation = &self.relations[id];
            if relation.settled || relation.answered {
                continue;
            }
            let types: Vec<Type> = match &relation.operands {
                Some(types) => types.clone(),
                None => {
                    let body = &*self.units[relation.unit].body;
                    body.operands(relation.op).map(|value| body.ty(value)).collect()
                }
            };
            let types = types.into_iter().chain([relation.result]).collect::<Vec<_>>();
            for ty in types {
                needed.extend(self.solver.variables(ty));
            }
        }
        needed
    }

    /// The operations whose relation gave no answer.
    pub(super) fn unanswered(&self) -> FxHashSet<(usize, OpId)> {
        let open = self.relations.iter().filter(|relation| !relation.settled && !relation.answered);
        open.map(|relation| (relation.unit, relation.op)).collect()
    }
}
