//! Which functions come to which places.
//!
//! Places are joined where a value of one may become that of the other (0-CFA by unification, Heintze and
//! McAllester 1997), so that the work is almost linear. A field of a data type is one place, whatever
//! value it is a field of.

use ir_core::{Body, Module, OpId, Symbol, TensorType, Type, TypeData, TypeParam, ValueId};
use relay::language::{
    AdtDecl, Call, Construct, Constructor, FUNC, Fn, Global, If, Match, Operator, Pattern,
    RefCreate, RefRead, RefWrite, TYPE, Tuple, TupleGet, fn_attributes, fn_params, fn_self,
    is_primitive, yielded,
};
use rustc_hash::FxHashMap;

/// A place, or all that it was joined with.
pub(super) type Place = u32;

/// The places in a place, where a function may be.
#[derive(Clone, Debug)]
enum Parts {
    Function { params: Vec<Option<Place>>, result: Option<Place> },
    Tuple(Vec<Option<Place>>),
    Reference(Place),
}

/// What a function of the module takes and gives.
#[derive(Default)]
struct Border {
    params: Vec<Option<Place>>,
    result: Option<Place>,
}

/// The places of a module.
#[derive(Default)]
pub(super) struct Flow {
    /// What each place was joined with; itself where it stands for all of these.
    joined: Vec<Place>,
    parts: Vec<Parts>,
    /// The type of what comes there, `?` where extents differ.
    types: Vec<Type>,
    values: FxHashMap<(Symbol, ValueId), Place>,
    fields: FxHashMap<Symbol, Vec<Option<Place>>>,
    borders: FxHashMap<Symbol, Border>,
    holds: FxHashMap<Type, bool>,
    /// Whether extents differed.
    pub(super) widened: bool,
}

impl Flow {
    /// The places of `module`, whose functions and data types have no type parameters.
    pub(super) fn of(module: &Module) -> Flow {
        let mut flow = Flow::default();
        for item in module.items.values().filter(|item| item.signature.op == TYPE) {
            let declared = AdtDecl::from_attrs(item.signature.attrs);
            for made in declared.into_iter().flat_map(|adt| adt.constructors) {
                let fields = made.fields.iter().map(|field| flow.place(*field)).collect();
                flow.fields.insert(made.name, fields);
            }
        }
        let functions = || module.items.iter().filter(|(_, item)| item.signature.op == FUNC);
        for (name, item) in functions() {
            let Some(function) = item.signature.ty.as_function() else { continue };
            let params = function.params.iter().map(|param| flow.place(*param)).collect();
            let result = flow.place(function.result);
            flow.borders.insert(*name, Border { params, result });
        }
        for (name, item) in functions() {
            if let Some(body) = &item.body {
                flow.body(*name, body);
            }
        }
        flow
    }

    /// The place of `value` in function `inside`; `None` where no function comes there.
    pub(super) fn of_value(&self, inside: Symbol, value: ValueId) -> Option<Place> {
        self.values.get(&(inside, value)).map(|place| self.find(*place))
    }

    /// The places of the fields of constructor `name`.
    pub(super) fn fields(&self, name: Symbol) -> &[Option<Place>] {
        self.fields.get(&name).map_or(&[], Vec::as_slice)
    }

    /// The places of the parameters and the result of function `name`.
    pub(super) fn border(&self, name: Symbol) -> (&[Option<Place>], Option<Place>) {
        self.borders.get(&name).map_or((&[], None), |border| (&border.params, border.result))
    }

    /// The type of the functions that come to `place`, and the places of their parameters and result.
    pub(super) fn function(&self, place: Place) -> (Type, Vec<Option<Place>>, Option<Place>) {
        let place = self.find(place);
        let ty = self.types[place as usize];
        match &self.parts[place as usize] {
            Parts::Function { params, result } => (ty, params.clone(), *result),
            _ => (ty, vec![], None),
        }
    }

    /// `ty`, of what comes to `place`, where `function` tells what functions become. Recursion is
    /// bounded by the depth of types.
    pub(super) fn ty(
        &self,
        ty: Type,
        place: Option<Place>,
        function: &mut dyn FnMut(Place) -> Type,
    ) -> Type {
        let Some(place) = place.map(|place| self.find(place)) else { return ty };
        match (ty.data(), &self.parts[place as usize]) {
            (TypeData::Function(_), _) => function(place),
            (TypeData::Tuple(fields), Parts::Tuple(places)) => {
                let fields = fields.iter().zip(places);
                Type::tuple(fields.map(|(field, place)| self.ty(*field, *place, function)))
            }
            (TypeData::Ref(content), Parts::Reference(place)) => {
                Type::reference(self.ty(*content, Some(*place), function))
            }
            _ => ty,
        }
    }

    fn find(&self, place: Place) -> Place {
        let mut place = place;
        while self.joined[place as usize] != place {
            place = self.joined[place as usize];
        }
        place
    }

    /// Whether a function may be part of a value of type `ty`, but for what data types hold. Recursion
    /// is bounded by the depth of types.
    fn holds(&mut self, ty: Type) -> bool {
        match ty.data() {
            TypeData::Function(_) => true,
            TypeData::Tuple(fields) => {
                if let Some(known) = self.holds.get(&ty) {
                    return *known;
                }
                let holds = fields.iter().any(|field| self.holds(*field));
                self.holds.insert(ty, holds);
                holds
            }
            TypeData::Ref(content) => self.holds(*content),
            _ => false,
        }
    }

    /// A new place for values of type `ty`; `None` where they hold no functions. Recursion is bounded by
    /// the depth of types.
    fn place(&mut self, ty: Type) -> Option<Place> {
        if !self.holds(ty) {
            return None;
        }
        let place = self.joined.len() as Place;
        self.joined.push(place);
        self.types.push(ty);
        self.parts.push(Parts::Tuple(vec![]));
        self.parts[place as usize] = match ty.data() {
            TypeData::Function(function) => {
                let params = function.params.iter().map(|param| self.place(*param)).collect();
                Parts::Function { params, result: self.place(function.result) }
            }
            TypeData::Tuple(fields) => {
                Parts::Tuple(fields.iter().map(|field| self.place(*field)).collect())
            }
            TypeData::Ref(content) => match self.place(*content) {
                Some(content) => Parts::Reference(content),
                None => Parts::Tuple(vec![]),
            },
            _ => Parts::Tuple(vec![]),
        };
        Some(place)
    }

    /// Joins two places, and those in them.
    fn join(&mut self, one: Option<Place>, other: Option<Place>) {
        let (Some(one), Some(other)) = (one, other) else { return };
        let mut pending = vec![(one, other)];
        while let Some((one, other)) = pending.pop() {
            let (one, other) = (self.shortened(one), self.shortened(other));
            if one == other {
                continue;
            }
            // The first one stands for both, so that names follow the order of the program.
            let (stays, goes) = (one.min(other), one.max(other));
            self.joined[goes as usize] = stays;
            let (a, b) = (self.types[stays as usize], self.types[goes as usize]);
            if a != b {
                self.types[stays as usize] = wider(a, b);
                self.widened = true;
            }
            let mut pair = |one: &Option<Place>, other: &Option<Place>| {
                if let (Some(one), Some(other)) = (one, other) {
                    pending.push((*one, *other));
                }
            };
            match (&self.parts[stays as usize], &self.parts[goes as usize]) {
                (
                    Parts::Function { params, result },
                    Parts::Function { params: others, result: other },
                ) => {
                    params.iter().zip(others).for_each(|(one, other)| pair(one, other));
                    pair(result, other);
                }
                (Parts::Tuple(fields), Parts::Tuple(others)) => {
                    fields.iter().zip(others).for_each(|(one, other)| pair(one, other));
                }
                (Parts::Reference(one), Parts::Reference(other)) => pending.push((*one, *other)),
                _ => {}
            }
        }
    }

    /// What stands for `place`, found at once from now on.
    fn shortened(&mut self, place: Place) -> Place {
        let root = self.find(place);
        let mut place = place;
        while place != root {
            place = std::mem::replace(&mut self.joined[place as usize], root);
        }
        root
    }

    fn value(&mut self, inside: Symbol, body: &Body, value: ValueId) -> Option<Place> {
        if let Some(known) = self.values.get(&(inside, value)) {
            return Some(*known);
        }
        let place = self.place(body.ty(value))?;
        self.values.insert((inside, value), place);
        Some(place)
    }

    fn body(&mut self, inside: Symbol, body: &Body) {
        let entry = body.entry();
        for (index, param) in body.block_args(entry).iter().enumerate() {
            let place = self.value(inside, body, *param);
            let border = self.borders.get(&inside).and_then(|border| border.params.get(index));
            self.join(place, border.copied().flatten());
        }
        if let Some(value) = yielded(body, entry) {
            let place = self.value(inside, body, value);
            let result = self.borders.get(&inside).and_then(|border| border.result);
            self.join(place, result);
        }
        for op in body.walk() {
            self.op(inside, body, op);
        }
    }

    fn op(&mut self, inside: Symbol, body: &Body, op: OpId) {
        let Some(result) = body.results(op).next() else { return };
        let operands: Vec<ValueId> = body.operands(op).collect();
        match body.op_name(op).as_str() {
            Fn::NAME if is_called_only(body, op) => {}
            Fn::NAME if !is_primitive(fn_attributes(body, op)) => {
                let function = self.value(inside, body, result);
                let itself = fn_self(body, op).and_then(|itself| self.value(inside, body, itself));
                self.join(function, itself);
                let value = yielded(body, body.region_block(op, 0));
                let value = value.and_then(|value| self.value(inside, body, value));
                let params: Vec<Option<Place>> = fn_params(body, op)
                    .iter()
                    .map(|param| self.value(inside, body, *param))
                    .collect();
                self.function_parts(function, &params, value);
            }
            Global::NAME if !is_called_only(body, op) => {
                let function = self.value(inside, body, result);
                let name = body.view::<Global>(op).map(|global| global.name);
                if let Some(border) = name.and_then(|name| self.borders.get(&name)) {
                    let (params, result) = (border.params.clone(), border.result);
                    self.function_parts(function, &params, result);
                }
            }
            Constructor::NAME if !is_called_only(body, op) => {
                let function = self.value(inside, body, result);
                let name = body.view::<Constructor>(op).map(|form| Symbol::new(&form.name));
                if let Some(fields) = name.and_then(|name| self.fields.get(&name)) {
                    let fields = fields.clone();
                    self.function_parts(function, &fields, None);
                }
            }
            Operator::NAME if !is_called_only(body, op) => {
                self.value(inside, body, result);
            }
            Global::NAME | Constructor::NAME | Operator::NAME | Fn::NAME => {}
            Call::<ValueId>::NAME => self.call(inside, body, op, result),
            If::<ValueId>::NAME => self.regions(inside, body, op, result),
            Match::<ValueId>::NAME => {
                self.regions(inside, body, op, result);
                self.patterns(inside, body, op);
            }
            Tuple::<ValueId>::NAME => {
                let tuple = self.value(inside, body, result);
                for (index, operand) in operands.into_iter().enumerate() {
                    let place = self.value(inside, body, operand);
                    self.join(place, self.part(tuple, index));
                }
            }
            TupleGet::<ValueId>::NAME => {
                let tuple = self.value(inside, body, operands[0]);
                let index =
                    body.view::<TupleGet>(op).and_then(|get| usize::try_from(get.index).ok());
                let place = self.value(inside, body, result);
                self.join(place, index.and_then(|index| self.part(tuple, index)));
            }
            Construct::<ValueId>::NAME => {
                let name = body.view::<Construct>(op).map(|form| Symbol::new(&form.name));
                for (index, operand) in operands.into_iter().enumerate() {
                    let place = self.value(inside, body, operand);
                    let field =
                        name.and_then(|name| self.fields(name).get(index).copied().flatten());
                    self.join(place, field);
                }
            }
            RefCreate::<ValueId>::NAME => {
                let (cell, content) =
                    (self.value(inside, body, result), self.value(inside, body, operands[0]));
                self.join(content, self.part(cell, 0));
            }
            RefRead::<ValueId>::NAME => {
                let (cell, content) =
                    (self.value(inside, body, operands[0]), self.value(inside, body, result));
                self.join(content, self.part(cell, 0));
            }
            RefWrite::<ValueId>::NAME => {
                let (cell, content) =
                    (self.value(inside, body, operands[0]), self.value(inside, body, operands[1]));
                self.join(content, self.part(cell, 0));
            }
            // An operator hands on what it does not look at.
            _ => {
                let place = self.value(inside, body, result);
                for operand in operands {
                    if body.ty(operand) == body.ty(result) {
                        let operand = self.value(inside, body, operand);
                        self.join(place, operand);
                    }
                }
            }
        }
    }

    fn call(&mut self, inside: Symbol, body: &Body, op: OpId, result: ValueId) {
        let callee = body.operand(op, 0);
        let args: Vec<Option<Place>> =
            body.operands(op).skip(1).map(|arg| self.value(inside, body, arg)).collect();
        let result = self.value(inside, body, result);
        let named = body.defining_op(callee).filter(|op| is_name(body, *op));
        let (params, value) = match named {
            None => match self.value(inside, body, callee) {
                Some(function) => {
                    let (_, params, value) = self.function(function);
                    (params, value)
                }
                None => return,
            },
            Some(named) => {
                if let Some(global) = body.view::<Global>(named) {
                    let (params, value) = self.border(global.name);
                    (params.to_vec(), value)
                } else if let Some(made) = body.view::<Constructor>(named) {
                    (self.fields(Symbol::new(&made.name)).to_vec(), None)
                } else {
                    return;
                }
            }
        };
        args.into_iter().zip(params).for_each(|(arg, param)| self.join(arg, param));
        self.join(result, value);
    }

    fn regions(&mut self, inside: Symbol, body: &Body, op: OpId, result: ValueId) {
        let place = self.value(inside, body, result);
        for index in 0..body.regions(op).len() {
            if let Some(value) = yielded(body, body.region_block(op, index)) {
                let value = self.value(inside, body, value);
                self.join(place, value);
            }
        }
    }

    fn patterns(&mut self, inside: Symbol, body: &Body, op: OpId) {
        let Some(form) = body.view::<Match>(op) else { return };
        let data = self.value(inside, body, form.data);
        for (index, pattern) in form.patterns.iter().enumerate() {
            let mut variables = body.block_args(body.region_block(op, index)).iter();
            let mut pending: Vec<(&Pattern, Option<Place>)> = vec![(pattern, data)];
            while let Some((pattern, place)) = pending.pop() {
                match pattern {
                    Pattern::Wildcard => {}
                    Pattern::Variable => {
                        if let Some(variable) = variables.next() {
                            let variable = self.value(inside, body, *variable);
                            self.join(variable, place);
                        }
                    }
                    Pattern::Tuple(fields) => {
                        let parts = fields.iter().enumerate();
                        let parts = parts.map(|(index, field)| (field, self.part(place, index)));
                        pending.extend(parts.rev());
                    }
                    Pattern::Constructor(name, fields) => {
                        let places = self.fields(*name);
                        let parts = fields.iter().enumerate();
                        let parts = parts
                            .map(|(index, field)| (field, places.get(index).copied().flatten()));
                        pending.extend(parts.rev());
                    }
                }
            }
        }
    }

    fn function_parts(
        &mut self,
        function: Option<Place>,
        params: &[Option<Place>],
        result: Option<Place>,
    ) {
        let Some(function) = function else { return };
        let (_, own, own_result) = self.function(function);
        own.into_iter().zip(params).for_each(|(own, param)| self.join(own, *param));
        self.join(own_result, result);
    }

    /// Part `index` of the tuple or reference at `place`.
    fn part(&self, place: Option<Place>, index: usize) -> Option<Place> {
        match &self.parts[self.find(place?) as usize] {
            Parts::Tuple(fields) => fields.get(index).copied().flatten(),
            Parts::Reference(content) => Some(*content),
            Parts::Function { .. } => None,
        }
    }
}

/// Whether `op` names a function, or is a kernel.
pub(super) fn is_name(body: &Body, op: OpId) -> bool {
    match body.op_name(op).as_str() {
        Global::NAME | Operator::NAME | Constructor::NAME => true,
        Fn::NAME => is_primitive(fn_attributes(body, op)),
        _ => false,
    }
}

/// Whether `op` is a name, or a kernel, that is called and nothing else.
fn is_called_only(body: &Body, op: OpId) -> bool {
    is_name(body, op) && body.uses(body.result(op, 0)).all(|used| is_callee(body, used))
}

/// Whether a use, by operation and operand, calls the value.
pub(super) fn is_callee(body: &Body, (user, index): (OpId, usize)) -> bool {
    index == 0 && body.is::<Call>(user)
}

/// The type of what is of type `a` or of type `b`, which are equal but for extents: `?` where these
/// differ. Recursion is bounded by the depth of types.
fn wider(a: Type, b: Type) -> Type {
    if a == b {
        return a;
    }
    let all = |a: &[Type], b: &[Type]| -> Vec<Type> {
        a.iter().zip(b).map(|(a, b)| wider(*a, *b)).collect()
    };
    let dim = |a: ir_core::Dim, b: ir_core::Dim| if a == b { a } else { ir_core::Dim::Any };
    match (a.data(), b.data()) {
        (TypeData::Tensor(x), TypeData::Tensor(y)) if x.rank() == y.rank() => {
            let dims = x.shape.iter().zip(&y.shape).map(|(a, b)| dim(*a, *b));
            Type::new(TypeData::Tensor(TensorType { shape: dims.collect(), dtype: x.dtype }))
        }
        (TypeData::Tuple(x), TypeData::Tuple(y)) => Type::tuple(all(x, y)),
        (TypeData::Function(x), TypeData::Function(y)) => {
            Type::function(all(&x.params, &y.params), wider(x.result, y.result))
        }
        (TypeData::Ref(x), TypeData::Ref(y)) => Type::reference(wider(*x, *y)),
        (TypeData::Named { name, params: xs }, TypeData::Named { params: ys, .. }) => {
            let params = xs.iter().zip(ys).map(|(x, y)| match (*x, *y) {
                (TypeParam::Type(x), TypeParam::Type(y)) => TypeParam::Type(wider(x, y)),
                (TypeParam::Dim(x), TypeParam::Dim(y)) => TypeParam::Dim(dim(x, y)),
                (x, _) => x,
            });
            Type::named(*name, params.collect::<Vec<_>>())
        }
        _ => a,
    }
}
