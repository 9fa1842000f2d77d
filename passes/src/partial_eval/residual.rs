//! Writing the new function: operations, blocks, and values that were known and have to be there.

use std::rc::Rc;

use ir_core::{
    AttrDict, BlockId, EntityId, InsertPoint, Loc, NameHint, OpFields, OpId, OpParts, Symbol, Type,
    ValueId, ValueMap,
};
use relay::language::{Call, Constant, Construct, RefCreate, Tuple};

use super::evaluate::{Machine, Stop, Task};
use super::sources::Code;
use super::values::{Closure, Form, Id};
use crate::specialize::substitute_op;

/// An operation that is written when its operands are there.
pub(super) struct Residual {
    pub(super) name: Symbol,
    pub(super) attrs: AttrDict,
    pub(super) operands: Vec<Id>,
    pub(super) ty: Type,
    pub(super) loc: Loc,
    pub(super) hint: NameHint,
    /// Whose result it is; `None` where it is that of the block.
    pub(super) of: Option<(usize, OpId)>,
    pub(super) after: After,
}

/// What follows a written operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum After {
    Nothing,
    /// Its branches.
    Branches,
    /// Its result is what the cell holds.
    Learn(usize),
    /// The cell holds this.
    Hold(usize, Id),
    /// Any cell of the new function may hold anything.
    Forget,
}

/// A block that is written.
pub(super) struct Level {
    pub(super) block: BlockId,
    /// A number of its own.
    pub(super) number: usize,
    /// Whether it runs later than it stands.
    is_deferred: bool,
    /// The changes of cells before it.
    changes: usize,
    /// The epoch before it.
    epoch: u64,
}

/// An `if` or a `match` that is written.
pub(super) struct Join {
    act: usize,
    op: OpId,
    residual: OpId,
    /// The next branch.
    index: usize,
    /// The cells that branches write.
    written: Vec<usize>,
    epoch: u64,
    /// Whether a branch may write any cell.
    forgets: bool,
}

impl Machine<'_, '_> {
    pub(super) fn level(&self) -> usize {
        self.levels.last().expect("a function has a block").number
    }

    pub(super) fn block(&self) -> BlockId {
        self.levels.last().expect("a function has a block").block
    }

    pub(super) fn open(&mut self, block: BlockId, is_deferred: bool) {
        let (number, changes, epoch) = (self.is_open.len(), self.changes.len(), self.epoch);
        self.levels.push(Level { block, number, is_deferred, changes, epoch });
        self.is_open.push(true);
        if is_deferred {
            self.forget();
        }
    }

    /// Leaves the level: what it changed is as before. The cells that it changed.
    fn close(&mut self) -> Vec<usize> {
        let level = self.levels.pop().expect("it was opened");
        self.is_open[level.number] = false;
        self.epoch = level.epoch;
        let changes = self.changes.split_off(level.changes);
        for (cell, before) in changes.iter().rev() {
            self.cells[*cell].content = *before;
        }
        changes.into_iter().map(|(cell, _)| cell).collect()
    }

    /// Whether a block that runs later than it stands lies between level `home` and here.
    pub(super) fn is_deferred_since(&self, home: usize) -> bool {
        let inner = self.levels.iter().rev().take_while(|level| level.number != home);
        inner.into_iter().any(|level| level.is_deferred)
    }

    /// Nothing is known of cells of the new function any more.
    pub(super) fn forget(&mut self) {
        self.epochs += 1;
        self.epoch = self.epochs;
    }

    /// `cell` of the new function holds `content` now.
    fn hold(&mut self, cell: usize, content: Option<Id>) {
        let content = content.map(|content| (content, self.epoch));
        let before = std::mem::replace(&mut self.cells[cell].content, content);
        self.changes.push((cell, before));
    }

    /// The value of the new function that `id` is here.
    pub(super) fn visible(&self, id: Id) -> Option<ValueId> {
        let value = self.values.get(id);
        match (&value.form, value.residual) {
            (Form::Dynamic(value), _) => Some(*value),
            (_, Some((value, level))) => self.is_open[level].then_some(value),
            _ => None,
        }
    }

    /// `op` of activation `act` as `name` of `operands`.
    pub(super) fn residual(
        &self,
        act: usize,
        op: OpId,
        name: Symbol,
        attrs: AttrDict,
        operands: Vec<Id>,
        after: After,
    ) -> Residual {
        let body = &self.activations[act].source.body;
        let ty = self.ty(act, body.result(op, 0));
        let loc = self.loc(act, body.loc(op));
        let of = Some((act, op));
        Residual { name, attrs, operands, ty, loc, hint: self.hint(act, op), of, after }
    }

    pub(super) fn emit(&mut self, residual: Box<Residual>) -> Result<(), Stop> {
        let operands: Vec<Option<ValueId>> =
            residual.operands.iter().map(|id| self.visible(*id)).collect();
        if operands.iter().any(Option::is_none) {
            let missing = residual.operands.iter().zip(&operands);
            let missing = missing.filter(|(_, value)| value.is_none()).map(|(id, _)| *id);
            let reify: Vec<Task> = missing.rev().map(Task::Reify).collect();
            self.tasks.push(Task::Emit(residual));
            self.tasks.extend(reify);
            return Ok(());
        }
        let operands: Vec<ValueId> = operands.into_iter().flatten().collect();
        let at = InsertPoint::End(self.block());
        let types = [residual.ty];
        let regions = match (residual.after, residual.of) {
            (After::Branches, Some((act, op))) => {
                self.activations[act].source.body.regions(op).len()
            }
            _ => 0,
        };
        let parts = OpParts::new(residual.name, &operands, &types);
        let parts = parts.attrs(residual.attrs).regions(regions).at(residual.loc);
        let new = self.body.insert_op(at, parts);
        let value = self.body.result(new, 0);
        self.body.set_name_hint(value, residual.hint);
        let id = self.values.dynamic(value, residual.ty);
        match residual.after {
            After::Nothing => {}
            After::Forget => self.forget(),
            After::Learn(cell) => self.hold(cell, Some(id)),
            After::Hold(cell, content) => self.hold(cell, Some(content)),
            After::Branches => {
                let (act, op) = residual.of.expect("branches are those of an operation");
                let (written, epoch) = (vec![], self.epoch);
                let (index, forgets) = (0, false);
                let join = Join { act, op, residual: new, index, written, epoch, forgets };
                self.tasks.push(Task::Branch(Box::new(join)));
                return Ok(());
            }
        }
        match residual.of {
            Some((act, op)) => self.bind(act, op, id),
            None => self.give(id),
        }
        Ok(())
    }

    // ---- branches ----------------------------------------------------------------------------

    pub(super) fn branch(&mut self, join: Box<Join>) {
        let Join { act, op, residual, index, .. } = *join;
        let source = Rc::clone(&self.activations[act].source);
        if index == source.body.regions(op).len() {
            join.written.iter().for_each(|cell| self.hold(*cell, None));
            if join.forgets {
                self.forget();
            }
            let value = self.body.result(residual, 0);
            let id = self.values.dynamic(value, self.body.ty(value));
            self.bind(act, op, id);
            return;
        }
        let (from, to) =
            (source.body.region_block(op, index), self.body.region_block(residual, index));
        for arg in source.body.block_args(from) {
            let id = self.argument(act, *arg, to);
            self.activations[act].values.insert(*arg, id);
        }
        self.open(to, false);
        let first = source.body.first_op(from).expect("a block ends with its value");
        self.tasks.extend([Task::Close(join), Task::Yield, Task::Run(act, first)]);
    }

    pub(super) fn close_branch(&mut self, mut join: Box<Join>) {
        join.forgets |= self.epoch != join.epoch;
        let written = self.close();
        join.written.extend(written);
        join.index += 1;
        self.tasks.push(Task::Branch(join));
    }

    /// The argument of block `to` for `arg` of the block of an activation.
    fn argument(&mut self, act: usize, arg: ValueId, to: BlockId) -> Id {
        let ty = self.ty(act, arg);
        let source = Rc::clone(&self.activations[act].source);
        let loc = self.loc(act, source.body.value_loc(arg));
        let value = self.body.add_block_arg(to, ty);
        self.body.set_name_hint(value, source.body.name_hint(arg));
        self.body.set_argument_loc(value, loc);
        self.values.dynamic(value, ty)
    }

    // ---- values that have to be there --------------------------------------------------------

    /// Makes `id` a value of the new function.
    pub(super) fn reify(&mut self, id: Id) -> Result<(), Stop> {
        if self.visible(id).is_some() {
            return Ok(());
        }
        match self.values.form(id).clone() {
            Form::Dynamic(_) => unreachable!("it is there already"),
            Form::Constant(value) => {
                let attrs = OpFields::<ValueId>::attrs(&Constant { value });
                self.insert(id, Constant::NAME.into(), attrs, &[]);
            }
            Form::Named(name, attrs) => self.insert(id, name, attrs, &[]),
            Form::Tuple(parts) => {
                if self.are_there(id, &parts) {
                    let name = <Tuple as OpFields<ValueId>>::NAME;
                    self.insert(id, name.into(), AttrDict::empty(), &parts);
                }
            }
            Form::Data(constructor, parts) => {
                if self.are_there(id, &parts) {
                    let name = <Construct as OpFields<ValueId>>::NAME;
                    let attrs = AttrDict::empty().with("name", &constructor.to_string());
                    self.insert(id, name.into(), attrs, &parts);
                }
            }
            Form::Cell(cell) => {
                let (site, home) = (self.cells[cell].site, self.cells[cell].home);
                if home != self.level() {
                    return Err(Stop::Cell(site));
                }
                let (content, _) = self.cells[cell].content.expect("nobody else has written it");
                self.tasks.extend([Task::MakeCell(id, cell), Task::Reify(content)]);
            }
            Form::Function(closure) => self.reify_function(id, &closure),
        }
        Ok(())
    }

    /// Whether `parts` are values of the new function; else they become ones before `id`.
    fn are_there(&mut self, id: Id, parts: &[Id]) -> bool {
        let missing: Vec<Id> =
            parts.iter().copied().filter(|part| self.visible(*part).is_none()).collect();
        if missing.is_empty() {
            return true;
        }
        self.tasks.push(Task::Reify(id));
        self.tasks.extend(missing.into_iter().rev().map(Task::Reify));
        false
    }

    /// Writes the operation that gives `id`.
    fn insert(&mut self, id: Id, name: Symbol, attrs: AttrDict, parts: &[Id]) {
        let operands: Vec<ValueId> =
            parts.iter().map(|part| self.visible(*part).expect("parts come first")).collect();
        let value = self.values.get(id);
        let (types, loc, hint) = ([value.ty], value.loc, value.hint);
        let parts = OpParts::new(name, &operands, &types).attrs(attrs).at(loc);
        let op = self.body.insert_op(InsertPoint::End(self.block()), parts);
        let result = self.body.result(op, 0);
        self.body.set_name_hint(result, hint);
        self.made(id, result);
    }

    /// `id` is `value` of the new function, from here on.
    fn made(&mut self, id: Id, value: ValueId) {
        let level = self.level();
        self.values.get_mut(id).residual = Some((value, level));
    }

    /// Writes the operation that makes `cell`, whose content is there.
    pub(super) fn make_cell(&mut self, id: Id, cell: usize) {
        let (content, _) = self.cells[cell].content.expect("nobody else has written it");
        self.cells[cell].content = Some((content, self.epoch));
        let name = <RefCreate as OpFields<ValueId>>::NAME;
        self.insert(id, name.into(), AttrDict::empty(), &[content]);
    }

    /// Writes a function value: its body is evaluated with parameters of which nothing is known.
    fn reify_function(&mut self, id: Id, closure: &Rc<Closure>) {
        let code = closure.code;
        let is_inside_itself = self.reifying.get(&code).is_some_and(|count| *count > 0);
        if (self.copying > 0 || !closure.is_plain || is_inside_itself)
            && !self.are_there(id, &closure.captured)
        {
            return;
        }
        if !closure.is_plain {
            return self.import_function(id, closure);
        }
        let source = self.shared.sources.get(code.item);
        let op = code.op.expect("a function value is made by an operation");
        let value = self.values.get(id);
        let (types, loc, hint) = ([value.ty], value.loc, value.hint);
        let parts = OpParts::new(source.body.op_name(op), &[], &types);
        let parts = parts.attrs(source.body.attrs(op)).regions(1).at(loc);
        let new = self.body.insert_op(InsertPoint::End(self.block()), parts);
        let result = self.body.result(new, 0);
        self.body.set_name_hint(result, hint);
        let block = self.body.region_block(new, 0);
        let types = Rc::clone(&closure.types);
        let act = self.activate(Rc::clone(&source), code, types, &closure.captured, &[]);
        for arg in source.body.block_args(source.block(code)) {
            let given = self.argument(act, *arg, block);
            self.activations[act].values.insert(*arg, given);
        }
        self.open(block, true);
        *self.reifying.entry(code).or_default() += 1;
        self.copying += usize::from(is_inside_itself);
        self.tasks.extend([Task::CloseFunction { id, op: new, code }, Task::Yield]);
        self.run_block(act, code);
    }

    pub(super) fn close_function(&mut self, id: Id, op: OpId, code: Code) {
        self.close();
        if let Some(count) = self.reifying.get_mut(&code) {
            *count -= 1;
            self.copying -= usize::from(*count > 0);
        }
        let result = self.body.result(op, 0);
        self.made(id, result);
    }

    /// Writes a kernel, or what else is to be left as it is.
    fn import_function(&mut self, id: Id, closure: &Closure) {
        let source = self.shared.sources.get(closure.code.item);
        let op = closure.code.op.expect("a function value is made by an operation");
        let captured = closure.captured.iter().map(|id| self.visible(*id).expect("it was made"));
        let mut map: ValueMap = source.captures(op).iter().copied().zip(captured).collect();
        let base = source.signature.span;
        let first = self.body.op_capacity();
        let at = InsertPoint::End(self.block());
        let new = self.body.import_op(&source.body, base, op, at, &mut map);
        for made in first..self.body.op_capacity() {
            substitute_op(&mut self.body, OpId::from_index(made), &closure.types);
        }
        let result = self.body.result(new, 0);
        self.made(id, result);
    }
}

impl Residual {
    /// A call whose value is that of the block.
    pub(super) fn call(operands: Vec<Id>, ty: Type) -> Residual {
        Residual {
            name: <Call as OpFields<ValueId>>::NAME.into(),
            attrs: AttrDict::empty(),
            operands,
            ty,
            loc: Loc::UNKNOWN,
            hint: NameHint::default(),
            of: None,
            after: After::Forget,
        }
    }
}
