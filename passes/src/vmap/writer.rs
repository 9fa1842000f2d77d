//! Writing a function for many examples.

use indexmap::IndexSet;
use ir_core::{
    Body, Diagnostics, FuncMut, InsertPoint, Item, OpId, OpParts, Signature, Symbol, Type, ValueId,
    ValueMap,
};
use relay::interpreter::Evaluate;
use relay::language::{
    Call, Constant, FUNC, Global, If, Match, Operator, Pattern, Tuple, TupleGet, Yield, end_block,
    is_form, short_name,
};
use relay_operators::batch::{Applied, Examples, batch, lead};
use relay_operators::gradient::Emit;
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::Program;
use super::emitter::Emitter;
use crate::emit::erase_unused;
use crate::gradient::set_function_type;

/// The most examples that do something one by one: a call is written for each.
const MOST_CALLS: i64 = 65536;

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
    /// What its values are in the function that is written.
    map: ValueMap,
    /// Those that differ between examples, so that they have a leading axis there.
    over: FxHashSet<ValueId>,
    /// Operations inside of which one of these is read that is made outside.
    reading: FxHashSet<OpId>,
}

/// The function `name`, `item`, for many examples: the parameters that `flags` says, and the result, have a leading
/// axis.
///
/// # Errors
/// What is not batched.
pub(super) fn write(
    program: &mut Program<'_>,
    (name, item): (Symbol, &Item),
    flags: &[bool],
) -> Result<Item, Diagnostics> {
    let body = item.body.as_deref().expect("what is batched has a body");
    let mut signature = item.signature.clone();
    let mut out = Body::new();
    let (signatures, registry, extent) = (program.signatures, program.registry, program.extent);
    let (map, over, reading) = Default::default();
    let mut writer = Writer { program, name, body, signature: &item.signature, map, over, reading };
    for (param, flag) in body.block_args(body.entry()).iter().zip(flags) {
        let ty = body.ty(*param);
        let led = if *flag { lead(ty, extent).expect("data is not batched") } else { ty };
        let new = out.add_block_arg(out.entry(), led);
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
        let entry = f.body.entry();
        let ops: Vec<OpId> = f.body.block_ops(entry).collect();
        erase_unused(&mut f, ops.into_iter().rev());
        set_function_type(&mut f);
    }
    drop(emitter);
    Ok(Item { signature, body: Some(out.into()) })
}

impl Writer<'_, '_> {
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
            let led = is_over.then(|| lead(ty, self.program.extent)).flatten();
            let copy = f.body.add_block_arg(to, led.unwrap_or(ty));
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
        let is_over = |value: &ValueId| self.over.contains(value);
        let takes = body.operands(op).any(|operand| is_over(&operand));
        if !takes && !self.reading.contains(&op) {
            let mut f = emitter.f.borrow_mut();
            f.body.import_op(body, self.signature.span, op, emitter.place(), &mut self.map);
            return None;
        }
        if body.is::<If>(op) || body.is::<Match>(op) {
            let is_chosen = takes && (body.is::<If>(op) || is_choice(body, op));
            return match is_chosen {
                true => {
                    self.example_by_example(emitter, op);
                    None
                }
                false => self.branching(emitter, op),
            };
        }
        let value = self.value(emitter, op)?;
        let result = body.result(op, 0);
        self.set(emitter, result, value);
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
            let mut block = self.body.op_block(user);
            while let Some(inside) = block.filter(|_| block != home) {
                let around = self.body.block_parent(inside);
                block = around
                    .filter(|around| self.reading.insert(*around))
                    .and_then(|around| self.body.op_block(around));
            }
        }
    }

    /// What `op` takes, and what is read inside of it that is made outside, in order.
    fn used(&self, op: OpId) -> IndexSet<ValueId, FxBuildHasher> {
        let body = self.body;
        let mut used: IndexSet<ValueId, FxBuildHasher> = body.operands(op).collect();
        let blocks = body.regions(op).iter().map(|region| body.block_of(*region));
        let mut own: FxHashSet<ValueId> = FxHashSet::default();
        for block in blocks {
            own.extend(body.block_args(block));
            for inside in body.walk_block(block) {
                used.extend(body.operands(inside).filter(|operand| !own.contains(operand)));
                own.extend(body.results(inside));
                let blocks = body.regions(inside).iter().map(|region| body.block_of(*region));
                own.extend(blocks.flat_map(|block| body.block_args(block)));
            }
        }
        used
    }

    /// `value` for each example.
    fn each(&self, emitter: &Emitter<'_>, value: ValueId) -> ValueId {
        match self.over.contains(&value) {
            true => self.map[&value],
            false => emitter.for_each(self.map[&value]),
        }
    }

    /// Ends a block: its value differs between examples, as all that is written block by block does.
    fn end(&mut self, emitter: &Emitter<'_>, op: OpId) {
        let value = self.each(emitter, self.body.operand(op, 0));
        let InsertPoint::End(block) = emitter.place() else {
            unreachable!("blocks are written from the start to the end")
        };
        end_block(emitter.f.borrow_mut().body, block, value);
    }

    /// Writes `op`, a branching that all examples do alike, without its blocks. Its value differs between them.
    fn branching(&mut self, emitter: &Emitter<'_>, op: OpId) -> Option<OpId> {
        let (body, result) = (self.body, self.body.result(op, 0));
        let ty = body.ty(result);
        let led = lead(ty, self.program.extent).unwrap_or_else(|| {
            emitter.report(
                format!(
                    "what the branches of an `{}` give has type {ty}, and differs between examples",
                    short(body, op)
                ),
                "give tensors and tuples of them",
            );
            ty
        });
        let operand = [self.map[&body.operand(op, 0)]];
        let types = [led];
        let parts = OpParts::new(body.op_name(op), &operand, &types).attrs(body.attrs(op));
        let parts = parts.regions(body.regions(op).len()).at(emitter.loc());
        let new = emitter.f.borrow_mut().body.insert_op(emitter.place(), parts);
        let value = emitter.f.borrow().body.result(new, 0);
        self.set(emitter, result, value);
        Some(new)
    }

    /// Writes `op`, which examples do differently, as a function of the module that each of them calls: what an
    /// example does not choose may not end.
    fn example_by_example(&mut self, emitter: &Emitter<'_>, op: OpId) {
        let (body, result) = (self.body, self.body.result(op, 0));
        let ty = body.ty(result);
        let used = self.used(op);
        let is_made_again = |value: &ValueId| {
            let made = body.defining_op(*value);
            made.is_some_and(|made| {
                body.is::<Constant>(made) || body.is::<Global>(made) || body.is::<Operator>(made)
            })
        };
        let (made, given): (Vec<ValueId>, Vec<ValueId>) = used.into_iter().partition(is_made_again);
        if lead(ty, self.program.extent).is_none() {
            emitter.report(
                format!("an `{}` that examples do differently gives {ty}", short(body, op)),
                "give tensors and tuples of them",
            );
            self.set(emitter, result, self.map[&body.operand(op, 0)]);
            return;
        }
        if self.program.extent > MOST_CALLS {
            emitter.report(
                format!(
                    "an `{}` that {} examples do differently would be as many calls",
                    short(body, op),
                    self.program.extent
                ),
                &format!("give a `size` of at most {MOST_CALLS}"),
            );
            self.set(emitter, result, self.map[&body.operand(op, 0)]);
            return;
        }
        let mut out = Body::new();
        let entry = out.entry();
        let mut map = ValueMap::default();
        for value in &given {
            let param = out.add_block_arg(entry, body.ty(*value));
            out.set_name_hint(param, body.name_hint(*value));
            map.insert(*value, param);
        }
        let at = InsertPoint::End(entry);
        let ops = made.iter().filter_map(|value| body.defining_op(*value)).chain([op]);
        for op in ops {
            out.import_op(body, self.signature.span, op, at, &mut map);
        }
        end_block(&mut out, entry, map[&result]);
        let params: Vec<Type> = given.iter().map(|value| body.ty(*value)).collect();
        let mut item = Item::new(FUNC, Type::function(params, ty), Some(out));
        item.signature.span = self.signature.span;
        let function = self.program.add(&format!("{}_example", self.name), item);
        let values = (0..self.program.extent).map(|index| {
            let args = given.iter().map(|value| match self.over.contains(value) {
                true => emitter.example(self.map[value], index),
                false => self.map[value],
            });
            emitter.call(function, args.collect(), ty)
        });
        let values: Vec<ValueId> = values.collect();
        let value = emitter.stacked(&values, ty);
        self.set(emitter, result, value);
    }

    /// Writes the value of `op`, an operation without blocks or one that is not batched, which is reported. Nothing
    /// where it is another value that is there.
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
            let fields: Vec<ValueId> =
                operands.iter().map(|field| self.each(emitter, *field)).collect();
            return Some(emitter.tuple(&fields).0);
        }
        if let Some(call) = body.view::<Call>(op) {
            return Some(self.call(emitter, op, &call));
        }
        let name = body.op_name(op);
        let info = self.program.registry.info(name);
        let is_operator = info.is_some_and(|info| info.hook::<Evaluate>().is_some());
        if is_form(short_name(name.as_str())) || !is_operator {
            return Some(self.refused(emitter, op));
        }
        let applied = Applied {
            name,
            operands: operands
                .iter()
                .map(|operand| (self.map[operand], emitter.ty(self.map[operand])))
                .collect(),
            over: operands.iter().map(|operand| self.over.contains(operand)).collect(),
            result: body.ty(body.result(op, 0)),
            attrs: body.attrs(op),
            extent: self.program.extent,
        };
        let at = Examples::new(emitter, applied);
        Some(match batch(&at, self.program.registry) {
            Ok(value) => value.id(),
            Err(reason) => {
                let message = format!("`{}` is not batched: {reason}", short(body, op));
                emitter.report(
                    message,
                    "write it by operators whose results have the same extents for all examples",
                );
                self.map[&operands[0]]
            }
        })
    }

    /// Writes a call with what differs between examples: of the function for many of them.
    fn call(&mut self, emitter: &Emitter<'_>, op: OpId, call: &Call) -> ValueId {
        let body = self.body;
        let ty = body.ty(body.result(op, 0));
        let callee = crate::gradient::callee(self.program.before, body, op);
        let (Some(callee), Some(led)) = (callee, lead(ty, self.program.extent)) else {
            return self.refused(emitter, op);
        };
        let flags: Vec<bool> = call.args.iter().map(|arg| self.over.contains(arg)).collect();
        let args = call.args.iter().map(|arg| self.map[arg]).collect();
        let name = self.program.batched(callee, flags);
        emitter.call(name, args, led)
    }

    /// Reports that `op` is not batched; something in the place of its value.
    fn refused(&self, emitter: &Emitter<'_>, op: OpId) -> ValueId {
        let body = self.body;
        let name = short(body, op);
        let ty = body.ty(body.result(op, 0));
        let (message, help) = match name {
            "call" if lead(ty, self.program.extent).is_none() => (
                format!("a call with what differs between examples gives {ty}"),
                "give tensors and tuples of them",
            ),
            "call" => (
                "a call of a kernel, or of a function without a body, is not batched".to_string(),
                "run `vmap` before `fuse`, and define the function",
            ),
            "construct" => (
                "data with what differs between examples is not batched".to_string(),
                "give tensors and tuples of them, or leave the parameters that it depends on out by `over`",
            ),
            "ref" | "ref_write" => (
                "a cell with what differs between examples is not batched".to_string(),
                "return the new value instead of writing it to a cell",
            ),
            _ => (
                format!("`{name}` is not batched"),
                "leave the parameters that it depends on out by `over`",
            ),
        };
        emitter.report(message, help);
        let over = self.used(op).into_iter().find(|value| self.over.contains(value));
        self.map[&over.expect("it depends on what differs")]
    }
}

/// The name of `op` in text.
fn short(body: &Body, op: OpId) -> &'static str {
    short_name(body.op_name(op).as_str())
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
