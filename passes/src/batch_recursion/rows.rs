//! A clause on several nodes at once.

use ir_core::{
    Binding, Body, Dim, InferCx, InsertPoint, NameHint, OpId, OpParts, Registry, Span, Type,
    TypeData, ValueId, ValueMap,
};
use relay::builder::Builder;
use relay::define::tensor_types;
use relay::language::{Tuple, TupleGet};
use relay_operators::attributes::Sections;
use relay_operators::join::{Concatenate, Split};
use rustc_hash::FxHashMap;
use te::batch::{Rows, by_rows};

use crate::lower_te::function::Function;

/// What a value of the clause is for the nodes.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// The same for all.
    Same(ValueId),
    /// One for each.
    Each(Vec<ValueId>),
    /// One tensor, with a row for each in the place of a first axis of one.
    Rows(ValueId),
    /// A tuple, not all of which is the same, of other values than tuples of this kind.
    Tuple(Vec<Value>),
}

/// Writes operations of a clause for `count` nodes.
pub(super) struct Writer<'a> {
    pub(super) registry: &'a Registry,
    /// Where the operations come from, and the place of that item.
    pub(super) source: (&'a Body, Option<Span>),
    pub(super) count: usize,
    pub(super) values: FxHashMap<ValueId, Value>,
    /// Whether something that is the same for all is read once for several rows.
    pub(super) shares: bool,
    /// The rows made of values, by the first of these, and the other way round.
    joined: FxHashMap<ValueId, ValueId>,
    parted: FxHashMap<ValueId, Vec<ValueId>>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        registry: &'a Registry,
        source: (&'a Body, Option<Span>),
        count: usize,
    ) -> Writer<'a> {
        let (values, joined, parted) = Default::default();
        Writer { registry, source, count, values, shares: false, joined, parted }
    }

    /// Writes `op`, which has a result and no regions.
    pub(super) fn operation(&mut self, builder: &mut Builder, op: OpId) {
        let body = self.source.0;
        let value = body.result(op, 0);
        let operands: Vec<Value> =
            body.operands(op).map(|operand| self.values[&operand].clone()).collect();
        let same = |value: &Value| match value {
            Value::Same(value) => Some(*value),
            _ => None,
        };
        let written = if let Some(operands) = operands.iter().map(same).collect::<Option<Vec<_>>>()
        {
            let from: Vec<ValueId> = body.operands(op).collect();
            let mut map: ValueMap = from.into_iter().zip(operands).collect();
            let at = InsertPoint::End(builder.block);
            let new = builder.body.import_op(body, self.source.1, op, at, &mut map);
            Value::Same(builder.body.result(new, 0))
        } else if body.is::<Tuple>(op) && !operands.iter().any(|v| matches!(v, Value::Tuple(_))) {
            Value::Tuple(operands)
        } else if let (Some(TupleGet { index, .. }), Some(Value::Tuple(fields))) =
            (body.view(op), operands.first())
        {
            fields[usize::try_from(index).expect("a projection is of a field")].clone()
        } else {
            let rows = self.rows(builder, op, &operands);
            rows.unwrap_or_else(|| self.one_by_one(builder, op, &operands))
        };
        self.values.insert(value, written);
    }

    /// Writes `op` once, on rows, where its definition computes each row from those of its operands.
    fn rows(&mut self, builder: &mut Builder, op: OpId, operands: &[Value]) -> Option<Value> {
        let body = self.source.0;
        let (name, attrs) = (body.op_name(op), body.attrs(op));
        if self.count == 1 {
            return None;
        }
        let types = body.operands(op).zip(operands);
        let types: Vec<Type> = types
            .map(|(operand, value)| self.ty(body.ty(operand), value))
            .collect::<Option<_>>()?;
        let expected = self.with_rows(body.ty(body.result(op, 0)))?;
        let infer = self.registry.def(name)?.infer?;
        let found = InferCx::new(&types, attrs).answer(infer).ok()?;
        if found != expected {
            return None;
        }
        let mut alone = Body::new();
        let entry = alone.entry();
        let args: Vec<ValueId> = types.iter().map(|ty| alone.add_block_arg(entry, *ty)).collect();
        let result = [expected];
        let parts = OpParts::new(name, &args, &result).attrs(attrs);
        let computed = alone.insert_op(InsertPoint::End(entry), parts);
        let (function, used) = Function::of_operator(self.registry, &alone, computed).ok()?;
        let defined = function.item.body.as_ref()?;
        let by_value: FxHashMap<ValueId, &Value> = args.iter().copied().zip(operands).collect();
        let has_rows = used.iter().flat_map(|arg| flags(by_value[arg], alone.ty(*arg)));
        let params = defined.block_args(defined.entry()).iter().zip(has_rows);
        let params: Vec<ValueId> =
            params.filter(|(_, has_rows)| *has_rows).map(|(param, _)| *param).collect();
        let Rows { shares } = by_rows(defined, &params)?;
        self.shares |= shares;
        let operands: Vec<ValueId> =
            operands.iter().map(|operand| self.joined(builder, operand)).collect();
        let value = self.insert(builder, op, &operands, expected);
        let Some(fields) = expected.as_tuple() else { return Some(Value::Rows(value)) };
        let field = |(index, ty): (usize, &Type)| {
            Value::Rows(builder.add(&TupleGet { tuple: value, index: index as i64 }, *ty))
        };
        Some(Value::Tuple(fields.iter().enumerate().map(field).collect()))
    }

    /// Writes `op` for each node.
    fn one_by_one(&mut self, builder: &mut Builder, op: OpId, operands: &[Value]) -> Value {
        let body = self.source.0;
        let ty = body.ty(body.result(op, 0));
        let operands: Vec<Vec<ValueId>> =
            operands.iter().map(|operand| self.parted(builder, operand)).collect();
        let one = |node: usize| {
            let operands: Vec<ValueId> = operands.iter().map(|values| values[node]).collect();
            self.insert(builder, op, &operands, ty)
        };
        Value::Each((0..self.count).map(one).collect())
    }

    fn insert(&self, builder: &mut Builder, op: OpId, operands: &[ValueId], ty: Type) -> ValueId {
        let (body, base) = self.source;
        let (loc, types) = (body.loc(op).outside(base).by_pass("batch-recursion"), [ty]);
        let parts = OpParts::new(body.op_name(op), operands, &types).attrs(body.attrs(op)).at(loc);
        let new = builder.body.insert_op(InsertPoint::End(builder.block), parts);
        builder.body.result(new, 0)
    }

    /// The type of `value`, of type `ty` for one node, when it is given to an operator with a row for
    /// each; `None` where it cannot be.
    fn ty(&self, ty: Type, value: &Value) -> Option<Type> {
        let one = |ty: Type, value: &Value| match value {
            Value::Same(_) => Some(ty),
            _ => self.with_row(ty),
        };
        let Value::Tuple(fields) = value else { return one(ty, value) };
        let types = ty.as_tuple()?.iter().zip(fields).map(|(ty, field)| one(*ty, field));
        Some(Type::tuple(types.collect::<Option<Vec<_>>>()?))
    }

    /// `ty`, tensors whose first extent is 1, with a row for each node.
    fn with_rows(&self, ty: Type) -> Option<Type> {
        let Some(fields) = ty.as_tuple() else { return self.with_row(ty) };
        let fields = fields.iter().map(|field| self.with_row(*field));
        Some(Type::tuple(fields.collect::<Option<Vec<_>>>()?))
    }

    fn with_row(&self, ty: Type) -> Option<Type> {
        let first = ty.as_tensor()?.shape.first()?.known()?;
        (first == 1).then(|| with_first(ty, self.count))
    }

    /// `value` as one value, with rows.
    fn joined(&mut self, builder: &mut Builder, value: &Value) -> ValueId {
        let Value::Tuple(fields) = value else { return self.join(builder, value) };
        let fields = fields.iter().map(|field| self.join(builder, field)).collect();
        tuple(builder, fields)
    }

    fn join(&mut self, builder: &mut Builder, value: &Value) -> ValueId {
        let values = match value {
            Value::Same(value) | Value::Rows(value) => return *value,
            Value::Each(values) => values,
            Value::Tuple(_) => panic!("tuples are not nested"),
        };
        if let Some(rows) = self.joined.get(&values[0]) {
            return *rows;
        }
        let ty = with_first(builder.body.ty(values[0]), self.count);
        let data = tuple(builder, values.clone());
        let rows = builder.add(&Concatenate { data, axis: 0 }, ty);
        // So that kernels do not look for each element among the nodes.
        builder
            .body
            .set_name_hint(rows, NameHint { name: Some("rows".into()), binding: Binding::Let });
        self.joined.insert(values[0], rows);
        rows
    }

    /// `value` of each node.
    pub(super) fn parted(&mut self, builder: &mut Builder, value: &Value) -> Vec<ValueId> {
        let Value::Tuple(fields) = value else { return self.part(builder, value) };
        let fields: Vec<Vec<ValueId>> =
            fields.iter().map(|field| self.part(builder, field)).collect();
        let of = |node: usize| fields.iter().map(|values| values[node]).collect();
        (0..self.count).map(|node| tuple(builder, of(node))).collect()
    }

    fn part(&mut self, builder: &mut Builder, value: &Value) -> Vec<ValueId> {
        let rows = match value {
            Value::Same(value) => return vec![*value; self.count],
            Value::Each(values) => return values.clone(),
            Value::Rows(rows) => *rows,
            Value::Tuple(_) => panic!("tuples are not nested"),
        };
        if let Some(values) = self.parted.get(&rows) {
            return values.clone();
        }
        let ty = with_first(builder.body.ty(rows), 1);
        let indices_or_sections = Sections::Equal(self.count as i64);
        let split = Split { data: rows, indices_or_sections, axis: 0 };
        let tuple = builder.add(&split, Type::tuple(vec![ty; self.count]));
        let mut get = |index| builder.add(&TupleGet { tuple, index: index as i64 }, ty);
        let values: Vec<ValueId> = (0..self.count).map(&mut get).collect();
        self.parted.insert(rows, values.clone());
        values
    }
}

/// The tensor type `ty` with another first extent.
fn with_first(ty: Type, extent: usize) -> Type {
    let mut tensor = ty.as_tensor().expect("rows are of a tensor").clone();
    tensor.shape[0] = Dim::from(extent as i64);
    Type::new(TypeData::Tensor(tensor))
}

fn tuple(builder: &mut Builder, fields: Vec<ValueId>) -> ValueId {
    let ty = Type::tuple(fields.iter().map(|field| builder.body.ty(*field)));
    builder.add(&Tuple { fields }, ty)
}

/// By tensor of `value`, which has type `ty`, whether it has rows.
fn flags(value: &Value, ty: Type) -> Vec<bool> {
    let one = |value: &Value, ty: Type| {
        let tensors = tensor_types(ty).map_or(0, |types| types.len());
        vec![!matches!(value, Value::Same(_)); tensors]
    };
    let Value::Tuple(fields) = value else { return one(value, ty) };
    let types = ty.as_tuple().into_iter().flatten();
    fields.iter().zip(types).flat_map(|(field, ty)| one(field, *ty)).collect()
}
