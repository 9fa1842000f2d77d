//! Random well-typed modules.
//!
//! **Invariants**
//! - The same seed and size give the same module.
//! - Every value has its type, operators by their own type relation.
//! - Programs end: a function calls only functions made before it, and itself only with less fuel.
//! - Extents written `?` never contradict each other when the program runs.

use ir_core::{
    Attr, AttrDict, AttrValue, Binding, DType, Dim, FunctionType, InferCx, InsertPoint, Item,
    Module, NameHint, OpParts, Registry, SmallVec, Symbol, TensorData, Type, TypeData, TypeParam,
    ValueId,
};
use relay::builder::Builder;
use relay::interpreter::{Evaluate, Random};
use relay::language::{
    AdtDecl, Call, Construct, Constructor, ConstructorDecl, FUNC, Global, Operator, Pattern,
    RefCreate, RefRead, RefWrite, TYPE, Tuple, TupleGet,
};

use rustc_hash::FxHashMap;

/// A random module with a function `@main`, of about `size` operations, that is well-typed, ends,
/// and has no free choice left to the one who runs it. All forms of the language occur.
pub fn random_module(registry: &Registry, seed: u64, size: usize) -> Module {
    let mut generator = Generator {
        random: Random::new(seed),
        registry,
        module: Module::new(),
        callable: Vec::new(),
        empty: FxHashMap::default(),
        budget: 0,
    };
    generator.declare_types();
    generator.declare_polymorphic();
    for _ in 0..generator.random.below(4) {
        generator.budget = size / 4;
        generator.helper();
    }
    generator.budget = size;
    generator.main();
    generator.module
}

/// How deep expressions nest; recursion of the generator is bounded by it.
const DEPTH: usize = 5;

const UNARY_FLOAT: [&str; 9] =
    ["tanh", "sigmoid", "negative", "abs", "cos", "sin", "copy", "nn.relu", "zeros_like"];
const UNARY_INT: [&str; 3] = ["negative", "abs", "copy"];
const BINARY: [&str; 5] = ["add", "subtract", "multiply", "maximum", "minimum"];
const BINARY_BOOL: [&str; 3] = ["logical_and", "logical_or", "logical_xor"];
const COMPARE: [&str; 4] = ["less", "greater_equal", "equal", "not_equal"];

pub(super) struct Generator<'a> {
    pub(super) random: Random,
    registry: &'a Registry,
    module: Module,
    /// Functions without type parameters, in order of definition.
    callable: Vec<(Symbol, FunctionType)>,
    /// Functions that give an empty `List` or `Option` of a type. A bare `Nil` says nothing of its
    /// type, and inference would rightly call that ambiguous.
    empty: FxHashMap<Type, Symbol>,
    /// How many more operations the running function should get.
    budget: usize,
}

/// The values that an expression may use, oldest first.
pub(super) type Scope = Vec<ValueId>;

fn call(callee: ValueId, args: &[ValueId]) -> Call {
    let args = args.to_vec();
    Call { type_args: vec![], attributes: AttrDict::empty(), callee, args }
}

fn applied(name: &str, argument: Type) -> Type {
    Type::named(name, [TypeParam::Type(argument)])
}

fn fuel_type() -> Type {
    Type::scalar(DType::INT32)
}

/// The argument of a data type with one type parameter.
fn type_argument(ty: Type) -> Option<(Symbol, Type)> {
    match ty.data() {
        TypeData::Named { name, params } => match params.as_slice() {
            [TypeParam::Type(argument)] => Some((*name, *argument)),
            _ => None,
        },
        _ => None,
    }
}

impl Generator<'_> {
    // ---- the module ------------------------------------------------------------------------

    fn declare_types(&mut self) {
        let a = Type::parameter("A");
        let constructor = |name: &str, fields| ConstructorDecl::new(name, fields);
        let list =
            vec![constructor("Cons", vec![a, applied("List", a)]), constructor("Nil", vec![])];
        let option = vec![constructor("Some", vec![a]), constructor("None", vec![])];
        for (name, constructors) in [("List", list), ("Option", option)] {
            let decl = AdtDecl { params: vec!["A".into()], constructors, is_extern: false };
            let mut item = Item::new(TYPE, Type::unknown(), None);
            item.signature.attrs = decl.to_attrs();
            self.module.items.insert(name.into(), item);
        }
    }

    /// `@id` and `@twice`, for any type.
    fn declare_polymorphic(&mut self) {
        let a = Type::parameter("A");
        let step = Type::function([a], a);
        let (mut id, params) = Builder::new(&[a]);
        id.yields(params[0]);
        self.add_function("id", &["A"], &[a], a, id);
        let (mut twice, params) = Builder::new(&[step, a]);
        let once = twice.add(&call(params[0], &[params[1]]), a);
        let result = twice.add(&call(params[0], &[once]), a);
        twice.yields(result);
        self.add_function("twice", &["A"], &[step, a], a, twice);
    }

    fn add_function(
        &mut self,
        name: &str,
        type_params: &[&str],
        params: &[Type],
        result: Type,
        mut builder: Builder,
    ) {
        self.name_values(&mut builder);
        let function = FunctionType {
            type_params: type_params.iter().map(|name| Symbol::new(name)).collect(),
            params: params.into(),
            result,
        };
        if type_params.is_empty() {
            self.callable.push((name.into(), function.clone()));
        }
        let ty = Type::new(TypeData::Function(function));
        self.module.items.insert(name.into(), Item::new(FUNC, ty, Some(builder.body)));
    }

    /// Names the parameters and makes some values `let` values: those that nobody uses, which
    /// would not be printed otherwise, and a few others.
    fn name_values(&mut self, builder: &mut Builder) {
        let body = &mut builder.body;
        let blocks: Vec<_> = body.walk_blocks().collect();
        let mut number = 0;
        for block in blocks {
            for value in body.block_args(block).to_vec() {
                let name = Some(Symbol::new(&format!("p{number}")));
                body.set_name_hint(value, NameHint { name, binding: Binding::Graph });
                number += 1;
            }
            for op in body.block_ops(block).collect::<Vec<_>>() {
                let Some(value) = body.results(op).next() else { continue };
                let named = matches!(
                    body.op_name(op).as_str(),
                    "relay.global" | "relay.operator" | "relay.constructor" | "relay.constant"
                );
                let effects = !self.registry.effects(body, op).is_empty();
                if !named && (body.is_unused(value) || effects || self.random.one_in(4)) {
                    let name = Some(Symbol::new(&format!("v{number}")));
                    body.set_name_hint(value, NameHint { name, binding: Binding::Let });
                    number += 1;
                }
            }
        }
    }

    fn helper(&mut self) {
        match self.random.below(5) {
            0 => self.plain_function(),
            1 => self.countdown(),
            2 => self.fold(),
            3 => self.alternation(),
            _ => self.any_rank_one(),
        }
    }

    fn plain_function(&mut self) {
        let params: Vec<Type> = (0..1 + self.random.below(3)).map(|_| self.data_type(1)).collect();
        let result = self.data_type(1);
        let name = self.module.fresh_name("f");
        let (mut builder, mut scope) = Builder::new(&params);
        let value = self.expression(&mut builder, &mut scope, result, DEPTH);
        builder.yields(value);
        self.add_function(name.as_str(), &[], &params, result, builder);
    }

    /// `@f(n, x) = if (n <= 0) { x } else { @f(n - 1, …) }`.
    fn countdown(&mut self) {
        let state = self.data_type(1);
        let name = self.module.fresh_name("repeat");
        let (mut builder, params) = Builder::new(&[fuel_type(), state]);
        let own = |builder: &mut Builder| {
            let ty = Type::function([fuel_type(), state], state);
            builder.add(&Global { name }, ty)
        };
        let value = self.fuelled(&mut builder, params[0], params[1], state, &own);
        builder.yields(value);
        self.add_function(name.as_str(), &[], &[fuel_type(), state], state, builder);
    }

    /// `if (fuel <= 0) { x } else { own(fuel - 1, …) }`, or with the call inside an expression.
    fn fuelled(
        &mut self,
        builder: &mut Builder,
        fuel: ValueId,
        x: ValueId,
        state: Type,
        own: &dyn Fn(&mut Builder) -> ValueId,
    ) -> ValueId {
        let zero = builder.int(0);
        let Some(done) = self.operator(builder, "less_equal", &[fuel, zero]) else { return x };
        let tail = self.random.one_in(2);
        builder.if_else(
            done,
            state,
            |_| x,
            |builder| {
                let one = builder.int(1);
                let Some(less) = self.operator(builder, "subtract", &[fuel, one]) else { return x };
                let mut scope = vec![x];
                let next = self.expression(builder, &mut scope, state, DEPTH - 2);
                let own = own(builder);
                let value = builder.add(&call(own, &[less, next]), state);
                if tail {
                    return value;
                }
                scope.push(value);
                self.expression(builder, &mut scope, state, 1)
            },
        )
    }

    /// `@fold(xs, x) = match (xs) { Cons(h, t) => @fold(t, …), Nil => x }`.
    fn fold(&mut self) {
        let (element, state) = (self.tensor_type(), self.tensor_type());
        let list = applied("List", element);
        let name = self.module.fresh_name("fold");
        let (mut builder, params) = Builder::new(&[list, state]);
        let clauses = [
            (
                Pattern::Constructor("Cons".into(), vec![Pattern::Variable, Pattern::Variable]),
                vec![element, list],
            ),
            (Pattern::Constructor("Nil".into(), vec![]), vec![]),
        ];
        let value = builder.matches(params[0], state, &clauses, |builder, clause, variables| {
            if clause == 1 {
                return params[1];
            }
            let mut scope = vec![params[1], variables[0]];
            let next = self.expression(builder, &mut scope, state, DEPTH - 2);
            let ty = Type::function([list, state], state);
            let own = builder.add(&Global { name }, ty);
            builder.add(&call(own, &[variables[1], next]), state)
        });
        builder.yields(value);
        self.add_function(name.as_str(), &[], &[list, state], state, builder);
    }

    /// Two functions that call each other with less and less fuel. Neither body may call the other
    /// function in another way, with new fuel: they are there for others once both are written.
    fn alternation(&mut self) {
        let state = self.tensor_type();
        let (ping, pong) = (self.module.fresh_name("ping"), self.module.fresh_name("pong"));
        let params = [fuel_type(), state];
        let bodies = [(ping, pong), (pong, ping)].map(|(name, other)| {
            let (mut builder, values) = Builder::new(&params);
            let other = |builder: &mut Builder| {
                builder.add(&Global { name: other }, Type::function(params, state))
            };
            let value = self.fuelled(&mut builder, values[0], values[1], state, &other);
            builder.yields(value);
            (name, builder)
        });
        for (name, builder) in bodies {
            self.add_function(name.as_str(), &[], &params, state, builder);
        }
    }

    /// A function on `Tensor[(?), float32]`.
    fn any_rank_one(&mut self) {
        let ty = Type::tensor([Dim::Any], DType::FLOAT32);
        let name = self.module.fresh_name("any");
        let (mut builder, mut scope) = Builder::new(&[ty]);
        let value = self.expression(&mut builder, &mut scope, ty, DEPTH - 2);
        builder.yields(value);
        self.add_function(name.as_str(), &[], &[ty], ty, builder);
    }

    fn main(&mut self) {
        let params: Vec<Type> = (0..1 + self.random.below(3)).map(|_| self.tensor_type()).collect();
        let (mut builder, mut scope) = Builder::new(&params);
        let mut results = Vec::new();
        loop {
            let ty = self.data_type(2);
            results.push(self.expression(&mut builder, &mut scope, ty, DEPTH));
            if self.budget == 0 || results.len() == 4 {
                break;
            }
        }
        let types: Vec<Type> = results.iter().map(|value| builder.body.ty(*value)).collect();
        let (value, result) = match results.as_slice() {
            [one] => (*one, types[0]),
            _ => {
                let ty = Type::tuple(types);
                (builder.add(&Tuple { fields: results }, ty), ty)
            }
        };
        builder.yields(value);
        self.add_function("main", &[], &params, result, builder);
    }

    // ---- types -----------------------------------------------------------------------------

    fn tensor_type(&mut self) -> Type {
        let shapes: [&[i64]; 7] = [&[], &[3], &[2, 3], &[1, 3], &[2, 1], &[4, 2, 3], &[1, 2, 4, 4]];
        let dtypes = [
            DType::FLOAT32,
            DType::FLOAT32,
            DType::FLOAT32,
            DType::INT32,
            DType::BOOL,
            DType::FLOAT64,
            DType::INT8,
        ];
        let shape = shapes[self.random.below(shapes.len())];
        Type::tensor(shape.iter().copied(), dtypes[self.random.below(dtypes.len())])
    }

    /// A type of data: tensors, and up to `depth` levels of tuples and data types.
    fn data_type(&mut self, depth: usize) -> Type {
        match self.random.below(if depth == 0 { 1 } else { 8 }) {
            5 => Type::tuple((0..self.random.below(4)).map(|_| self.data_type(depth - 1))),
            6 => applied("List", self.data_type(depth - 1)),
            7 => applied("Option", self.data_type(depth - 1)),
            _ => self.tensor_type(),
        }
    }

    // ---- expressions -----------------------------------------------------------------------

    /// Applies an operator; `None` where it is not registered, cannot be evaluated, or does not
    /// take these operands.
    fn operator(
        &mut self,
        builder: &mut Builder,
        name: &str,
        operands: &[ValueId],
    ) -> Option<ValueId> {
        self.operator_with(builder, name, operands, AttrDict::empty())
    }

    pub(super) fn operator_with(
        &mut self,
        builder: &mut Builder,
        name: &str,
        operands: &[ValueId],
        attrs: AttrDict,
    ) -> Option<ValueId> {
        let name = Symbol::new(&format!("relay.{name}"));
        let info = self.registry.info(name)?;
        info.hook::<Evaluate>()?;
        let attrs = info.def.normalize_attrs(attrs).ok()?;
        let types: SmallVec<[Type; 4]> = operands.iter().map(|v| builder.body.ty(*v)).collect();
        let results = [info.def.infer?(&mut InferCx::new(&types, attrs)).ok()?];
        let parts = OpParts::new(name, operands, &results).attrs(attrs);
        let op = builder.body.insert_op(InsertPoint::End(builder.block), parts);
        self.budget = self.budget.saturating_sub(1);
        Some(builder.body.result(op, 0))
    }

    /// A value of type `ty`, new or from `scope`, which grows by what is made on the way.
    fn expression(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> ValueId {
        if depth == 0 || self.budget == 0 {
            return self.leaf(builder, scope, ty);
        }
        self.budget -= 1;
        let value = match self.random.below(15) {
            0 | 1 => self.leaf(builder, scope, ty),
            2 => self.choice(builder, scope, ty, depth),
            3 => self.case(builder, scope, ty, depth),
            4 => self.local_call(builder, scope, ty, depth),
            5 => self.global_call(builder, scope, ty, depth),
            6 => self.polymorphic_call(builder, scope, ty, depth),
            7 => self.cell(builder, scope, ty, depth),
            8 => self.projection(builder, scope, ty, depth),
            9 => self.kernel_call(builder, scope, ty, depth),
            _ => self.constructive(builder, scope, ty, depth),
        };
        let found = builder.body.ty(value);
        debug_assert_eq!(found, ty, "a generated value has another type than was asked for");
        scope.push(value);
        value
    }

    /// A value of type `ty` that takes little to make.
    fn leaf(&mut self, builder: &mut Builder, scope: &mut Scope, ty: Type) -> ValueId {
        let fitting: Vec<ValueId> =
            scope.iter().copied().filter(|value| builder.body.ty(*value) == ty).collect();
        // A tensor with `?` cannot be made from nothing.
        if (ty.facts().has_any || !self.random.one_in(3))
            && let Some(value) = self.random.choose(&fitting)
        {
            return *value;
        }
        match ty.data() {
            TypeData::Tensor(tensor) => {
                let shape: Vec<i64> = tensor.shape.iter().map(|d| d.known().unwrap_or(1)).collect();
                let value = self.random.tensor(&shape, tensor.dtype);
                let value = value.unwrap_or_else(|_| TensorData::scalar(tensor.dtype, ZERO));
                builder.constant(value)
            }
            _ => self.constructive(builder, scope, ty, 0),
        }
    }

    /// A value made by the form that belongs to its type.
    fn constructive(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> ValueId {
        let less = depth.saturating_sub(1);
        match ty.data() {
            TypeData::Tensor(_) if ty.facts().has_any => self.any_tensor(builder, scope, ty, less),
            TypeData::Tensor(_) => {
                let value = self.tensor(builder, scope, ty, less);
                match value {
                    Some(value) if builder.body.ty(value) == ty => value,
                    _ => self.leaf(builder, scope, ty),
                }
            }
            TypeData::Tuple(fields) => {
                let fields = fields.iter().map(|field| self.part(builder, scope, *field, depth));
                let fields = fields.collect();
                builder.add(&Tuple { fields }, ty)
            }
            TypeData::Ref(content) => {
                let value = self.part(builder, scope, *content, depth);
                builder.add(&RefCreate { value }, ty)
            }
            TypeData::Function(function) => {
                builder.function(&function.params, function.result, false, |builder, params| {
                    let mut inner = scope.clone();
                    inner.extend(params);
                    self.expression(builder, &mut inner, function.result, less)
                })
            }
            _ => {
                let (name, argument) = type_argument(ty).unwrap_or(("Option".into(), Type::unit()));
                let empty = depth == 0 || self.random.one_in(4);
                if empty {
                    return self.empty(builder, ty);
                }
                let first = self.part(builder, scope, argument, depth);
                let (constructor, fields) = match name == "List" {
                    true => ("Cons", vec![first, self.constructive(builder, scope, ty, less)]),
                    false => ("Some", vec![first]),
                };
                builder.add(&Construct { name: constructor.to_string(), fields }, ty)
            }
        }
    }

    /// A call of a function that gives the empty value of data type `ty`.
    fn empty(&mut self, builder: &mut Builder, ty: Type) -> ValueId {
        let name = match self.empty.get(&ty) {
            Some(name) => *name,
            None => {
                let name = self.module.fresh_name("empty");
                let list = type_argument(ty).is_some_and(|(name, _)| name == "List");
                let constructor = if list { "Nil" } else { "None" };
                let (mut body, _) = Builder::new(&[]);
                let value = Construct { name: constructor.to_string(), fields: vec![] };
                let value = body.add(&value, ty);
                body.yields(value);
                self.add_function(name.as_str(), &[], &[], ty, body);
                self.empty.insert(ty, name);
                name
            }
        };
        let callee = builder.add(&Global { name }, Type::function([], ty));
        builder.add(&call(callee, &[]), ty)
    }

    pub(super) fn part(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> ValueId {
        match depth {
            0 => self.leaf(builder, scope, ty),
            _ => self.expression(builder, scope, ty, depth - 1),
        }
    }

    /// Operators that keep an unknown extent what it is.
    fn any_tensor(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> ValueId {
        let value = self.part(builder, scope, ty, depth);
        let result = if self.random.one_in(2) {
            let name = UNARY_FLOAT[self.random.below(UNARY_FLOAT.len())];
            self.operator(builder, name, &[value])
        } else {
            let scalar = self.part(builder, scope, Type::scalar(DType::FLOAT32), depth);
            let name = BINARY[self.random.below(BINARY.len())];
            self.operator(builder, name, &[value, scalar])
        };
        result.filter(|result| builder.body.ty(*result) == ty).unwrap_or(value)
    }

    fn tensor(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> Option<ValueId> {
        let tensor = ty.as_tensor()?;
        let dtype = tensor.dtype;
        let shape = tensor.known_shape()?;
        match self.random.below(9) {
            0 => {
                let value = self.part(builder, scope, ty, depth);
                let name = match dtype {
                    _ if dtype.is_float() => UNARY_FLOAT[self.random.below(UNARY_FLOAT.len())],
                    DType::BOOL => "logical_not",
                    _ => UNARY_INT[self.random.below(UNARY_INT.len())],
                };
                self.operator(builder, name, &[value])
            }
            1 if !dtype.is_float() || dtype == DType::FLOAT64 => {
                // From a narrower type, so that every number has its like.
                let from = if dtype == DType::FLOAT64 { DType::FLOAT32 } else { DType::BOOL };
                let value = self.part(builder, scope, Type::tensor(shape, from), depth);
                let attrs = AttrDict::empty().with("dtype", &dtype);
                self.operator_with(builder, "cast", &[value], attrs)
            }
            2 if shape.len() > 1 => {
                // Its transpose, transposed.
                let reversed = Type::tensor(shape.iter().rev().copied(), dtype);
                let value = self.part(builder, scope, reversed, depth);
                let axes: Vec<i64> = (0..shape.len() as i64).rev().collect();
                let attrs = AttrDict::new([(Symbol::new("axes"), axes.to_attr())]);
                self.operator_with(builder, "transpose", &[value], attrs)
            }
            3 if dtype != DType::BOOL => {
                // A sum over a new leading axis.
                let longer = std::iter::once(2).chain(shape.iter().copied());
                let value = self.part(builder, scope, Type::tensor(longer, dtype), depth);
                let attrs = AttrDict::new([(Symbol::new("axis"), Attr::of(&vec![0i64]))]);
                self.operator_with(builder, "sum", &[value], attrs)
            }
            4..=6 => self.layer(builder, scope, ty, depth),
            _ if dtype == DType::BOOL && self.random.one_in(2) => {
                let numbers = Type::tensor(shape, DType::INT32);
                self.binary(builder, scope, numbers, depth, &COMPARE)
            }
            _ if dtype == DType::BOOL => self.binary(builder, scope, ty, depth, &BINARY_BOOL),
            _ => self.binary(builder, scope, ty, depth, &BINARY),
        }
    }

    /// An operator of `names` on a tensor of type `ty` and one that broadcasts to it.
    fn binary(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
        names: &[&str],
    ) -> Option<ValueId> {
        let tensor = ty.as_tensor()?;
        let mut shape = tensor.known_shape()?;
        if self.random.one_in(2) {
            shape.drain(..self.random.below(shape.len() + 1));
            for extent in &mut shape {
                if self.random.one_in(3) {
                    *extent = 1;
                }
            }
        }
        let one = self.part(builder, scope, ty, depth);
        let other = self.part(builder, scope, Type::tensor(shape, tensor.dtype), depth);
        let name = names[self.random.below(names.len())];
        let operands = if self.random.one_in(2) { [one, other] } else { [other, one] };
        self.operator(builder, name, &operands)
    }

    fn choice(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> ValueId {
        let condition = self.expression(builder, scope, Type::scalar(DType::BOOL), depth - 1);
        // A value that both branches use, so that it belongs to neither.
        let shared =
            self.random.one_in(3).then(|| self.constructive(builder, scope, ty, depth - 1));
        let (mut one, mut two) = (scope.clone(), scope.clone());
        // Both branches need the generator, one after the other.
        let this = std::cell::RefCell::new(self);
        let branch = |builder: &mut Builder, scope: &mut Scope| {
            let mut this = this.borrow_mut();
            let value = this.expression(builder, scope, ty, depth - 1);
            match shared {
                Some(shared) => this.either(builder, shared, value, ty),
                None => value,
            }
        };
        builder.if_else(
            condition,
            ty,
            |builder| branch(builder, &mut one),
            |builder| branch(builder, &mut two),
        )
    }

    /// One of two values of type `ty`, with a use of both.
    fn either(&mut self, builder: &mut Builder, one: ValueId, two: ValueId, ty: Type) -> ValueId {
        let tuple = builder.add(&Tuple { fields: vec![one, two] }, Type::tuple([ty, ty]));
        builder.add(&TupleGet { tuple, index: self.random.below(2) as i64 }, ty)
    }

    /// A kernel, as fusion makes them, applied: operators on its parameter and on constants.
    fn kernel_call(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> ValueId {
        let float = ty.as_tensor().is_some_and(|tensor| tensor.dtype.is_float());
        if !float {
            return self.constructive(builder, scope, ty, depth);
        }
        let length = 1 + self.random.below(3);
        let kernel = builder.kernel(&[ty], ty, |builder, params| {
            let mut value = params[0];
            for _ in 0..length {
                let next = match self.random.one_in(2) {
                    true => {
                        let name = UNARY_FLOAT[self.random.below(UNARY_FLOAT.len())];
                        self.operator(builder, name, &[value])
                    }
                    false => {
                        let name = BINARY[self.random.below(BINARY.len())];
                        self.operator(builder, name, &[value, params[0]])
                    }
                };
                value = next.filter(|next| builder.body.ty(*next) == ty).unwrap_or(value);
            }
            value
        });
        let arg = self.expression(builder, scope, ty, depth - 1);
        builder.add(&call(kernel, &[arg]), ty)
    }

    fn case(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> ValueId {
        use Pattern::{Variable, Wildcard};
        let named = |name: &str, fields: Vec<Pattern>| Pattern::Constructor(name.into(), fields);
        let element = self.tensor_type();
        let (data, clauses) = match self.random.below(4) {
            0 => (
                applied("Option", element),
                vec![
                    (named("Some", vec![Variable]), vec![element]),
                    (named("None", vec![]), vec![]),
                ],
            ),
            1 => {
                let list = applied("List", element);
                let nested = named("Cons", vec![Variable, Wildcard]);
                (
                    list,
                    vec![
                        (named("Cons", vec![Variable, nested]), vec![element, element]),
                        (named("Cons", vec![Wildcard, Variable]), vec![list]),
                        (named("Nil", vec![]), vec![]),
                    ],
                )
            }
            2 => {
                let other = self.tensor_type();
                let pair = Type::tuple([applied("Option", element), other]);
                let some = named("Some", vec![Variable]);
                (
                    pair,
                    vec![
                        (Pattern::Tuple(vec![some, Wildcard]), vec![element]),
                        (Pattern::Tuple(vec![Wildcard, Variable]), vec![other]),
                    ],
                )
            }
            _ => {
                let list = applied("List", element);
                (list, vec![(named("Nil", vec![]), vec![]), (Variable, vec![list])])
            }
        };
        let data = self.expression(builder, scope, data, depth - 1);
        builder.matches(data, ty, &clauses, |builder, _, variables| {
            let mut inner = scope.clone();
            inner.extend(variables);
            self.expression(builder, &mut inner, ty, depth - 1)
        })
    }

    /// A function value applied: a closure, or one that calls itself.
    fn local_call(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> ValueId {
        if self.random.one_in(3) && !ty.facts().has_any {
            let params = [fuel_type(), ty];
            let own_scope = std::mem::take(scope);
            let function = builder.function(&params, ty, true, |builder, args| {
                let own = |_: &mut Builder| args[2];
                self.fuelled(builder, args[0], args[1], ty, &own)
            });
            *scope = own_scope;
            let fuel = builder.int(self.random.below(4) as i64);
            let start = self.expression(builder, scope, ty, depth - 1);
            return builder.add(&call(function, &[fuel, start]), ty);
        }
        let param = self.data_type(1);
        let function = Type::function([param], ty);
        let function = self.expression_of_function(builder, scope, function, depth);
        let arg = self.expression(builder, scope, param, depth - 1);
        let value = builder.add(&call(function, &[arg]), ty);
        if !self.random.one_in(3) {
            return value;
        }
        // The same closure again, on something else.
        let arg = self.constructive(builder, scope, param, depth - 1);
        let again = builder.add(&call(function, &[arg]), ty);
        self.either(builder, value, again, ty)
    }

    fn expression_of_function(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> ValueId {
        let function = self.constructive(builder, scope, ty, depth);
        scope.push(function);
        function
    }

    fn global_call(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> ValueId {
        let fitting: Vec<(Symbol, FunctionType)> = self
            .callable
            .iter()
            .filter(|(_, function)| function.result == ty && !ty.facts().has_any)
            .cloned()
            .collect();
        let Some((name, function)) = self.random.choose(&fitting).cloned() else {
            return self.constructive(builder, scope, ty, depth);
        };
        let mut args = Vec::new();
        for (index, param) in function.params.iter().enumerate() {
            // The first parameter of a counting function is its fuel.
            let fuel = index == 0 && *param == fuel_type();
            args.push(match fuel {
                true => builder.int(self.random.below(4) as i64),
                false => self.expression(builder, scope, *param, depth - 1),
            });
        }
        let callee = builder.add(&Global { name }, Type::new(TypeData::Function(function)));
        builder.add(&call(callee, &args), ty)
    }

    /// `@id(x)`, or `@twice` of an operator, a constructor's kin or a closure.
    fn polymorphic_call(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> ValueId {
        let x = self.expression(builder, scope, ty, depth - 1);
        let global = |builder: &mut Builder, module: &Module, name: &str| {
            let ty = module.get(name).map_or(Type::unknown(), |item| item.signature.ty);
            builder.add(&Global { name: name.into() }, ty)
        };
        if self.random.one_in(2) {
            let id = global(builder, &self.module, "id");
            return builder.add(&call(id, &[x]), ty);
        }
        let step_type = Type::function([ty], ty);
        let float = ty.as_tensor().is_some_and(|tensor| tensor.dtype.is_float());
        let step = match ty.data() {
            _ if float && self.random.one_in(2) && self.registry.def("relay.tanh").is_some() => {
                builder.add(&Operator { name: "tanh".into() }, step_type)
            }
            _ => self.expression_of_function(builder, scope, step_type, depth - 1),
        };
        let twice = global(builder, &self.module, "twice");
        if let Some((name, argument)) = type_argument(ty)
            && name == "Option"
            && self.random.one_in(2)
        {
            // A constructor as a function value.
            let some =
                builder.add(&Constructor { name: "Some".into() }, Type::function([argument], ty));
            let apply = Type::function([Type::function([argument], ty), argument], ty);
            let TypeData::Function(apply) = apply.data() else { return x };
            let apply = builder.function(&apply.params, ty, false, |builder, params| {
                builder.add(&call(params[0], &[params[1]]), ty)
            });
            let value = self.expression(builder, scope, argument, depth - 1);
            return builder.add(&call(apply, &[some, value]), ty);
        }
        builder.add(&call(twice, &[step, x]), ty)
    }

    /// A cell that is made, perhaps written, and read.
    fn cell(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> ValueId {
        let value = self.expression(builder, scope, ty, depth - 1);
        let reference = builder.add(&RefCreate { value }, Type::reference(ty));
        scope.push(reference);
        for _ in 0..self.random.below(3) {
            let value = self.expression(builder, scope, ty, depth - 1);
            builder.add(&RefWrite { reference, value }, Type::unit());
        }
        builder.add(&RefRead { reference }, ty)
    }

    fn projection(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> ValueId {
        let mut fields: Vec<Type> =
            (0..1 + self.random.below(2)).map(|_| self.tensor_type()).collect();
        let index = self.random.below(fields.len() + 1);
        fields.insert(index, ty);
        let tuple = self.expression(builder, scope, Type::tuple(fields), depth - 1);
        builder.add(&TupleGet { tuple, index: index as i64 }, ty)
    }
}

const ZERO: ir_core::Scalar = ir_core::Scalar::Int(0);
