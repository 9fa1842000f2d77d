//! The forms of the language: what each says about the types of its parts.

use ir_core::registry::Arity;
use ir_core::{
    BlockId, DType, Diagnostic, FunctionType, OpFields, OpId, OpInfo, SmallVec, Symbol, Type,
    TypeData, TypeParam, ValueId,
};

use rustc_hash::FxHashSet;

use super::codes;
use super::engine::Engine;
use super::environment::{Form, Rule, constructor_type};
use super::signatures::shown;
use crate::language::{
    Call, Construct, Constructor, Global, If, Match, Operator, Pattern, RefRead, RefWrite,
    TupleGet, fn_params, fn_self, operator, yielded,
};

type Values = SmallVec<[ValueId; 4]>;

impl<'e, 'a> Engine<'e, 'a> {
    /// Visits `op`, before its regions.
    pub(super) fn enter(&mut self, unit: usize, op: OpId, form: Form) {
        let operands: Values = self.body(unit).operands(op).collect();
        let attrs = self.body(unit).attrs(op);
        let results = usize::from(form != Form::Yield);
        if self.body(unit).result_count(op) != results {
            return self.malformed(unit, op, "it has the wrong number of results");
        }
        let done = match form {
            Form::Global => {
                Global::decode(&operands, attrs).map(|form| self.global(unit, op, form.name))
            }
            Form::Operator => {
                Operator::decode(&operands, attrs).map(|form| self.operator(unit, op, &form.name))
            }
            Form::Constructor => Constructor::decode(&operands, attrs)
                .map(|form| self.constructor(unit, op, Symbol::new(&form.name))),
            Form::Construct => Construct::decode(&operands, attrs)
                .map(|form| self.construct(unit, op, Symbol::new(&form.name), &form.fields)),
            Form::Call => Call::decode(&operands, attrs).map(|form| self.call(unit, op, &form)),
            Form::Fn => self.enter_fn(unit, op),
            Form::If => If::decode(&operands, attrs).and_then(|form| {
                let regions = self.body(unit).regions(op).len();
                if regions != 2 {
                    return Err(format!("expected 2 regions, found {regions}"));
                }
                self.condition(unit, op, form.condition);
                Ok(())
            }),
            Form::Match => {
                Match::decode(&operands, attrs).and_then(|form| self.patterns(unit, op, &form))
            }
            Form::Tuple | Form::RefCreate => {
                self.wrap(unit, op, form, &operands);
                Ok(())
            }
            Form::TupleGet => TupleGet::decode(&operands, attrs)
                .map(|form| self.project(unit, op, form.tuple, form.index)),
            Form::RefRead => RefRead::decode(&operands, attrs).map(|form| {
                if let Some(inner) = self.cell(unit, op, form.reference) {
                    let result = self.body(unit).result(op, 0);
                    self.assign(unit, result, inner);
                }
            }),
            Form::RefWrite => RefWrite::decode(&operands, attrs).map(|form| {
                let result = self.body(unit).result(op, 0);
                self.assign(unit, result, Type::unit());
                let Some(inner) = self.cell(unit, op, form.reference) else { return };
                let found = self.ty(unit, form.value);
                let span = self.value_span(unit, form.value);
                self.require_operand(
                    (unit, op, 1),
                    span,
                    |_| "the new content of a reference".to_string(),
                    inner,
                    found,
                    |this| {
                        let from = this.value_span(unit, form.reference);
                        Some((from, "the reference is made here".to_string()))
                    },
                );
            }),
            Form::Yield => Ok(()),
        };
        if let Err(message) = done {
            self.malformed(unit, op, &message);
        }
    }

    /// Visits `op`, after its regions.
    pub(super) fn leave(&mut self, unit: usize, op: OpId) {
        let form = match self.env.rule(self.body(unit).op_name(op)) {
            Some(Rule::Form(form)) => form,
            _ => return,
        };
        let blocks: SmallVec<[BlockId; 4]> = {
            let body = self.body(unit);
            body.regions(op).iter().map(|region| body.block_of(*region)).collect()
        };
        let values: Option<Values> =
            blocks.iter().map(|block| yielded(self.body(unit), *block)).collect();
        let Some(values) = values else {
            return self.malformed(unit, op, "a region has no value");
        };
        match form {
            Form::Fn => self.leave_fn(unit, op, &values),
            Form::If | Form::Match => self.leave_branches(unit, op, form, &values),
            _ => {}
        }
    }

    fn malformed(&mut self, unit: usize, op: OpId, message: &str) {
        let (span, name) = (self.op_span(unit, op), self.op_name(unit, op));
        self.report(Diagnostic::error(codes::MALFORMED, format!("`{name}`: {message}")).at(span));
        self.poison_results(unit, op);
        let blocks: Vec<BlockId> = {
            let body = self.body(unit);
            body.regions(op).iter().map(|region| body.block_of(*region)).collect()
        };
        for block in blocks {
            for arg in self.body(unit).block_args(block).to_vec() {
                self.poison(unit, arg);
            }
        }
        self.bad_matches.insert((unit, op));
    }

    // ---- functions -------------------------------------------------------------------------

    fn global(&mut self, unit: usize, op: OpId, name: Symbol) {
        let result = self.body(unit).result(op, 0);
        if let Some(other) = self.by_name.get(&name) {
            let ty = self.units[*other].ty;
            return self.assign(unit, result, ty);
        }
        match self.env.surroundings.function(name) {
            Some((ty, _)) => {
                // What is unknown in it has been reported.
                let ty = self.solver.open(ty, true);
                self.assign(unit, result, ty);
            }
            None => {
                let known = self.env.surroundings.functions();
                let known = known.iter().map(|name| name.as_str());
                let help = ir_core::diagnostics::did_you_mean_with("@", name.as_str(), known)
                    .unwrap_or_else(|| format!("define it: `def @{name}(…) {{ … }}`"));
                let span = self.op_span(unit, op);
                self.report(
                    Diagnostic::error(
                        codes::UNKNOWN_FUNCTION,
                        format!("unknown function `@{name}`"),
                    )
                    .at(span)
                    .help(help),
                );
                self.poison(unit, result);
            }
        }
    }

    /// The registered operator with text name `name`.
    fn find_operator(&self, name: &str) -> Option<&'a OpInfo> {
        let full = operator(name);
        match self.env.rule(full) {
            Some(Rule::Relation(info)) => Some(info),
            _ => None,
        }
    }

    /// An operator as a value is a function of as many parameters as it needs, whose types the
    /// relation ties together.
    fn operator(&mut self, unit: usize, op: OpId, name: &str) {
        let result = self.body(unit).result(op, 0);
        let span = self.op_span(unit, op);
        let Some(info) = self.find_operator(name) else {
            let known = self.env.registry.ops().filter_map(|info| {
                let known = info.def.name.strip_prefix("relay.")?;
                info.def.infer.map(|_| known)
            });
            let help = ir_core::diagnostics::did_you_mean(name, known);
            let mut diagnostic =
                Diagnostic::error(codes::UNKNOWN_OPERATOR, format!("unknown operator `{name}`"))
                    .at(span);
            diagnostic.help = help;
            self.report(diagnostic);
            return self.poison(unit, result);
        };
        let fields = info.def.operands;
        let fixed = !fields.iter().any(|field| field.arity == Arity::Many);
        if !fixed || info.def.infer.is_none() {
            self.report(
                Diagnostic::error(
                    codes::AMBIGUOUS,
                    format!("`{name}` has no fixed number of operands and so no function type"),
                )
                .at(span)
                .help(format!("wrap it in a function: `fn (%x) {{ {name}(%x) }}`")),
            );
            return self.poison(unit, result);
        }
        let required = fields.iter().filter(|field| field.arity == Arity::One).count();
        // A function type given by an annotation may include the optional operand.
        let annotated = self.body(unit).ty(result).as_function().map(|f| f.params.len());
        let count = match annotated {
            Some(n) if n == fields.len() => n,
            _ => required,
        };
        let params: Vec<Type> = (0..count).map(|_| self.solver.fresh()).collect();
        self.suspend(unit, op, info, Some(params.clone()), result);
        if let Some(output) = self.last_result() {
            self.assign(unit, result, Type::function(params, output));
        }
    }

    fn call(&mut self, unit: usize, op: OpId, call: &Call) {
        let result = self.body(unit).result(op, 0);
        let callee = self.ty(unit, call.callee);
        let callee = self.solver.shallow(callee);
        let function = match callee.data() {
            TypeData::Function(function) => function,
            TypeData::Variable(_) if self.is_poison(callee) => {
                return self.poison(unit, result);
            }
            TypeData::Variable(_) => {
                let params: Vec<Type> = call.args.iter().map(|arg| self.ty(unit, *arg)).collect();
                let output = self.solver.fresh();
                let expected = Type::function(params, output);
                let span = self.op_span(unit, op);
                let subject = |_: &Self| "the called function".to_string();
                if !self.require(span, subject, expected, callee, |_| None) {
                    for ty in [expected, callee] {
                        for variable in self.solver.variables(ty) {
                            self.solver.poison(variable);
                        }
                    }
                }
                return self.assign(unit, result, output);
            }
            _ => {
                let (span, name) = (self.op_span(unit, op), self.value_name(unit, call.callee));
                let found = self.solver.close(callee);
                self.report(
                    Diagnostic::error(
                        codes::NOT_A_FUNCTION,
                        format!("{name} is called: expected a function, found {}", shown(found)),
                    )
                    .at(span)
                    .related(self.value_span(unit, call.callee), "it comes from here"),
                );
                return self.poison(unit, result);
            }
        };
        let mono = match self.instance(unit, op, call, callee, function) {
            Some(mono) => mono,
            None => return self.poison(unit, result),
        };
        let Some(function) = mono.as_function() else { return self.poison(unit, result) };
        if function.params.len() != call.args.len() {
            let (span, name) = (self.op_span(unit, op), self.callee_name(unit, call.callee));
            let expected = function.params.len();
            let origin = self.callee_span(unit, call.callee);
            let callee = self.solver.close(callee);
            self.report(
                Diagnostic::error(
                    codes::ARGUMENTS,
                    format!(
                        "{name} expects {expected} argument{}, found {}",
                        if expected == 1 { "" } else { "s" },
                        call.args.len()
                    ),
                )
                .at(span)
                .related(origin, "the function")
                .note(format!("its type is {}", shown(callee))),
            );
        }
        for (index, (&arg, &expected)) in call.args.iter().zip(&function.params).enumerate() {
            let found = self.body(unit).ty(arg);
            if found == expected {
                continue;
            }
            let found = self.ty(unit, arg);
            let span = self.value_span(unit, arg).or(self.op_span(unit, op));
            let callee = call.callee;
            self.require_operand(
                (unit, op, index + 1),
                span,
                |this| format!("argument {} of {}", index + 1, this.callee_name(unit, callee)),
                expected,
                found,
                |this| {
                    let name = this.callee_name(unit, callee);
                    let text = format!("{name} declares its parameter");
                    Some((this.callee_span(unit, callee), text))
                },
            );
        }
        let output = self.solver.settle(function.result);
        self.assign(unit, result, output);
    }

    /// The type of a called function with its type parameters filled in.
    fn instance(
        &mut self,
        unit: usize,
        op: OpId,
        call: &Call,
        callee: Type,
        function: &FunctionType,
    ) -> Option<Type> {
        let expected = function.type_params.len();
        if !call.type_args.is_empty() && call.type_args.len() != expected {
            let (span, name) = (self.op_span(unit, op), self.callee_name(unit, call.callee));
            self.report(
                Diagnostic::error(
                    codes::TYPE_ARGUMENTS,
                    format!(
                        "{name} expects {expected} type argument{}, found {}",
                        if expected == 1 { "" } else { "s" },
                        call.type_args.len()
                    ),
                )
                .at(span)
                .related(self.callee_span(unit, call.callee), "the function"),
            );
            return None;
        }
        if expected == 0 {
            return Some(callee);
        }
        let result = self.body(unit).result(op, 0);
        let mut given = Vec::with_capacity(call.type_args.len());
        for &ty in &call.type_args {
            self.check_kinds(unit, result, ty);
            given.push(TypeParam::Type(self.solver.open(ty, false)));
        }
        let args: SmallVec<[Type; 4]> = call.args.iter().map(|arg| self.ty(unit, *arg)).collect();
        let present = self.body(unit).ty(result);
        Some(self.solver.instance(callee, &given, &args, present))
    }

    /// What to call a called value in a message.
    fn callee_name(&self, unit: usize, callee: ValueId) -> String {
        match self.body(unit).view_def::<Global>(callee) {
            Some((_, global)) => format!("`@{}`", global.name),
            None => self.value_name(unit, callee),
        }
    }

    fn callee_span(&self, unit: usize, callee: ValueId) -> Option<ir_core::Span> {
        match self.body(unit).view_def::<Global>(callee) {
            Some((_, global)) => match self.by_name.get(&global.name) {
                Some(unit) => self.units[*unit].signature.span,
                None => self.env.surroundings.function(global.name).and_then(|(_, span)| span),
            },
            None => self.value_span(unit, callee),
        }
    }

    fn enter_fn(&mut self, unit: usize, op: OpId) -> Result<(), String> {
        let body = self.body(unit);
        if body.regions(op).len() != 1 {
            return Err(format!("expected 1 region, found {}", body.regions(op).len()));
        }
        let block = body.region_block(op, 0);
        let this = fn_self(body, op);
        let recursive = body.attrs(op).value::<bool>("recursive").unwrap_or(false);
        if recursive && body.block_args(block).is_empty() {
            return Err("a recursive function needs a block argument for itself".to_string());
        }
        let params: Values = fn_params(body, op).into();
        let result = body.result(op, 0);
        let present = body.ty(result);
        let declared = present.as_function();
        if declared.is_some_and(|declared| declared.params.len() != params.len()) {
            return Err(format!(
                "its type has {} parameters, its block {}",
                declared.map_or(0, |declared| declared.params.len()),
                params.len()
            ));
        }
        if !present.is_unknown() {
            self.check_kinds(unit, result, present);
        }
        let binder = declared.map_or(&[][..], |declared| &declared.type_params[..]);
        self.scope.bind(binder, &mut Vec::new());
        let mut types = Vec::with_capacity(params.len());
        for (index, &param) in params.iter().enumerate() {
            let of_block = self.body(unit).ty(param);
            if !of_block.is_unknown() {
                self.check_kinds(unit, param, of_block);
            }
            let ty = self.ty(unit, param);
            if let Some(declared) = declared.map(|declared| declared.params[index]) {
                let declared = self.solver.open(declared, false);
                let span = self.value_span(unit, param);
                let subject = |this: &Self| this.value_name(unit, param);
                // What the function is given is what is found here.
                self.require(span, subject, ty, declared, |_| None);
            }
            types.push(ty);
        }
        let type_params = declared.map_or_else(Default::default, |f| f.type_params.clone());
        let declared_result = declared.map(|f| f.result).filter(|result| !result.is_unknown());
        let output = match declared_result {
            Some(result) => self.solver.open(result, false),
            // Nobody sees the type of a function that does not refer to itself before its end.
            // What its body gives is then its result, without a variable that stands for it.
            None if this.is_none() && (declared.is_some() || present.is_unknown()) => {
                Type::unknown()
            }
            None => self.solver.fresh(),
        };
        let function = FunctionType { type_params, params: types.into(), result: output };
        let ty = Type::new(TypeData::Function(function));
        if declared.is_none() && !present.is_unknown() {
            // An annotation that is no function type.
            self.assign(unit, result, ty);
        } else {
            self.set(unit, result, ty);
        }
        if let Some(this) = this {
            self.assign(unit, this, ty);
        }
        Ok(())
    }

    fn leave_fn(&mut self, unit: usize, op: OpId, values: &[ValueId]) {
        let result = self.body(unit).result(op, 0);
        let ty = self.body(unit).ty(result);
        let (Some(function), Some(&value)) = (ty.as_function(), values.first()) else { return };
        let found = self.ty(unit, value);
        if function.result.is_unknown() {
            // A function that gives something wrong is not wrong a second time.
            if self.is_poison(found) {
                let poison = self.solver.fresh_poisoned();
                return self.set(unit, result, poison);
            }
            let function = FunctionType { result: found, ..function.clone() };
            let ty = Type::new(TypeData::Function(function));
            if self.is_excessive(ty) {
                let subject = self.value_name(unit, result);
                self.report_excess(self.op_span(unit, op), &subject, ty);
                let poison = self.solver.fresh_poisoned();
                return self.set(unit, result, poison);
            }
            return self.set(unit, result, ty);
        }
        let span = self.value_span(unit, value);
        let block = self.body(unit).region_block(op, 0);
        let Some(end) = self.body(unit).last_op(block) else { return };
        let fits = self.require_operand(
            (unit, end, 0),
            span,
            |_| "the result of a function".to_string(),
            function.result,
            found,
            |this| Some((this.op_span(unit, op), "the function declares its result".to_string())),
        );
        if !fits || self.is_poison(function.result) {
            let output = self.solver.resolve(function.result);
            self.solver.poison_all(output, &mut FxHashSet::default());
            if self.is_poison(function.result) {
                let poison = self.solver.fresh_poisoned();
                self.set(unit, result, poison);
            }
        }
    }

    // ---- tuples ----------------------------------------------------------------------------

    /// A tuple or a reference: of whatever types its parts are.
    fn wrap(&mut self, unit: usize, op: OpId, form: Form, operands: &[ValueId]) {
        let result = self.body(unit).result(op, 0);
        let types: SmallVec<[Type; 4]> =
            operands.iter().map(|value| self.ty(unit, *value)).collect();
        // What is made from something wrong is not wrong a second time.
        if types.iter().any(|ty| self.is_poison(*ty)) {
            return self.poison(unit, result);
        }
        let types = types.into_iter().map(|ty| self.solver.settle(ty));
        let ty = match form {
            Form::RefCreate => match types.last() {
                Some(inner) => return self.make_reference(unit, op, inner),
                None => return self.malformed(unit, op, "it has no operand"),
            },
            _ => Type::tuple(types),
        };
        self.assign(unit, result, ty);
    }

    /// A reference holds what it is annotated to hold, else what it begins with.
    fn make_reference(&mut self, unit: usize, op: OpId, found: Type) {
        let result = self.body(unit).result(op, 0);
        let present = self.ty(unit, result);
        let TypeData::Ref(inner) = present.data() else {
            return self.assign(unit, result, Type::reference(found));
        };
        self.check_kinds(unit, result, present);
        let span = self.op_span(unit, op);
        let origin = |_: &Self| Some((span, "the reference is made here".to_string()));
        let subject = |_: &Self| "the content of a reference".to_string();
        self.require_operand((unit, op, 0), span, subject, *inner, found, origin);
    }

    /// A field of a tuple whose fields are known; otherwise its relation tells what is wrong, or
    /// waits.
    fn project(&mut self, unit: usize, op: OpId, tuple: ValueId, index: i64) {
        let result = self.body(unit).result(op, 0);
        let ty = self.ty(unit, tuple);
        let fields = self.solver.shallow(ty).as_tuple();
        let index = usize::try_from(index).ok();
        match index.and_then(|index| fields?.get(index).copied()) {
            Some(field) => {
                let field = self.solver.settle(field);
                self.assign(unit, result, field);
            }
            None => {
                if let Some(info) = self.env.registry.info(self.body(unit).op_name(op)) {
                    self.relation(unit, op, info);
                }
            }
        }
    }

    // ---- branches --------------------------------------------------------------------------

    fn condition(&mut self, unit: usize, op: OpId, condition: ValueId) {
        let found = self.ty(unit, condition);
        let span = self.span(unit, self.body(unit).operand_loc(op, 0));
        self.require(
            span,
            |_| "the condition of an `if`".to_string(),
            Type::scalar(DType::BOOL),
            found,
            |this| {
                let from = this.value_span(unit, condition).filter(|from| Some(*from) != span);
                let name = this.value_name(unit, condition);
                from.map(|from| (Some(from), format!("{name} comes from here")))
            },
        );
    }

    fn leave_branches(&mut self, unit: usize, op: OpId, form: Form, values: &[ValueId]) {
        let result = self.body(unit).result(op, 0);
        let Some((&first, rest)) = values.split_first() else {
            // A match without clauses never gives a value.
            let ty = self.solver.fresh();
            return self.assign(unit, result, ty);
        };
        let present = self.body(unit).ty(result);
        if present.facts().has_any && !present.facts().has_unknown {
            return self.fit_branches(unit, op, form, present);
        }
        let mut ty = self.ty(unit, first);
        for (index, &value) in rest.iter().enumerate() {
            let found = self.ty(unit, value);
            if ty == found {
                continue;
            }
            match self.solver.join(ty, found) {
                Ok(joined) => ty = joined,
                Err(mismatch) => {
                    let (subject, origin) = match form {
                        Form::If => ("the else branch".to_string(), "the then branch"),
                        _ => (format!("clause {}", index + 2), "the first clause"),
                    };
                    let text = format!("{origin} is {}", shown(self.solver.close(ty)));
                    let origin = Some((self.value_span(unit, first), text));
                    let span = self.value_span(unit, value);
                    self.report_mismatch(span, &subject, ty, found, mismatch, origin, "must be");
                }
            }
        }
        self.assign(unit, result, ty);
    }

    /// The branches give what the whole is annotated as. **That does not depend on what else is
    /// known of them**, so that it holds when passes find out more.
    fn fit_branches(&mut self, unit: usize, op: OpId, form: Form, expected: Type) {
        let result = self.body(unit).result(op, 0);
        self.check_kinds(unit, result, expected);
        let blocks: Vec<BlockId> = {
            let body = self.body(unit);
            body.regions(op).iter().map(|region| body.block_of(*region)).collect()
        };
        for (index, block) in blocks.into_iter().enumerate() {
            let Some(end) = self.body(unit).last_op(block) else { continue };
            let value = self.body(unit).operand(end, 0);
            let found = self.ty(unit, value);
            let subject = |_: &Self| match (form, index) {
                (Form::If, 0) => "the then branch".to_string(),
                (Form::If, _) => "the else branch".to_string(),
                _ => format!("clause {}", index + 1),
            };
            let origin = |this: &Self| {
                Some((this.value_span(unit, result), "the type is written here".to_string()))
            };
            let span = self.value_span(unit, value);
            self.require_operand((unit, end, 0), span, subject, expected, found, origin);
        }
    }

    // ---- references ------------------------------------------------------------------------

    /// The content type of a reference.
    fn cell(&mut self, unit: usize, op: OpId, reference: ValueId) -> Option<Type> {
        let ty = self.ty(unit, reference);
        let ty = self.solver.shallow(ty);
        if let TypeData::Ref(inner) = ty.data() {
            return Some(self.solver.settle(*inner));
        }
        let inner = match self.is_poison(ty) {
            true => self.solver.fresh_poisoned(),
            false => self.solver.fresh(),
        };
        let span = self.op_span(unit, op);
        let fits = self.require(
            span,
            |this| this.value_name(unit, reference),
            Type::reference(inner),
            ty,
            |this| {
                let from = this.value_span(unit, reference);
                Some((from, "it comes from here".to_string()))
            },
        );
        if !fits {
            self.poison_results(unit, op);
        }
        fits.then_some(inner)
    }

    // ---- data types ------------------------------------------------------------------------

    fn unknown_constructor(&mut self, unit: usize, op: OpId, name: Symbol) {
        let (span, help) = (self.op_span(unit, op), self.env.types.constructor_help(name));
        self.report(
            Diagnostic::error(codes::UNKNOWN_CONSTRUCTOR, format!("unknown constructor `{name}`"))
                .at(span)
                .help(help),
        );
    }

    fn wrong_fields(&mut self, unit: usize, op: OpId, name: Symbol, expected: usize, found: usize) {
        let span = self.op_span(unit, op);
        let origin = self.env.types.constructor(name).and_then(|(_, adt, _)| adt.span);
        self.report(
            Diagnostic::error(
                codes::FIELDS,
                format!(
                    "`{name}` expects {expected} field{}, found {found}",
                    if expected == 1 { "" } else { "s" },
                ),
            )
            .at(span)
            .related(origin, format!("`{name}` is declared here")),
        );
    }

    fn constructor(&mut self, unit: usize, op: OpId, name: Symbol) {
        let result = self.body(unit).result(op, 0);
        match constructor_type(&self.env.types, name) {
            Some(ty) => self.assign(unit, result, ty),
            None => {
                self.unknown_constructor(unit, op, name);
                self.poison(unit, result);
            }
        }
    }

    fn construct(&mut self, unit: usize, op: OpId, name: Symbol, values: &[ValueId]) {
        let result = self.body(unit).result(op, 0);
        let env = self.env;
        let Some((adt_name, adt, tag)) = env.types.constructor(name) else {
            self.unknown_constructor(unit, op, name);
            return self.poison(unit, result);
        };
        let first = self.solver.type_count();
        let params = self.solver.fresh_params(adt.shape_params.iter().copied());
        let fields = adt.fields(tag, &params);
        if fields.len() != values.len() {
            self.wrong_fields(unit, op, name, fields.len(), values.len());
        }
        self.widen_fields(
            unit,
            first,
            Type::named(adt_name, params.iter().copied()),
            result,
            &fields,
            values,
        );
        for (index, (&value, expected)) in values.iter().zip(fields).enumerate() {
            let found = self.ty(unit, value);
            let span = self.value_span(unit, value).or(self.op_span(unit, op));
            self.require_operand(
                (unit, op, index),
                span,
                |_| format!("field {} of `{name}`", index + 1),
                expected,
                found,
                |_| Some((adt.span, format!("`{name}` is declared here"))),
            );
        }
        let ty = self.solver.settle(Type::named(adt_name, params));
        self.assign(unit, result, ty);
    }

    /// Finds the parameters of data of type `data`, made of `values`, as far as `?` decides on
    /// them: what it is annotated as, and what all fields fit that a parameter stands for.
    fn widen_fields(
        &mut self,
        unit: usize,
        first: u32,
        data: Type,
        result: ValueId,
        fields: &[Type],
        values: &[ValueId],
    ) {
        let found: Vec<Type> = values.iter().map(|value| self.ty(unit, *value)).collect();
        let found: Vec<Type> = found.into_iter().map(|ty| self.solver.settle(ty)).collect();
        let present = self.body(unit).ty(result);
        if !present.facts().has_any && !found.iter().any(|ty| ty.facts().has_any) {
            return;
        }
        let annotated = (!present.is_unknown()).then_some((present, data));
        let fields = fields.iter().copied().zip(found);
        let pairs: Vec<(Type, Type)> = annotated.into_iter().chain(fields).collect();
        self.solver.widen(first, &pairs);
    }

    /// Types the variables of all patterns.
    fn patterns(&mut self, unit: usize, op: OpId, form: &Match) -> Result<(), String> {
        let body = self.body(unit);
        let blocks: Vec<BlockId> =
            body.regions(op).iter().map(|region| body.block_of(*region)).collect();
        if blocks.len() != form.patterns.len() {
            let (patterns, regions) = (form.patterns.len(), blocks.len());
            return Err(format!(
                "expected {patterns} regions, one for each pattern, found {regions}"
            ));
        }
        for (pattern, block) in form.patterns.iter().zip(&blocks) {
            let (expected, found) = (pattern.variables(), body.block_args(*block).len());
            if expected != found {
                return Err(format!("a pattern binds {expected} values, its block has {found}"));
            }
        }
        let data = self.ty(unit, form.data);
        let data_span = self.value_span(unit, form.data);
        for (pattern, &block) in form.patterns.iter().zip(&blocks) {
            let args = self.body(unit).block_args(block).to_vec();
            let mut args = args.into_iter();
            let mut pending: Vec<(&Pattern, Type)> = vec![(pattern, data)];
            while let Some((pattern, ty)) = pending.pop() {
                match pattern {
                    Pattern::Wildcard => {}
                    Pattern::Variable => {
                        if let Some(arg) = args.next() {
                            let ty = self.solver.settle(ty);
                            self.assign(unit, arg, ty);
                        }
                    }
                    Pattern::Tuple(fields) => {
                        let ty = self.solver.shallow(ty);
                        let types = match ty.as_tuple() {
                            Some(types) if types.len() == fields.len() => types.to_vec(),
                            _ => {
                                let types = self.field_variables(fields, ty);
                                let expected = Type::tuple(types.iter().copied());
                                self.pattern_fits(unit, op, expected, ty, data_span);
                                types
                            }
                        };
                        pending.extend(fields.iter().zip(types).rev());
                    }
                    Pattern::Constructor(name, fields) => {
                        let types =
                            self.constructor_pattern(unit, op, *name, fields, ty, data_span);
                        pending.extend(fields.iter().zip(types).rev());
                    }
                }
            }
        }
        self.units[unit].matches.push(op);
        Ok(())
    }

    fn field_variables(&mut self, fields: &[Pattern], of: Type) -> Vec<Type> {
        let poisoned = self.is_poison(of);
        let fresh = |_: &Pattern| match poisoned {
            true => self.solver.fresh_poisoned(),
            false => self.solver.fresh(),
        };
        fields.iter().map(fresh).collect()
    }

    fn pattern_fits(
        &mut self,
        unit: usize,
        op: OpId,
        pattern: Type,
        data: Type,
        data_span: Option<ir_core::Span>,
    ) {
        let span = self.op_span(unit, op);
        let subject = |_: &Self| "a pattern of a `match`".to_string();
        let origin = |_: &Self| Some((data_span, "the matched value".to_string()));
        if !self.require(span, subject, data, pattern, origin) {
            self.bad_matches.insert((unit, op));
            for variable in self.solver.variables(pattern) {
                self.solver.poison(variable);
            }
        }
    }

    /// The types of the fields of a constructor pattern for a value of type `ty`.
    fn constructor_pattern(
        &mut self,
        unit: usize,
        op: OpId,
        name: Symbol,
        fields: &[Pattern],
        ty: Type,
        data_span: Option<ir_core::Span>,
    ) -> Vec<Type> {
        let env = self.env;
        let poisoned = |this: &mut Self| -> Vec<Type> {
            this.bad_matches.insert((unit, op));
            fields.iter().map(|_| this.solver.fresh_poisoned()).collect()
        };
        let Some((adt_name, adt, tag)) = env.types.constructor(name) else {
            self.unknown_constructor(unit, op, name);
            return poisoned(self);
        };
        let expected = adt.decl.constructors[tag].fields.len();
        let ty = self.solver.shallow(ty);
        let params = match ty.data() {
            TypeData::Named { name, params } if *name == adt_name => params.clone(),
            _ => {
                let params = self.solver.fresh_params(adt.shape_params.iter().copied());
                let pattern = Type::named(adt_name, params.iter().copied());
                self.pattern_fits(unit, op, pattern, ty, data_span);
                params
            }
        };
        if expected != fields.len() {
            self.wrong_fields(unit, op, name, expected, fields.len());
            return poisoned(self);
        }
        adt.fields(tag, &params)
    }
}
