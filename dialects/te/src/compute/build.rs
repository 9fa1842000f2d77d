//! Writing compute functions from Rust.

use ir_core::{
    AttrDict, BlockId, Body, DType, InsertPoint, Item, Loc, NameHint, OpFields, OpParts, Scalar,
    Symbol, TensorData, Type, ValueId,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{
    Combiner, Compute, FUNC, Load, LoadIf, Reduce, Return, Scan, Scatter, Stage, Yield, tensor_of,
};
use crate::scalar::{
    Cast, Check, Constant, Reinterpret, ScalarOp, Select, bool_like, dtype_of, is_reinterpretable,
};

/// A tensor of a function being written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tensor {
    /// The value.
    pub value: ValueId,
    /// Extents.
    pub shape: SmallVec<[i64; 4]>,
    /// Element type.
    pub dtype: DType,
}

/// Writes one compute function. The first mistake is kept and returned by
/// [`finish`](ComputeBuilder::finish), so that expressions can be written without `?`.
#[derive(Default)]
pub struct ComputeBuilder {
    body: Body,
    names: FxHashMap<String, usize>,
    error: Option<String>,
    loc: Option<Loc>,
    apart: bool,
}

impl ComputeBuilder {
    /// A function without parameters and stages.
    pub fn new() -> ComputeBuilder {
        ComputeBuilder::default()
    }

    /// A function in which equal expressions stay apart, and so do those that are nothing but an operand of
    /// theirs, so that what is written depends on no number that happens to be 0, 1 or another one.
    /// [`simplify`](super::simplify::simplify) puts them together.
    pub fn apart() -> ComputeBuilder {
        ComputeBuilder { apart: true, ..ComputeBuilder::default() }
    }

    /// What is written next comes from `loc`.
    pub fn at(&mut self, loc: Loc) {
        self.loc = Some(loc);
    }

    /// Adds a parameter of `shape` and `dtype`.
    pub fn input(&mut self, name: &str, shape: &[i64], dtype: DType) -> Tensor {
        let entry = self.body.entry();
        let value = self.body.add_block_arg(entry, Type::tensor(shape.iter().copied(), dtype));
        self.name_value(value, name);
        Tensor { value, shape: shape.into(), dtype }
    }

    /// The constant scalar `value`, a tensor of rank 0. Expressions that load it hold the number.
    pub fn constant(&mut self, value: &TensorData) -> Tensor {
        let (dtype, types) = (value.dtype(), [value.ty()]);
        let constant = Constant { value: value.clone() };
        let parts = OpParts::new(<Constant as OpFields<ValueId>>::NAME, &[], &types)
            .attrs(OpFields::<ValueId>::attrs(&constant));
        let op = self.body.insert_op(InsertPoint::End(self.body.entry()), parts);
        if value.rank() != 0 {
            self.fail(format!("expected a scalar constant, found {}", value.ty()));
        }
        Tensor { value: self.body.result(op, 0), shape: SmallVec::new(), dtype }
    }

    fn name_value(&mut self, value: ValueId, name: &str) {
        let hint = NameHint { name: Some(Symbol::new(name)), ..NameHint::default() };
        self.body.set_name_hint(value, hint);
    }

    /// `name`, or `name` with the first number that makes it unique.
    fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_string();
        while self.names.contains_key(&unique) {
            let number = self.names.entry(name.to_string()).or_insert(0);
            *number += 1;
            unique = format!("{name}_{number}");
        }
        self.names.insert(unique.clone(), 0);
        unique
    }

    /// Adds a stage called `name` (or `name` with a number, where it is taken) whose element at
    /// indices `i` is what `element` writes.
    pub fn compute(
        &mut self,
        name: &str,
        shape: &[i64],
        element: impl FnOnce(&mut Expression<'_>, &[ValueId]) -> ValueId,
    ) -> Tensor {
        let name = self.unique(name);
        let results = [Type::unknown()];
        let parts = OpParts::new(<Compute as OpFields<ValueId>>::NAME, &[], &results).regions(1);
        let op = self.body.insert_op(InsertPoint::End(self.body.entry()), parts);
        let block = self.body.region_block(op, 0);
        let dtypes = self.fill(block, shape.len(), |e, i| SmallVec::from_buf([element(e, i)]));
        let dtype = dtypes[0];
        let attrs = Compute { name: name.clone(), shape: shape.to_vec(), dtype, counts: vec![] };
        self.body.set_attrs(op, <Compute as OpFields<ValueId>>::attrs(&attrs));
        let value = self.body.result(op, 0);
        self.body.set_ty(value, Type::tensor(shape.iter().copied(), dtype));
        self.name_value(value, &name);
        Tensor { value, shape: shape.into(), dtype }
    }

    /// Adds a stage that combines, over reduction axes of `extents`, what `element` writes for
    /// spatial indices and reduction indices. One result for each value that it writes.
    pub fn reduce_many(
        &mut self,
        name: &str,
        shape: &[i64],
        extents: &[i64],
        combiner: Combiner,
        results: usize,
        element: impl FnOnce(&mut Expression<'_>, &[ValueId], &[ValueId]) -> SmallVec<[ValueId; 1]>,
    ) -> Vec<Tensor> {
        let name = self.unique(name);
        let types = vec![Type::unknown(); results];
        let parts = OpParts::new(<Reduce as OpFields<ValueId>>::NAME, &[], &types).regions(1);
        let op = self.body.insert_op(InsertPoint::End(self.body.entry()), parts);
        let block = self.body.region_block(op, 0);
        let dtypes = self.fill(block, shape.len() + extents.len(), |e, indices| {
            let (spatial, reduction) = indices.split_at(shape.len());
            element(e, spatial, reduction)
        });
        if dtypes.len() != results {
            self.fail(format!("expected {results} values to reduce, found {}", dtypes.len()));
        }
        let attrs = Reduce {
            name: name.clone(),
            shape: shape.to_vec(),
            extents: extents.to_vec(),
            combiner,
            identity: vec![],
            counts: vec![],
        };
        self.body.set_attrs(op, <Reduce as OpFields<ValueId>>::attrs(&attrs));
        let mut tensors = Vec::new();
        for (index, &dtype) in dtypes.iter().take(results).enumerate() {
            let value = self.body.result(op, index);
            self.body.set_ty(value, Type::tensor(shape.iter().copied(), dtype));
            self.name_value(value, &name);
            tensors.push(Tensor { value, shape: shape.into(), dtype });
        }
        tensors
    }

    /// Adds a stage that combines, over reduction axes of `extents`, the value that `element`
    /// writes for spatial indices and reduction indices.
    pub fn reduce(
        &mut self,
        name: &str,
        shape: &[i64],
        extents: &[i64],
        combiner: Combiner,
        element: impl FnOnce(&mut Expression<'_>, &[ValueId], &[ValueId]) -> ValueId,
    ) -> Tensor {
        let element = |e: &mut Expression<'_>, i: &[ValueId], r: &[ValueId]| {
            SmallVec::from_buf([element(e, i, r)])
        };
        let mut tensors = self.reduce_many(name, shape, extents, combiner, 1, element);
        tensors.swap_remove(0)
    }

    /// Adds a stage like [`reduce_many`](ComputeBuilder::reduce_many), whose values `combine`
    /// combines: it gets two tuples of values. They start from `identity`, a number for each
    /// result, which is cast to its type.
    pub fn reduce_user(
        &mut self,
        name: &str,
        shape: &[i64],
        extents: &[i64],
        identity: &[Scalar],
        element: impl FnOnce(&mut Expression<'_>, &[ValueId], &[ValueId]) -> SmallVec<[ValueId; 1]>,
        combine: impl FnOnce(&mut Expression<'_>, &[ValueId], &[ValueId]) -> SmallVec<[ValueId; 1]>,
    ) -> Vec<Tensor> {
        let results = identity.len();
        let tensors = self.reduce_many(name, shape, extents, Combiner::User, results, element);
        let op = self.body.last_op(self.body.entry());
        let Some((op, mut reduce)) = op.and_then(|op| Some((op, self.body.view::<Reduce>(op)?)))
        else {
            return tensors;
        };
        let identity = tensors.iter().zip(identity);
        reduce.identity =
            identity.map(|(tensor, value)| TensorData::scalar(tensor.dtype, *value)).collect();
        self.body.set_attrs(op, <Reduce as OpFields<ValueId>>::attrs(&reduce));
        let region = self.body.add_region(op);
        let block = self.body.block_of(region);
        let types: Vec<Type> = tensors.iter().map(|tensor| Type::scalar(tensor.dtype)).collect();
        self.fill_with(block, types.iter().chain(&types).copied(), |e, values| {
            let (a, b) = values.split_at(values.len() / 2);
            combine(e, a, b)
        });
        tensors
    }

    /// Adds a stage whose elements are computed one after the other along dimension `axis`. For
    /// spatial indices and a state, `initial` before the first element, `step` writes the element and
    /// then the state for the next one.
    pub fn scan(
        &mut self,
        name: &str,
        shape: &[i64],
        axis: usize,
        initial: &[TensorData],
        step: impl FnOnce(&mut Expression<'_>, &[ValueId], &[ValueId]) -> SmallVec<[ValueId; 1]>,
    ) -> Tensor {
        let name = self.unique(name);
        let results = [Type::unknown()];
        let parts = OpParts::new(<Scan as OpFields<ValueId>>::NAME, &[], &results).regions(1);
        let op = self.body.insert_op(InsertPoint::End(self.body.entry()), parts);
        let block = self.body.region_block(op, 0);
        let index = Type::scalar(DType::INT64);
        let state = initial.iter().map(TensorData::ty);
        let types = (0..shape.len()).map(|_| index).chain(state);
        let dtypes = self.fill_with(block, types, |e, args| {
            let (indices, state) = args.split_at(shape.len());
            step(e, indices, state)
        });
        let args = self.body.block_args(block).to_vec();
        for (number, state) in args[shape.len()..].iter().enumerate() {
            let name = if number == 0 { "state".to_string() } else { format!("state{number}") };
            self.name_value(*state, &name);
        }
        if dtypes.len() != 1 + initial.len() {
            let (expected, found) = (1 + initial.len(), dtypes.len());
            self.fail(format!(
                "expected an element and the state, {expected} values, found {found}"
            ));
        }
        let dtype = dtypes.first().copied().unwrap_or(DType::FLOAT32); // Then it has failed.
        let fields = Scan {
            name: name.clone(),
            shape: shape.to_vec(),
            dtype,
            axis: axis as i64,
            initial: initial.to_vec(),
            counts: vec![],
        };
        self.body.set_attrs(op, <Scan as OpFields<ValueId>>::attrs(&fields));
        let value = self.body.result(op, 0);
        self.body.set_ty(value, Type::tensor(shape.iter().copied(), dtype));
        self.name_value(value, &name);
        Tensor { value, shape: shape.into(), dtype }
    }

    /// Adds a stage whose elements are changed at computed places. `initial` writes the element before any
    /// update; for indices of an update, of which there are `extents`, `update` writes a place, an index for
    /// each dimension, and then a value; `combine` what becomes of the element there and the value.
    pub fn scatter(
        &mut self,
        name: &str,
        shape: &[i64],
        extents: &[i64],
        initial: impl FnOnce(&mut Expression<'_>, &[ValueId]) -> ValueId,
        update: impl FnOnce(&mut Expression<'_>, &[ValueId]) -> SmallVec<[ValueId; 1]>,
        combine: impl FnOnce(&mut Expression<'_>, ValueId, ValueId) -> ValueId,
    ) -> Tensor {
        let name = self.unique(name);
        let results = [Type::unknown()];
        let parts = OpParts::new(<Scatter as OpFields<ValueId>>::NAME, &[], &results).regions(3);
        let op = self.body.insert_op(InsertPoint::End(self.body.entry()), parts);
        let block = self.body.region_block(op, 0);
        let dtype = self.fill(block, shape.len(), |e, i| SmallVec::from_buf([initial(e, i)]))[0];
        let block = self.body.region_block(op, 1);
        let found = self.fill(block, extents.len(), update).len();
        if found != shape.len() + 1 {
            let expected = shape.len() + 1;
            self.fail(format!("expected a place and a value, {expected} values, found {found}"));
        }
        let block = self.body.region_block(op, 2);
        let types = [Type::scalar(dtype); 2];
        self.fill_with(block, types.into_iter(), |e, values| {
            SmallVec::from_buf([combine(e, values[0], values[1])])
        });
        let args = self.body.block_args(block).to_vec();
        args.into_iter().zip(["old", "new"]).for_each(|(arg, name)| self.name_value(arg, name));
        let fields = Scatter {
            name: name.clone(),
            shape: shape.to_vec(),
            dtype,
            extents: extents.to_vec(),
            counts: vec![],
        };
        self.body.set_attrs(op, <Scatter as OpFields<ValueId>>::attrs(&fields));
        let value = self.body.result(op, 0);
        self.body.set_ty(value, Type::tensor(shape.iter().copied(), dtype));
        self.name_value(value, &name);
        Tensor { value, shape: shape.into(), dtype }
    }

    /// Fills `block` with `indices` index arguments and what `element` writes; the element types
    /// of what it yields.
    fn fill(
        &mut self,
        block: BlockId,
        indices: usize,
        element: impl FnOnce(&mut Expression<'_>, &[ValueId]) -> SmallVec<[ValueId; 1]>,
    ) -> SmallVec<[DType; 1]> {
        let index = Type::scalar(DType::INT64);
        self.fill_with(block, (0..indices).map(|_| index), element)
    }

    /// Fills `block` with arguments of `types` and what `element` writes.
    fn fill_with(
        &mut self,
        block: BlockId,
        types: impl Iterator<Item = Type>,
        element: impl FnOnce(&mut Expression<'_>, &[ValueId]) -> SmallVec<[ValueId; 1]>,
    ) -> SmallVec<[DType; 1]> {
        let args: SmallVec<[ValueId; 8]> =
            types.map(|ty| self.body.add_block_arg(block, ty)).collect();
        let mut e = Expression::new(&mut self.body, block);
        e.loc = self.loc.unwrap_or(Loc::UNKNOWN);
        e.apart = self.apart;
        let values = element(&mut e, &args);
        let dtypes = values.iter().map(|value| e.dtype(*value)).collect();
        let error = e.error.take();
        self.body
            .insert_op(InsertPoint::End(block), OpParts::new(Yield::<ValueId>::NAME, &values, &[]));
        if let Some(error) = error {
            self.fail(error);
        }
        dtypes
    }

    /// Records a mistake; the first one counts.
    pub fn fail(&mut self, error: impl Into<String>) {
        self.error.get_or_insert(error.into());
    }

    /// Adds the stages of the compute function `body` on `arguments`, one for each of its parameters and of
    /// their types; what its tensors are here.
    pub fn append(&mut self, body: &Body, arguments: &[Tensor]) -> FxHashMap<ValueId, Tensor> {
        let params = body.block_args(body.entry());
        if params.len() != arguments.len() {
            self.fail(format!("expected {} tensors, found {}", params.len(), arguments.len()));
        }
        let mut tensors: FxHashMap<ValueId, Tensor> =
            params.iter().copied().zip(arguments.iter().cloned()).collect();
        for op in body.block_ops(body.entry()).filter(|op| Stage::of(body, *op).is_some()) {
            let name = Stage::of(body, op).map_or(String::new(), |stage| stage.name);
            let name = self.unique(&name);
            let types: Vec<Type> = body.results(op).map(|result| body.ty(result)).collect();
            let attrs = body.attrs(op).with("name", &name);
            let parts = OpParts::new(body.op_name(op), &[], &types);
            let parts = parts.attrs(attrs).regions(body.regions(op).len());
            let copy = self.body.insert_op(InsertPoint::End(self.body.entry()), parts);
            for (number, region) in body.regions(op).iter().enumerate() {
                let block = self.body.region_block(copy, number);
                self.append_block(body, body.block_of(*region), block, &tensors);
            }
            for (number, result) in body.results(op).enumerate() {
                let value = self.body.result(copy, number);
                self.name_value(value, &name);
                let tensor = tensor_of(body, result);
                let shape = tensor.known_shape().expect("extents are constants");
                let dtype = tensor.dtype;
                tensors.insert(result, Tensor { value, shape, dtype });
            }
        }
        tensors
    }

    /// Fills `to` with a copy of `block` of `body`, whose tensors are `tensors` here.
    fn append_block(
        &mut self,
        body: &Body,
        block: BlockId,
        to: BlockId,
        tensors: &FxHashMap<ValueId, Tensor>,
    ) {
        let mut values: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        for &arg in body.block_args(block) {
            let copy = self.body.add_block_arg(to, body.ty(arg));
            self.body.set_name_hint(copy, body.name_hint(arg));
            values.insert(arg, copy);
        }
        for op in body.block_ops(block) {
            let here = |value: ValueId| {
                let tensor = || tensors.get(&value).map(|tensor| tensor.value);
                let known = values.get(&value).copied().or_else(tensor);
                known.expect("what a stage reads comes before it")
            };
            let operands: SmallVec<[ValueId; 4]> = body.operands(op).map(here).collect();
            let types: SmallVec<[Type; 1]> =
                body.results(op).map(|result| body.ty(result)).collect();
            let (at, loc) = (InsertPoint::End(to), self.loc.unwrap_or(Loc::UNKNOWN));
            // An element of a constant is its number.
            let number = body.view::<Load>(op).map(|load| load.tensor);
            let number = number.or_else(|| body.view::<LoadIf>(op).map(|load| load.tensor));
            let number = number
                .and_then(|tensor| self.body.view_def::<Constant>(tensors.get(&tensor)?.value));
            if let Some((_, constant)) = number {
                let number = self.body.add(at, loc, &constant, types[0]);
                let value = match body.view::<LoadIf>(op) {
                    Some(_) => {
                        let (condition, b) = (operands[0], operands[1]);
                        self.body.add(at, loc, &Select { condition, a: number, b }, types[0])
                    }
                    None => number,
                };
                values.insert(body.result(op, 0), value);
                continue;
            }
            let parts = OpParts::new(body.op_name(op), &operands, &types).attrs(body.attrs(op));
            let copy = self.body.insert_op(at, parts.at(loc));
            values.extend(body.results(op).zip(self.body.results(copy)));
        }
    }

    /// Whether `tensor` is a parameter or a constant rather than a stage.
    pub fn is_given(&self, tensor: &Tensor) -> bool {
        let op = self.body.defining_op(tensor.value);
        op.is_none_or(|op| self.body.op_name(op) == <Constant as OpFields<ValueId>>::NAME)
    }

    /// The function that returns `tensors`. The error is the first mistake made on the way, as a
    /// message that starts in lower case.
    pub fn finish(mut self, tensors: &[Tensor]) -> Result<Item, String> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let values: Vec<ValueId> = tensors.iter().map(|tensor| tensor.value).collect();
        // Expressions hold the numbers.
        let ops: Vec<_> = self.body.block_ops(self.body.entry()).collect();
        for op in ops {
            if self.body.op_name(op) == <Constant as OpFields<ValueId>>::NAME {
                self.body.erase(op);
            }
        }
        let parts = OpParts::new(Return::<ValueId>::NAME, &values, &[]);
        self.body.insert_op(InsertPoint::End(self.body.entry()), parts);
        let ty = function_type(&self.body, &values);
        Ok(Item::new(FUNC, ty, Some(self.body)))
    }
}

/// The type of a compute function that returns `values`.
pub(crate) fn function_type(body: &Body, values: &[ValueId]) -> Type {
    let params = body.block_args(body.entry()).iter().map(|arg| body.ty(*arg));
    let result = match values {
        [one] => body.ty(*one),
        many => Type::tuple(many.iter().map(|value| body.ty(*value))),
    };
    Type::function(params, result)
}

/// Writes scalar expressions at the end of a block. Equal expressions are written once, unless its builder
/// keeps them [apart](ComputeBuilder::apart).
pub struct Expression<'b> {
    /// The body that is written to.
    pub body: &'b mut Body,
    /// Where what is written next comes from.
    pub loc: Loc,
    at: InsertPoint,
    known: FxHashMap<(Symbol, SmallVec<[ValueId; 4]>, AttrDict), ValueId>,
    error: Option<String>,
    apart: bool,
}

macro_rules! shorthands {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident ($($arg:ident),*);)*) => { $(
        $(#[doc = $doc])*
        pub fn $name(&mut self, $($arg: ValueId),*) -> ValueId {
            self.scalar(ScalarOp::$op, &[$($arg),*])
        }
    )* };
}

impl<'b> Expression<'b> {
    /// Writes at the end of `block`.
    pub fn new(body: &'b mut Body, block: BlockId) -> Expression<'b> {
        let at = InsertPoint::End(block);
        let known = FxHashMap::default();
        Expression { body, loc: Loc::UNKNOWN, at, known, error: None, apart: false }
    }

    /// The element type of `value`; `int64` where it is no scalar, which is a mistake.
    pub fn dtype(&mut self, value: ValueId) -> DType {
        dtype_of(self.body.ty(value)).unwrap_or_else(|| {
            let ty = self.body.ty(value);
            self.fail(format!("expected a scalar, found {ty}"));
            DType::INT64
        })
    }

    /// Records a mistake; the first one counts.
    pub fn fail(&mut self, error: impl Into<String>) {
        self.error.get_or_insert(error.into());
    }

    /// Takes the first mistake.
    pub fn take_error(&mut self) -> Option<String> {
        self.error.take()
    }

    /// The operation with these fields and one result of element type `dtype`.
    pub(crate) fn write<T: OpFields<ValueId>>(&mut self, op: &T, dtype: DType) -> ValueId {
        self.write_named(Symbol::new(T::NAME), op.operands(), op.attrs(), dtype)
    }

    pub(crate) fn write_named(
        &mut self,
        name: Symbol,
        operands: SmallVec<[ValueId; 4]>,
        attrs: AttrDict,
        dtype: DType,
    ) -> ValueId {
        let key = (name, operands, attrs);
        let known = if self.apart { None } else { self.known.get(&key) };
        if let Some(value) = known {
            return *value;
        }
        let results = [Type::scalar(dtype)];
        let parts = OpParts::new(name, &key.1, &results).attrs(attrs).at(self.loc);
        let op = self.body.insert_op(self.at, parts);
        let value = self.body.result(op, 0);
        self.known.insert(key, value);
        value
    }

    /// `op` applied to `operands`.
    pub fn scalar(&mut self, op: ScalarOp, operands: &[ValueId]) -> ValueId {
        let dtype = self.dtype(operands[0]);
        for &operand in &operands[1..] {
            let other = self.dtype(operand);
            if other != dtype {
                self.fail(format!("`{}` of {dtype} and {other}", op.name()));
            }
        }
        let result = op.result_dtype(dtype).unwrap_or_else(|| {
            self.fail(format!("`{}` of {dtype}", op.name()));
            dtype
        });
        self.write_named(Symbol::new(op.name()), operands.into(), AttrDict::empty(), result)
    }

    /// The constant `value` of element type `dtype`.
    pub fn constant(&mut self, dtype: DType, value: Scalar) -> ValueId {
        self.write(&Constant { value: TensorData::scalar(dtype, value) }, dtype)
    }

    /// The number `value` rounded to element type `dtype`.
    pub fn number(&mut self, dtype: DType, value: f64) -> ValueId {
        self.constant(dtype, Scalar::Float(value))
    }

    /// The number `value` rounded to the element type of `like`.
    pub fn number_like(&mut self, like: ValueId, value: f64) -> ValueId {
        let dtype = self.dtype(like);
        self.number(dtype, value)
    }

    /// The index `value`.
    pub fn index(&mut self, value: i64) -> ValueId {
        self.constant(DType::INT64, Scalar::Int(value))
    }

    /// `a` as element type `dtype`.
    pub fn cast(&mut self, a: ValueId, dtype: DType) -> ValueId {
        let from = self.dtype(a);
        match dtype.with_lanes_of(from) {
            to if to == from => a,
            to => self.write(&Cast { a, dtype }, to),
        }
    }

    /// The bits of `a` as element type `dtype`, which is as wide.
    pub fn reinterpret(&mut self, a: ValueId, dtype: DType) -> ValueId {
        let from = self.dtype(a);
        match dtype.with_lanes_of(from) {
            to if to == from => a,
            to if is_reinterpretable(from, to) => self.write(&Reinterpret { a, dtype }, to),
            _ => {
                self.fail(format!("the bits of {from} as {dtype}"));
                a
            }
        }
    }

    /// `a` where `condition` holds, else `b`.
    pub fn select(&mut self, condition: ValueId, a: ValueId, b: ValueId) -> ValueId {
        let (chosen, other, truth) = (self.dtype(a), self.dtype(b), self.dtype(condition));
        if chosen != other || truth != bool_like(chosen) {
            self.fail(format!("a choice by {truth} of {chosen} and {other}"));
        }
        self.write(&Select { condition, a, b }, chosen)
    }

    /// `a` where `condition` holds, else an error that says `message`, behind which `otherwise` stands.
    pub fn check(
        &mut self,
        condition: ValueId,
        a: ValueId,
        otherwise: ValueId,
        message: impl Into<String>,
    ) -> ValueId {
        let dtype = self.dtype(a);
        let message = message.into();
        self.write(&Check { condition, a, otherwise, message, site: None }, dtype)
    }

    /// The element of `tensor` at `indices`.
    pub fn load(&mut self, tensor: &Tensor, indices: &[ValueId]) -> ValueId {
        self.check_rank(tensor, indices);
        if let Some((_, constant)) = self.body.view_def::<Constant>(tensor.value) {
            return self.write(&constant, tensor.dtype);
        }
        self.write(&Load { tensor: tensor.value, indices: indices.to_vec() }, tensor.dtype)
    }

    /// The element of `tensor` at `indices` where `condition` holds, else `otherwise`.
    pub fn load_if(
        &mut self,
        condition: ValueId,
        tensor: &Tensor,
        indices: &[ValueId],
        otherwise: ValueId,
    ) -> ValueId {
        self.check_rank(tensor, indices);
        if let Some((_, constant)) = self.body.view_def::<Constant>(tensor.value) {
            let value = self.write(&constant, tensor.dtype);
            return self.select(condition, value, otherwise);
        }
        let indices = indices.to_vec();
        self.write(&LoadIf { condition, otherwise, tensor: tensor.value, indices }, tensor.dtype)
    }

    /// Erases what was written and serves none of `values`.
    pub(crate) fn keep(&mut self, values: &[ValueId]) {
        let InsertPoint::End(block) = self.at else { return };
        let ops: Vec<_> = self.body.block_ops(block).collect();
        for op in ops.into_iter().rev() {
            let body = &*self.body;
            let is_kept = |value: ValueId| values.contains(&value) || !body.is_unused(value);
            if !body.results(op).any(is_kept) {
                self.body.erase(op);
            }
        }
        self.known.clear();
    }

    fn check_rank(&mut self, tensor: &Tensor, indices: &[ValueId]) {
        if tensor.shape.len() != indices.len() {
            let (expected, found) = (tensor.shape.len(), indices.len());
            self.fail(format!("expected {expected} indices, found {found}"));
        }
    }

    shorthands! {
        /// `a + b`.
        add Add(a, b);
        /// `a - b`.
        sub Sub(a, b);
        /// `a · b`.
        mul Mul(a, b);
        /// `a / b`.
        div Div(a, b);
        /// `⌊a / b⌋`.
        floor_div FloorDiv(a, b);
        /// `a - ⌊a / b⌋ · b`.
        floor_mod FloorMod(a, b);
        /// The lesser.
        min Min(a, b);
        /// The greater.
        max Max(a, b);
        /// Both.
        and And(a, b);
        /// Either.
        or Or(a, b);
        /// `-a`.
        neg Neg(a);
        /// Whether `a` does not hold.
        not Not(a);
        /// `a < b`.
        lt Lt(a, b);
        /// `a ≤ b`.
        le Le(a, b);
        /// `a > b`.
        gt Gt(a, b);
        /// `a ≥ b`.
        ge Ge(a, b);
        /// `a = b`.
        eq Eq(a, b);
    }

    /// Whether what is written must depend on no number that happens to be 0, 1 or another one: see
    /// [`ComputeBuilder::apart`].
    pub fn is_apart(&self) -> bool {
        self.apart
    }

    /// `a + value` for an index; `a` itself for 0.
    pub fn add_index(&mut self, a: ValueId, value: i64) -> ValueId {
        if value == 0 && !self.apart {
            return a;
        }
        let value = self.index(value);
        self.add(a, value)
    }

    /// `a · value` for an index; `a` itself for 1.
    pub fn mul_index(&mut self, a: ValueId, value: i64) -> ValueId {
        if value == 1 && !self.apart {
            return a;
        }
        let value = self.index(value);
        self.mul(a, value)
    }
}
