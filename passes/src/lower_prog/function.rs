//! From the body of a function in Relay to one in `prog`.

use ir_core::{
    BlockId, Body, InsertPoint, Loc, NameHint, OpFields, OpId, OpParts, Symbol, Type, ValueId,
};
use relay::define::tensor_types;
use relay::language::{
    Call, Constant, Construct, Constructor, Global, If, Match, Operator, RefCreate, RefRead,
    RefWrite, Tuple, TupleGet, fn_params, operator, yielded,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Lowering;
use super::matches::{Clauses, Leaf};
use super::sized::Given;
use crate::lower_te::function::Function;
use crate::lower_te::problems::{Problem, Problems, declared};

/// What is left to write. What was added last is written first, so that all of a copy of a block is
/// written before the next copy gives the values in it other meanings.
struct Work {
    /// What is lowered: the operations of this block from `next` on.
    from: BlockId,
    next: Option<OpId>,
    /// Where to.
    to: BlockId,
    /// What arguments of the block are.
    bound: Vec<(ValueId, Vec<ValueId>)>,
    /// The value that the block's becomes, where it is not yielded.
    result: Option<ValueId>,
    /// Whether operators on tensors of unknown extents get no kernels there.
    is_plain: bool,
}

/// Whether values of type `ty` are functions, which exist only where they are called.
fn is_function(ty: Type) -> bool {
    ty.as_function().is_some()
}

/// Writes a function.
pub(super) struct Writer<'w, 'a> {
    pub(super) lowering: &'w mut Lowering<'a>,
    /// The function in Relay.
    pub(super) body: &'w Body,
    /// The function as it becomes.
    pub(super) new: Body,
    /// What each value became.
    values: FxHashMap<ValueId, Vec<ValueId>>,
    /// Values that have no form here, which is reported where they come from.
    formless: FxHashSet<ValueId>,
    pending: Vec<Work>,
    callees: Vec<Symbol>,
    /// The types of the values that the function gives.
    results: Vec<Type>,
    /// Whether operators on tensors of unknown extents get no kernels.
    pub(super) is_plain: bool,
}

impl<'w, 'a> Writer<'w, 'a> {
    pub(super) fn new(
        lowering: &'w mut Lowering<'a>,
        body: &'w Body,
        results: Vec<Type>,
    ) -> Writer<'w, 'a> {
        Writer {
            lowering,
            body,
            new: Body::new(),
            values: FxHashMap::default(),
            formless: FxHashSet::default(),
            pending: Vec::new(),
            callees: Vec::new(),
            results,
            is_plain: false,
        }
    }

    /// Adds the parameters; their types, or none where there are problems.
    pub(super) fn parameters(&mut self, problems: &mut Problems) -> Option<Vec<Type>> {
        let (entry, mut types, mut open) = (self.new.entry(), Vec::new(), Vec::new());
        for (index, &param) in self.body.block_args(self.body.entry()).iter().enumerate() {
            match self.lowering.flat(self.body.ty(param)) {
                Ok(flat) => {
                    let args: Vec<ValueId> =
                        flat.iter().map(|ty| self.new.add_block_arg(entry, *ty)).collect();
                    types.extend(flat);
                    self.define(param, args);
                }
                Err(Problem::Type(_)) if tensor_types(self.body.ty(param)).is_some() => {
                    open.push(declared(self.body, index));
                }
                Err(problem) => problems.add(problem, Loc::UNKNOWN),
            }
        }
        if !open.is_empty() {
            problems.add(Problem::Parameters(open), Loc::UNKNOWN);
        }
        problems.is_empty().then_some(types)
    }

    /// Writes all blocks.
    pub(super) fn blocks(&mut self, problems: &mut Problems) {
        let (from, to) = (self.body.entry(), self.new.entry());
        let next = self.body.first_op(from);
        self.pending.push(Work { from, next, to, bound: vec![], result: None, is_plain: false });
        while let Some(work) = self.pending.pop() {
            self.block(work, problems);
        }
    }

    /// The function, and those that it calls.
    pub(super) fn finish(mut self) -> (Body, Vec<Symbol>) {
        // Most constants have become part of compute functions.
        for op in self.new.walk().collect::<Vec<_>>() {
            if self.new.is::<prog::Constant>(op) && self.new.is_unused(self.new.result(op, 0)) {
                self.new.erase(op);
            }
        }
        (self.new, self.callees)
    }

    fn block(&mut self, work: Work, problems: &mut Problems) {
        let Work { from, next, to, bound, result, is_plain } = work;
        self.is_plain = is_plain;
        for (argument, values) in bound {
            let values = self.known_as(argument, values, to, Loc::UNKNOWN);
            self.define(argument, values);
        }
        let mut next = next;
        while let Some(op) = next {
            next = self.body.next_op(op);
            if self.body.operands(op).any(|operand| self.formless.contains(&operand)) {
                self.stand_in(op, to);
                continue;
            }
            match self.operation(op, to) {
                Ok(None) => {}
                // The rest comes behind the block that takes the operation's place.
                Ok(Some(instead)) => {
                    self.pending.push(Work { from, next, to, bound: vec![], result, is_plain });
                    self.pending.push(instead);
                    return;
                }
                Err(problem) => {
                    problems.add(problem, self.body.loc(op));
                    self.stand_in(op, to);
                }
            }
        }
        let Some(value) = yielded(self.body, from) else { return };
        if is_function(self.body.ty(value)) {
            return problems.add(Problem::FunctionValue, Loc::UNKNOWN);
        }
        let values = self.of(value).to_vec();
        match result {
            Some(result) => {
                let values = self.known_as(result, values, to, Loc::UNKNOWN);
                self.define(result, values);
            }
            None => {
                let loc = self.body.last_op(from).map_or(Loc::UNKNOWN, |op| self.body.loc(op));
                let types = match self.new.block_parent(to) {
                    Some(around) => self.types(self.new.results(around)),
                    None => self.results.clone(),
                };
                let values = self.fit(&values, &types, to, loc);
                self.insert(to, OpParts::new(prog::Yield::<ValueId>::NAME, &values, &[]).at(loc));
            }
        }
    }

    /// What `value` became.
    pub(super) fn of(&self, value: ValueId) -> &[ValueId] {
        let values = self.values.get(&value);
        values.unwrap_or_else(|| panic!("{value:?} is used before it is lowered"))
    }

    /// `values` are what `value` became; they are called like it.
    pub(super) fn define(&mut self, value: ValueId, values: Vec<ValueId>) {
        if let Some(name) = self.body.name_hint(value).name {
            for (number, &new) in values.iter().enumerate() {
                if self.new.name_hint(new).name.is_none() {
                    let name = match values.len() {
                        1 => name,
                        _ => Symbol::new(&format!("{name}_{number}")),
                    };
                    let hint = NameHint { name: Some(name), ..NameHint::default() };
                    self.new.set_name_hint(new, hint);
                }
            }
        }
        self.values.insert(value, values);
    }

    /// Adds an operation at the end of `to`.
    pub(super) fn insert(&mut self, to: BlockId, parts: OpParts<'_>) -> OpId {
        self.new.insert_op(InsertPoint::End(to), parts)
    }

    /// The blocks of the regions of `op`.
    pub(super) fn region_blocks(&self, op: OpId) -> Vec<BlockId> {
        let regions = self.new.regions(op).iter();
        regions.map(|region| self.new.block_of(*region)).collect()
    }

    /// Gives `op`, which could not be lowered, values of its types, for those that use it.
    fn stand_in(&mut self, op: OpId, to: BlockId) {
        for result in self.body.results(op) {
            let types = self.lowering.flat(self.body.ty(result)).unwrap_or_else(|_| {
                self.formless.insert(result);
                vec![]
            });
            let parts = OpParts::new("prog.call", &[], &types);
            let call = self.insert(to, parts);
            let values = self.new.results(call).collect();
            self.values.insert(result, values);
        }
    }

    /// Lowers `op` to the end of `to`. Where a block takes its place, that is written next.
    fn operation(&mut self, op: OpId, to: BlockId) -> Result<Option<Work>, Problem> {
        let body = self.body;
        if body.result_count(op) == 0 || is_function(body.ty(body.result(op, 0))) {
            return Ok(None);
        }
        // What is called may be a function.
        let mut data = body.operands(op).skip(usize::from(body.is::<Call>(op)));
        if data.any(|operand| is_function(body.ty(operand))) {
            return Err(Problem::FunctionValue);
        }
        let (value, loc) = (body.result(op, 0), body.loc(op));
        if let Some(Match { data, patterns, .. }) = body.view(op) {
            return self.take_apart(op, data, &patterns, to);
        }
        let values: Vec<ValueId> = if let Some(Tuple { fields }) = body.view(op) {
            fields.iter().flat_map(|field| self.of(*field)).copied().collect()
        } else if let Some(TupleGet { tuple, index }) = body.view(op) {
            self.field(tuple, index)?
        } else if let Some(constant) = body.view::<Constant>(op) {
            let constant = prog::Constant { value: constant.value };
            let ty = constant.value.ty();
            vec![self.new.add(InsertPoint::End(to), loc, &constant, ty)]
        } else if let Some(If { condition }) = body.view(op) {
            let types = self.lowering.flat(body.ty(value))?;
            let condition = self.of(condition).to_vec();
            let parts = OpParts::new(prog::If::<ValueId>::NAME, &condition, &types).regions(2);
            let branches = self.insert(to, parts.at(loc));
            for (region, to) in self.region_blocks(branches).into_iter().enumerate().rev() {
                let from = body.region_block(op, region);
                let next = body.first_op(from);
                let is_plain = self.is_plain;
                self.pending.push(Work { from, next, to, bound: vec![], result: None, is_plain });
            }
            self.new.results(branches).collect()
        } else if let Some(Construct { name, fields }) = body.view(op) {
            self.construct(op, Symbol::new(&name), &fields, to)?
        } else if let Some(RefCreate { value: content }) = body.view(op) {
            let types = self.lowering.flat(body.ty(value))?;
            let values = self.of(content).to_vec();
            let held = prog::contents(types[0]).expect("a reference is a cell");
            let cell = prog::Cell { values: self.fit(&values, &held, to, loc) };
            vec![self.new.add(InsertPoint::End(to), loc, &cell, types[0])]
        } else if let Some(RefRead { reference }) = body.view(op) {
            let types = self.lowering.flat(body.ty(value))?;
            let cell = self.of(reference).to_vec();
            let read = OpParts::new(prog::Read::<ValueId>::NAME, &cell, &types).at(loc);
            let read = self.insert(to, read);
            self.new.results(read).collect()
        } else if let Some(RefWrite { reference, value: content }) = body.view(op) {
            let (cell, values) = (self.of(reference).to_vec(), self.of(content).to_vec());
            let held = prog::contents(self.new.ty(cell[0])).expect("a reference is a cell");
            let values = self.fit(&values, &held, to, loc);
            let operands = [cell, values].concat();
            self.insert(to, OpParts::new(prog::Write::<ValueId>::NAME, &operands, &[]).at(loc));
            vec![]
        } else if let Some(Call { callee, args, .. }) = body.view(op) {
            if let Some(kernel) = self.kernel_of(callee) {
                let inputs: Vec<ValueId> =
                    args.iter().flat_map(|arg| self.of(*arg)).copied().collect();
                match self.compiled(kernel, &inputs) {
                    Some(function) => self.kernel((body, op), function, inputs, to)?,
                    None => {
                        // Its operators one by one.
                        let from = body.region_block(kernel, 0);
                        let params = fn_params(body, kernel).iter().copied();
                        let each = args.iter().map(|arg| self.of(*arg).to_vec());
                        let (bound, next) = (params.zip(each).collect(), body.first_op(from));
                        let is_plain = self.is_plain;
                        let work = Work { from, next, to, bound, result: Some(value), is_plain };
                        let Some(kernels) = self.kernels_of_group(kernel, &args) else {
                            return Ok(Some(work));
                        };
                        let types = self.lowering.flat(body.ty(value))?;
                        let Given { values, otherwise } =
                            self.sized(&kernels, (&inputs, &[]), &types, to, loc);
                        if self.lowering.packaged {
                            self.fails(&kernels, otherwise, loc);
                        } else if let Some(to) = otherwise {
                            let work = Work { to, result: None, is_plain: true, ..work };
                            self.pending.push(work);
                        }
                        values
                    }
                }
            } else {
                self.call(op, callee, &args, to)?
            }
        } else {
            self.apply(body, op, &|writer, operand| writer.of(operand).to_vec(), to)?
        };
        let values = self.known_as(value, values, to, loc);
        self.define(value, values);
        Ok(None)
    }

    /// `values` as what is known of `value` says: its type may have forgotten extents, such as those of the
    /// fields of a tuple.
    fn known_as(
        &mut self,
        value: ValueId,
        values: Vec<ValueId>,
        to: BlockId,
        loc: Loc,
    ) -> Vec<ValueId> {
        match self.lowering.flat(self.body.ty(value)) {
            Ok(types) => self.fit(&values, &types, to, loc),
            // That is reported where it comes from.
            Err(_) => values,
        }
    }

    /// The values of field `index` of a tuple.
    fn field(&mut self, tuple: ValueId, index: i64) -> Result<Vec<ValueId>, Problem> {
        let fields = self.body.ty(tuple).as_tuple().expect("a projection is one of a tuple");
        let index = usize::try_from(index).expect("a projection is of one of the fields");
        let mut first = 0;
        for field in &fields[..index] {
            first += self.lowering.flat(*field)?.len();
        }
        let count = self.lowering.flat(fields[index])?.len();
        Ok(self.of(tuple)[first..first + count].to_vec())
    }

    /// Makes data, the result of `op`.
    fn construct(
        &mut self,
        op: OpId,
        name: Symbol,
        fields: &[ValueId],
        to: BlockId,
    ) -> Result<Vec<ValueId>, Problem> {
        let (ty, loc) = (self.body.ty(self.body.result(op, 0)), self.body.loc(op));
        let types = self.lowering.flat(ty)?;
        let found = self.lowering.data.constructor(ty, name);
        let (tag, _, held) = found.ok_or(Problem::Data(ty))?;
        let held = held.to_vec();
        let fields: Vec<ValueId> =
            fields.iter().flat_map(|field| self.of(*field)).copied().collect();
        let fields = self.fit(&fields, &held, to, loc);
        let construct = prog::Construct { tag: tag as i64, fields };
        Ok(vec![self.new.add(InsertPoint::End(to), loc, &construct, types[0])])
    }

    /// Computes `name` of `args`, the result of the call `op`: an operator that was a value.
    fn operator(
        &mut self,
        op: OpId,
        name: &str,
        args: &[ValueId],
        to: BlockId,
    ) -> Result<Vec<ValueId>, Problem> {
        // As if it had been written as a call of the operator.
        let mut alone = Body::new();
        let entry = alone.entry();
        let operands: Vec<ValueId> =
            args.iter().map(|arg| alone.add_block_arg(entry, self.body.ty(*arg))).collect();
        let types = [self.body.ty(self.body.result(op, 0))];
        let parts = OpParts::new(operator(name), &operands, &types).at(self.body.loc(op));
        let computed = alone.insert_op(InsertPoint::End(entry), parts);
        let values: Vec<Vec<ValueId>> = args.iter().map(|arg| self.of(*arg).to_vec()).collect();
        let places = operands.iter().copied().zip(values);
        let known: FxHashMap<ValueId, Vec<ValueId>> = places.collect();
        self.apply(&alone, computed, &|_, operand| known[&operand].clone(), to)
    }

    fn call(
        &mut self,
        op: OpId,
        callee: ValueId,
        args: &[ValueId],
        to: BlockId,
    ) -> Result<Vec<ValueId>, Problem> {
        let (body, loc) = (self.body, self.body.loc(op));
        if let Some((_, Global { name })) = body.view_def(callee) {
            let (params, types) = self.interface(name)?;
            self.callees.push(name);
            let arguments: Vec<ValueId> =
                args.iter().flat_map(|arg| self.of(*arg)).copied().collect();
            let arguments = self.fit(&arguments, &params, to, loc);
            let call = prog::Call { function: name, arguments };
            let parts = OpParts::new(prog::Call::<ValueId>::NAME, &call.arguments, &types);
            let parts = parts.attrs(call.attrs()).at(loc);
            let call = self.insert(to, parts);
            return Ok(self.new.results(call).collect());
        }
        if let Some((_, Operator { name })) = body.view_def(callee) {
            return self.operator(op, &name, args, to);
        }
        if let Some((_, Constructor { name })) = body.view_def(callee) {
            return self.construct(op, Symbol::new(&name), args, to);
        }
        Err(Problem::FunctionValue)
    }

    /// Calls a compute function for `op` on `inputs`, and on its constants.
    pub(super) fn kernel(
        &mut self,
        (body, op): (&Body, OpId),
        function: Function,
        mut inputs: Vec<ValueId>,
        to: BlockId,
    ) -> Result<Vec<ValueId>, Problem> {
        let loc = body.loc(op);
        let types = self.lowering.flat(body.ty(body.result(op, 0)))?;
        let constants = function.constants.clone();
        let name = self.lowering.add(function);
        for value in constants {
            let ty = value.ty();
            inputs.push(self.new.add(InsertPoint::End(to), loc, &prog::Constant { value }, ty));
        }
        let kernel = prog::Kernel { function: name, inputs };
        let parts = OpParts::new(prog::Kernel::<ValueId>::NAME, &kernel.inputs, &types);
        let parts = parts.attrs(kernel.attrs()).at(loc);
        let kernel = self.insert(to, parts);
        Ok(self.new.results(kernel).collect())
    }

    /// Chooses a clause of the match `op`, on `data`. Where there is nothing to choose, its block
    /// takes the place of the match.
    fn take_apart(
        &mut self,
        op: OpId,
        data: ValueId,
        patterns: &[relay::language::Pattern],
        to: BlockId,
    ) -> Result<Option<Work>, Problem> {
        let body = self.body;
        let value = body.result(op, 0);
        let types = self.lowering.flat(body.ty(value))?;
        let whole = (self.of(data).to_vec(), body.ty(data));
        let chosen = Clauses { loc: body.loc(op), types }.choose(self, whole, patterns, to)?;
        self.define(value, chosen.values);
        let mut works = Vec::new();
        for Leaf { clause, to, bound } in chosen.leaves {
            let from = body.region_block(op, clause);
            let arguments = body.block_args(from).iter().copied();
            let bound = arguments.zip(bound).collect();
            let next = body.first_op(from);
            let is_plain = self.is_plain;
            works.push(Work { from, next, to, bound, result: None, is_plain });
        }
        if chosen.is_inline {
            let only = works.pop().map(|only| Work { result: Some(value), ..only });
            return Ok(only);
        }
        self.pending.extend(works.into_iter().rev());
        Ok(None)
    }
}
