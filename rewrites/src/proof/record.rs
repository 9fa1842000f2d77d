//! What drivers note down while they apply rules, and the certificate that follows: the steps that
//! the result needs, in order.

use ir_core::pass::{Explanation, Place};
use ir_core::{
    AttrDict, Body, Diagnostic, Diagnostics, FuncMut, Registry, SmallVec, Span, Symbol, Type,
    ValueId,
};

use crate::codes;
use crate::egraph::Class;
use crate::functions::splat;
use crate::instantiate::{Conditions, Plan, plan};
use crate::library::RuleSet;
use crate::matching::{Match, TermGraph};
use crate::rule::OpNode;
use crate::snapshot::Snapshot;

use super::fit::{Instance, Line, Part, Shape, attributes, compute, fit, regroup};
use super::forest::{Forest, Reason, Why};
use super::program::{self, Values, numbered};
use super::store::{Origin, Store};
use super::terms::{Kind, Operands, Term, Terms};
use super::text::resolve;

#[derive(Debug)]
struct Step {
    origin: Origin,
    left: Vec<Line>,
    /// The terms of what it made, in order.
    made: Vec<Term>,
    united: SmallVec<[(Term, Term); 2]>,
    /// Equalities because of which it was allowed.
    equal: Vec<(Term, Term)>,
}

/// A step, and what it makes.
type Planned = (Step, Plan<Term>);

#[derive(Debug)]
enum Item {
    /// What follows matches what is known here; its conclusions are drawn at the end of the round.
    Round,
    /// A term that no step made.
    Let(Term),
    Step(Step),
}

/// No item: a term of the program.
const SOURCE: u32 = u32::MAX;

/// Notes what drivers do to one function.
pub struct Recorder {
    name: Symbol,
    source: Body,
    spans: Vec<Option<Span>>,
    /// The values of the source, by number.
    numbered: Vec<ValueId>,
    /// Terms of the values of the source.
    entered: Values,
    /// Those, and of what drivers made.
    values: Values,
    terms: Terms,
    /// Kinds of terms of the source.
    kinds: u32,
    items: Vec<Item>,
    /// By term, the item that made it.
    makers: Vec<u32>,
    /// Where the round begins that is going on.
    round: Option<usize>,
    /// By class of the e-graph, one of its terms.
    classes: Vec<Option<Term>>,
    /// Of the body that is being edited: the terms of what will be made.
    made: Vec<Term>,
    /// What could not be noted.
    failed: Option<String>,
}

impl Recorder {
    /// Begins with `f` as it is.
    pub fn new(f: &FuncMut<'_>) -> Recorder {
        let mut terms = Terms::new(true);
        let numbered = numbered(f.body);
        let values = program::enter(f.body, &numbered, &mut terms, f.registry);
        let kinds = terms.kinds().len() as u32;
        Recorder {
            name: f.name,
            source: f.body.clone(),
            spans: program::spans(f.body, &numbered, f.base()),
            numbered,
            entered: values.clone(),
            values,
            makers: vec![SOURCE; terms.len()],
            kinds,
            terms,
            items: vec![],
            round: None,
            classes: vec![],
            made: vec![],
            failed: None,
        }
    }

    /// Whether an operation of the program is what `term` is, apart from its operands.
    fn is_in_source(&self, term: Term) -> bool {
        self.terms.kind_of(term) < self.kinds && !self.terms.operands(term).is_empty()
    }

    /// The function as it was.
    pub fn source(&self) -> &Body {
        &self.source
    }

    fn fail(&mut self, what: &str) {
        self.failed.get_or_insert_with(|| what.to_string());
    }

    /// The term of `value` of `body`: of the function as it was, or of what drivers made of it.
    pub fn term(&mut self, body: &Body, value: ValueId, registry: &Registry) -> Option<Term> {
        let term = program::term_of(body, value, &mut self.values, &mut self.terms, registry);
        self.note_new();
        term
    }

    /// Notes the terms that no step made.
    fn note_new(&mut self) {
        for term in self.makers.len()..self.terms.len() {
            self.makers.push(self.items.len() as u32);
            self.items.push(Item::Let(Term(term as u32)));
        }
    }

    // ---- terms of no body ----------------------------------------------------------------------

    /// The term of the operation called `name` on `operands`, with a result of type `ty`.
    pub fn operation(
        &mut self,
        (name, attrs, ty): (Symbol, AttrDict, Type),
        operands: impl IntoIterator<Item = Term>,
        registry: &Registry,
    ) -> Term {
        let term = self.terms.add(Kind::Op(name, attrs, ty), operands, registry);
        self.note_new();
        term
    }

    /// The operation that `term` is, is computed, each of whose operands is a constant or, for a
    /// tuple of constants, one of `tuples`; the term of the result.
    pub fn fold(&mut self, term: Term, tuples: &[Term], registry: &Registry) -> Option<Term> {
        let line = |term: &Term| Line { term: *term, swapped: false };
        self.compute(std::iter::once(&term).chain(tuples).map(line).collect(), registry)
    }

    // ---- e-graphs ------------------------------------------------------------------------------

    /// Begins with the e-graph of a block, in which `classes` are the values of `body`.
    pub(crate) fn enter<'c>(
        &mut self,
        body: &Body,
        classes: impl Iterator<Item = (&'c ValueId, &'c Class)>,
        registry: &Registry,
    ) {
        let mut of_values: Vec<(ValueId, Class)> = classes.map(|(v, c)| (*v, *c)).collect();
        of_values.sort_unstable();
        let mut of_classes = Vec::with_capacity(of_values.len());
        for (value, class) in of_values {
            match self.term(body, value, registry) {
                Some(term) => of_classes.push((class, term)),
                None => self.fail("a value of the program has no term"),
            }
        }
        self.enter_terms(of_classes);
    }

    /// Begins with an e-graph in which these classes are what these terms are.
    pub fn enter_terms(&mut self, classes: impl IntoIterator<Item = (Class, Term)>) {
        self.classes.clear();
        for (class, term) in classes {
            // The first of several, which is there for certain.
            self.set_class(class, term, |old| old.min(term));
        }
    }

    fn set_class(&mut self, class: Class, term: Term, both: impl Fn(Term) -> Term) {
        if self.classes.len() <= class.index() {
            self.classes.resize(class.index() + 1, None);
        }
        let known = &mut self.classes[class.index()];
        *known = Some(known.map_or(term, both));
    }

    fn of_class(&self, class: Class) -> Option<Term> {
        self.classes.get(class.index()).copied().flatten()
    }

    /// The rule at `place` was applied where it was `found` in `snapshot`, and its operations are
    /// in the classes `made`.
    pub(crate) fn applied(
        &mut self,
        rules: &RuleSet,
        place: usize,
        (snapshot, found): (&Snapshot, &Match<Class>),
        made: &[Class],
        registry: &Registry,
    ) {
        let step = self.lines(rules, place, snapshot, found).and_then(|left| {
            let step = self.rule_step(rules, place, left, registry)?;
            (step.1.ops.len() == made.len()).then_some(step)
        });
        match step {
            Some(step) => self.push(step, made, registry),
            None => {
                let rule = rules.rules[place].rule.name;
                self.fail(&format!("rule `{rule}` matched otherwise than it was noted"));
            }
        }
    }

    /// A sum was grouped: `left` are the operations that it is, with their operands.
    pub(crate) fn regrouped(
        &mut self,
        (name, ty): (Symbol, Type),
        left: &[[Class; 2]],
        group: &[usize],
        made: &[Class],
        registry: &Registry,
    ) {
        let kind = Kind::Op(name, AttrDict::empty(), ty);
        let left: Option<Vec<Line>> =
            left.iter().map(|operands| self.line(&kind, operands)).collect();
        let step = left.and_then(|left| {
            let (plan, equal) = regroup(&self.terms, &left, group, registry)?;
            let fits = plan.ops.len() == made.len();
            let origin = Origin::Group(group.to_vec());
            fits.then(|| (step(origin, left, equal), plan))
        });
        match step {
            Some(step) => self.push(step, made, registry),
            None => self.fail("a sum was grouped otherwise than it was noted"),
        }
    }

    /// The operation of `kind` on classes, as a line of a left side.
    fn line(&self, kind: &Kind, operands: &[Class]) -> Option<Line> {
        let operands: Option<Operands> =
            operands.iter().map(|class| self.of_class(*class)).collect();
        let operands = operands?;
        let term = self.terms.lookup(kind, &operands)?;
        let mut both = self.terms.operands(term).iter().zip(&operands);
        let swapped = !both.all(|(a, b)| self.terms.equal(*a, *b));
        Some(Line { term, swapped })
    }

    /// The left side of a rule where it was found.
    fn lines(
        &self,
        rules: &RuleSet,
        place: usize,
        snapshot: &Snapshot,
        found: &Match<Class>,
    ) -> Option<Vec<Line>> {
        let instance = Instance::new(&rules.rules[place], found.ops.len())?;
        let shape = Shape::new(instance.rule)?;
        let lines = shape.ops.iter().zip(&found.ops).map(|((op, parts), class)| {
            let (kind, operands) = form((snapshot, found), instance, op, parts, *class)?;
            self.line(&kind, &operands)
        });
        lines.collect()
    }

    /// Draws the conclusions of the round.
    pub(crate) fn end_round(&mut self) {
        let Some(begin) = self.round.take() else { return };
        for place in begin..self.items.len() {
            let Item::Step(step) = &self.items[place] else { continue };
            for (old, new) in step.united.clone() {
                self.terms.unite(old, new, Why::Step(place as u32));
            }
        }
    }

    // ---- steps ---------------------------------------------------------------------------------

    fn rule_step(
        &self,
        rules: &RuleSet,
        place: usize,
        left: Vec<Line>,
        registry: &Registry,
    ) -> Option<Planned> {
        let compiled = &rules.rules[place];
        let instance = Instance::new(compiled, left.len())?;
        let (rule, terms) = (instance.rule, &self.terms);
        let fitted = fit(terms, instance, &Shape::new(rule)?, &left)?;
        let plan =
            plan(terms, (rule, Conditions::Validity), &fitted.found, registry, &rules.functions)
                .ok()?;
        let mut equal = fitted.equal;
        // What conditions and type relations may have asked about.
        for value in fitted.found.values.iter().flatten() {
            let constant = terms.constant_shown(*value);
            equal.extend(constant.filter(|shown| shown != value).map(|shown| (*value, shown)));
        }
        let origin = Origin::Rule(rule.name, compiled.reverse);
        Some((step(origin, left, equal), plan))
    }

    /// Adds a step, and what it makes, which is in these classes.
    fn push(&mut self, (mut step, plan): Planned, classes: &[Class], registry: &Registry) {
        if self.round.is_none() {
            self.items.push(Item::Round);
            self.round = Some(self.items.len());
        }
        let mut made: Vec<Term> = Vec::with_capacity(plan.ops.len());
        for op in &plan.ops {
            let operands: Operands =
                op.operands.iter().map(|operand| resolve(*operand, &made)).collect();
            made.push(self.terms.add(Kind::Op(op.name, op.attrs, op.ty), operands, registry));
        }
        self.makers.resize(self.terms.len(), self.items.len() as u32);
        for (class, term) in classes.iter().zip(&made) {
            self.set_class(*class, *term, |old| old);
        }
        let united = plan.replacements.iter().map(|(old, new)| (*old, resolve(*new, &made)));
        step.united = united.collect();
        step.made = made.clone();
        self.items.push(Item::Step(step));
        self.made = made;
    }

    // ---- programs that are edited in place -----------------------------------------------------

    /// The rule at `place` is about to be applied to `body`, where it was `found`.
    pub(crate) fn in_place(
        &mut self,
        body: &Body,
        rules: &RuleSet,
        place: usize,
        found: &Match<ValueId>,
        registry: &Registry,
    ) {
        let mut left = Vec::with_capacity(found.ops.len());
        for (value, swapped) in found.ops.iter().zip(&found.swapped) {
            left.extend(self.line_of(body, *value, *swapped, registry));
        }
        match self.rule_step(rules, place, left, registry) {
            Some(step) => {
                self.push(step, &[], registry);
                self.end_round();
            }
            None => {
                let rule = rules.rules[place].rule.name;
                self.made.clear();
                self.fail(&format!("rule `{rule}` matched otherwise than it was noted"));
            }
        }
    }

    /// The operation that computes `value` in `body` is about to be replaced by its result.
    pub(crate) fn computed(&mut self, body: &Body, value: ValueId, registry: &Registry) {
        let line = self.line_of(body, value, false, registry);
        _ = self.compute(line.into_iter().collect(), registry);
    }

    /// The operation of the first line is replaced by its result; the term of that.
    fn compute(&mut self, left: Vec<Line>, registry: &Registry) -> Option<Term> {
        match compute(&self.terms, &left, registry) {
            Some((plan, equal)) => {
                let step = step(Origin::Compute, left, equal);
                self.push((step, plan), &[], registry);
                self.end_round();
            }
            None => {
                self.made.clear();
                self.fail("an operation was computed otherwise than it was noted");
            }
        }
        self.made.last().copied()
    }

    /// The operation of `body` that computes `value`, as a line of a left side.
    fn line_of(
        &mut self,
        body: &Body,
        value: ValueId,
        swapped: bool,
        registry: &Registry,
    ) -> Option<Line> {
        let op = body.defining_op(value)?;
        let operands: Option<Operands> =
            body.operands(op).map(|operand| self.term(body, operand, registry)).collect();
        let term = self.terms.add(program::kind(body, op), operands?, registry);
        self.note_new();
        Some(Line { term, swapped })
    }

    /// The operations of the rule that was applied last compute `values`.
    pub(crate) fn made(&mut self, values: &[ValueId]) {
        self.values.extend(values.iter().copied().zip(self.made.iter().copied()));
    }

    /// The body is again what it was when it had so many values.
    pub(crate) fn restored(&mut self, values: usize) {
        self.values.retain(|value, _| ir_core::EntityId::index(*value) < values);
    }

    // ---- the certificate -----------------------------------------------------------------------

    /// The certificate that `f` computes what it did.
    ///
    /// # Errors
    /// Where it does not follow from what was noted, which is an error of the compiler.
    pub fn finish(mut self, f: &FuncMut<'_>, rules: &RuleSet) -> Result<Explanation, Diagnostics> {
        let name = self.name;
        let error = |reason: &str| {
            let message = format!("the rewriting of @{name} cannot be explained: {reason}");
            let help = "this is an error of the compiler, not of the input; please report it";
            Diagnostic::error(codes::UNEXPLAINED, message).at(f.base()).help(help)
        };
        if let Some(reason) = &self.failed {
            return Err(error(reason).into());
        }
        let before = (&self.source, &self.entered);
        let uses = program::uses(before, f.body, &mut self.terms, f.registry);
        self.note_new();
        let uses = uses.map_err(|mismatch| error(&mismatch.message))?;
        let mut slice = Slice::new(&self);
        let mut changed: Vec<(Term, Term)> = Vec::new();
        for used in uses {
            if used.before == used.after {
                continue;
            }
            if !self.terms.equal(used.before, used.after) {
                return Err(error("a result is not equal to what it was").into());
            }
            slice.term(used.after);
            slice.equal(used.before, used.after);
            changed.push((used.before, used.after));
        }
        let needed = slice.finish().ok_or_else(|| error("an equality has no reason"))?;
        changed.sort_unstable();
        changed.dedup();
        self.write(&needed, &changed, rules, f.registry)
            .ok_or_else(|| error("a step is gone"))
            .map_err(Diagnostics::from)
    }

    fn write(
        &self,
        needed: &Needed,
        changed: &[(Term, Term)],
        rules: &RuleSet,
        registry: &Registry,
    ) -> Option<Explanation> {
        // Written from a store of its own, which knows no more than who checks it.
        let mut store = Store::new(&self.source, rules, registry);
        let mut of_term: Vec<Option<Term>> = vec![None; self.terms.len()];
        for value in &self.numbered {
            of_term[self.entered[value].0 as usize] = Some(store.values[value]);
        }
        let origins = self.origins();
        let count = store.names.count();
        let mut text = format!("function @{}, {count} values\n", self.name);
        let (mut places, mut steps, mut round) = (Vec::new(), 0, false);
        for (item, is_needed) in self.items.iter().zip(&needed.items) {
            let (named, step) = match item {
                Item::Round => {
                    round = true;
                    continue;
                }
                Item::Let(term) => (std::slice::from_ref(term), None),
                Item::Step(step) if *is_needed => (&[][..], Some(step)),
                Item::Step(step) => (&*step.made, None),
            };
            for term in named {
                let place = term.0 as usize;
                if !needed.terms[place] || of_term[place].is_some() {
                    continue;
                }
                let operands = self.terms.operands(*term).iter();
                let operands: Option<Operands> =
                    operands.map(|operand| of_term[operand.0 as usize]).collect();
                let new = store.add(self.terms.kind(*term).clone(), operands?);
                of_term[place] = Some(new);
                let line = store.definition(Line { term: new, swapped: false });
                text += &format!("let {line}\n");
            }
            let Some(step) = step else { continue };
            if std::mem::take(&mut round) {
                store.end_round();
                text += "round\n";
            }
            steps += 1;
            let left: Option<Vec<Line>> = step
                .left
                .iter()
                .map(|line| Some(Line { term: of_term[line.term.0 as usize]?, ..*line }))
                .collect();
            let left = left?;
            let holds = store.check(&step.origin, &left).ok()?;
            let what = match &step.origin {
                Origin::Rule(name, reverse) => {
                    format!("{name}{}", if *reverse { " reversed" } else { "" })
                }
                Origin::Group(group) => {
                    let group: Vec<String> = group.iter().map(usize::to_string).collect();
                    format!("group {}", group.join(" "))
                }
                Origin::Compute => "compute constant".to_string(),
            };
            text += &format!("step {steps}: {what}\n");
            let root = step.left.first()?.term;
            let origin = origins[root.0 as usize].map(|span| ("at", span));
            let rule = Store::span(&holds).map(|span| ("rule at", span));
            let spans = origin.into_iter().chain(rule).collect();
            places.push(Place { offset: text.len(), spans });
            for line in left {
                text += &format!("  from {}\n", store.definition(line));
            }
            let (lines, made) = store.apply(&holds);
            for line in lines {
                text += &line;
                text.push('\n');
            }
            for (old, new) in step.made.iter().zip(made) {
                of_term[old.0 as usize].get_or_insert(new);
            }
        }
        for (before, after) in changed {
            let (before, after) = (of_term[before.0 as usize]?, of_term[after.0 as usize]?);
            let (before, after) = (store.names.write(before), store.names.write(after));
            text += &format!("result {before} = {after}\n");
        }
        text += "end\n";
        Some(Explanation { text, places })
    }

    /// Where in the source each term comes from: its own place, or that of what it was made of.
    fn origins(&self) -> Vec<Option<Span>> {
        let mut origins: Vec<Option<Span>> = vec![None; self.terms.len()];
        for (value, span) in self.numbered.iter().zip(&self.spans) {
            let origin = &mut origins[self.entered[value].0 as usize];
            *origin = origin.or(*span);
        }
        for term in 0..self.terms.len() {
            let maker = self.makers[term];
            let from = match self.items.get(maker as usize) {
                Some(Item::Step(step)) => step.left.first().map(|line| line.term),
                Some(Item::Let(term)) => self.terms.operands(*term).first().copied(),
                _ => None,
            };
            if let (None, Some(from)) = (origins[term], from) {
                origins[term] = origins[from.0 as usize];
            }
        }
        origins
    }
}

fn step(origin: Origin, left: Vec<Line>, equal: Vec<(Term, Term)>) -> Step {
    Step { origin, left, made: vec![], united: SmallVec::new(), equal }
}

/// A form of `class` in `snapshot` that fits `op`, given what its variables were found to be.
fn form(
    (snapshot, found): (&Snapshot, &Match<Class>),
    instance: Instance<'_>,
    op: &OpNode,
    parts: &[Part],
    class: Class,
) -> Option<(Kind, SmallVec<[Class; 4]>)> {
    let fits = |(part, operand): (&Part, &Class)| match *part {
        Part::Value(var) => found.values[var.0] == Some(*operand),
        Part::Op(place) => found.ops[place] == *operand,
        Part::Number(number) => snapshot
            .constant(*operand)
            .and_then(splat)
            .is_some_and(|splat| splat.as_f64() == number.as_f64()),
    };
    // First in order; where that does not matter, patterns fit in the other one, too.
    for reversed in [false, true] {
        for form in 0..snapshot.forms(class) {
            let attrs = snapshot.attrs(class, form);
            let mut bound = found.attributes.clone();
            if snapshot.name(class, form) != op.name || !attributes(op, attrs, instance, &mut bound)
            {
                continue;
            }
            let mut operands = snapshot.operands(class, form);
            if reversed {
                operands.reverse();
            }
            if operands.len() == parts.len() && parts.iter().zip(&operands).all(fits) {
                return Some((Kind::Op(op.name, attrs, snapshot.ty(class)), operands));
            }
        }
    }
    None
}

/// The items that something needs, found from it backwards.
struct Slice<'a> {
    recorder: &'a Recorder,
    forest: Forest<'a>,
    needed: Vec<bool>,
    /// Terms that are needed.
    seen: Vec<bool>,
    /// Terms, items and reasons whose needs are not looked at yet.
    terms: Vec<Term>,
    items: Vec<u32>,
    reasons: Vec<Reason>,
    complete: bool,
}

/// What a result needs.
struct Needed {
    items: Vec<bool>,
    terms: Vec<bool>,
}

impl<'a> Slice<'a> {
    fn new(recorder: &'a Recorder) -> Slice<'a> {
        let terms = &recorder.terms;
        Slice {
            recorder,
            forest: Forest::new(terms.len(), terms.edges()),
            needed: vec![false; recorder.items.len()],
            seen: vec![false; terms.len()],
            terms: vec![],
            items: vec![],
            reasons: vec![],
            complete: true,
        }
    }

    fn term(&mut self, term: Term) {
        if !std::mem::replace(&mut self.seen[term.0 as usize], true) {
            self.terms.push(term);
        }
    }

    fn item(&mut self, item: u32) {
        if !std::mem::replace(&mut self.needed[item as usize], true) {
            self.items.push(item);
        }
    }

    fn equal(&mut self, a: Term, b: Term) {
        self.term(a);
        self.term(b);
        self.complete &= self.forest.path(a, b, &mut self.reasons);
    }

    /// What is needed; `None` where something has no reason.
    fn finish(mut self) -> Option<Needed> {
        let terms = &self.recorder.terms;
        loop {
            if let Some(term) = self.terms.pop() {
                let maker = self.recorder.makers[term.0 as usize];
                match self.recorder.items.get(maker as usize) {
                    // Any term may be named whose operation is known: the step that made it says
                    // more.
                    Some(Item::Let(_)) => self.item(maker),
                    Some(Item::Step(_)) if !self.recorder.is_in_source(term) => self.item(maker),
                    _ => terms.operands(term).iter().for_each(|operand| self.term(*operand)),
                }
                continue;
            }
            match self.reasons.pop() {
                Some(Reason::Step(step)) => {
                    self.item(step);
                    continue;
                }
                Some(Reason::Congruent(a, b, swapped)) => {
                    self.term(a);
                    self.term(b);
                    let mut of_b: Operands = terms.operands(b).into();
                    if swapped {
                        of_b.reverse();
                    }
                    terms.operands(a).iter().zip(of_b).for_each(|(a, b)| self.equal(*a, b));
                    continue;
                }
                None => {}
            }
            let Some(item) = self.items.pop() else { break };
            match &self.recorder.items[item as usize] {
                Item::Round => {}
                Item::Let(term) => {
                    terms.operands(*term).iter().for_each(|operand| self.term(*operand));
                }
                Item::Step(step) => {
                    step.left.iter().for_each(|line| self.term(line.term));
                    step.equal.iter().for_each(|(a, b)| self.equal(*a, *b));
                }
            }
        }
        self.complete.then_some(Needed { items: self.needed, terms: self.seen })
    }
}
