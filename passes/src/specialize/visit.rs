//! Reading a body: what it uses becomes copies.
//!
//! Uses come before definitions, so that what a function value is used for is known where it is made,
//! and all that is inside of one before what it takes from outside.

use ir_core::{
    BlockId, Body, Diagnostic, Diagnostics, InsertPoint, OpFields, OpId, OpParts, PassResult, Span,
    Symbol, Type, TypeData, TypeParam, ValueId, ValueMap,
};
use relay::inference::TypeArguments;
use relay::language::{
    Call, Construct, Constructor, Fn, Global, If, Match, Operator, RefCreate, RefWrite, Tuple,
    Yield, fn_attributes, fn_self, is_primitive, operator,
};
use rustc_hash::FxHashMap;

use super::arguments::Arguments;
use super::functions::{Functions, Mode, made_since, place, substitute_op, type_parameters};
use super::types::{Substitution, matches, plain, substitute};

/// A body that is read, and everything around it.
pub(super) struct Reading<'a, 'r> {
    pub(super) all: &'a mut Functions<'r>,
    /// The function whose body it is.
    pub(super) inside: Symbol,
    pub(super) base: Option<Span>,
    pub(super) body: &'a mut Body,
    /// Values of one type made of values of several.
    instances: FxHashMap<(ValueId, Vec<TypeParam>), ValueId>,
    /// What has come in the place of function values that were lifted.
    pub(super) lifted: FxHashMap<ValueId, ValueId>,
}

/// Operations of a block that are still to be read: those before `after`, or all.
struct Frame {
    block: BlockId,
    after: Option<OpId>,
}

impl Functions<'_> {
    /// Reads `body`, that of function `inside`, which starts at `base`.
    pub(super) fn read(
        &mut self,
        inside: Symbol,
        body: &mut Body,
        base: Option<Span>,
    ) -> PassResult {
        let (instances, lifted) = Default::default();
        Reading { all: self, inside, base, body, instances, lifted }.run()
    }
}

impl Reading<'_, '_> {
    fn run(&mut self) -> PassResult {
        let mut frames = vec![Frame { block: self.body.entry(), after: None }];
        while let Some(frame) = frames.last_mut() {
            let op = match frame.after {
                None => self.body.last_op(frame.block),
                Some(after) => self.body.prev_op(after),
            };
            let Some(op) = op else {
                frames.pop();
                continue;
            };
            let is_open = self.op(op)?;
            if self.body.is_live(op) {
                frame.after = Some(op);
                if is_open {
                    let blocks = self.body.regions(op).iter().map(|r| self.body.block_of(*r));
                    frames.extend(blocks.map(|block| Frame { block, after: None }));
                }
            }
        }
        Ok(())
    }

    fn error(&self, op: OpId, error: Diagnostic) -> Diagnostics {
        error.at(place(self.body, op, self.base)).into()
    }

    /// Reads one operation; whether what is inside of it comes next.
    fn op(&mut self, op: OpId) -> Result<bool, Diagnostics> {
        let name = self.body.op_name(op);
        match name.as_str() {
            Global::NAME | Operator::NAME | Constructor::NAME => {
                self.name(op)?;
                Ok(false)
            }
            Fn::NAME if self.body.is_unused(self.body.result(op, 0)) => {
                self.body.erase(op);
                Ok(false)
            }
            Fn::NAME => {
                self.one_type(op)?;
                Ok(!is_primitive(fn_attributes(self.body, op)))
            }
            Call::NAME => {
                self.call(op)?;
                if self.body.is_live(op) {
                    self.operands(op)?;
                }
                Ok(false)
            }
            _ => {
                self.operands(op)?;
                Ok(name == If::<ValueId>::NAME || name == Match::<ValueId>::NAME)
            }
        }
    }

    /// Reads a name that is used as a value; those that are called have been read.
    fn name(&mut self, op: OpId) -> PassResult {
        let value = self.body.result(op, 0);
        if self.body.is_unused(value) {
            self.body.erase(op);
            return Ok(());
        }
        self.one_type(op)?;
        if let Some(Global { name }) = self.body.view::<Global>(op)
            && self.all.get(name).is_some()
            && !self.all.is_copy(name)
        {
            let types = match self.all.get(name) {
                Some(source)
                    if self
                        .body
                        .ty(value)
                        .as_function()
                        .is_some_and(|f| f.type_params.is_empty()) =>
                {
                    let types = determined(
                        &source.ty().type_params,
                        plain(source.ty()),
                        self.body.ty(value),
                    );
                    types.map(|types| self.all.opened(name, &types))
                }
                _ => None,
            };
            let arguments = match types {
                Some(types) => Arguments { types, functions: vec![] },
                None => self.all.plain(name),
            };
            let copy = self.all.copy(self.inside, name, arguments);
            let copy = copy.map_err(|error| self.error(op, error))?;
            self.body.set_attrs(op, OpFields::<ValueId>::attrs(&Global { name: copy }));
        }
        Ok(())
    }

    /// That the function which `op` makes has one type by now.
    fn one_type(&self, op: OpId) -> PassResult {
        let ty = self.body.ty(self.body.result(op, 0));
        match type_parameters(ty).is_empty() {
            true => Ok(()),
            false => Err(self.error(op, no_single_type(ty))),
        }
    }

    fn call(&mut self, op: OpId) -> PassResult {
        loop {
            let callee = self.body.operand(op, 0);
            let Some(made_by) = self.body.defining_op(callee) else { return Ok(()) };
            match self.body.op_name(made_by).as_str() {
                Global::NAME => return self.call_global(op, made_by),
                Constructor::NAME => return self.construct(op, made_by),
                Operator::NAME => return self.operate(op, made_by),
                If::<ValueId>::NAME | Match::<ValueId>::NAME => return self.chosen(callee),
                Fn::NAME if !is_primitive(fn_attributes(self.body, made_by)) => {
                    let Some(function) = self.body.ty(callee).as_function() else { return Ok(()) };
                    if !function.type_params.is_empty() {
                        let Some(types) = self.type_arguments(op) else { return Ok(()) };
                        let Some(instance) = self.local_instance(made_by, types) else {
                            return Ok(());
                        };
                        self.body.set_operand(op, 0, instance);
                        self.forget_type_arguments(op);
                        continue;
                    }
                    if self.all.mode == Mode::Types {
                        return Ok(());
                    }
                    let Some((name, captured)) = self.named_function(made_by) else {
                        return Ok(());
                    };
                    let ty = self.all.get(name).expect("it was lifted").item.signature.ty;
                    let (at, loc) = (InsertPoint::Before(op), self.body.loc(op));
                    let callee = self.body.add(at, loc, &Global { name }, ty);
                    let args = self.body.operands(op).skip(1);
                    let operands: Vec<ValueId> =
                        std::iter::once(callee).chain(captured).chain(args).collect();
                    self.body.set_operands(op, &operands);
                }
                _ => return Ok(()),
            }
        }
    }

    /// What the type parameters of what `op` calls stand for, in order, where that is known.
    fn type_arguments(&self, op: OpId) -> Option<Vec<TypeParam>> {
        let function = self.body.ty(self.body.operand(op, 0)).as_function()?;
        let found = TypeArguments::open_of_call(self.body, op, &self.all.signatures)?;
        function.type_params.iter().map(|name| found.get(*name)).collect()
    }

    fn forget_type_arguments(&mut self, op: OpId) {
        let attrs = self.body.attrs(op).without("type_args");
        if attrs != self.body.attrs(op) {
            self.body.set_attrs(op, attrs);
        }
    }

    /// Makes the call `op` of a function of the module, which `reference` names, one of a copy.
    fn call_global(&mut self, op: OpId, reference: OpId) -> PassResult {
        let Some(Global { name }) = self.body.view::<Global>(reference) else { return Ok(()) };
        let Some(source) = self.all.get(name) else { return Ok(()) };
        let own = source.ty();
        let referred = self.body.ty(self.body.result(reference, 0));
        let types = match referred.as_function() {
            _ if own.type_params.is_empty() => Some(vec![]),
            _ if self.all.is_copy(name) => None,
            Some(function) if !function.type_params.is_empty() => self.type_arguments(op),
            _ => determined(&own.type_params, plain(own), referred),
        };
        let types = match types {
            Some(types) => self.all.opened(name, &types),
            None if type_parameters(source.item.signature.ty).is_empty() => {
                self.all.plain(name).types
            }
            None => return Err(self.error(op, no_single_type(referred))),
        };
        let map = self.all.substitution(name, &types);
        let mut operands: Vec<ValueId> = vec![self.body.operand(op, 0)];
        let mut functions = vec![];
        for (index, param) in own.params.iter().enumerate().take(self.body.operand_count(op) - 1) {
            let arg = self.body.operand(op, index + 1);
            let known = match self.all.mode == Mode::KnownFunctions && self.all.has_room(name) {
                true => self.known(arg, substitute(*param, &map), 0)?,
                false => None,
            };
            operands.extend(known.as_ref().map_or(&[arg][..], |(_, captured)| captured));
            functions.push(known.map(|(known, _)| known));
        }
        if functions.iter().all(Option::is_none) {
            functions.clear();
        }
        let copy = self.all.copy(self.inside, name, Arguments { types, functions });
        let copy = copy.map_err(|error| self.error(op, error))?;
        if copy == name {
            return Ok(());
        }
        let ty = self.all.get(copy).expect("it was made").item.signature.ty;
        let (at, loc) = (InsertPoint::Before(op), self.body.loc(reference));
        // What was passed may have made way for another value, also for the sake of one behind it.
        operands.iter_mut().for_each(|value| *value = self.current(*value));
        operands[0] = self.body.add(at, loc, &Global { name: copy }, ty);
        self.body.set_operands(op, &operands);
        self.forget_type_arguments(op);
        Ok(())
    }

    /// Makes the call `op` of a constructor what it makes.
    fn construct(&mut self, op: OpId, reference: OpId) -> PassResult {
        let Some(Constructor { name }) = self.body.view(reference) else { return Ok(()) };
        let fields = self.body.operands(op).skip(1).collect();
        let (value, loc) = (self.body.result(op, 0), self.body.loc(op));
        let form = Construct { name, fields };
        let new = self.body.add(InsertPoint::Before(op), loc, &form, self.body.ty(value));
        self.replace_call(op, new);
        Ok(())
    }

    /// Makes the call `op` of an operator that operator.
    fn operate(&mut self, op: OpId, reference: OpId) -> PassResult {
        let Some(Operator { name }) = self.body.view(reference) else { return Ok(()) };
        let name = operator(&name);
        let Some(def) = self.all.registry.def(name) else { return Ok(()) };
        let Some(call) = self.body.view::<Call>(op) else { return Ok(()) };
        let Ok(attrs) = def.normalize_attrs(call.attributes) else { return Ok(()) };
        let types = [self.body.ty(self.body.result(op, 0))];
        let parts = OpParts::new(name, &call.args, &types).attrs(attrs).at(self.body.loc(op));
        let new = self.body.insert_op(InsertPoint::Before(op), parts);
        let new = self.body.result(new, 0);
        self.replace_call(op, new);
        Ok(())
    }

    fn replace_call(&mut self, op: OpId, new: ValueId) {
        let value = self.body.result(op, 0);
        self.body.set_name_hint(new, self.body.name_hint(value));
        self.body.replace_all_uses(value, new);
        self.body.erase(op);
    }

    /// Gives the operands of `op` that are functions of several types the one that they must have.
    fn operands(&mut self, op: OpId) -> PassResult {
        for index in 0..self.body.operand_count(op) {
            let value = self.body.operand(op, index);
            let Some(function) = self.body.ty(value).as_function() else { continue };
            if function.type_params.is_empty() {
                continue;
            }
            let Some(expected) = self.expected_type(op, index) else { continue };
            let Some(types) = determined(&function.type_params, plain(function), expected) else {
                continue;
            };
            let Some(made_by) = self.body.defining_op(value) else { continue };
            let name = self.body.op_name(made_by);
            let instance = match self.body.view::<Global>(made_by) {
                Some(global) => self.global_instance(made_by, global.name, types)?,
                None if name == If::<ValueId>::NAME || name == Match::<ValueId>::NAME => {
                    self.chosen(value)?;
                    continue;
                }
                None => self.local_instance(made_by, types),
            };
            if let Some(instance) = instance {
                self.body.set_operand(op, index, instance);
                // What is called has one type now.
                if index == 0 && self.body.is::<Call>(op) {
                    self.forget_type_arguments(op);
                }
            }
        }
        Ok(())
    }

    /// Gives `value`, one of several functions, the one type that all its uses ask for.
    fn chosen(&mut self, value: ValueId) -> PassResult {
        let Some(function) = self.body.ty(value).as_function() else { return Ok(()) };
        if function.type_params.is_empty() {
            return Ok(());
        }
        let uses: Vec<(OpId, usize)> = self.body.uses(value).collect();
        let mut asked = uses.iter().map(|(user, index)| {
            if *index == 0 && self.body.is::<Call>(*user) {
                return self.type_arguments(*user);
            }
            let expected = self.expected_type(*user, *index)?;
            determined(&function.type_params, plain(function), expected)
        });
        let Some(types) = asked.next().flatten() else { return Ok(()) };
        if !asked.all(|other| other.as_ref() == Some(&types)) {
            let op = self.body.defining_op(value).expect("an operation chooses it");
            return Err(self.error(op, no_single_type(self.body.ty(value))));
        }
        let map: Substitution = function.type_params.iter().copied().zip(types).collect();
        self.body.set_ty(value, substitute(plain(function), &map));
        for (user, _) in uses.into_iter().filter(|(_, index)| *index == 0) {
            self.forget_type_arguments(user);
        }
        Ok(())
    }

    /// The type that operand `index` of `op` must have, where that is known.
    fn expected_type(&self, op: OpId, index: usize) -> Option<Type> {
        let body = &*self.body;
        let result = || body.results(op).next().map(|value| body.ty(value));
        match body.op_name(op).as_str() {
            Call::<ValueId>::NAME if index == 0 => {
                let args = body.operands(op).skip(1).map(|arg| body.ty(arg));
                Some(Type::function(args, result()?))
            }
            Call::<ValueId>::NAME => {
                let callee = body.ty(body.operand(op, 0)).as_function()?;
                callee.type_params.is_empty().then(|| callee.params.get(index - 1).copied())?
            }
            Construct::<ValueId>::NAME => {
                let form = body.view::<Construct>(op)?;
                let name = Symbol::new(&form.name);
                self.all.declarations.fields(result()?, name).get(index).copied()
            }
            Tuple::<ValueId>::NAME => result()?.as_tuple()?.get(index).copied(),
            RefCreate::<ValueId>::NAME => content(result()?),
            RefWrite::<ValueId>::NAME => content(body.ty(body.operand(op, 0))),
            Yield::<ValueId>::NAME => match body.op_block(op).and_then(|b| body.block_parent(b)) {
                None => Some(self.all.get(self.inside)?.ty().result),
                Some(parent) => {
                    let ty = body.ty(body.results(parent).next()?);
                    match body.is::<Fn>(parent) {
                        true => Some(ty.as_function()?.result),
                        false => Some(ty),
                    }
                }
            },
            _ => None,
        }
    }

    /// A reference to the copy of the function that `reference` names, for `types`.
    fn global_instance(
        &mut self,
        reference: OpId,
        name: Symbol,
        types: Vec<TypeParam>,
    ) -> Result<Option<ValueId>, Diagnostics> {
        if self.all.get(name).is_none() || self.all.is_copy(name) {
            return Ok(None);
        }
        let types = self.all.opened(name, &types);
        let key = (self.body.result(reference, 0), types.clone());
        if let Some(known) = self.instances.get(&key) {
            return Ok(Some(*known));
        }
        let copy = self.all.copy(self.inside, name, Arguments { types, functions: vec![] });
        let copy = copy.map_err(|error| self.error(reference, error))?;
        let ty = self.all.get(copy).expect("it was made").item.signature.ty;
        let (at, loc) = (InsertPoint::After(reference), self.body.loc(reference));
        let new = self.body.add(at, loc, &Global { name: copy }, ty);
        self.instances.insert(key, new);
        Ok(Some(new))
    }

    /// A copy of the function or constructor `op` for `types`; `None` where there can be none, as for
    /// extents that are not known.
    fn local_instance(&mut self, op: OpId, types: Vec<TypeParam>) -> Option<ValueId> {
        let is_copied = self.body.is::<Fn>(op) || self.body.is::<Constructor>(op);
        if !is_copied || types.contains(&TypeParam::Dim(ir_core::Dim::Any)) {
            return None;
        }
        let value = self.body.result(op, 0);
        let key = (value, types);
        if let Some(known) = self.instances.get(&key) {
            return Some(self.current(*known));
        }
        let function = self.body.ty(value).as_function()?;
        let names = function.type_params.iter().copied();
        let map: Substitution = names.zip(key.1.iter().copied()).collect();
        let first = self.body.op_capacity();
        let new = self.body.copy_op(op, InsertPoint::After(op), &mut ValueMap::default());
        for inner in made_since(self.body, first) {
            substitute_op(self.body, inner, &map);
        }
        let ty = substitute(plain(function), &map);
        let value = self.body.result(new, 0);
        self.body.set_ty(value, ty);
        if let Some(itself) = self.body.is::<Fn>(new).then(|| fn_self(self.body, new)).flatten() {
            self.body.set_ty(itself, ty);
            let calls: Vec<OpId> = self.body.uses(itself).map(|(user, _)| user).collect();
            let calls = calls.into_iter().filter(|user| self.body.is::<Call>(*user));
            for call in calls.collect::<Vec<OpId>>() {
                self.forget_type_arguments(call);
            }
        }
        self.instances.insert(key, value);
        Some(value)
    }
}

/// What `params` stand for, in order, so that `pattern` becomes `actual`; `None` where that does not
/// say so of all.
pub(super) fn determined(params: &[Symbol], pattern: Type, actual: Type) -> Option<Vec<TypeParam>> {
    let mut map = Substitution::default();
    let fits = matches(pattern, actual, params, &mut map);
    fits.then(|| params.iter().map(|name| map.get(name).copied()).collect())?
}

fn content(reference: Type) -> Option<Type> {
    match reference.data() {
        TypeData::Ref(content) => Some(*content),
        _ => None,
    }
}

fn no_single_type(ty: Type) -> Diagnostic {
    Diagnostic::error("E0610", format!("expected a use that fixes the types of `{ty}`"))
        .help("annotate where the function is used, or call it directly")
}
