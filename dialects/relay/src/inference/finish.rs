//! The end of an inference: what is still open becomes polymorphic, or an error.

use ir_core::{Diagnostic, FunctionType, OpId, Symbol, Type, TypeData, ValueDef, ValueId};
use rustc_hash::FxHashSet;

use super::codes;
use super::engine::Engine;
use super::patterns;
use super::signatures::shown;
use super::solver::Variable;
use crate::language::Match;
use crate::types::free_parameters;

/// Names for the type parameters of a generalised function that are not `taken`.
struct Names<'t> {
    taken: &'t FxHashSet<Symbol>,
    own: FxHashSet<Symbol>,
    /// How many names for types and for extents have been tried.
    tried: [usize; 2],
}

impl Names<'_> {
    fn fresh(&mut self, shape: bool) -> Symbol {
        loop {
            let tried = &mut self.tried[usize::from(shape)];
            let (letter, round) = ((*tried % 26) as u8, *tried / 26);
            *tried += 1;
            let letter = char::from(match shape {
                // Extents read best from `n` on: n, o, …
                true => (letter + 13) % 26 + b'a',
                false => letter + b'A',
            });
            let name = Symbol::new(&match round {
                0 => letter.to_string(),
                round => format!("{letter}{round}"),
            });
            if !self.taken.contains(&name) && self.own.insert(name) {
                return name;
            }
        }
    }
}

impl Engine<'_, '_> {
    /// Makes the variables left in the types of the functions their type parameters. Variables
    /// that a relation waits for are not free to be anything and stay.
    pub(super) fn generalise(&mut self) {
        if self.units.iter().all(|unit| !unit.ty.facts().has_variable) {
            return;
        }
        let needed = self.needed();
        let mut taken: FxHashSet<Symbol> = self.env.types.adts.keys().copied().collect();
        for unit in &self.units {
            taken.extend(unit.ty.as_function().iter().flat_map(|f| f.type_params.iter()));
            let body = &*unit.body;
            for op in body.walk().filter(|op| body.op_name(*op) == "relay.fn") {
                let function = body.results(op).next().and_then(|v| body.ty(v).as_function());
                taken.extend(function.iter().flat_map(|f| f.type_params.iter()));
            }
        }
        for unit in 0..self.units.len() {
            let ty = self.solver.resolve(self.units[unit].ty);
            let free: Vec<Variable> = self
                .solver
                .variables(ty)
                .into_iter()
                .filter(|variable| !needed.contains(variable))
                .filter(|variable| !self.solver.is_poisoned(*variable))
                .collect();
            // What another function of the group has named already.
            let own = free_parameters(ty).into_iter().collect();
            let mut names = Names { taken: &taken, own, tried: [0, 0] };
            for &variable in &free {
                let name = names.fresh(matches!(variable, Variable::Dim(_)));
                self.solver.generalise(variable, name);
            }
        }
        // Functions of one group may share variables: each is bound by all that mention it.
        for unit in 0..self.units.len() {
            let ty = self.solver.resolve(self.units[unit].ty);
            let Some(function) = ty.as_function() else { continue };
            let mut names: Vec<Symbol> = function.type_params.to_vec();
            names.extend(free_parameters(ty));
            self.units[unit].ty = Type::new(TypeData::Function(FunctionType {
                type_params: names.into(),
                params: function.params.clone(),
                result: function.result,
            }));
        }
        self.solve();
    }

    /// Writes what was found into the bodies and signatures; reports what was not.
    pub(super) fn finish(&mut self) {
        let unanswered = self.unanswered();
        let mut poisoned: FxHashSet<Type> = FxHashSet::default();
        for unit in 0..self.units.len() {
            let mut excess = false;
            for value in self.open_values(unit) {
                excess |= self.close_value(unit, value, &unanswered, &mut poisoned, excess);
            }
            let ty = self.solver.close(self.units[unit].ty);
            self.units[unit].signature.ty = ty;
            for op in std::mem::take(&mut self.units[unit].matches) {
                if !self.bad_matches.contains(&(unit, op)) {
                    self.check_match(unit, op);
                }
            }
        }
        if !self.diagnostics.has_errors() {
            self.insert_checks();
        }
    }

    /// The values with variables in their types: parameters and what is computed in program
    /// order, then what operations with regions make of what is inside them, so that the first
    /// one with an open type is a cause and not a consequence.
    fn open_values(&mut self, unit: usize) -> Vec<ValueId> {
        let open: FxHashSet<ValueId> =
            std::mem::take(&mut self.units[unit].open).into_iter().collect();
        if open.is_empty() {
            return Vec::new();
        }
        let body = self.body(unit);
        let mut first: Vec<ValueId> = body.block_args(body.entry()).to_vec();
        let mut last = Vec::new();
        for op in body.walk() {
            for region in body.regions(op) {
                first.extend(body.block_args(body.block_of(*region)));
            }
            let list = if body.has_regions(op) { &mut last } else { &mut first };
            list.extend(body.results(op));
        }
        last.reverse();
        first.into_iter().chain(last).filter(|value| open.contains(value)).collect()
    }

    /// Writes what was found for the type of `value`, and reports what was not. Whether its type
    /// is excessive, which is reported unless it was for another value of the function.
    /// `poisoned` are the types whose variables have all been reported.
    fn close_value(
        &mut self,
        unit: usize,
        value: ValueId,
        unanswered: &FxHashSet<(usize, OpId)>,
        poisoned: &mut FxHashSet<Type>,
        reported: bool,
    ) -> bool {
        let open = self.body(unit).ty(value);
        let open = self.solver.resolve(open);
        if !open.facts().is_within_limits() {
            if !reported {
                let (span, name) = (self.value_span(unit, value), self.value_name(unit, value));
                self.report_excess(span, &name, open);
            }
            self.solver.poison_all(open, poisoned);
            self.units[unit].body.set_ty(value, Type::unknown());
            return true;
        }
        let ty = self.solver.close(open);
        self.units[unit].body.set_ty(value, ty);
        if !open.facts().has_variable {
            return false;
        }
        let consequence = self.solver.poison_all(open, poisoned)
            || match self.body(unit).def(value) {
                ValueDef::Result(op, _) if unanswered.contains(&(unit, op)) => {
                    let body = self.body(unit);
                    body.operands(op).any(|operand| body.ty(operand).facts().has_unknown)
                }
                _ => false,
            };
        if consequence {
            return false;
        }
        let (span, name) = (self.value_span(unit, value), self.value_name(unit, value));
        let help = match self.body(unit).def(value) {
            ValueDef::Argument(..) => "add an annotation to the parameter: `%x: float32`",
            ValueDef::Result(..) => {
                "add an annotation: `let %x: … = …`, or type arguments to the call"
            }
        };
        let mut diagnostic =
            Diagnostic::error(codes::AMBIGUOUS, format!("cannot infer the type of {name}"))
                .at(span)
                .help(help);
        if !ty.is_unknown() {
            diagnostic = diagnostic.note(format!("this much is known: {}", shown(ty)));
        }
        self.report(diagnostic);
        false
    }

    fn check_match(&mut self, unit: usize, op: OpId) {
        let Some(form) = self.body(unit).view::<Match>(op) else { return };
        let data = self.body(unit).ty(form.data);
        if data.facts().has_unknown {
            return;
        }
        let span = self.op_span(unit, op);
        let coverage = patterns::check(&self.env.types, &form.patterns, data);
        if form.complete && !coverage.missing.is_empty() {
            let missing: Vec<String> =
                coverage.missing.iter().map(|pattern| format!("`{pattern}`")).collect();
            self.report(
                Diagnostic::error(
                    codes::NOT_EXHAUSTIVE,
                    format!("the `match` does not cover {}", missing.join(", ")),
                )
                .at(span)
                .related(
                    self.value_span(unit, form.data),
                    format!("the matched value is {}", shown(data)),
                )
                .help("add clauses for it, or write `match?` to fail at run time"),
            );
        }
        if coverage.gave_up {
            self.report(
                Diagnostic::warning(
                    codes::TOO_COMPLEX,
                    "the `match` is too complex to check that it covers every case",
                )
                .at(span)
                .help("split it into nested matches"),
            );
            return;
        }
        for index in coverage.unreachable {
            let block = self.body(unit).region_block(op, index);
            let first = self.body(unit).first_op(block);
            let place = first.map_or(span, |first| self.op_span(unit, first));
            let pattern = form.patterns.get(index).map(patterns::shown).unwrap_or_default();
            self.report(
                Diagnostic::warning(
                    codes::UNREACHABLE,
                    format!("clause {} of the `match`, `{pattern}`, is never taken", index + 1),
                )
                .at(place)
                .help("the clauses before it cover it; remove it or move it up"),
            );
        }
    }
}
