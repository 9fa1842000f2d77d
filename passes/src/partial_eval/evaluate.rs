//! Evaluation of one function: operations whose operands are known are computed, the others are
//! written.
//!
//! What is left to do is a stack of tasks, so that however deep programs nest and call, no native
//! stack grows. A task that needs the result of others pushes itself again below them.

use std::rc::Rc;

use indexmap::IndexMap;
use ir_core::{
    AttrDict, Body, Effects, InferCx, Loc, NameHint, OpFields, OpId, Registry, Scalar, Symbol,
    TensorData, Type, TypeData, TypeParam, ValueId, verify,
};
use relay::language::{
    Call, Constant, Construct, Constructor, Fn, Global, If, Match, Operator, Pattern, RefCreate,
    RefRead, RefWrite, Tuple, TupleGet, Yield, fn_attributes,
};
use rewrites::compute::Known;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::calls::Key;
use super::residual::{After, Join, Level, Residual};
use super::sources::{Code, Source};
use super::values::{Cell, Closure, Form, Id, Site, Token, Values};
use super::{Job, Shared};
use crate::specialize::types::{Substitution, substitute};

/// Why an evaluation ends without a function.
#[derive(Debug)]
pub(super) enum Stop {
    /// The cells that are made there have to be cells from the start.
    Cell(Site),
    /// Calls of this function with these arguments known lead to calls of it that nothing decides.
    Call(Code, u64),
    /// Nothing must be known of these arguments of the function that is copied.
    General(Vec<Vec<Token>>),
    /// The budget is spent.
    Budget,
    /// What is known shows that an operation would fail.
    Unfit,
}

/// Operands and results of at most this many elements are computed here.
const MAX_ELEMENTS: usize = 64;

/// One evaluation of a block: of a function that is called, or that is written.
pub(super) struct Activation {
    pub(super) source: Rc<Source>,
    pub(super) item: usize,
    pub(super) values: FxHashMap<ValueId, Id>,
    pub(super) types: Rc<Substitution>,
}

/// A call that was unfolded, or the function that is copied.
pub(super) struct Unfolded {
    /// The decisions before it.
    pub(super) decisions: u64,
    pub(super) level: usize,
    /// The size of what the function took from outside.
    pub(super) captured: u32,
    pub(super) args: Vec<Id>,
}

pub(super) enum Task {
    /// Evaluate the operations from this one on.
    Run(usize, OpId),
    /// Bind the value of the block that was run.
    Return { code: Code, from: usize, to: usize, op: OpId },
    /// Bind the value of the taken branch.
    Bind(usize, OpId),
    /// Make this a value of the new function, here.
    Reify(Id),
    /// Write this operation.
    Emit(Box<Residual>),
    /// Evaluate the next branch.
    Branch(Box<Join>),
    /// End the block that is written with the value of the block that was run.
    Yield,
    /// End the block with this value.
    End(Id),
    /// Leave the branch.
    Close(Box<Join>),
    /// Leave the function value that `op` makes.
    CloseFunction { id: Id, op: OpId, code: Code },
    /// The cell is one of the new function from here on.
    MakeCell(Id, usize),
}

pub(super) struct Machine<'a, 'm> {
    pub(super) shared: &'a mut Shared<'m>,
    pub(super) job: &'a Rc<Job>,
    pub(super) body: Body,
    pub(super) values: Values,
    pub(super) activations: Vec<Activation>,
    pub(super) tasks: Vec<Task>,
    /// The value of the block that was run last.
    result: Option<Id>,
    /// The blocks that are being written, from the outermost.
    pub(super) levels: Vec<Level>,
    /// Whether each level that there was is open.
    pub(super) is_open: Vec<bool>,
    pub(super) cells: Vec<Cell>,
    /// Contents before the changes that a level made.
    pub(super) changes: Vec<(usize, Option<(Id, u64)>)>,
    /// What is known of cells of the new function holds in the epoch where it was learnt.
    pub(super) epoch: u64,
    pub(super) epochs: u64,
    /// The calls that are being unfolded, by function.
    pub(super) active: FxHashMap<Code, Vec<Unfolded>>,
    /// How often each function is being written as a value.
    pub(super) reifying: FxHashMap<Code, usize>,
    /// Where this is not 0, calls stay, and cells and functions are made where they stand.
    pub(super) copying: usize,
    /// Whether all cells are made where they stand.
    pub(super) keeps_cells: bool,
    /// Conditions that were decided.
    pub(super) decisions: u64,
    /// How often each function was unfolded inside itself, by the arguments that were known
    /// in the first call.
    pub(super) unfolded: IndexMap<(Code, u64), u64, FxBuildHasher>,
    pub(super) steps: u64,
    pub(super) allowance: u64,
}

impl<'a, 'm> Machine<'a, 'm> {
    pub(super) fn new(
        shared: &'a mut Shared<'m>,
        job: &'a Rc<Job>,
        allowance: u64,
    ) -> Machine<'a, 'm> {
        Machine {
            shared,
            job,
            body: Body::new(),
            values: Values::default(),
            activations: vec![],
            tasks: vec![],
            result: None,
            levels: vec![],
            is_open: vec![],
            cells: vec![],
            changes: vec![],
            epoch: 0,
            epochs: 0,
            active: FxHashMap::default(),
            reifying: FxHashMap::default(),
            copying: 0,
            keeps_cells: false,
            decisions: 0,
            unfolded: IndexMap::default(),
            steps: 0,
            allowance,
        }
    }

    /// The function of the job, evaluated.
    pub(super) fn run(&mut self) -> Result<(), Stop> {
        let code = Code { item: self.job.item, op: None };
        let source = self.shared.sources.get(code.item);
        let entry = self.body.entry();
        self.open(entry, false);
        let args = self.parameters(&source, code);
        let types = Rc::clone(&self.job.types);
        let active =
            Unfolded { decisions: 0, level: self.level(), captured: 0, args: args.clone() };
        self.active.insert(code, vec![active]);
        let act = self.activate(source, code, types, &[], &args);
        self.tasks.push(Task::Yield);
        self.run_block(act, code);
        self.work()
    }

    /// A call of the original with the arguments of the job.
    pub(super) fn run_wrapper(&mut self, args: &[Vec<Token>]) -> Result<(), Stop> {
        let code = Code { item: self.job.item, op: None };
        let source = self.shared.sources.get(code.item);
        let entry = self.body.entry();
        self.open(entry, false);
        let given = self.parameters(&source, code);
        let (types, result) = (Rc::clone(&self.job.types), self.job.result);
        let key = Key::new(code.item, &types, args.to_vec());
        let operands = self.call_of_copy(key, &types, &given);
        self.tasks.push(Task::Yield);
        let residual = Residual::call(operands, result);
        self.tasks.push(Task::Emit(Box::new(residual)));
        self.work()
    }

    /// What was written, the steps that were taken, and the function that was unfolded most often
    /// inside itself.
    pub(super) fn finish(self) -> (Body, u64, Option<(Code, u64)>) {
        let most = self.unfolded.iter().max_by_key(|(_, count)| *count).map(|(call, _)| *call);
        (self.body, self.steps, most)
    }

    /// The values of the parameters of the job, whose leaves are those of the new function.
    fn parameters(&mut self, source: &Source, code: Code) -> Vec<Id> {
        let (job, entry) = (self.job, self.body.entry());
        let (body, values) = (&mut self.body, &mut self.values);
        let params = source.params(code).iter();
        params
            .zip(&job.args)
            .map(|(param, tokens)| {
                values.of_tokens(tokens, |ty| {
                    let arg = body.add_block_arg(entry, ty);
                    body.set_name_hint(arg, source.body.name_hint(*param));
                    body.set_argument_loc(arg, source.body.value_loc(*param));
                    arg
                })
            })
            .collect()
    }

    fn work(&mut self) -> Result<(), Stop> {
        while let Some(task) = self.tasks.pop() {
            self.steps += 1;
            if self.steps > self.allowance {
                return Err(Stop::Budget);
            }
            match task {
                Task::Run(act, op) => self.evaluate(act, op)?,
                Task::Return { code, from, to, op } => {
                    self.active.get_mut(&code).and_then(Vec::pop);
                    self.activations[from].values = FxHashMap::default();
                    self.bind_result(to, op)?;
                }
                Task::Bind(act, op) => self.bind_result(act, op)?,
                Task::Reify(id) => self.reify(id)?,
                Task::Emit(residual) => self.emit(residual)?,
                Task::Branch(join) => self.branch(join),
                Task::Yield => {
                    let id = self.result.take().expect("a block has a value");
                    self.tasks.extend([Task::End(id), Task::Reify(id)]);
                }
                Task::End(id) => {
                    let value = self.visible(id).expect("it was made a value");
                    let block = self.block();
                    relay::language::end_block(&mut self.body, block, value);
                }
                Task::Close(join) => self.close_branch(join),
                Task::CloseFunction { id, op, code } => self.close_function(id, op, code),
                Task::MakeCell(id, cell) => self.make_cell(id, cell),
            }
        }
        Ok(())
    }

    /// A new activation of `code`, with `captured` for what it takes from outside.
    pub(super) fn activate(
        &mut self,
        source: Rc<Source>,
        code: Code,
        types: Rc<Substitution>,
        captured: &[Id],
        args: &[Id],
    ) -> usize {
        let from_outside = code.op.map_or(&[][..], |op| source.captures(op));
        let params = from_outside.iter().chain(source.params(code));
        let values = params.copied().zip(captured.iter().chain(args).copied()).collect();
        self.activations.push(Activation { source, item: code.item, values, types });
        self.activations.len() - 1
    }

    pub(super) fn run_block(&mut self, act: usize, code: Code) {
        let source = &self.activations[act].source;
        let first = source.body.first_op(source.block(code)).expect("a block ends with its value");
        self.tasks.push(Task::Run(act, first));
    }

    /// `id` is the value of the block that is run.
    pub(super) fn give(&mut self, id: Id) {
        self.result = Some(id);
    }

    fn bind_result(&mut self, act: usize, op: OpId) -> Result<(), Stop> {
        let id = self.result.take().expect("a block has a value");
        if self.narrows(act, self.activations[act].source.body.result(op, 0), id) {
            return Err(Stop::Unfit);
        }
        self.bind(act, op, id);
        Ok(())
    }

    /// Whether `id` has extents that `value` has not: what is done with it need not fit them.
    pub(super) fn narrows(&self, act: usize, value: ValueId, id: Id) -> bool {
        let declared = self.ty(act, value);
        declared.facts().has_any && declared != self.values.get(id).ty
    }

    /// `id` is the result of `op`.
    pub(super) fn bind(&mut self, act: usize, op: OpId, id: Id) {
        let activation = &mut self.activations[act];
        let value = activation.source.body.result(op, 0);
        activation.values.insert(value, id);
    }

    /// Evaluates operations until one waits for something.
    fn evaluate(&mut self, act: usize, first: OpId) -> Result<(), Stop> {
        let source = Rc::clone(&self.activations[act].source);
        let mut op = first;
        loop {
            self.steps += 1;
            let next = source.body.next_op(op);
            if let Some(next) = next {
                self.tasks.push(Task::Run(act, next));
            }
            let waiting = self.tasks.len();
            self.operation(act, &source, op)?;
            match next {
                Some(next) if self.tasks.len() == waiting && self.steps <= self.allowance => {
                    self.tasks.pop();
                    op = next;
                }
                _ => return Ok(()),
            }
        }
    }

    pub(super) fn operands(&self, act: usize, op: OpId) -> Vec<Id> {
        let activation = &self.activations[act];
        let operands = activation.source.body.operands(op);
        operands.map(|operand| activation.values[&operand]).collect()
    }

    pub(super) fn ty(&self, act: usize, value: ValueId) -> Type {
        let activation = &self.activations[act];
        substitute(activation.source.body.ty(value), &activation.types)
    }

    /// The place of `op` in the item that the new function is.
    pub(super) fn loc(&self, act: usize, loc: Loc) -> Loc {
        let activation = &self.activations[act];
        match activation.item == self.job.item {
            true => loc,
            false => loc.outside(activation.source.signature.span),
        }
    }

    /// A value of `form`, the result of `op`.
    fn know(&mut self, act: usize, op: OpId, form: Form) -> Id {
        let body = &self.activations[act].source.body;
        let result = body.result(op, 0);
        let (loc, hint) = (self.loc(act, body.loc(op)), body.name_hint(result));
        let ty = self.ty(act, result);
        let id = self.values.add(form, ty, loc, hint);
        self.bind(act, op, id);
        id
    }

    fn operation(&mut self, act: usize, source: &Source, op: OpId) -> Result<(), Stop> {
        let body = &source.body;
        let (name, attrs) = (body.op_name(op), body.attrs(op));
        match name.as_str() {
            Constant::NAME => {
                let Constant { value } = body.view(op).expect("a verified constant");
                self.know(act, op, Form::Constant(value));
            }
            Global::NAME | Operator::NAME | Constructor::NAME => {
                self.know(act, op, Form::Named(name, attrs));
            }
            <Tuple as OpFields<ValueId>>::NAME => {
                let fields = self.operands(act, op).into();
                self.know(act, op, Form::Tuple(fields));
            }
            <Construct as OpFields<ValueId>>::NAME => {
                let constructor = attrs.value::<String>("name").expect("a verified constructor");
                let fields = self.operands(act, op).into();
                self.know(act, op, Form::Data(Symbol::new(&constructor), fields));
            }
            Fn::NAME => self.function(act, source, op),
            <Yield as OpFields<ValueId>>::NAME => {
                self.result = Some(self.activations[act].values[&body.operand(op, 0)]);
            }
            <If as OpFields<ValueId>>::NAME => {
                let condition = self.activations[act].values[&body.operand(op, 0)];
                match self.truth(condition) {
                    Some(is_true) => self.take(act, source, op, usize::from(!is_true)),
                    None => self.write(act, op, After::Branches),
                }
            }
            <Match as OpFields<ValueId>>::NAME => self.matched(act, source, op),
            <Call as OpFields<ValueId>>::NAME => self.call(act, op)?,
            <RefCreate as OpFields<ValueId>>::NAME => self.cell(act, op),
            <RefRead as OpFields<ValueId>>::NAME => self.read(act, op)?,
            <RefWrite as OpFields<ValueId>>::NAME => self.write_cell(act, op)?,
            _ => {
                let operands = self.operands(act, op);
                self.operator(act, op, name, attrs, operands)?;
            }
        }
        Ok(())
    }

    /// Writes `op` as it is.
    pub(super) fn write(&mut self, act: usize, op: OpId, after: After) {
        let body = &self.activations[act].source.body;
        let (name, attrs) = (body.op_name(op), body.attrs(op));
        let operands = self.operands(act, op);
        let residual = self.residual(act, op, name, attrs, operands, after);
        self.tasks.push(Task::Emit(Box::new(residual)));
    }

    fn function(&mut self, act: usize, source: &Source, op: OpId) {
        let activation = &self.activations[act];
        let captured = source.captures(op).iter().map(|value| activation.values[value]).collect();
        let code = Code { item: activation.item, op: Some(op) };
        let is_plain = fn_attributes(&source.body, op).is_empty();
        let types = Rc::clone(&activation.types);
        let closure = Closure { code, captured, types, is_plain };
        let id = self.know(act, op, Form::Function(Rc::new(closure)));
        if self.copying > 0 {
            self.tasks.push(Task::Reify(id));
        }
    }

    /// The operator `name` on `operands`: computed, or written.
    pub(super) fn operator(
        &mut self,
        act: usize,
        op: OpId,
        name: Symbol,
        attrs: AttrDict,
        operands: Vec<Id>,
    ) -> Result<(), Stop> {
        if let (<TupleGet as OpFields<ValueId>>::NAME, Some(tuple)) =
            (name.as_str(), operands.first())
            && let Form::Tuple(fields) = self.values.form(*tuple)
            && let Some(index) = attrs.value::<i64>("index")
            && let Some(field) = usize::try_from(index).ok().and_then(|index| fields.get(index))
            && !self.narrows(act, self.activations[act].source.body.result(op, 0), *field)
        {
            self.bind(act, op, *field);
            return Ok(());
        }
        if let Some(form) = self.computed(act, op, name, attrs, &operands) {
            self.know(act, op, form);
            return Ok(());
        }
        if !self.fits(act, op, name, attrs, &operands) {
            return Err(Stop::Unfit);
        }
        let residual = self.residual(act, op, name, attrs, operands, After::Nothing);
        self.tasks.push(Task::Emit(Box::new(residual)));
        Ok(())
    }

    /// The result of an operator of small constants.
    fn computed(
        &self,
        act: usize,
        op: OpId,
        name: Symbol,
        attrs: AttrDict,
        operands: &[Id],
    ) -> Option<Form> {
        let registry: &Registry = self.shared.registry;
        let is_pure = registry.def(name).is_some_and(|def| def.effects == Effects::empty());
        if !is_pure || operands.is_empty() || self.copying > 0 {
            return None;
        }
        let small = |tensor: &TensorData| tensor.len() <= MAX_ELEMENTS;
        let known: Vec<Known> = operands
            .iter()
            .map(|id| match self.values.form(*id) {
                Form::Constant(tensor) if small(tensor) => Some(Known::Tensor(tensor.clone())),
                _ => None,
            })
            .collect::<Option<_>>()?;
        let result = self.ty(act, self.activations[act].source.body.result(op, 0));
        let elements = result.as_tensor()?.elements()?;
        if usize::try_from(elements).ok()? > MAX_ELEMENTS {
            return None;
        }
        match crate::compute::compute(registry, name, attrs, &known, result)? {
            Known::Tensor(tensor) => Some(Form::Constant(tensor)),
            Known::Tuple(_) => None,
        }
    }

    /// Whether an operator takes operands of which more is known than where it stands.
    fn fits(&self, act: usize, op: OpId, name: Symbol, attrs: AttrDict, operands: &[Id]) -> bool {
        let registry = self.shared.registry;
        let source = &self.activations[act].source;
        let known: Vec<bool> =
            operands.iter().map(|id| matches!(self.values.form(*id), Form::Constant(_))).collect();
        let are_same = source.body.op_name(op) == name
            && source.body.operands(op).zip(operands).zip(&known).all(|((own, id), known)| {
                self.values.get(*id).ty == self.ty(act, own)
                    && (!known || registry.constant(&source.body, own).is_some())
            });
        let Some(infer) = registry.def(name).and_then(|def| def.infer).filter(|_| !are_same) else {
            return true;
        };
        let types: Vec<Type> = operands.iter().map(|id| self.values.get(*id).ty).collect();
        let constant = |index: usize| match self.values.form(*operands.get(index)?) {
            Form::Constant(tensor) => {
                Some(ir_core::Attr::new(ir_core::AttrData::Tensor(tensor.clone())))
            }
            _ => None,
        };
        let declared = self.ty(act, source.body.result(op, 0));
        match InferCx::with_constants(&types, attrs, &constant).answer(infer) {
            Ok(found) => verify::compatible(found, declared),
            Err(ir_core::Stop::Stuck) => true,
            Err(ir_core::Stop::Error(_)) => false,
        }
    }

    fn truth(&self, id: Id) -> Option<bool> {
        match self.values.form(id) {
            Form::Constant(tensor) => tensor.element(0).map(Scalar::as_bool),
            _ => None,
        }
    }

    /// Goes on in region `index` of `op`, whose value is that of `op`.
    fn take(&mut self, act: usize, source: &Source, op: OpId, index: usize) {
        self.decisions += 1;
        let block = source.body.region_block(op, index);
        let first = source.body.first_op(block).expect("a block ends with its value");
        self.tasks.extend([Task::Bind(act, op), Task::Run(act, first)]);
    }

    fn matched(&mut self, act: usize, source: &Source, op: OpId) {
        let Match { data, patterns, .. } = source.body.view(op).expect("a verified match");
        let data = self.activations[act].values[&data];
        for (index, pattern) in patterns.iter().enumerate() {
            let mut found = vec![];
            match self.fit(pattern, data, &mut found) {
                Fit::No => {}
                Fit::Unknown => break,
                Fit::Yes => {
                    let block = source.body.region_block(op, index);
                    let variables = source.body.block_args(block).iter().copied();
                    if variables.clone().zip(&found).any(|(arg, id)| self.narrows(act, arg, *id)) {
                        break;
                    }
                    self.activations[act].values.extend(variables.zip(found));
                    self.take(act, source, op, index);
                    return;
                }
            }
        }
        self.write(act, op, After::Branches);
    }

    /// Whether `id` has the form of `pattern`, and what its variables are then. Recursion is bounded
    /// by the depth of patterns.
    fn fit(&self, pattern: &Pattern, id: Id, found: &mut Vec<Id>) -> Fit {
        let (fields, patterns) = match (pattern, self.values.form(id)) {
            (Pattern::Wildcard, _) => return Fit::Yes,
            (Pattern::Variable, _) => {
                found.push(id);
                return Fit::Yes;
            }
            (Pattern::Constructor(name, _), Form::Data(made, _)) if name != made => return Fit::No,
            (Pattern::Constructor(_, patterns), Form::Data(_, fields)) => (fields, patterns),
            (Pattern::Tuple(patterns), Form::Tuple(fields)) => (fields, patterns),
            (Pattern::Tuple(patterns), _) if patterns.iter().all(|p| *p == Pattern::Wildcard) => {
                return Fit::Yes;
            }
            _ => return Fit::Unknown,
        };
        let mut fit = Fit::Yes;
        for (pattern, field) in patterns.iter().zip(fields.iter()) {
            match self.fit(pattern, *field, found) {
                Fit::No => return Fit::No,
                Fit::Unknown => fit = Fit::Unknown,
                Fit::Yes => {}
            }
        }
        fit
    }

    // ---- cells -------------------------------------------------------------------------------

    fn cell(&mut self, act: usize, op: OpId) {
        let site = (self.activations[act].item, op);
        let content = self.operands(act, op)[0];
        let (home, cell) = (self.level(), self.cells.len());
        self.cells.push(Cell { site, home, content: Some((content, self.epoch)) });
        let id = self.know(act, op, Form::Cell(cell));
        if self.copying > 0 || self.shared.cells.contains(&site) || self.keeps_cells {
            self.tasks.extend([Task::MakeCell(id, cell), Task::Reify(content)]);
        }
    }

    /// What `cell`, the value `id`, is known to hold.
    fn content(&self, id: Id, cell: usize) -> Option<Id> {
        let (content, epoch) = self.cells[cell].content?;
        let is_virtual = self.values.get(id).residual.is_none();
        (is_virtual || epoch == self.epoch).then_some(content)
    }

    /// Errors where `cell` is no cell of the new function yet, and `allowed` says not that it may be
    /// left so.
    fn need(&self, id: Id, cell: usize, allowed: bool) -> Result<(), Stop> {
        match self.values.get(id).residual.is_none() && !allowed {
            true => Err(Stop::Cell(self.cells[cell].site)),
            false => Ok(()),
        }
    }

    fn read(&mut self, act: usize, op: OpId) -> Result<(), Stop> {
        let id = self.operands(act, op)[0];
        let &Form::Cell(cell) = self.values.form(id) else {
            self.write(act, op, After::Nothing);
            return Ok(());
        };
        let result = self.activations[act].source.body.result(op, 0);
        let content = self.content(id, cell);
        let content = content.filter(|content| !self.narrows(act, result, *content));
        let is_here = !self.is_deferred_since(self.cells[cell].home);
        self.need(id, cell, is_here && content.is_some())?;
        match content {
            Some(content) => self.bind(act, op, content),
            None => self.write(act, op, After::Learn(cell)),
        }
        Ok(())
    }

    fn write_cell(&mut self, act: usize, op: OpId) -> Result<(), Stop> {
        let (reference, content) = (self.operands(act, op)[0], self.operands(act, op)[1]);
        let &Form::Cell(cell) = self.values.form(reference) else {
            self.write(act, op, After::Forget);
            return Ok(());
        };
        let is_here = self.cells[cell].home == self.level();
        self.need(reference, cell, is_here)?;
        if self.values.get(reference).residual.is_some() {
            self.write(act, op, After::Hold(cell, content));
            return Ok(());
        }
        self.cells[cell].content = Some((content, self.epoch));
        self.know(act, op, Form::Tuple(Rc::new([])));
        Ok(())
    }

    /// The types of a call of `code`, whose types around it are `types`: what its own parameters stand
    /// for, where `args` and `result` say.
    pub(super) fn types_of_call(
        &self,
        code: Code,
        types: &Rc<Substitution>,
        (type_args, args, result): (&[Type], &[Id], Type),
        source: &Source,
    ) -> Option<Rc<Substitution>> {
        let ty = substitute(source.ty(code), types);
        let TypeData::Function(function) = ty.data() else { return None };
        if function.params.len() != args.len() {
            return None;
        }
        if function.type_params.is_empty() {
            return Some(Rc::clone(types));
        }
        let mut own = Substitution::default();
        if type_args.len() == function.type_params.len() {
            let given = type_args.iter().map(|ty| TypeParam::Type(*ty));
            own.extend(function.type_params.iter().copied().zip(given));
        } else {
            let args = args.iter().map(|id| self.values.get(*id).ty);
            let pairs = function.params.iter().copied().zip(args);
            for (pattern, actual) in pairs.chain([(function.result, result)]) {
                let names = &function.type_params;
                if !crate::specialize::types::matches(pattern, actual, names, &mut own) {
                    return None;
                }
            }
        }
        if !function.type_params.iter().all(|name| own.contains_key(name)) {
            return None;
        }
        let mut all = Substitution::clone(types);
        all.extend(own);
        Some(Rc::new(all))
    }

    /// What nothing is known of, at the place of `op`.
    pub(super) fn hint(&self, act: usize, op: OpId) -> NameHint {
        let body = &self.activations[act].source.body;
        body.name_hint(body.result(op, 0))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fit {
    Yes,
    No,
    Unknown,
}
