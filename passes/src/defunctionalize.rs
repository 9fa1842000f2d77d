//! First-order programs from higher-order ones.

mod flow;

use indexmap::IndexMap;
use ir_core::module::FreshNames;
use ir_core::{
    AttrDict, Body, Diagnostic, Diagnostics, FunctionType, InsertPoint, Item, Loc, Module,
    ModulePass, OpFields, OpId, OpParts, Pass, PassContext, PassResult, Span, Symbol, Type,
    TypeData, ValueId, ValueMap,
};
use relay::language::{
    AdtDecl, Call, Construct, Constructor, ConstructorDecl, FUNC, Fn, Global, Match, Operator,
    Pattern, TYPE, end_block, fn_attributes, fn_params, fn_self, is_primitive,
};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::codes::FROM_OUTSIDE;
use crate::lambda_lift::{captures, insert_call, is_copied};
use crate::specialize::types::{Declarations, with_parts};
use crate::specialize::{Mode, specialize};
use flow::{Flow, Place, is_callee};

/// Turns functions that are values into data (Reynolds 1972).
///
/// Functions and data types are first copied for the types that they are used with, as `specialize` does,
/// and local functions that are called become functions of the module. Then the functions that may come
/// to the same places become a data type, with a constructor for each of them that holds what it
/// captures, and a function that applies such data. So functions may be passed, returned, bound and
/// stored in data types, and what never meets stays apart. Kernels (`Primitive=1`) stay.
///
/// A function value whose type depends on a type parameter that no use fixes is an error, and so is a
/// `@main` that takes or gives functions.
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
        specialize(module, Mode::LocalCalls, &[], cx)?;
        refuse_functions_from_outside(module)?;
        let flow = Flow::of(module);
        let widened = flow.widened;
        let mut conversion = Conversion::new(module, flow);
        let functions: Vec<Symbol> = module
            .items
            .iter()
            .filter(|(_, item)| item.signature.op == FUNC && item.body.is_some())
            .map(|(name, _)| *name)
            .collect();
        for name in functions {
            let item = module.items.get_mut(&name).expect("no function was taken away");
            let base = item.signature.span;
            item.signature.ty = conversion.signature(name, item.signature.ty);
            let Some(shared) = &item.body else { continue };
            if !conversion.changes(name, shared) {
                continue;
            }
            let plan = conversion.plan(name, shared, base)?;
            let Some(body) = item.body_mut() else { continue };
            conversion.retype(name, body);
            conversion.convert(body, base, &plan);
        }
        for item in module.items.values_mut().filter(|item| item.signature.op == TYPE) {
            conversion.declaration(item);
        }
        cx.count("closures", conversion.constructed);
        conversion.finish(module);
        if widened {
            // What several functions give has the extents that all of them know: others are checked.
            let found = relay::inference::infer_module(module, cx.registry);
            found.into_iter().filter(|d| d.is_error()).for_each(|error| cx.report(error));
        }
        Ok(())
    }
}

/// What a program is given and gives is data.
fn refuse_functions_from_outside(module: &Module) -> PassResult {
    let Some(item) = module.get("main") else { return Ok(()) };
    let Some(function) = item.signature.ty.as_function() else { return Ok(()) };
    let declarations = Declarations::new(module);
    let mut seen: FxHashSet<Type> = FxHashSet::default();
    let mut pending: Vec<Type> = function.params.iter().copied().chain([function.result]).collect();
    while let Some(ty) = pending.pop() {
        if !seen.insert(ty) {
            continue;
        }
        let mut parts = vec![];
        with_parts(ty, &mut |part| {
            parts.push(part);
            part
        });
        match ty.data() {
            TypeData::Function(_) => {
                let message = format!("`@main` takes or gives a function, of type `{ty}`");
                return Err(Diagnostic::error(FROM_OUTSIDE, message)
                    .at(item.signature.span)
                    .help("pass data that tells the functions apart, and match it")
                    .into());
            }
            TypeData::Named { name, .. } => {
                let adt = declarations.types.get(name);
                pending.extend(
                    adt.into_iter().flat_map(|adt| &adt.constructors).flat_map(|c| &c.fields),
                );
            }
            _ => {}
        }
        pending.extend(parts);
    }
    Ok(())
}

/// The data type that stands for the functions that come to a place.
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

/// The place of the functions that an operation makes or calls, of those operations that change.
type Plan = FxHashMap<OpId, Place>;

struct Conversion {
    flow: Flow,
    closures: IndexMap<Place, ClosureType, FxBuildHasher>,
    /// Constructors of functions that capture nothing and have a name: by place, operation and
    /// attributes.
    named: FxHashMap<(Place, Symbol, AttrDict), Symbol>,
    /// Names of items and constructors that are taken.
    taken: FxHashSet<Symbol>,
    names: FreshNames,
    constructed: u64,
}

impl Conversion {
    fn new(module: &Module, flow: Flow) -> Conversion {
        let declarations = module.items.values().filter_map(|item| {
            AdtDecl::from_attrs(item.signature.attrs).filter(|_| item.signature.op == TYPE)
        });
        let constructors = declarations.flat_map(|adt| adt.constructors).map(|c| c.name);
        Conversion {
            flow,
            closures: IndexMap::default(),
            named: FxHashMap::default(),
            taken: module.items.keys().copied().chain(constructors).collect(),
            names: FreshNames::default(),
            constructed: 0,
        }
    }

    fn fresh(&mut self, base: &str) -> Symbol {
        let taken = &self.taken;
        let name = self.names.fresh(base, "", |name| taken.contains(&name));
        self.taken.insert(name);
        name
    }

    /// The data type for the functions at `place`, made where it is new.
    fn closure(&mut self, place: Place) -> &mut ClosureType {
        if !self.closures.contains_key(&place) {
            let (name, apply) = (self.fresh("Closure"), self.fresh("apply"));
            self.closures.insert(place, ClosureType { name, apply, arms: vec![] });
        }
        self.closures.get_mut(&place).expect("it was inserted above")
    }

    /// `ty`, of what comes to `place`, with function types replaced.
    fn ty(&mut self, ty: Type, place: Option<Place>) -> Type {
        if place.is_none() {
            return ty;
        }
        let mut places = vec![];
        self.flow.ty(ty, place, &mut |place| {
            places.push(place);
            ty
        });
        for place in places {
            self.closure(place);
        }
        let closures = &self.closures;
        self.flow.ty(ty, place, &mut |place| Type::named(closures[&place].name, []))
    }

    /// The type `ty` of function `name`, which is called by name: its parts replaced, not the whole.
    fn signature(&mut self, name: Symbol, ty: Type) -> Type {
        let (params, result) = self.flow.border(name);
        let (params, result) = (params.to_vec(), result);
        self.function(ty, &params, result)
    }

    fn function(&mut self, ty: Type, params: &[Option<Place>], result: Option<Place>) -> Type {
        let Some(function) = ty.as_function() else { return ty };
        if params.iter().all(Option::is_none) && result.is_none() {
            return ty;
        }
        let own = function.params.iter().zip(params);
        let own = own.map(|(param, place)| self.ty(*param, *place)).collect();
        let result = self.ty(function.result, result);
        let type_params = function.type_params.clone();
        Type::new(TypeData::Function(FunctionType { type_params, params: own, result }))
    }

    /// The functions that come to `place`, as the function that applies their data: that type, with the
    /// data first.
    fn applied(&mut self, place: Place) -> Type {
        let (ty, params, result) = self.flow.function(place);
        let ty = self.function(ty, &params, result);
        let data = Type::named(self.closure(place).name, []);
        match ty.as_function() {
            Some(function) => {
                let params = std::iter::once(data).chain(function.params.iter().copied());
                Type::function(params, function.result)
            }
            None => ty,
        }
    }

    /// The places of functions that operations of `body` make, pass or call. Errors where their types
    /// depend on parameters.
    fn plan(&self, inside: Symbol, body: &Body, base: Option<Span>) -> Result<Plan, Diagnostics> {
        let mut plan = Plan::default();
        for op in body.walk() {
            let value = match body.op_name(op).as_str() {
                Call::<ValueId>::NAME => {
                    let callee = body.operand(op, 0);
                    Some(callee).filter(|callee| {
                        body.defining_op(*callee).is_none_or(|op| !flow::is_name(body, op))
                    })
                }
                Fn::NAME | Global::NAME | Operator::NAME | Constructor::NAME => {
                    Some(body.result(op, 0))
                }
                _ => None,
            };
            let Some(place) = value.and_then(|value| self.flow.of_value(inside, value)) else {
                continue;
            };
            let (ty, ..) = self.flow.function(place);
            let polymorphic = ty.as_function().is_none_or(|f| !f.type_params.is_empty());
            if polymorphic || ty.facts().has_parameter {
                return Err(Diagnostic::error(
                    "E0610",
                    format!("expected function values of a type without parameters, found `{ty}`"),
                )
                .at(body.loc(op).span(base))
                .help("give the data type or function that holds it concrete types")
                .into());
            }
            plan.insert(op, place);
        }
        Ok(plan)
    }

    /// Whether something in `body` changes.
    fn changes(&self, inside: Symbol, body: &Body) -> bool {
        let args = body.walk_blocks().flat_map(|block| body.block_args(block).iter().copied());
        let results = body.walk().flat_map(|op| body.results(op));
        let is_changed = |value: ValueId| {
            self.flow.of_value(inside, value).is_some() || body.ty(value).as_function().is_some()
        };
        args.chain(results).any(is_changed)
    }

    /// Gives all values of `body` the types that they have in the end.
    fn retype(&mut self, inside: Symbol, body: &mut Body) {
        let blocks: Vec<_> = body.walk_blocks().collect();
        let args = blocks.into_iter().flat_map(|block| body.block_args(block).to_vec());
        for arg in args.collect::<Vec<ValueId>>() {
            let ty = self.ty(body.ty(arg), self.flow.of_value(inside, arg));
            body.set_ty(arg, ty);
        }
        let ops: Vec<OpId> = body.walk().collect();
        for op in ops {
            for value in body.results(op) {
                let ty = body.ty(value);
                let ty = match body.op_name(op).as_str() {
                    Global::NAME => match body.view::<Global>(op) {
                        Some(global) => self.signature(global.name, ty),
                        None => ty,
                    },
                    // They go, or stay as what is called.
                    Fn::NAME | Operator::NAME | Constructor::NAME => ty,
                    _ => self.ty(ty, self.flow.of_value(inside, value)),
                };
                body.set_ty(value, ty);
            }
        }
    }

    /// Replaces function values by data and calls of them by applications, inner ones first.
    fn convert(&mut self, body: &mut Body, base: Option<Span>, plan: &Plan) {
        for op in body.post_order() {
            let Some(place) = plan.get(&op).filter(|_| body.is_live(op)) else { continue };
            match body.op_name(op).as_str() {
                Call::<ValueId>::NAME => self.application(body, op, *place),
                Fn::NAME if !is_primitive(fn_attributes(body, op)) => {
                    self.lambda(body, base, op, *place);
                }
                _ => self.name(body, base, op, *place),
            }
        }
    }

    /// Adds a constructor for a function at `place`.
    fn add_arm(&mut self, place: Place, fields: Vec<Type>, body: Body) -> Symbol {
        let constructor = self.fresh("Lambda");
        self.constructed += 1;
        self.closure(place).arms.push(Arm { constructor, fields, body });
        constructor
    }

    fn lambda(&mut self, body: &mut Body, base: Option<Span>, op: OpId, place: Place) {
        let value = body.result(op, 0);
        let data = Type::named(self.closure(place).name, []);
        let (copied, captured): (Vec<ValueId>, Vec<ValueId>) = captures(body, op)
            .into_iter()
            .partition(|value| is_copied_here(body, *value).is_some());
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
        let own = arm.add_block_arg(entry, data);
        if let Some(itself) = itself {
            map.insert(itself, own);
        }
        for value in copied {
            if let Some(op) = is_copied_here(body, value) {
                arm.import_op(body, base, op, InsertPoint::End(entry), &mut map);
            }
        }
        let block = body.region_block(op, 0);
        arm.import_block_ops(body, base, block, InsertPoint::End(entry), &mut map);
        let fields = captured.iter().map(|value| body.ty(*value)).collect();
        let constructor = self.add_arm(place, fields, arm);
        let data = insert_construct(body, op, constructor, captured, data);
        body.set_name_hint(data, body.name_hint(value));
        body.replace_all_uses(value, data);
        body.erase(op);
    }

    /// Makes the uses of a named function, or a kernel, as a value uses of data.
    fn name(&mut self, body: &mut Body, base: Option<Span>, op: OpId, place: Place) {
        let value = body.result(op, 0);
        let key = (place, body.op_name(op), body.attrs(op));
        let is_kernel = body.is::<Fn>(op);
        let constructor = match self.named.get(&key).filter(|_| !is_kernel) {
            Some(constructor) => *constructor,
            None => {
                let ty = self.applied(place);
                let arm = call_name(body, base, op, ty);
                let constructor = self.add_arm(place, vec![], arm);
                self.named.insert(key, constructor);
                constructor
            }
        };
        let data = Type::named(self.closure(place).name, []);
        let data = insert_construct(body, op, constructor, vec![], data);
        body.replace_uses_where(value, data, |body, used| !is_callee(body, used));
        if body.is_unused(value) {
            body.erase(op);
        }
    }

    /// Calls the function that applies the data at `place`.
    fn application(&mut self, body: &mut Body, op: OpId, place: Place) {
        let ty = self.applied(place);
        let name = self.closure(place).apply;
        let args: Vec<ValueId> = body.operands(op).collect();
        let (loc, value) = (body.loc(op), body.result(op, 0));
        let at = InsertPoint::Before(op);
        let global = body.add(at, loc, &Global { name }, ty);
        let new = insert_call(body, at, loc, global, args, body.ty(value));
        body.set_name_hint(new, body.name_hint(value));
        body.replace_all_uses(value, new);
        body.erase(op);
    }

    fn declaration(&mut self, item: &mut Item) {
        let mut adt = AdtDecl::from_attrs(item.signature.attrs).expect("data types are declared");
        let mut changes = false;
        for made in &mut adt.constructors {
            let places = self.flow.fields(made.name).to_vec();
            for (field, place) in made.fields.iter_mut().zip(places) {
                let new = self.ty(*field, place);
                changes |= new != *field;
                *field = new;
            }
        }
        if changes {
            item.signature.attrs = adt.to_attrs();
        }
    }

    /// Adds the data types and the functions that apply them. Their types may ask for further data
    /// types.
    fn finish(mut self, module: &mut Module) {
        let mut index = 0;
        while let Some((place, closure)) = self.closures.get_index_mut(index) {
            index += 1;
            let (place, name, apply) = (*place, closure.name, closure.apply);
            let arms = std::mem::take(&mut closure.arms);
            let ty = self.applied(place);
            let function = ty.as_function().expect("closures are of function types");
            let mut adt = AdtDecl::default();
            let mut body = Body::new();
            let entry = body.entry();
            let params: Vec<ValueId> =
                function.params.iter().map(|param| body.add_block_arg(entry, *param)).collect();
            let data = params[0];
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
            for (clause, arm) in arms.into_iter().enumerate() {
                let block = body.region_block(choice, clause);
                let mut map = ValueMap::default();
                let args = arm.body.block_args(arm.body.entry());
                let (fields, own) = args.split_at(arm.fields.len());
                for field in fields {
                    let arg = body.add_block_arg(block, arm.body.ty(*field));
                    body.set_name_hint(arg, arm.body.name_hint(*field));
                    map.insert(*field, arg);
                }
                map.extend(own.iter().copied().zip(params[1..].iter().copied().chain([data])));
                let source = arm.body.entry();
                body.import_block_ops(&arm.body, None, source, InsertPoint::End(block), &mut map);
                adt.constructors.push(ConstructorDecl::new(arm.constructor, arm.fields));
            }
            let value = body.result(choice, 0);
            end_block(&mut body, entry, value);
            module.items.insert(apply, Item::new(FUNC, ty, Some(body)));
            let mut declaration = Item::new(TYPE, Type::unknown(), None);
            declaration.signature.attrs = adt.to_attrs();
            module.items.insert(name, declaration);
        }
    }
}

/// What makes `value`, where a function value that uses it makes it again rather than holds it.
fn is_copied_here(body: &Body, value: ValueId) -> Option<OpId> {
    let op = body.defining_op(value)?;
    let is_constant = body.is::<Construct>(op) && body.operand_count(op) == 0;
    is_copied(body, value).or(Some(op).filter(|op| is_constant || flow::is_name(body, *op)))
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

/// The body of the function `op`, a name or a kernel, called with what a function of type `ty` takes but
/// the first; its last parameter, the function itself as data, is not used.
fn call_name(body: &Body, base: Option<Span>, op: OpId, ty: Type) -> Body {
    let mut arm = Body::new();
    let entry = arm.entry();
    let Some(function) = ty.as_function() else { unreachable!("data is applied by functions") };
    let (data, params) = function.params.split_first().expect("data comes first");
    let args: Vec<ValueId> = params.iter().map(|param| arm.add_block_arg(entry, *param)).collect();
    arm.add_block_arg(entry, *data);
    let (end, loc): (_, Loc) = (InsertPoint::End(entry), body.loc(op).outside(base));
    let result = function.result;
    let value = if let Some(operator) = body.view::<Operator>(op) {
        let types = [result];
        let parts = OpParts::new(relay::language::operator(&operator.name), &args, &types);
        let call = arm.insert_op(end, parts.at(loc));
        arm.result(call, 0)
    } else if let Some(constructor) = body.view::<Constructor>(op) {
        arm.add(end, loc, &Construct { name: constructor.name, fields: args }, result)
    } else {
        let copy = arm.import_op(body, base, op, end, &mut ValueMap::default());
        let callee = arm.result(copy, 0);
        let own = arm.ty(callee).as_function().map_or(result, |function| function.result);
        insert_call(&mut arm, end, loc, callee, args, own)
    };
    end_block(&mut arm, entry, value);
    arm
}
