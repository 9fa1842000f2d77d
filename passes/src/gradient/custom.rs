//! Functions that say themselves how they are differentiated: `def @f(…, Gradient=@g)`.

use ir_core::{
    Body, Diagnostic, Diagnostics, InsertPoint, Item, Loc, Module, OpFields, OpParts, PassResult,
    Signature, Symbol, Type, ValueId,
};
use relay::language::{
    Construct, ConstructorDecl, FUNC, Fn, Global, Match, Pattern, Tuple, TupleGet, end_block,
    fn_attributes,
};

use super::changes::{Changes, call};
use super::forward::Declared;
use super::functions::{Pair, Program, declare_tapes, tape_name};
use super::has_data;
use crate::codes::NOT_DIFFERENTIABLE;

/// The attribute that names the rule of a function.
pub(crate) const RULE: &str = "Gradient";

/// What a rule is, for who wrote another one.
const HELP: &str = "write `Gradient=@g`, where `@g` is a function of the module with a body, of the \
                    parameters and the change of the value, which gives a tuple with the change of each \
                    parameter";

/// The function that is the rule of one with this signature.
pub(crate) fn rule(signature: &Signature) -> Option<Symbol> {
    signature.attrs.value(RULE)
}

/// The functions of `module` that have rules, with these.
///
/// # Errors
/// Where a rule is no function of the module, it or its function is generic, or a local function has one.
pub(super) fn rules(module: &Module) -> Result<Vec<(Symbol, Symbol)>, Diagnostics> {
    let (mut rules, mut found) = (vec![], Diagnostics::default());
    for (name, item) in &module.items {
        let base = item.signature.span;
        let mut error = |message: String| {
            found.push(Diagnostic::error(NOT_DIFFERENTIABLE, message).at(base).help(HELP));
        };
        if item.signature.op == FUNC && item.signature.attrs.get(RULE).is_some() {
            let is_plain = |item: &Item| {
                let function = item.signature.ty.as_function();
                item.signature.op == FUNC
                    && item.body.is_some()
                    && function.is_some_and(|function| function.type_params.is_empty())
            };
            match rule(&item.signature) {
                _ if !is_plain(item) => error(format!(
                    "`@{name}` has a rule for its gradient and type parameters, or no body"
                )),
                Some(rule) if module.get(rule).is_some_and(is_plain) => rules.push((*name, rule)),
                Some(rule) => error(format!(
                    "the rule of `@{name}`, `@{rule}`, is no function with a body and without type \
                     parameters"
                )),
                None => error(format!("the rule of `@{name}` is no name of a function")),
            }
        }
        let Some(body) = item.body.as_deref() else { continue };
        let is_local =
            |op: &ir_core::OpId| body.is::<Fn>(*op) && fn_attributes(body, *op).get(RULE).is_some();
        for op in body.walk().filter(is_local) {
            let message = "a function that is a value has a rule for its gradient";
            let error = Diagnostic::error(NOT_DIFFERENTIABLE, message);
            found.push(error.at(body.loc(op).span(base)).help("make it a function of the module"));
        }
    }
    if found.is_empty() { Ok(rules) } else { Err(found) }
}

/// Errors where function `name`, which is differentiated itself, has a rule.
pub(super) fn refuse_rule_of_root(name: Symbol, signature: &Signature) -> PassResult {
    match rule(signature) {
        None => Ok(()),
        Some(_) => {
            let message = format!("`@{name}` has a rule for its gradient");
            let help = "give the rule to a function that it calls";
            Err(Diagnostic::error(NOT_DIFFERENTIABLE, message).at(signature.span).help(help).into())
        }
    }
}

/// Errors where function `name` of `module` has a rule of another type than that of its gradient.
pub(crate) fn check(module: &Module, name: Symbol, data: &mut Changes) -> PassResult {
    let item = &module.items[&name];
    let Some(rule) = rule(&item.signature) else { return Ok(()) };
    let function = item.signature.ty.as_function().expect("what is called is a function");
    let error = |message: String, help: String| {
        let error = Diagnostic::error(NOT_DIFFERENTIABLE, message).at(item.signature.span);
        Err(error.help(help).into())
    };
    let types = function.params.iter().chain([&function.result]);
    if let Some(ty) = types.copied().find(|ty| has_data(*ty) && data.is_differentiable(*ty)) {
        let message = format!("`@{name}` has a rule for its gradient, and takes or gives {ty}");
        return error(
            message,
            "take and give tensors and tuples: the change of data has no name".into(),
        );
    }
    let change = data.ty(function.result);
    let changes: Vec<Type> = function.params.iter().map(|param| data.ty(*param)).collect();
    let params = function.params.iter().copied().chain([change]);
    let expected = Type::function(params, Type::tuple(changes));
    match module.get(rule).map(|item| item.signature.ty) {
        Some(ty) if ty == expected => Ok(()),
        Some(ty) => error(
            format!("the rule of `@{name}`, `@{rule}`, is of type `{ty}`"),
            format!("it takes the parameters and the change of the value: `{expected}`"),
        ),
        None => error(format!("there is no function `@{rule}`"), HELP.to_string()),
    }
}

impl Program<'_> {
    /// Adds the pair of function `name` to `made`, whose tape is its arguments, and whose changes `rule`
    /// gives.
    pub(super) fn pair_by_rule(&self, name: Symbol, rule: Symbol, made: &mut Module) {
        let pair = &self.pairs[&name];
        let function = self.module.items[&name].signature.ty;
        let params = function.as_function().expect("what is called is a function").params.clone();
        let tape = ConstructorDecl::new(pair.constructor, params.to_vec());
        made.items.insert(pair.forward, forward(pair, name, &params));
        made.items.insert(pair.back, self.back_by_rule(pair, rule, &params));
        declare_tapes(made, [Declared { name: tape_name(pair.tape), constructors: vec![tape] }]);
    }

    fn back_by_rule(&self, pair: &Pair, rule: Symbol, params: &[Type]) -> Item {
        let (change_ty, changes) = {
            let mut data = self.data.borrow_mut();
            let changes: Vec<Type> = params.iter().map(|ty| data.ty(*ty)).collect();
            (data.ty(pair.result), changes)
        };
        let mut out = Body::new();
        let entry = out.entry();
        let tape = out.add_block_arg(entry, pair.tape);
        let change = out.add_block_arg(entry, change_ty);
        let variables = vec![Pattern::Variable; params.len()];
        let patterns = vec![Pattern::Constructor(pair.constructor, variables)];
        let attrs = OpFields::<ValueId>::attrs(&Match { data: tape, patterns, complete: true });
        let result = Type::tuple(pair.wanted.iter().map(|index| changes[*index]));
        let (operands, types) = ([tape], [result]);
        let parts = OpParts::new(Match::<ValueId>::NAME, &operands, &types).attrs(attrs).regions(1);
        let op = out.insert_op(InsertPoint::End(entry), parts);
        let block = out.region_block(op, 0);
        let mut args: Vec<ValueId> =
            params.iter().map(|ty| out.add_block_arg(block, *ty)).collect();
        args.push(change);
        let all = Type::tuple(changes.iter().copied());
        let given = call_of(&mut out, InsertPoint::End(block), rule, args, all);
        let fields = pair.wanted.iter().map(|index| {
            let get = TupleGet { tuple: given, index: *index as i64 };
            out.add(InsertPoint::End(block), Loc::UNKNOWN, &get, changes[*index])
        });
        let fields = fields.collect();
        let wanted = out.add(InsertPoint::End(block), Loc::UNKNOWN, &Tuple { fields }, result);
        end_block(&mut out, block, wanted);
        let value = out.result(op, 0);
        end_block(&mut out, entry, value);
        Item::new(FUNC, Type::function([pair.tape, change_ty], result), Some(out))
    }
}

/// The function that gives the value of function `name` and its arguments as a tape.
fn forward(pair: &Pair, name: Symbol, params: &[Type]) -> Item {
    let mut out = Body::new();
    let entry = out.entry();
    let at = InsertPoint::End(entry);
    let args: Vec<ValueId> = params.iter().map(|ty| out.add_block_arg(entry, *ty)).collect();
    let value = call_of(&mut out, at, name, args.clone(), pair.result);
    let made = Construct { name: pair.constructor.to_string(), fields: args };
    let tape = out.add(at, Loc::UNKNOWN, &made, pair.tape);
    let both = Type::tuple([pair.result, pair.tape]);
    let result = out.add(at, Loc::UNKNOWN, &Tuple { fields: vec![value, tape] }, both);
    end_block(&mut out, entry, result);
    Item::new(FUNC, Type::function(params.iter().copied(), both), Some(out))
}

/// Calls function `name` of the module.
pub(super) fn call_of(
    body: &mut Body,
    at: InsertPoint,
    name: Symbol,
    args: Vec<ValueId>,
    result: Type,
) -> ValueId {
    let types: Vec<Type> = args.iter().map(|arg| body.ty(*arg)).collect();
    let callee = body.add(at, Loc::UNKNOWN, &Global { name }, Type::function(types, result));
    body.add(at, Loc::UNKNOWN, &call(callee, args), result)
}
