//! Sequences whose length is not known while a model is read: lists of the prelude.
//!
//! A list holds the last element of its sequence first, so that an append takes constant time. What the
//! graph gives is turned around.

use ir_core::text::module::parse;
use ir_core::{
    AttrDict, Diagnostics, Dim, Module, OpFields, Registry, SmallVec, Symbol, Type, TypeData,
    TypeParam, ValueId,
};
use relay::language::{Construct, Global, Match, Pattern};

use super::{Fault, Importer, Value};

/// The file of the functions below in locations, and its text.
const FILE: &str = "lists.relay";
const TEXT: &str = include_str!("lists.relay");

/// The data type, and its constructors.
const LIST: &str = "List";
const CONS: &str = "Cons";
const NIL: &str = "Nil";

/// The type of lists of `element`.
pub(crate) fn list_of(element: Type) -> Type {
    Type::named(LIST, [TypeParam::Type(element)])
}

/// The type of the elements of lists of type `ty`; `None` where that is no list.
pub(crate) fn element_of(ty: Type) -> Option<Type> {
    match ty.data() {
        TypeData::Named { name, params } if name.as_str() == LIST => match params.as_slice() {
            [TypeParam::Type(element)] => Some(*element),
            _ => None,
        },
        _ => None,
    }
}

/// The type of a tensor that has one of two types: extents that differ are open.
fn join_tensors(a: Type, b: Type) -> Option<Type> {
    let (x, y) = (a.as_tensor()?, b.as_tensor()?);
    if x.dtype != y.dtype || x.rank() != y.rank() {
        return None;
    }
    let dims = x.shape.iter().zip(&y.shape).map(|(x, y)| if x == y { *x } else { Dim::Any });
    Some(Type::tensor(dims, x.dtype))
}

/// The type of the elements of a sequence of the type `ty`, a list or a tuple; nothing of the empty tuple.
/// `None` where it is no sequence, or its elements have no type in common.
fn elements(ty: Type) -> Option<Option<Type>> {
    match (element_of(ty), ty.as_tuple()) {
        (Some(element), _) => Some(Some(element)),
        (None, Some([])) => Some(None),
        (None, Some([first, rest @ ..])) => {
            let first = first.as_tensor().map(|_| *first);
            rest.iter().try_fold(first?, |so_far, ty| join_tensors(so_far, *ty)).map(Some)
        }
        (None, None) => None,
    }
}

/// The type of a value that has one of two types: extents that differ are open, and sequences of different
/// lengths are a list.
pub(super) fn join(a: Type, b: Type) -> Result<Type, Fault> {
    if a == b {
        return Ok(a);
    }
    let joined = match (a.as_tuple(), b.as_tuple()) {
        (Some(a), Some(b)) if a.len() == b.len() => {
            let joined = a.iter().zip(b).map(|(a, b)| join_tensors(*a, *b));
            joined.collect::<Option<Vec<Type>>>().map(Type::tuple)
        }
        (None, None) if element_of(a).is_none() => join_tensors(a, b),
        _ => match (elements(a), elements(b)) {
            (Some(Some(a)), Some(Some(b))) => join_tensors(a, b).map(list_of),
            (Some(Some(element)), Some(None)) | (Some(None), Some(Some(element))) => {
                Some(list_of(element))
            }
            _ => None,
        },
    };
    match joined {
        Some(ty) => Ok(ty),
        None => {
            let message = format!(
                "expected branches with results of one rank and element type, found {a} and {b}"
            );
            // With known extents, the condition may be known, and with it the branch.
            let is_open = |ty: Type| ty.facts().has_any;
            Err(if is_open(a) || is_open(b) { Fault::Open(message) } else { message.into() })
        }
    }
}

impl Importer<'_> {
    /// The type of the elements of a list; `None` of other values.
    pub(crate) fn element(&self, value: &Value) -> Option<Type> {
        element_of(self.ty(value))
    }

    /// The sequence `value`, known or not, as a list whose elements may be of type `other` as well.
    pub(crate) fn as_list(&mut self, value: &Value, other: Option<Type>) -> Result<Value, Fault> {
        let ty = self.ty(value);
        let own = elements(ty).filter(|_| !matches!(value, Value::Absent));
        let Some(own) = own else {
            return Err(format!("expected a sequence of tensors of one rank, found {ty}").into());
        };
        let element = match (own, other) {
            (Some(own), Some(other)) => join_tensors(own, other),
            (own, other) => own.or(other),
        };
        match element {
            Some(element) => Ok(self.fitted(value, list_of(element))),
            None if own.is_none() => Err("expected a sequence that is not empty".into()),
            None => Err(format!("expected elements of one rank and element type in {ty}").into()),
        }
    }

    /// `value`, which is of the type `ty` or, where that is one of lists, a tuple of such elements.
    pub(super) fn fitted(&mut self, value: &Value, ty: Type) -> Value {
        let known = match element_of(ty) {
            Some(_) => self.sequence(value).ok(),
            None => None,
        };
        let Some(known) = known else { return value.clone() };
        let none = self.construct(NIL, &[], ty);
        known.iter().fold(none, |list, value| self.construct(CONS, &[value, &list], ty))
    }

    /// `list` with `value` behind it.
    pub(crate) fn append(&mut self, list: &Value, value: &Value) -> Result<Value, Fault> {
        let ty = join(self.ty(list), Type::tuple([self.ty(value)]))?;
        Ok(self.construct(CONS, &[value, list], ty))
    }

    /// The list without elements of this type.
    pub(crate) fn empty_list(&mut self, element: Type) -> Value {
        self.construct(NIL, &[], list_of(element))
    }

    fn construct(&mut self, name: &str, fields: &[&Value], ty: Type) -> Value {
        self.has_lists = true;
        let fields: Vec<ValueId> = fields.iter().map(|field| self.materialize(field)).collect();
        let op = Construct { name: name.to_string(), fields: fields.clone() };
        Value::Computed(self.insert("relay.construct", &fields, &[ty], op.attrs(), 0))
    }

    /// What `then` makes of the last element of a list and of the others; where there is none, the program
    /// fails when it comes there.
    pub(crate) fn with_last(
        &mut self,
        list: &Value,
        then: impl FnOnce(&mut Self, Value, Value) -> Value,
    ) -> Result<Value, Fault> {
        let ty = self.ty(list);
        let Some(element) = element_of(ty) else {
            return Err(format!("expected a list, found {ty}").into());
        };
        let fields = vec![Pattern::Variable, Pattern::Variable];
        let pattern = Pattern::Constructor(Symbol::new(CONS), fields);
        Ok(self.matched(list, pattern, &[element, ty], |importer, fields| {
            then(importer, fields[0].clone(), fields[1].clone())
        }))
    }

    /// `value`, where `list` has no elements; else the program fails when it comes there.
    pub(crate) fn where_empty(&mut self, list: &Value, value: &Value) -> Value {
        let pattern = Pattern::Constructor(Symbol::new(NIL), vec![]);
        self.matched(list, pattern, &[], |_, _| value.clone())
    }

    /// What `then` makes of the variables of `pattern`, which have these types.
    fn matched(
        &mut self,
        data: &Value,
        pattern: Pattern,
        types: &[Type],
        then: impl FnOnce(&mut Self, &[Value]) -> Value,
    ) -> Value {
        let data = self.materialize(data);
        let attrs = Match { data, patterns: vec![pattern], complete: false }.attrs();
        let op = self.insert_op("relay.match", &[data], &[Type::unknown()], attrs, 1);
        let inner = self.body.region_block(op, 0);
        let fields: SmallVec<[Value; 2]> =
            types.iter().map(|ty| Value::Computed(self.body.add_block_arg(inner, *ty))).collect();
        let outer = std::mem::replace(&mut self.block, inner);
        let value = then(self, &fields);
        let value = self.materialize(&value);
        self.insert("relay.yield", &[value], &[], AttrDict::empty(), 0);
        self.block = outer;
        let result = self.body.result(op, 0);
        self.body.set_ty(result, self.body.ty(value));
        Value::Computed(result)
    }

    /// A call of function `name` of the prelude or of the functions on lists.
    pub(crate) fn list_call(&mut self, name: &str, arguments: &[&Value], result: Type) -> Value {
        let attrs = OpFields::<ValueId>::attrs(&Global { name: Symbol::new(name) });
        // Inference says what the function is.
        let callee = self.insert("relay.global", &[], &[Type::unknown()], attrs, 0);
        let arguments: Vec<Value> = arguments.iter().map(|value| (*value).clone()).collect();
        Value::Computed(self.call(callee, &arguments, result))
    }

    /// A function of parameters of these types that gives what `then` makes of them.
    pub(crate) fn function(
        &mut self,
        types: &[Type],
        result: Type,
        then: impl FnOnce(&mut Self, &[Value]) -> Result<Value, Fault>,
    ) -> Result<Value, Fault> {
        let ty = Type::function(types.iter().copied(), result);
        let op = self.insert_op("relay.fn", &[], &[ty], AttrDict::empty(), 1);
        let inner = self.body.region_block(op, 0);
        let params = types.iter().map(|ty| Value::Computed(self.body.add_block_arg(inner, *ty)));
        let params: Vec<Value> = params.collect();
        let outer = std::mem::replace(&mut self.block, inner);
        let value = then(self, &params).map(|value| {
            let value = self.materialize(&value);
            self.insert("relay.yield", &[value], &[], AttrDict::empty(), 0);
        });
        self.block = outer;
        value.map(|()| Value::Computed(self.body.result(op, 0)))
    }

    /// What the graph gives for `value`: of a list, the first element first.
    pub(super) fn given(&mut self, value: Value) -> Value {
        match self.element(&value) {
            Some(_) => self.list_call("rev", &[&value], self.ty(&value)),
            None => value,
        }
    }
}

/// Adds the data type and the functions that `module` refers to.
pub(super) fn add(module: &mut Module, registry: &Registry) -> Result<(), Diagnostics> {
    let mut prelude = relay::prelude::prelude(registry)?;
    let (own, errors) = parse(FILE, TEXT, registry);
    if !errors.is_empty() {
        return Err(errors);
    }
    prelude.items.extend(own.items);
    let mut found = Vec::new();
    let mut pending = vec![Symbol::new("main")];
    while let Some(name) = pending.pop() {
        let item = module.items.get(&name).or_else(|| prelude.items.get(&name));
        let Some(body) = item.and_then(|item| item.body.as_ref()) else { continue };
        for op in body.walk() {
            if let Some(Global { name }) = body.view::<Global>(op)
                && !found.contains(&name)
            {
                found.push(name);
                pending.push(name);
            }
        }
    }
    module.sources.add(relay::prelude::FILE, relay::prelude::TEXT);
    module.sources.add(FILE, TEXT);
    let list = Symbol::new(LIST);
    let main = std::mem::take(&mut module.items);
    let wanted = prelude.items.into_iter();
    let wanted = wanted.filter(|(name, _)| *name == list || found.contains(name));
    module.items = wanted.chain(main).collect();
    Ok(())
}
