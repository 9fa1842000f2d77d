//! What is noted of the search, so that its rewriting can be explained.
//!
//! Windows are solved without notes, equal ones once. Where one changes, the rules are applied to its
//! e-graph once more, in the same way, and this time each step is noted with the values that the
//! window has there.

use ir_core::{Diagnostics, FuncMut, Interrupt, Registry};
use relay::language::Tuple;
use rewrites::egraph::Class;
use rewrites::proof::Recorder;
use rewrites::proof::terms::Term;
use rustc_hash::FxHashMap;

use super::entry::enter;
use super::program::{Kind, Part, Program};
use super::solve::Solver;
use super::window::{Operation, Source};
use crate::fuse::graph::Graph;

/// Notes about one block.
pub(super) struct Notes<'r> {
    recorder: &'r mut Recorder,
    /// By number, what each value of the program is; `None` for what has no term, which is an error
    /// of the recorder's.
    terms: Vec<Option<Term>>,
    /// By number, tuples that were folded.
    tuples: FxHashMap<usize, Term>,
}

impl<'r> Notes<'r> {
    /// Of `program`, which `graph` is, before anything changes.
    pub(super) fn new(
        recorder: &'r mut Recorder,
        f: &FuncMut<'_>,
        graph: &Graph,
        program: &Program,
    ) -> Notes<'r> {
        let mut notes = Notes { recorder, terms: vec![], tuples: FxHashMap::default() };
        for (number, value) in program.values.iter().enumerate() {
            let value = match (graph.nodes.get(number), &value.kind) {
                (Some(node), _) => Some(f.body.result(node.op, 0)),
                (None, Kind::Outside(value)) => Some(*value),
                (None, Kind::Constant(_, value)) => *value,
                (None, Kind::Op(..)) => None,
            };
            let term = value.and_then(|value| notes.recorder.term(f.body, value, f.registry));
            notes.terms.push(term);
        }
        notes
    }

    /// The values that `program` has by now.
    pub(super) fn update(&mut self, program: &Program, registry: &Registry) {
        for value in &program.values[self.terms.len()..] {
            let (operation, operands) = match &value.kind {
                Kind::Constant(operation, _) => (operation, &[][..]),
                Kind::Op(operation, operands) => (operation, &**operands),
                Kind::Outside(_) => {
                    self.terms.push(None);
                    continue;
                }
            };
            // What an operation reads has a lower number.
            let operands: Option<Vec<Term>> =
                operands.iter().map(|read| self.terms[*read]).collect();
            let term = operands.map(|operands| self.operation(operation, operands, registry));
            self.terms.push(term);
        }
    }

    fn operation(
        &mut self,
        &Operation { name, attrs, ty }: &Operation,
        operands: Vec<Term>,
        registry: &Registry,
    ) -> Term {
        self.recorder.operation((name, attrs, ty), operands, registry)
    }

    /// Notes what rules make of the window of `part`.
    ///
    /// # Errors
    /// When the right side of a rewrite rule does not type.
    pub(super) fn window(&mut self, part: &Part, solver: &Solver<'_>) -> Result<(), Diagnostics> {
        let Some(rules) = solver.rules else { return Ok(()) };
        let (window, registry) = (&part.window, solver.registry);
        let (mut graph, entry) = enter(window, registry);
        let numbers = part.inputs.iter().zip(&entry.inputs);
        let numbers = numbers.chain(part.ops.iter().zip(&entry.ops));
        let mut classes: Vec<(Class, Term)> =
            numbers.filter_map(|(number, class)| Some((*class, self.terms[*number]?))).collect();
        for (op, operands) in window.ops.iter().zip(&entry.operands) {
            for (source, class) in op.operands.iter().zip(operands) {
                if let Source::Constant(constant) = source {
                    classes.push((*class, self.operation(constant, vec![], registry)));
                }
            }
        }
        self.recorder.enter_terms(classes.iter().map(|(class, term)| (graph.find(*class), *term)));
        // The first time it may have been interrupted; the more is found now.
        let interrupt = Interrupt::default();
        let ops = window.ops.len();
        solver.saturate(&mut graph, rules, ops, interrupt, Some(self.recorder))?;
        Ok(())
    }

    /// Notes that the operation `number` is computed by the compiler.
    pub(super) fn fold(&mut self, program: &Program, number: usize, registry: &Registry) {
        let (Some(term), Kind::Op(operation, operands)) =
            (self.terms[number], &program.values[number].kind)
        else {
            return;
        };
        let is_tuple = operation.ty.as_tensor().is_none();
        let folded = match operation.name == Tuple::NAME {
            true => Some(term),
            false => {
                let operands = operands.iter().map(|operand| program.find(*operand));
                let tuples: Vec<Term> =
                    operands.filter_map(|operand| self.tuples.get(&operand).copied()).collect();
                self.recorder.fold(term, &tuples, registry)
            }
        };
        if is_tuple {
            self.tuples.extend(folded.map(|folded| (number, folded)));
        }
    }
}
