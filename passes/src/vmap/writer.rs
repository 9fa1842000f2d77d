//! Writing a function for many examples.

use std::convert::Infallible;

use indexmap::IndexSet;
use ir_core::{
    BlockId, Body, DType, Diagnostic, Diagnostics, FuncMut, InsertPoint, Item, OpId, OpParts,
    Scalar, Signature, Symbol, TensorData, Type, TypeData, ValueId, ValueMap,
};
use relay::interpreter::Evaluate;
use relay::language::{
    Call, Constant, FUNC, Global, If, Match, Operator, Pattern, RefWrite, Tuple, TupleGet, Yield,
    end_block, is_form, short_name,
};
use relay_operators::batch::{Applied, Examples, batch};
use relay_operators::elementwise::LogicalNot;
use relay_operators::gradient::{Emit, Term};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::emitter::Emitter;
use super::held::{MOST_CALLS, MOST_SCALARS, held, is_stacked};
use super::{Program, rules};
use crate::codes::NOT_BATCHED;
use crate::emit::erase_unused;

/// A block whose operations are being written.
struct Frame {
    ops: std::vec::IntoIter<OpId>,
    /// Where they are written.
    to: InsertPoint,
    /// The operation around it, what is written for that, and which of its blocks this is.
    around: Option<(OpId, OpId, usize)>,
}

/// Writes one function.
struct Writer<'w, 'p> {
    program: &'w mut Program<'p>,
    name: Symbol,
    body: &'w Body,
    signature: &'w Signature,
    /// The number of examples.
    extent: i64,
    /// What its values are in the function that is written.
    map: ValueMap,
    /// Those that differ between examples, so that one for each is held there.
    over: FxHashSet<ValueId>,
    /// Operations inside of which one of these is read that is made outside, or a cell is made.
    reading: FxHashSet<OpId>,
}

/// The function `name`, `item`, for `extent` examples: the parameters that `flags` says, and the result, are held for each
/// of them.
///
/// # Errors
/// What is not batched.
pub(super) fn write(
    program: &mut Program<'_>,
    (name, item): (Symbol, &Item),
    flags: &[bool],
    extent: i64,
) -> Result<Item, Diagnostics> {
    let body = item.body.as_deref().expect("what is batched has a body");
    let mut signature = item.signature.clone();
    signature.attrs = rules::attributes(program, (name, item), flags, extent)?;
    let mut out = Body::new();
    let (signatures, registry) = (program.signatures, program.registry);
    let (map, over, reading) = Default::default();
    let signature_of_one = &item.signature;
    let mut writer =
        Writer { program, name, body, signature: signature_of_one, extent, map, over, reading };
    writer.mark_cells();
    let too_many = |ty: Type| -> Diagnostics {
        let message = format!("values of type {ty} are held one by one, for {extent} examples");
        let help = format!("give a `size` of at most {MOST_CALLS}");
        Diagnostic::error(NOT_BATCHED, message).at(item.signature.span).help(help).into()
    };
    let expect_held = |ty: Type| held(ty, extent).ok_or_else(|| too_many(ty));
    signature.ty = held_function(item.signature.ty, flags, expect_held)?;
    for (param, flag) in body.block_args(body.entry()).iter().zip(flags) {
        let ty = body.ty(*param);
        let new = out.add_block_arg(out.entry(), if *flag { expect_held(ty)? } else { ty });
        out.set_name_hint(new, body.name_hint(*param));
        out.set_argument_loc(new, body.value_loc(*param));
        writer.map.insert(*param, new);
        if *flag {
            writer.mark(*param);
        }
    }
    let f = FuncMut { name, signature: &mut signature, body: &mut out, signatures, registry };
    let emitter = Emitter::new(f, extent);
    writer.write(&emitter);
    if emitter.has_failed() {
        return Err(emitter.found());
    }
    {
        let mut f = emitter.f.borrow_mut();
        let ops: Vec<OpId> = f.body.walk().collect();
        erase_unused(&mut f, ops.into_iter().rev());
    }
    drop(emitter);
    Ok(Item { signature, body: Some(out.into()) })
}

/// The type of a function of type `ty` for many examples, which differ in the parameters that `flags` says.
fn held_function<E>(
    ty: Type,
    flags: &[bool],
    held: impl Fn(Type) -> Result<Type, E>,
) -> Result<Type, E> {
    let mut function = ty.as_function().expect("what is called is a function").clone();
    let params = function.params.iter().zip(flags);
    let params = params.map(|(param, flag)| if *flag { held(*param) } else { Ok(*param) });
    function.params = params.collect::<Result<_, E>>()?;
    function.result = held(function.result)?;
    Ok(Type::new(TypeData::Function(function)))
}

impl Writer<'_, '_> {
    /// Notes what makes cells inside: each example has its own, since it may write to it what differs.
    fn mark_cells(&mut self) {
        let body = self.body;
        for op in body.walk() {
            if self.makes_cells(op) {
                self.mark_around(op, Some(body.entry()));
            }
        }
    }

    /// Whether `op` gives a cell, or what holds one.
    fn makes_cells(&self, op: OpId) -> bool {
        let mut results = self.body.results(op);
        results.any(|result| self.program.cells.are_in(self.body.ty(result)))
    }

    /// Writes the function, up to the first operation that is not batched.
    fn write(&mut self, emitter: &Emitter<'_>) {
        let body = self.body;
        let start = Frame {
            ops: body.block_ops(body.entry()).collect::<Vec<_>>().into_iter(),
            to: emitter.place(),
            around: None,
        };
        let mut frames = vec![start];
        while let Some(frame) = frames.last_mut().filter(|_| !emitter.has_failed()) {
            emitter.go(frame.to);
            if let Some(op) = frame.ops.next() {
                let inside = self.operation(emitter, op);
                frames.extend(inside.map(|new| self.branch(emitter, (op, new, 0))));
                continue;
            }
            let frame = frames.pop().expect("it was the last one");
            if let Some((op, new, index)) = frame.around
                && index + 1 < body.regions(op).len()
            {
                frames.push(self.branch(emitter, (op, new, index + 1)));
            }
        }
    }

    /// Begins block `index` of `op`, for which `new` was written.
    fn branch(&mut self, emitter: &Emitter<'_>, (op, new, index): (OpId, OpId, usize)) -> Frame {
        let body = self.body;
        let from = body.region_block(op, index);
        let mut f = emitter.f.borrow_mut();
        let to = f.body.region_block(new, index);
        // What is taken apart differs between examples, or none of its parts does.
        let is_over = body.is::<Match>(op) && self.over.contains(&body.operand(op, 0));
        for arg in body.block_args(from) {
            let ty = body.ty(*arg);
            let ty = if is_over { held(ty, self.extent).unwrap_or(ty) } else { ty };
            let copy = f.body.add_block_arg(to, ty);
            f.body.set_name_hint(copy, body.name_hint(*arg));
            self.map.insert(*arg, copy);
            if is_over {
                self.mark(*arg);
            }
        }
        let ops = body.block_ops(from).collect::<Vec<_>>().into_iter();
        Frame { ops, to: InsertPoint::End(to), around: Some((op, new, index)) }
    }

    /// Writes `op`; gives what it wrote where its blocks are still to be written.
    fn operation(&mut self, emitter: &Emitter<'_>, op: OpId) -> Option<OpId> {
        let body = self.body;
        let (name, loc) = (body.op_name(op), body.loc(op).by_pass("vmap"));
        emitter.about(loc, name);
        if body.is::<Yield>(op) {
            self.end(emitter, op);
            return None;
        }
        let takes = body.operands(op).any(|operand| self.over.contains(&operand));
        if !takes && !self.reading.contains(&op) && !self.makes_cells(op) {
            let mut f = emitter.f.borrow_mut();
            f.body.import_op(body, self.signature.span, op, emitter.place(), &mut self.map);
            return None;
        }
        let is_if = body.is::<If>(op) && self.extent != 1;
        let value = match () {
            () if takes && is_if && self.is_partitioned(op) => self.partitioned(emitter, op),
            () if takes && (is_if || is_choice(body, op)) => self.called_one_by_one(emitter, op),
            () if body.is::<If>(op) || body.is::<Match>(op) => return self.branching(emitter, op),
            () => self.value(emitter, op)?,
        };
        self.set(emitter, body.result(op, 0), value);
        None
    }

    /// `result` is `value`, which differs between examples.
    fn set(&mut self, emitter: &Emitter<'_>, result: ValueId, value: ValueId) {
        let mut f = emitter.f.borrow_mut();
        if f.body.name_hint(value).name.is_none() {
            f.body.set_name_hint(value, self.body.name_hint(result));
        }
        self.map.insert(result, value);
        self.mark(result);
    }

    /// Notes that `value` differs between examples. Linear in its uses: what is made further outside is noted before,
    /// so that whoever reads one value inside of an operation is found once.
    fn mark(&mut self, value: ValueId) {
        self.over.insert(value);
        let home = self.body.def_block(value);
        for (user, _) in self.body.uses(value) {
            self.mark_around(user, home);
        }
    }

    /// Notes the operations around `op` that are inside of the block `home`, up to one that is noted.
    fn mark_around(&mut self, op: OpId, home: Option<BlockId>) {
        let mut block = self.body.op_block(op);
        while let Some(inside) = block.filter(|_| block != home) {
            let around = self.body.block_parent(inside);
            block = around
                .filter(|around| self.reading.insert(*around))
                .and_then(|around| self.body.op_block(around));
        }
    }

    /// What `op` takes, and what is read inside of it that is made outside, in order.
    fn used(&self, op: OpId) -> IndexSet<ValueId, FxBuildHasher> {
        let body = self.body;
        let blocks = body.regions(op).iter().map(|region| body.block_of(*region));
        let inside = blocks.flat_map(|block| self.read_in(block));
        body.operands(op).chain(inside).collect()
    }

    /// What is read in `block` that is made outside, in order.
    fn read_in(&self, block: BlockId) -> IndexSet<ValueId, FxBuildHasher> {
        let body = self.body;
        let mut own: FxHashSet<ValueId> = body.block_args(block).iter().copied().collect();
        let mut read = IndexSet::default();
        for inside in body.walk_block(block) {
            read.extend(body.operands(inside).filter(|operand| !own.contains(operand)));
            own.extend(body.results(inside));
            let blocks = body.regions(inside).iter().map(|region| body.block_of(*region));
            own.extend(blocks.flat_map(|block| body.block_args(block)));
        }
        read
    }

    /// `value` for each example, where a value of type `to` for each is expected.
    fn each(&self, emitter: &Emitter<'_>, value: ValueId, to: Type) -> ValueId {
        let (new, from) = (self.map[&value], self.body.ty(value));
        match self.over.contains(&value) {
            true => emitter.converted(new, from, to),
            false => emitter.for_each(new, to),
        }
    }

    /// `value` for example `index`.
    fn example(&self, emitter: &Emitter<'_>, value: ValueId, index: usize) -> ValueId {
        match self.over.contains(&value) {
            true => emitter.example(self.map[&value], self.body.ty(value), index),
            false => self.map[&value],
        }
    }

    /// Ends a block: its value differs between examples, as all that is written block by block does.
    fn end(&mut self, emitter: &Emitter<'_>, op: OpId) {
        let body = self.body;
        let around = body.op_block(op).and_then(|block| body.block_parent(block));
        let to = match around {
            Some(around) => body.ty(body.result(around, 0)),
            None => self.signature.ty.as_function().expect("it is a function").result,
        };
        let value = self.each(emitter, body.operand(op, 0), to);
        let InsertPoint::End(block) = emitter.place() else {
            unreachable!("blocks are written from the start to the end")
        };
        end_block(emitter.f.borrow_mut().body, block, value);
    }

    /// Writes `op`, a branching that all examples do alike, such as an `if` of one example, without its blocks. Its value
    /// differs between them.
    fn branching(&mut self, emitter: &Emitter<'_>, op: OpId) -> Option<OpId> {
        let (body, result) = (self.body, self.body.result(op, 0));
        let operand = match body.is::<If>(op) {
            true => [self.example(emitter, body.operand(op, 0), 0)],
            false => [self.map[&body.operand(op, 0)]],
        };
        let types = [emitter.held(body.ty(result))];
        let parts = OpParts::new(body.op_name(op), &operand, &types).attrs(body.attrs(op));
        let parts = parts.regions(body.regions(op).len()).at(emitter.loc());
        let new = emitter.f.borrow_mut().body.insert_op(emitter.place(), parts);
        let value = emitter.f.borrow().body.result(new, 0);
        self.set(emitter, result, value);
        Some(new)
    }

    /// The number of examples, where `op` can be done for one after the other; otherwise that is reported.
    fn count(&self, emitter: &Emitter<'_>, op: OpId) -> Option<usize> {
        let (body, extent) = (self.body, self.extent);
        let is_shared_cell = |value: &ValueId| {
            !self.over.contains(value) && self.program.cells.are_in(self.body.ty(*value))
        };
        if self.used(op).iter().any(is_shared_cell) {
            emitter.report(
                format!(
                    "`{}`, which examples do differently, takes a cell that they share",
                    short(body, op)
                ),
                "return the new value instead of writing it to a cell, or let `over` name the parameter with the cell",
            );
            return None;
        }
        let count = usize::try_from(extent).ok().filter(|_| extent <= MOST_CALLS);
        if count.is_none() {
            emitter.report(
                format!(
                    "`{}`, which {extent} examples do differently, would be as many calls",
                    short(body, op)
                ),
                &format!("give a `size` of at most {MOST_CALLS}"),
            );
        }
        count
    }

    /// Writes `op` once for each example, and joins the values.
    fn one_by_one(&self, emitter: &Emitter<'_>, op: OpId) -> ValueId {
        let (body, result) = (self.body, self.body.result(op, 0));
        let Some(count) = self.count(emitter, op) else { return self.stand_in(emitter, op) };
        let used = self.used(op);
        let values = (0..count).map(|index| {
            let own = used.iter().map(|value| (*value, self.example(emitter, *value, index)));
            let mut map: ValueMap = own.collect();
            let mut f = emitter.f.borrow_mut();
            f.body.import_op(body, self.signature.span, op, emitter.place(), &mut map);
            map[&result]
        });
        emitter.joined(&values.collect::<Vec<_>>(), body.ty(result))
    }

    /// Whether the examples of the `if` `op` are partitioned: where all that its branches read and make is held as
    /// tensors, unless it is scalars of few examples.
    fn is_partitioned(&self, op: OpId) -> bool {
        let (body, module) = (self.body, self.program.before);
        i32::try_from(self.extent).is_ok_and(|extent| extent > 0)
            && self.program.stacked.has(module, body, op)
            && !(self.extent <= MOST_SCALARS && self.program.scalars.has(module, body, op))
    }

    /// Writes the `if` `op`, which examples do differently: each branch is a function of the module for many examples,
    /// which is called where some choose it, and the values are merged.
    fn partitioned(&mut self, emitter: &Emitter<'_>, op: OpId) -> ValueId {
        let ty = self.body.ty(self.body.result(op, 0));
        let condition = self.map[&self.body.operand(op, 0)];
        let then = self.branch_of_some(emitter, (op, 0), condition);
        let others = Term::build(emitter, &LogicalNot { data: condition }).id();
        let otherwise = self.branch_of_some(emitter, (op, 1), others);
        emitter.merged(condition, then, otherwise, ty)
    }

    /// Writes branch `index` of the `if` `op` for the examples that have `chosen` it; zeros where there are none.
    ///
    /// Extents are numbers, so that there are kernels and gradients. So there are two cases: at most half of the examples
    /// choose it, which are moved together, or more do, which stay where they are. A recursion comes to fewer and fewer
    /// examples so. In the place of those that are left over stands one that chooses the branch, so that it never sees one
    /// that did not, which may not end there.
    fn branch_of_some(
        &mut self,
        emitter: &Emitter<'_>,
        (op, index): (OpId, usize),
        chosen: ValueId,
    ) -> ValueId {
        let body = self.body;
        let ty = body.ty(body.result(op, 0));
        let (item, given) = self.function_of(op, Some(index));
        let function = item.signature.ty;
        let flags: Vec<bool> = given.iter().map(|value| self.over.contains(value)).collect();
        let branch = self.program.piece((self.name, op, Some(index)), || item);
        let (all, half) = (self.extent, (self.extent + 1) / 2);
        let [of_all, of_half] =
            [all, half].map(|extent| self.program.batched(branch, flags.clone(), extent));
        let call = |name: Symbol, extent: i64, places: ValueId| {
            let args = given.iter().zip(&flags).map(|(value, flag)| match flag {
                true => emitter.taken(self.map[value], body.ty(*value), places),
                false => self.map[value],
            });
            let args = args.collect();
            let held = |ty| Ok::<Type, Infallible>(held(ty, extent).unwrap_or(ty));
            let Ok(function) = held_function(function, &flags, held);
            emitter.call(name, args, function)
        };
        let chosen = emitter.chosen(chosen);
        let result = emitter.held(ty);
        let of_few = || emitter.taken(call(of_half, half, chosen.packed(half)), ty, chosen.ranks());
        let of_many = || call(of_all, all, chosen.in_place(all));
        let of_some = || emitter.either(chosen.are_few(half), result, of_few, of_many);
        emitter.either(chosen.are_some(), result, of_some, || emitter.zeros(ty))
    }

    /// A function of the module of what `op` reads, which does `op` or, where it is given, one of its branches; and
    /// what it is called with.
    fn function_of(&self, op: OpId, branch: Option<usize>) -> (Item, Vec<ValueId>) {
        let (body, result, span) = (self.body, self.body.result(op, 0), self.signature.span);
        let used = match branch {
            Some(index) => self.read_in(body.region_block(op, index)),
            None => self.used(op),
        };
        let made = |value: &ValueId| body.defining_op(*value).filter(|op| is_made_again(body, *op));
        let given: Vec<ValueId> =
            used.iter().copied().filter(|value| made(value).is_none()).collect();
        let mut out = Body::new();
        let entry = out.entry();
        let mut map = ValueMap::default();
        for value in &given {
            let param = out.add_block_arg(entry, body.ty(*value));
            out.set_name_hint(param, body.name_hint(*value));
            map.insert(*value, param);
        }
        let at = InsertPoint::End(entry);
        for op in used.iter().filter_map(made) {
            out.import_op(body, span, op, at, &mut map);
        }
        match branch {
            Some(index) => {
                out.import_block_ops(body, span, body.region_block(op, index), at, &mut map);
            }
            None => {
                out.import_op(body, span, op, at, &mut map);
                end_block(&mut out, entry, map[&result]);
            }
        }
        let params: Vec<Type> = given.iter().map(|value| body.ty(*value)).collect();
        let mut item = Item::new(FUNC, Type::function(params, body.ty(result)), Some(out));
        item.signature.span = span;
        (item, given)
    }

    /// Writes `op`, which examples do differently, as a function of the module that each of them calls: what an
    /// example does not choose may not end.
    fn called_one_by_one(&mut self, emitter: &Emitter<'_>, op: OpId) -> ValueId {
        let ty = self.body.ty(self.body.result(op, 0));
        let Some(count) = self.count(emitter, op) else { return self.stand_in(emitter, op) };
        let (item, given) = self.function_of(op, None);
        let function = item.signature.ty;
        let name = self.program.piece((self.name, op, None), || item);
        let values = (0..count).map(|index| {
            let args = given.iter().map(|value| self.example(emitter, *value, index));
            emitter.call(name, args.collect(), function)
        });
        emitter.joined(&values.collect::<Vec<_>>(), ty)
    }

    /// Writes the value of `op`, an operation that is no branching. Nothing where it is another value that is there.
    fn value(&mut self, emitter: &Emitter<'_>, op: OpId) -> Option<ValueId> {
        let body = self.body;
        let operands: Vec<ValueId> = body.operands(op).collect();
        if let Some(TupleGet { tuple, index }) = body.view(op) {
            // A field of a tuple that is there may be the same for all examples.
            if let Some((_, Tuple { fields })) = body.view_def::<Tuple>(tuple) {
                let field = fields[index as usize];
                let result = body.result(op, 0);
                self.map.insert(result, self.map[&field]);
                if self.over.contains(&field) {
                    self.mark(result);
                }
                return None;
            }
            return Some(emitter.field(self.map[&tuple], index as usize));
        }
        if body.is::<Tuple>(op) {
            let fields = operands.iter().map(|field| self.each(emitter, *field, body.ty(*field)));
            return Some(emitter.tuple(&fields.collect::<Vec<_>>()).0);
        }
        if let Some(write) = body.view::<RefWrite>(op)
            && !self.over.contains(&write.reference)
        {
            emitter.report(
                "what differs between examples is written to a cell that they share",
                "return the new value instead of writing it to a cell, or let `over` name the parameter with the cell",
            );
            return Some(self.stand_in(emitter, op));
        }
        if let Some(call) = body.view::<Call>(op)
            && let Some(callee) = crate::gradient::callee(self.program.before, body, op)
        {
            return Some(self.call(emitter, op, &call, callee));
        }
        let name = body.op_name(op);
        let info = self.program.registry.info(name);
        let is_operator = info.is_some_and(|info| info.hook::<Evaluate>().is_some());
        let result = body.ty(body.result(op, 0));
        let are_stacked = operands.iter().all(|operand| is_stacked(body.ty(*operand)));
        if is_form(short_name(name.as_str())) || !is_operator || !are_stacked || !is_stacked(result)
        {
            return Some(self.one_by_one(emitter, op));
        }
        let applied = Applied {
            name,
            operands: operands
                .iter()
                .map(|operand| (self.map[operand], emitter.ty(self.map[operand])))
                .collect(),
            over: operands.iter().map(|operand| self.over.contains(operand)).collect(),
            result,
            attrs: body.attrs(op),
            extent: self.extent,
        };
        let at = Examples::new(emitter, applied);
        // What has no form for all at once has one for each.
        let found = batch(&at, self.program.registry).map(|value| value.id());
        Some(found.unwrap_or_else(|_| self.one_by_one(emitter, op)))
    }

    /// Writes a call of `callee`: of the function for many examples.
    fn call(&mut self, emitter: &Emitter<'_>, op: OpId, call: &Call, callee: Symbol) -> ValueId {
        let body = self.body;
        let flags: Vec<bool> = call.args.iter().map(|arg| self.over.contains(arg)).collect();
        let ty = body.ty(call.callee);
        let one = ty.as_function().expect("what is called is a function");
        let args =
            call.args.iter().zip(&one.params).map(|(arg, param)| match self.over.contains(arg) {
                true => self.each(emitter, *arg, *param),
                false => self.map[arg],
            });
        let args = args.collect();
        let held = held_function(ty, &flags, |ty| Ok::<Type, Infallible>(emitter.held(ty)));
        let Ok(function) = held;
        let name = self.program.batched(callee, flags, self.extent);
        let value = emitter.call(name, args, function);
        emitter.converted(value, one.result, body.ty(body.result(op, 0)))
    }

    /// Something in the place of the value of `op`, which was reported: what makes cells may take nothing.
    fn stand_in(&self, emitter: &Emitter<'_>, op: OpId) -> ValueId {
        match self.used(op).first() {
            Some(used) => self.map[used],
            None => emitter.constant(TensorData::scalar(DType::FLOAT32, Scalar::Int(0))),
        }
    }
}

/// The name of `op` in text.
fn short(body: &Body, op: OpId) -> &'static str {
    short_name(body.op_name(op).as_str())
}

/// Whether the result of `op` is made again where it is read.
fn is_made_again(body: &Body, op: OpId) -> bool {
    body.is::<Constant>(op) || body.is::<Global>(op) || body.is::<Operator>(op)
}

/// Whether the `match` `op` looks at what it takes apart, so that examples may choose different clauses.
fn is_choice(body: &Body, op: OpId) -> bool {
    let Some(Match { patterns, .. }) = body.view::<Match>(op) else { return false };
    let mut pending = patterns;
    while let Some(pattern) = pending.pop() {
        match pattern {
            Pattern::Constructor(..) => return true,
            Pattern::Tuple(fields) => pending.extend(fields),
            Pattern::Wildcard | Pattern::Variable => {}
        }
    }
    false
}
