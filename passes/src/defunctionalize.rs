//! First-order programs from higher-order ones.

use indexmap::IndexMap;
use ir_core::module::FreshNames;
use ir_core::{
    AttrDict, Body, Diagnostic, Diagnostics, InsertPoint, Item, Loc, Module, ModulePass, OpFields,
    OpId, OpParts, Pass, PassContext, PassResult, Span, Symbol, Type, ValueId, ValueMap,
};
use relay::language::{
    AdtDecl, Call, Construct, Constructor, ConstructorDecl, FUNC, Fn, Global, Match, Operator,
    Pattern, TYPE, end_block, fn_attributes, fn_params, fn_self, is_primitive,
};
use relay::types::free_parameters;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::lambda_lift::{captures, insert_call, is_copied};
use crate::specialize::types;
use crate::specialize::types::with_parts;

/// Turns functions that are values into data (Reynolds 1972).
///
/// Polymorphic functions that take functions are first copied for the types that they are used
/// with, and so are data types that hold functions of the types that their parameters stand for.
/// Then every function type becomes a data type with a constructor for each function of that type
/// that the program makes, holding what it captures, and a function that applies such data. So
/// functions may be passed, returned, bound and stored in data types. Kernels (`Primitive=1`) stay.
///
/// A function value whose type depends on a type parameter that no use fixes is an error.
///
/// ```relay
/// def @app(%f: fn (float32) -> float32, %x: float32) -> float32 { %f(%x) }
/// def @main(%a: float32, %x: float32) -> float32 {
///   @app(fn (%y: float32) -> float32 { multiply(%y, %a) }, %x)
/// }
/// ```
/// becomes
/// ```relay
/// type Closure {
///   Lambda(float32),
/// }
///
/// def @app(%f: Closure[], %x: float32) -> float32 {
///   @apply(%f, %x)
/// }
///
/// def @main(%a: float32, %x: float32) -> float32 {
///   %0 = Lambda(%a);
///   @app(%0, %x)
/// }
///
/// def @apply(%p: Closure[], %p1: float32) -> float32 {
///   match (%p) {
///     Lambda(%a: float32) => {
///       multiply(%p1, %a)
///     },
///   }
/// }
/// ```
#[derive(Pass)]
#[pass(name = "defunctionalize", module)]
pub struct Defunctionalize {}

impl ModulePass for Defunctionalize {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        crate::specialize::specialize(module, false, &[], cx)?;
        let mut conversion = Conversion::new(module);
        let functions: Vec<Symbol> = module
            .items
            .iter()
            .filter(|(_, item)| item.signature.op == FUNC && is_monomorphic(item))
            .map(|(name, _)| *name)
            .collect();
        for name in &functions {
            let item = module.items.get_mut(name).expect("no function was taken away");
            let base = item.signature.span;
            let Some(body) = item.body_mut() else { continue };
            conversion.convert(body, base)?;
        }
        // Types come last: until here a function's type tells which data type it belongs to.
        for name in &functions {
            let item = module.items.get_mut(name).expect("no function was taken away");
            item.signature.ty = conversion.signature(item.signature.ty)?;
            let Some(body) = &item.body else { continue };
            if conversion.changes(body)
                && let Some(body) = item.body_mut()
            {
                conversion.retype(body)?;
            }
        }
        for item in module.items.values_mut().filter(|item| item.signature.op == TYPE) {
            conversion.declaration(item)?;
        }
        cx.count("closures", conversion.constructed);
        conversion.finish(module)
    }
}

pub(crate) fn is_monomorphic(item: &Item) -> bool {
    item.signature.ty.as_function().is_some_and(|function| function.type_params.is_empty())
}

/// The data type that stands for a function type.
struct ClosureType {
    /// The data type.
    name: Symbol,
    /// The function that applies its values.
    apply: Symbol,
    arms: Vec<Arm>,
}

/// One function that the program makes.
struct Arm {
    constructor: Symbol,
    /// Types of what it captures.
    fields: Vec<Type>,
    /// What it computes; the parameters are the fields, its own parameters, and itself as data.
    body: Body,
}

struct Conversion {
    closures: IndexMap<Type, ClosureType, FxBuildHasher>,
    /// Constructors of functions that capture nothing and have a name: by type, operation and
    /// attributes.
    named: FxHashMap<(Type, Symbol, AttrDict), Symbol>,
    /// Names of items and constructors that are taken.
    taken: FxHashSet<Symbol>,
    names: FreshNames,
    memo: FxHashMap<Type, Type>,
    constructed: u64,
}

impl Conversion {
    fn new(module: &Module) -> Conversion {
        let declarations = module.items.values().filter_map(|item| {
            AdtDecl::from_attrs(item.signature.attrs).filter(|_| item.signature.op == TYPE)
        });
        let constructors = declarations.flat_map(|adt| adt.constructors).map(|c| c.name);
        Conversion {
            closures: IndexMap::default(),
            named: FxHashMap::default(),
            taken: module.items.keys().copied().chain(constructors).collect(),
            names: FreshNames::default(),
            memo: FxHashMap::default(),
            constructed: 0,
        }
    }

    fn fresh(&mut self, base: &str) -> Symbol {
        let taken = &self.taken;
        let name = self.names.fresh(base, "", |name| taken.contains(&name));
        self.taken.insert(name);
        name
    }

    /// The data type for function type `ty`, made where it is new. Errors when `ty` depends on a
    /// type parameter.
    fn closure(&mut self, ty: Type) -> Result<&mut ClosureType, Diagnostics> {
        if !self.closures.contains_key(&ty) {
            let polymorphic = ty.as_function().is_none_or(|f| !f.type_params.is_empty());
            if polymorphic || !free_parameters(ty).is_empty() {
                return Err(Diagnostic::error(
                    "E0610",
                    format!("expected function values of a type without parameters, found `{ty}`"),
                )
                .help("give the data type or function that holds it concrete types")
                .into());
            }
            let (name, apply) = (self.fresh("Closure"), self.fresh("apply"));
            self.closures.insert(ty, ClosureType { name, apply, arms: vec![] });
        }
        match self.closures.get_mut(&ty) {
            Some(closure) => Ok(closure),
            None => unreachable!("it was inserted above"),
        }
    }

    /// `ty` with function types replaced. Recursion is bounded by the depth of types.
    fn ty(&mut self, ty: Type) -> Result<Type, Diagnostics> {
        if let Some(known) = self.memo.get(&ty) {
            return Ok(*known);
        }
        let new = match ty.as_function() {
            Some(_) => Type::named(self.closure(ty)?.name, []),
            None => self.parts(ty)?,
        };
        self.memo.insert(ty, new);
        Ok(new)
    }

    /// The type of a function that is called by name: its parts replaced, not the whole.
    fn signature(&mut self, ty: Type) -> Result<Type, Diagnostics> {
        self.parts(ty)
    }

    fn parts(&mut self, ty: Type) -> Result<Type, Diagnostics> {
        let mut error = None;
        let new = with_parts(ty, &mut |part| {
            self.ty(part).unwrap_or_else(|found| {
                error.get_or_insert(found);
                part
            })
        });
        error.map_or(Ok(new), Err)
    }

    /// Replaces function values by data and calls of them by applications, inner ones first.
    fn convert(&mut self, body: &mut Body, base: Option<Span>) -> PassResult {
        for op in body.post_order() {
            if !body.is_live(op) {
                continue;
            }
            let at = |found: Diagnostics| found.at(body.loc(op).span(base));
            match body.op_name(op).as_str() {
                Fn::NAME if !is_primitive(fn_attributes(body, op)) => {
                    let ty = body.ty(body.result(op, 0));
                    self.closure(ty).map_err(at)?;
                    self.lambda(body, base, op)?;
                }
                Global::NAME | Operator::NAME | Constructor::NAME => {
                    let value = body.result(op, 0);
                    if body.uses(value).any(|used| !is_callee(body, used)) {
                        self.closure(body.ty(value)).map_err(at)?;
                        self.atom(body, base, op)?;
                    }
                }
                Call::NAME if is_unknown_callee(body, body.operand(op, 0)) => {
                    let ty = body.ty(body.operand(op, 0));
                    self.closure(ty).map_err(at)?;
                    self.application(body, op, ty)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds a constructor for a function of type `ty`.
    fn add_arm(&mut self, ty: Type, fields: Vec<Type>, body: Body) -> Result<Symbol, Diagnostics> {
        let constructor = self.fresh("Lambda");
        self.constructed += 1;
        self.closure(ty)?.arms.push(Arm { constructor, fields, body });
        Ok(constructor)
    }

    fn lambda(&mut self, body: &mut Body, base: Option<Span>, op: OpId) -> PassResult {
        let value = body.result(op, 0);
        let ty = body.ty(value);
        let (copied, captured): (Vec<ValueId>, Vec<ValueId>) =
            captures(body, op).into_iter().partition(|value| is_copied(body, *value).is_some());
        let mut arm = Body::new();
        let entry = arm.entry();
        let mut map = ValueMap::default();
        let params = fn_params(body, op).to_vec();
        let itself = fn_self(body, op);
        for &value in captured.iter().chain(&params) {
            let arg = arm.add_block_arg(entry, body.ty(value));
            arm.set_name_hint(arg, body.name_hint(value));
            map.insert(value, arg);
        }
        let own = arm.add_block_arg(entry, ty);
        if let Some(itself) = itself {
            map.insert(itself, own);
        }
        for value in copied {
            if let Some(atom) = is_copied(body, value) {
                arm.import_op(body, base, atom, InsertPoint::End(entry), &mut map);
            }
        }
        let block = body.region_block(op, 0);
        arm.import_block_ops(body, base, block, InsertPoint::End(entry), &mut map);
        let fields = captured.iter().map(|value| body.ty(*value)).collect();
        let constructor = self.add_arm(ty, fields, arm)?;
        let data = insert_construct(body, op, constructor, captured, ty);
        body.set_name_hint(data, body.name_hint(value));
        body.replace_all_uses(value, data);
        body.erase(op);
        Ok(())
    }

    /// Makes the uses of a named function as a value uses of data.
    fn atom(&mut self, body: &mut Body, base: Option<Span>, op: OpId) -> PassResult {
        let value = body.result(op, 0);
        let ty = body.ty(value);
        let key = (ty, body.op_name(op), body.attrs(op));
        let constructor = match self.named.get(&key) {
            Some(constructor) => *constructor,
            None => {
                let arm = call_atom(body, base, op, ty);
                let constructor = self.add_arm(ty, vec![], arm)?;
                self.named.insert(key, constructor);
                constructor
            }
        };
        let data = insert_construct(body, op, constructor, vec![], ty);
        body.replace_uses_where(value, data, |body, used| !is_callee(body, used));
        if body.is_unused(value) {
            body.erase(op);
        }
        Ok(())
    }

    /// Calls the function that applies data of type `ty`.
    fn application(&mut self, body: &mut Body, op: OpId, ty: Type) -> PassResult {
        let apply = self.closure(ty)?.apply;
        let args: Vec<ValueId> = body.operands(op).collect();
        let function = ty.as_function().expect("closures are of function types");
        let params = std::iter::once(ty).chain(function.params.iter().copied());
        let apply_ty = Type::function(params, function.result);
        let (loc, value) = (body.loc(op), body.result(op, 0));
        let at = InsertPoint::Before(op);
        let global = body.add(at, loc, &Global { name: apply }, apply_ty);
        let new = insert_call(body, at, loc, global, args, body.ty(value));
        body.set_name_hint(new, body.name_hint(value));
        body.replace_all_uses(value, new);
        body.erase(op);
        Ok(())
    }

    /// Whether a value of `body` has a type that changes.
    fn changes(&self, body: &Body) -> bool {
        let args = body.walk_blocks().flat_map(|block| body.block_args(block).iter().copied());
        let results = body.walk().flat_map(|op| body.results(op));
        args.chain(results).any(|value| types::has_function(body.ty(value)))
    }

    fn retype(&mut self, body: &mut Body) -> PassResult {
        let blocks: Vec<_> = body.walk_blocks().collect();
        for block in blocks {
            for arg in body.block_args(block).to_vec() {
                let ty = self.ty(body.ty(arg))?;
                body.set_ty(arg, ty);
            }
        }
        let ops: Vec<OpId> = body.walk().collect();
        for op in ops {
            let called = [Global::NAME, Operator::NAME, Constructor::NAME, Fn::NAME];
            let is_called = called.contains(&body.op_name(op).as_str());
            for value in body.results(op) {
                let ty = match is_called {
                    true => self.signature(body.ty(value))?,
                    false => self.ty(body.ty(value))?,
                };
                body.set_ty(value, ty);
            }
        }
        Ok(())
    }

    fn declaration(&mut self, item: &mut Item) -> PassResult {
        let mut adt = AdtDecl::from_attrs(item.signature.attrs).expect("data types are declared");
        for field in adt.constructors.iter_mut().flat_map(|c| &mut c.fields) {
            if types::has_function(*field) {
                *field = self.ty(*field).map_err(|error| error.at(item.signature.span))?;
            }
        }
        item.signature.attrs = adt.to_attrs();
        Ok(())
    }

    /// Adds the data types and the functions that apply them. Their types may ask for further data
    /// types.
    fn finish(mut self, module: &mut Module) -> PassResult {
        let mut index = 0;
        while let Some((ty, closure)) = self.closures.get_index_mut(index) {
            index += 1;
            let (ty, name, apply) = (*ty, closure.name, closure.apply);
            let arms = std::mem::take(&mut closure.arms);
            let function = ty.as_function().expect("closures are of function types");
            let mut adt = AdtDecl::default();
            let mut body = Body::new();
            let entry = body.entry();
            let data = body.add_block_arg(entry, ty);
            let params: Vec<ValueId> =
                function.params.iter().map(|param| body.add_block_arg(entry, *param)).collect();
            let patterns = arms
                .iter()
                .map(|arm| {
                    Pattern::Constructor(arm.constructor, vec![Pattern::Variable; arm.fields.len()])
                })
                .collect();
            let form = Match { data, patterns, complete: true };
            let (operands, results) = (form.operands(), [function.result]);
            let parts = OpParts::new(Match::NAME, &operands, &results)
                .attrs(form.attrs())
                .regions(arms.len());
            let choice = body.insert_op(InsertPoint::End(entry), parts);
            for (clause, arm) in arms.iter().enumerate() {
                let block = body.region_block(choice, clause);
                let mut map = ValueMap::default();
                let args = arm.body.block_args(arm.body.entry());
                let (fields, own) = args.split_at(arm.fields.len());
                for field in fields {
                    let arg = body.add_block_arg(block, arm.body.ty(*field));
                    body.set_name_hint(arg, arm.body.name_hint(*field));
                    map.insert(*field, arg);
                }
                map.extend(own.iter().copied().zip(params.iter().copied().chain([data])));
                let source = arm.body.entry();
                body.import_block_ops(&arm.body, None, source, InsertPoint::End(block), &mut map);
                let fields = arm.fields.iter().map(|field| self.ty(*field));
                let fields = fields.collect::<Result<Vec<_>, _>>()?;
                adt.constructors.push(ConstructorDecl::new(arm.constructor, fields));
            }
            let value = body.result(choice, 0);
            end_block(&mut body, entry, value);
            self.retype(&mut body)?;
            let params = std::iter::once(ty).chain(function.params.iter().copied());
            let signature = self.signature(Type::function(params, function.result))?;
            module.items.insert(apply, Item::new(FUNC, signature, Some(body)));
            let mut declaration = Item::new(TYPE, Type::unknown(), None);
            declaration.signature.attrs = adt.to_attrs();
            module.items.insert(name, declaration);
        }
        Ok(())
    }
}

fn is_callee(body: &Body, (user, index): (OpId, usize)) -> bool {
    index == 0 && body.is::<Call>(user)
}

/// Whether calling `value` needs to find out which function it is.
fn is_unknown_callee(body: &Body, value: ValueId) -> bool {
    match body.defining_op(value) {
        None => true,
        Some(op) => match body.op_name(op).as_str() {
            Global::NAME | Operator::NAME | Constructor::NAME => false,
            Fn::NAME => !is_primitive(fn_attributes(body, op)),
            _ => true,
        },
    }
}

fn insert_construct(
    body: &mut Body,
    op: OpId,
    constructor: Symbol,
    fields: Vec<ValueId>,
    ty: Type,
) -> ValueId {
    let construct = Construct { name: constructor.to_string(), fields };
    body.add(InsertPoint::After(op), body.loc(op), &construct, ty)
}

/// The body of a function of type `ty` that calls the named function `op`; its last parameter, the
/// function itself as data, is not used.
fn call_atom(body: &Body, base: Option<Span>, op: OpId, ty: Type) -> Body {
    let mut arm = Body::new();
    let entry = arm.entry();
    let (params, result) = match ty.as_function() {
        Some(function) => (function.params.to_vec(), function.result),
        None => (vec![], Type::unknown()),
    };
    let args: Vec<ValueId> = params.iter().map(|param| arm.add_block_arg(entry, *param)).collect();
    arm.add_block_arg(entry, ty);
    let (end, loc): (_, Loc) = (InsertPoint::End(entry), body.loc(op).outside(base));
    let value = if let Some(operator) = body.view::<Operator>(op) {
        let types = [result];
        let parts = OpParts::new(relay::language::operator(&operator.name), &args, &types);
        let call = arm.insert_op(end, parts.at(loc));
        arm.result(call, 0)
    } else if let Some(constructor) = body.view::<Constructor>(op) {
        arm.add(end, loc, &Construct { name: constructor.name, fields: args }, result)
    } else {
        debug_assert!(body.view::<Global>(op).is_some(), "only names are copied");
        let copy = arm.import_op(body, base, op, end, &mut ValueMap::default());
        let callee = arm.result(copy, 0);
        insert_call(&mut arm, end, loc, callee, args, result)
    };
    end_block(&mut arm, entry, value);
    arm
}
