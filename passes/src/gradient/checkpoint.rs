//! Loops whose steps are computed again on the way back, instead of being kept on a tape (Griewank and
//! Walther 2000, *Revolve*).
//!
//! A loop is cut into *segments*: runs of steps, each with the state that it begins with. A segment is computed
//! again, with a tape as long as it is, when the way back gets there. So what is live at once are the states of
//! the segments and one tape.
//!
//! A step is not taken apart: its tape and its way back are those of functions that the loop is copied to, and
//! that are differentiated as any others. So changes are added up in the order in which they would be without
//! checkpoints.

use std::sync::Arc;

use indexmap::IndexMap;
use ir_core::pass::OptionValue;
use ir_core::{
    Body, DType, Effects, FuncMut, InsertPoint, Item, Loc, Module, NameHint, OpId, OpParts,
    PassResult, Registry, Scalar, Symbol, TensorData, Type, TypeData, ValueId,
};
use relay::builder::Builder;
use relay::language::{
    Call, Constant, Construct, ConstructorDecl, FUNC, If, Pattern, Tuple, TupleGet, end_block,
};
use relay_operators::broadcast::{Add, Equal, Greater, RightShift, Subtract};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::activity::Active;
use super::changes::{Changes, declare};
use super::custom::{call_of, rule};
use super::functions::{Pair, Program, tape_name};
use crate::effects::EffectSummaries;
use crate::emit::erase_unused;
use crate::inline::{groups, references};
use crate::specialize::types::any_part;
use crate::tail_calls::{Ends, KEEP_LOOP, is_loop};
use crate::train_step::hint;

/// What is kept of a loop for the way back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checkpoint {
    /// What each step computed.
    None,
    /// The states before some steps, and what the steps from one to the next computed: of `n` steps, about
    /// `sqrt(2n)` of either. Each step is computed at most twice.
    Sqrt,
    /// The states before some steps, of `n` steps at most `log2(n) + 2`, and what one step computed. Each step is
    /// computed at most `log2(n) + 2` times, and half as often on average.
    Log,
}

impl Checkpoint {
    const NAMES: [(&'static str, Checkpoint); 3] =
        [("none", Checkpoint::None), ("sqrt", Checkpoint::Sqrt), ("log", Checkpoint::Log)];
}

impl OptionValue for Checkpoint {
    const EXPECTS: &'static str = "none, sqrt or log";
    fn parse(text: &str) -> Option<Checkpoint> {
        Checkpoint::NAMES.iter().find(|(name, _)| *name == text).map(|(_, found)| *found)
    }
    fn print(&self) -> String {
        let named = Checkpoint::NAMES.iter().find(|(_, checkpoint)| checkpoint == self);
        named.expect("all have names").0.to_string()
    }
}

/// A loop of the program with what its pair is made of.
pub(super) struct Loop {
    /// The loop once more: its way back is that of the last step, which calls the loop no more.
    step: Symbol,
    /// Does at most so many steps, and gives the parameters that matter: its tape is that of a segment.
    segment: Symbol,
    /// Does at most so many steps, and gives the state and how many of them are left.
    advance: Symbol,
    /// Cuts the loop into segments.
    save: Symbol,
    /// Goes back over segments.
    replay: Symbol,
    /// The data that segments are: a list, the last one first.
    segments: Type,
    /// The constructor of no segments.
    empty: Symbol,
    /// The constructor of a segment: its state, its steps, and the segments before it.
    some: Symbol,
    /// The parameters that differ from step to step, which are the state.
    varying: Vec<usize>,
    /// The parameters that each step hands on, which are kept once.
    handed_on: Vec<usize>,
}

/// The loops of a program whose steps are computed again.
pub(super) struct Loops {
    checkpoint: Checkpoint,
    by_name: IndexMap<Symbol, Loop, FxBuildHasher>,
    /// The functions that are differentiated with their loops.
    parts: FxHashSet<Symbol>,
}

impl Loops {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The loop `name`.
    pub(super) fn get(&self, name: Symbol) -> Option<&Loop> {
        self.by_name.get(&name)
    }

    /// Whether function `name` is a part of a loop.
    pub(super) fn is_part(&self, name: Symbol) -> bool {
        self.parts.contains(&name)
    }
}

/// What steps are counted in.
const COUNT: DType = DType::INT64;

/// Adds what the loops among `functions` are differentiated by to `module` and to `functions`.
///
/// These are functions that call themselves as their end alone, and are not called by what they call, without
/// cells: what reads or writes those is not computed twice.
pub(super) fn split(
    module: &mut Module,
    functions: &mut Active,
    data: &mut Changes,
    checkpoint: Checkpoint,
    registry: &Registry,
) -> Loops {
    let (by_name, parts) = (IndexMap::default(), FxHashSet::default());
    let mut loops = Loops { checkpoint, by_name, parts };
    if checkpoint == Checkpoint::None {
        return loops;
    }
    for name in eligible(module, functions, data, registry) {
        let flags = functions[&name].clone();
        let item = module.items[&name].clone();
        let body = item.body.as_deref().expect("a loop has a body");
        let params = body.block_args(body.entry());
        let calls = Ends::of(name, body).calls;
        // The first operand of a call is what it calls.
        let is_handed_on = |index: &usize| {
            calls.iter().all(|call| body.operand(*call, *index + 1) == params[*index])
        };
        let (handed_on, varying) = (0..params.len()).partition(is_handed_on);
        let mut fresh = |tail: &str| data.fresh(&format!("{name}_{tail}"));
        let made = Loop {
            step: fresh("step"),
            segment: fresh("segment"),
            advance: fresh("advance"),
            save: fresh("save"),
            replay: fresh("replay"),
            segments: Type::named(fresh("Segments"), []),
            empty: fresh("Start"),
            some: fresh("Segment"),
            varying,
            handed_on,
        };
        let matter: Vec<usize> = (0..flags.len()).filter(|index| flags[*index]).collect();
        let state_and_left: Vec<usize> =
            made.varying.iter().copied().chain([flags.len()]).collect();
        let parts = [
            (made.segment, steps_of(&item, name, made.segment, &matter)),
            (made.advance, steps_of(&item, name, made.advance, &state_and_left)),
            (made.step, item.clone()),
        ];
        module.items.extend(parts);
        let with_count = flags.iter().copied().chain([false]).collect();
        functions.insert(made.segment, with_count);
        functions.insert(made.step, flags);
        loops.parts.extend([made.segment, made.step]);
        loops.by_name.insert(name, made);
    }
    erase_unused_of_ends(module, &loops, registry);
    loops
}

/// The loops among `functions` that matter, and whose steps may be computed twice.
fn eligible(
    module: &Module,
    functions: &Active,
    data: &Changes,
    registry: &Registry,
) -> Vec<Symbol> {
    let references = references(module);
    let mut is_alone = vec![false; references.len()];
    for group in groups(&references) {
        if let [index] = group[..] {
            is_alone[index] = true;
        }
    }
    let effects = EffectSummaries::of(module, registry);
    let is_eligible = |(name, flags): (&Symbol, &Vec<bool>)| {
        let (index, _, item) = module.items.get_full(name)?;
        let (body, function) = (item.body.as_deref()?, item.signature.ty.as_function()?);
        let mut is_cell =
            |part: Type| matches!(part.data(), TypeData::Ref(_) | TypeData::Function(_));
        let has_cells = function.params.iter().any(|param| any_part(*param, &mut is_cell));
        let matters = flags.contains(&true) && data.is_differentiable(function.result);
        let is_pure = !effects.of_function(*name).intersects(Effects::READ | Effects::WRITE);
        let is_plain = rule(&item.signature).is_none() && !has_cells && is_pure;
        (is_alone[index] && matters && is_plain && is_loop(*name, body)).then_some(*name)
    };
    functions.iter().filter_map(is_eligible).collect()
}

/// The function `own` that takes the parameters of the loop `name` and a number of steps, does at most so many,
/// and gives those of what it takes then that `given` says, by number.
fn steps_of(item: &Item, name: Symbol, own: Symbol, given: &[usize]) -> Item {
    let mut signature = item.signature.clone();
    let mut body: Body = item.body.as_deref().expect("a loop has a body").clone();
    let count = Type::scalar(COUNT);
    let entry = body.entry();
    let left = body.add_block_arg(entry, count);
    body.set_name_hint(left, hint("left"));
    let params = body.block_args(entry).to_vec();
    let types: Vec<Type> = params.iter().map(|param| body.ty(*param)).collect();
    let result = Type::tuple(given.iter().map(|index| types[*index]));
    let given: Vec<ValueId> = given.iter().map(|index| params[*index]).collect();
    let state = |body: &mut Body, at: InsertPoint| {
        body.add(at, Loc::UNKNOWN, &Tuple { fields: given.clone() }, result)
    };

    let ends = Ends::of(name, &body);
    for op in ends.calls {
        let (at, loc) = (InsertPoint::Before(op), body.loc(op));
        let mut call: Call = body.view(op).expect("it is a call");
        let one = body.add(at, loc, &number(1), count);
        call.args.push(body.add(at, loc, &Subtract { lhs: left, rhs: one }, count));
        let value = call_of(&mut body, at, own, call.args, result);
        body.replace_all_uses(body.result(op, 0), value);
        body.erase(op);
        if let Some(callee) = body.defining_op(call.callee).filter(|_| body.is_unused(call.callee))
        {
            body.erase(callee);
        }
    }
    for block in ends.others {
        let end = body.last_op(block).expect("blocks end with what they yield");
        let value = state(&mut body, InsertPoint::Before(end));
        body.set_operand(end, 0, value);
    }
    for op in ends.branchings {
        body.set_ty(body.result(op, 0), result);
    }

    let ops: Vec<OpId> = body.block_ops(entry).collect();
    let at = InsertPoint::End(entry);
    let zero = body.add(at, Loc::UNKNOWN, &number(0), count);
    let boolean = Type::scalar(DType::BOOL);
    let condition = body.add(at, Loc::UNKNOWN, &Equal { lhs: left, rhs: zero }, boolean);
    let (operands, results) = ([condition], [result]);
    let parts = OpParts::new(If::<ValueId>::NAME, &operands, &results).regions(2);
    let branching = body.insert_op(at, parts);
    let [done, more] = [0, 1].map(|index| body.region_block(branching, index));
    let value = state(&mut body, InsertPoint::End(done));
    end_block(&mut body, done, value);
    for op in ops {
        body.move_op(op, InsertPoint::End(more));
    }
    let value = body.result(branching, 0);
    end_block(&mut body, entry, value);
    signature.ty = Type::function(types, result);
    Item { signature, body: Some(body.into()) }
}

/// `item`, which stays a loop though it begins with numbers that are known.
fn kept_loop(mut item: Item) -> Item {
    item.signature.attrs = item.signature.attrs.with(KEEP_LOOP, &1i64);
    item
}

/// Erases what only the values of `loops` were computed for from the functions that give something else.
fn erase_unused_of_ends(module: &mut Module, loops: &Loops, registry: &Registry) {
    let signatures = module.signatures();
    for name in loops.by_name.values().flat_map(|made| [made.segment, made.advance]) {
        let item = module.items.get_mut(&name).expect("it was added");
        let Item { signature, body: Some(body) } = item else { unreachable!("a loop has a body") };
        let body = Arc::make_mut(body);
        let ops: Vec<OpId> = body.walk().collect();
        let mut f = FuncMut { name, signature, body, signatures: &signatures, registry };
        erase_unused(&mut f, ops);
    }
}

/// A number of steps.
fn number(value: i64) -> Constant {
    Constant { value: TensorData::scalar(COUNT, Scalar::Int(value)) }
}

impl Program<'_> {
    /// Adds the pair of the loop `name` to `made`, with the functions that it calls.
    ///
    /// # Errors
    /// What has no gradient.
    pub(super) fn pair_of_loop(&self, name: Symbol, of: &Loop, made: &mut Module) -> PassResult {
        // What has no gradient in a segment has none in a step, and is told once.
        self.differentiate(of.step, made)?;
        self.differentiate(of.segment, made)?;
        let function = self.module.items[&name].signature.ty;
        let params = function.as_function().expect("a loop is a function").params.to_vec();
        let [pair, step, segment] = [name, of.step, of.segment].map(|name| &self.pairs[&name]);
        let (value_change, change) = {
            let mut data = self.data.borrow_mut();
            (data.ty(pair.result), data.ty(segment.result))
        };
        let checkpoint = self.loops.checkpoint;
        let body = self.module.body(name).expect("a loop has a body");
        let names = body.block_args(body.entry()).iter().map(|param| body.name_hint(*param));
        let drivers = Drivers {
            of,
            checkpoint,
            params,
            names: names.collect(),
            pair,
            step,
            segment,
            change,
            value_change,
        };
        let list = [drivers.state_types(), vec![Type::scalar(COUNT), of.segments]].concat();
        let segments =
            [ConstructorDecl::new(of.empty, vec![]), ConstructorDecl::new(of.some, list)];
        let tape = ConstructorDecl::new(pair.constructor, drivers.kept_types());
        declare(made, tape_name(of.segments), segments.to_vec());
        declare(made, tape_name(pair.tape), vec![tape]);
        made.items.insert(of.advance, kept_loop(self.module.items[&of.advance].clone()));
        if checkpoint == Checkpoint::Sqrt {
            made.items.insert(of.save, kept_loop(drivers.save()));
        }
        made.items.insert(pair.forward, drivers.forward());
        made.items.insert(of.replay, kept_loop(drivers.replay()));
        made.items.insert(pair.back, drivers.back());
        Ok(())
    }
}

/// What writes the functions that go over the steps of a loop.
struct Drivers<'p> {
    of: &'p Loop,
    checkpoint: Checkpoint,
    /// The types of the parameters of the loop.
    params: Vec<Type>,
    /// Their names.
    names: Vec<NameHint>,
    pair: &'p Pair,
    step: &'p Pair,
    segment: &'p Pair,
    /// The type of the changes of the parameters that matter.
    change: Type,
    /// The type of the change of the value.
    value_change: Type,
}

impl Drivers<'_> {
    fn types(&self, of: &[usize]) -> Vec<Type> {
        of.iter().map(|index| self.params[*index]).collect()
    }

    fn state_types(&self) -> Vec<Type> {
        self.types(&self.of.varying)
    }

    /// What the tape holds: what steps hand on, the segments, and the tape of the last step.
    fn kept_types(&self) -> Vec<Type> {
        [self.types(&self.of.handed_on), vec![self.of.segments, self.step.tape]].concat()
    }

    /// A builder of a function that takes parameters of the loop and, by other names, more.
    fn function(
        &self,
        indices: impl Iterator<Item = usize> + Clone,
        more: &[(&str, Type)],
    ) -> (Builder, Vec<ValueId>) {
        let own = indices.clone().map(|index| self.params[index]);
        let types: Vec<Type> = own.chain(more.iter().map(|(_, ty)| *ty)).collect();
        let (mut builder, params) = Builder::new(&types);
        let own = indices.map(|index| self.names[index]);
        let names = own.chain(more.iter().map(|(name, _)| hint(name)));
        for (param, name) in params.iter().zip(names) {
            builder.body.set_name_hint(*param, name);
        }
        (builder, params)
    }

    /// The parameters of the loop, of those that vary and those that are handed on.
    fn whole(&self, state: &[ValueId], handed_on: &[ValueId]) -> Vec<ValueId> {
        let varying = self.of.varying.iter().zip(state);
        let mut all: Vec<(&usize, &ValueId)> =
            varying.chain(self.of.handed_on.iter().zip(handed_on)).collect();
        all.sort_by_key(|(index, _)| **index);
        all.into_iter().map(|(_, value)| *value).collect()
    }

    /// Does at most `count` steps: the state then, and how many are left.
    fn advance(
        &self,
        builder: &mut Builder,
        (state, handed_on): (&[ValueId], &[ValueId]),
        count: ValueId,
    ) -> (Vec<ValueId>, ValueId) {
        let args = [self.whole(state, handed_on), vec![count]].concat();
        let result = Type::tuple(self.state_types().into_iter().chain([Type::scalar(COUNT)]));
        let given = call(builder, self.of.advance, args, result);
        let mut state = fields(builder, given);
        let left = state.pop().expect("the number of steps comes last");
        (state, left)
    }

    /// The segment of `count` steps from `state`, behind those in `before`.
    fn cut(
        &self,
        builder: &mut Builder,
        state: &[ValueId],
        count: ValueId,
        before: ValueId,
    ) -> ValueId {
        let fields = [state, &[count, before]].concat();
        builder.add(&Construct { name: self.of.some.to_string(), fields }, self.of.segments)
    }

    /// The same, of as many of `count` steps as are not `left`.
    fn cut_done(
        &self,
        builder: &mut Builder,
        state: &[ValueId],
        (count, left): (ValueId, ValueId),
        before: ValueId,
    ) -> ValueId {
        let done = builder.add(&Subtract { lhs: count, rhs: left }, Type::scalar(COUNT));
        self.cut(builder, state, done, before)
    }

    /// The function that gives the value of the loop and its tape.
    fn forward(&self) -> Item {
        let (mut builder, params) = self.function(0..self.params.len(), &[]);
        let pick = |indices: &[usize]| indices.iter().map(|index| params[*index]).collect();
        let state: Vec<ValueId> = pick(&self.of.varying);
        let handed_on: Vec<ValueId> = pick(&self.of.handed_on);
        let none = Construct { name: self.of.empty.to_string(), fields: vec![] };
        let none = builder.add(&none, self.of.segments);
        let (last, segments) = match self.checkpoint {
            Checkpoint::None => unreachable!("loops are split for their checkpoints alone"),
            // One segment of all steps, which is divided on the way back.
            Checkpoint::Log => {
                let most = builder.add(&number(i64::MAX), Type::scalar(COUNT));
                let (last, left) = self.advance(&mut builder, (&state, &handed_on), most);
                let segments = self.cut_done(&mut builder, &state, (most, left), none);
                (last, segments)
            }
            Checkpoint::Sqrt => {
                let first = builder.add(&number(1), Type::scalar(COUNT));
                let args = [&params[..], &[first, none]].concat();
                let saved = call(&mut builder, self.of.save, args, self.saved_type());
                let mut last = fields(&mut builder, saved);
                let segments = last.pop().expect("segments come last");
                (last, segments)
            }
        };
        let both = Type::tuple([self.pair.result, self.step.tape]);
        let args = self.whole(&last, &handed_on);
        let both = call(&mut builder, self.step.forward, args, both);
        let [value, tape] = fields(&mut builder, both)[..] else {
            unreachable!("a value comes with a tape")
        };
        let kept = [&handed_on[..], &[segments, tape]].concat();
        let kept = Construct { name: self.pair.constructor.to_string(), fields: kept };
        let tape = builder.add(&kept, self.pair.tape);
        let result = Type::tuple([self.pair.result, self.pair.tape]);
        let both = builder.add(&Tuple { fields: vec![value, tape] }, result);
        finished(builder, both)
    }

    /// What [`Drivers::save`] gives: the last state and the segments.
    fn saved_type(&self) -> Type {
        Type::tuple(self.state_types().into_iter().chain([self.of.segments]))
    }

    /// The function that cuts a loop into segments, each of which is one step longer than the one before it. So
    /// both the number of segments and the length of the longest grow as the root of the number of steps, which
    /// nobody has to know before.
    fn save(&self) -> Item {
        let count = Type::scalar(COUNT);
        let result = self.saved_type();
        let more = [("length", count), ("segments", self.of.segments)];
        let (mut builder, params) = self.function(0..self.params.len(), &more);
        let [.., length, before] = params[..] else { unreachable!("two parameters follow") };
        let pick = |indices: &[usize]| indices.iter().map(|index| params[*index]).collect();
        let state: Vec<ValueId> = pick(&self.of.varying);
        let handed_on: Vec<ValueId> = pick(&self.of.handed_on);
        let (next, left) = self.advance(&mut builder, (&state, &handed_on), length);
        let segments = self.cut_done(&mut builder, &state, (length, left), before);
        let zero = builder.add(&number(0), count);
        let is_whole = builder.add(&Equal { lhs: left, rhs: zero }, Type::scalar(DType::BOOL));
        let value = builder.if_else(
            is_whole,
            result,
            |builder| {
                let one = builder.add(&number(1), count);
                let longer = builder.add(&Add { lhs: length, rhs: one }, count);
                let args = [self.whole(&next, &handed_on), vec![longer, segments]].concat();
                call(builder, self.of.save, args, result)
            },
            |builder| {
                let fields = [&next[..], &[segments]].concat();
                builder.add(&Tuple { fields }, result)
            },
        );
        finished(builder, value)
    }

    /// The function that goes back over segments, the last one first: of what steps hand on, the segments, and
    /// the changes of the parameters behind them, it gives those before them.
    fn replay(&self) -> Item {
        let count = Type::scalar(COUNT);
        let more = [("segments", self.of.segments), ("change", self.change)];
        let (mut builder, params) = self.function(self.of.handed_on.iter().copied(), &more);
        let [handed_on @ .., segments, change] = &params[..] else {
            unreachable!("two parameters follow")
        };
        let clauses = self.clauses();
        let result =
            builder.matches(*segments, self.change, &clauses, |builder, clause, fields| {
                if clause == 0 {
                    return *change;
                }
                let [state @ .., length, before] = fields else {
                    unreachable!("a segment has its steps and what is before it")
                };
                let again = |builder: &mut Builder, segments, change| {
                    let args = [handed_on, &[segments, change]].concat();
                    call(builder, self.of.replay, args, self.change)
                };
                let back = |builder: &mut Builder| {
                    let change = self.go_back(builder, (state, handed_on), *length, *change);
                    again(builder, *before, change)
                };
                if self.checkpoint != Checkpoint::Log {
                    return back(builder);
                }
                let one = builder.add(&number(1), count);
                let is_long =
                    builder.add(&Greater { lhs: *length, rhs: one }, Type::scalar(DType::BOOL));
                let divide = |builder: &mut Builder| {
                    let one = builder.add(&number(1), count);
                    let half = builder.add(&RightShift { lhs: *length, rhs: one }, count);
                    let (middle, _) = self.advance(builder, (state, handed_on), half);
                    let first = self.cut(builder, state, half, *before);
                    let both = self.cut_done(builder, &middle, (*length, half), first);
                    again(builder, both, *change)
                };
                builder.if_else(is_long, self.change, divide, back)
            });
        finished(builder, result)
    }

    /// Computes `count` steps from a state again, with their tape, and goes back along that.
    fn go_back(
        &self,
        builder: &mut Builder,
        (state, handed_on): (&[ValueId], &[ValueId]),
        count: ValueId,
        change: ValueId,
    ) -> ValueId {
        let args = [self.whole(state, handed_on), vec![count]].concat();
        let both = Type::tuple([self.segment.result, self.segment.tape]);
        let both = call(builder, self.segment.forward, args, both);
        let tape = builder.add(&TupleGet { tuple: both, index: 1 }, self.segment.tape);
        call(builder, self.segment.back, vec![tape, change], self.change)
    }

    /// No segments, and some.
    fn clauses(&self) -> [(Pattern, Vec<Type>); 2] {
        let fields = [self.state_types(), vec![Type::scalar(COUNT), self.of.segments]].concat();
        let variables = vec![Pattern::Variable; fields.len()];
        let some = Pattern::Constructor(self.of.some, variables);
        [(Pattern::Constructor(self.of.empty, vec![]), vec![]), (some, fields)]
    }

    /// The function that gives the changes of the parameters, of the tape and the change of the value.
    fn back(&self) -> Item {
        let more = [("tape", self.pair.tape), ("change", self.value_change)];
        let (mut builder, params) = self.function(std::iter::empty(), &more);
        let kept = self.kept_types();
        let variables = vec![Pattern::Variable; kept.len()];
        let clause = (Pattern::Constructor(self.pair.constructor, variables), kept);
        let result = builder.matches(params[0], self.change, &[clause], |builder, _, fields| {
            let (tape, rest) = fields.split_last().expect("the tape of the last step is kept");
            let change = call(builder, self.step.back, vec![*tape, params[1]], self.change);
            call(builder, self.of.replay, [rest, &[change]].concat(), self.change)
        });
        finished(builder, result)
    }
}

/// The function that gives `value`.
fn finished(mut builder: Builder, value: ValueId) -> Item {
    builder.yields(value);
    let body = builder.body;
    let params = body.block_args(body.entry()).iter().map(|param| body.ty(*param));
    let ty = Type::function(params, body.ty(value));
    Item::new(FUNC, ty, Some(body))
}

/// Calls function `name` of the module.
fn call(builder: &mut Builder, name: Symbol, args: Vec<ValueId>, result: Type) -> ValueId {
    call_of(&mut builder.body, InsertPoint::End(builder.block), name, args, result)
}

/// The fields of a tuple.
fn fields(builder: &mut Builder, tuple: ValueId) -> Vec<ValueId> {
    let types = builder.body.ty(tuple).as_tuple().expect("it is a tuple").to_vec();
    let fields = types.into_iter().enumerate();
    fields.map(|(index, ty)| builder.add(&TupleGet { tuple, index: index as i64 }, ty)).collect()
}
