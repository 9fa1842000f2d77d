//! One compute function with counts, of those for some extents.

use indexmap::IndexSet;
use ir_core::{
    Attr, AttrValue, Body, DType, InsertPoint, Item, OpFields, OpId, OpParts, Scalar, Symbol,
    TensorData, Type, ValueId,
};
use rustc_hash::{FxBuildHasher, FxHashMap};
use te::compute::counts::{COUNTS, MOST_OPEN, OPEN, insert_counts, open_bound};
use te::compute::{Load, Stage};
use te::scalar::{Cast, Check, Constant, ScalarOp};

use super::formula::Formula;

/// The numbers of the values of `body`, in the order of their definitions.
fn numbers(body: &Body) -> FxHashMap<ValueId, usize> {
    let args = body.walk_blocks().flat_map(|block| body.block_args(block).iter().copied());
    let results = body.walk().flat_map(|op| body.results(op));
    args.chain(results).enumerate().map(|(number, value)| (value, number)).collect()
}

/// The operations of `bodies` side by side, the same operation of each in one list.
///
/// # Errors
/// Where they differ in more than attributes and types.
pub(super) fn side_by_side(bodies: &[&Body]) -> Result<Vec<Vec<OpId>>, String> {
    let all: Vec<Vec<OpId>> = bodies.iter().map(|body| body.walk().collect()).collect();
    let numbers: Vec<_> = bodies.iter().map(|body| numbers(body)).collect();
    if all.iter().any(|ops| ops.len() != all[0].len()) {
        return Err("it takes other operations for other extents".to_string());
    }
    let mut rows = Vec::with_capacity(all[0].len());
    for position in 0..all[0].len() {
        let row: Vec<OpId> = all.iter().map(|ops| ops[position]).collect();
        let shape = |index: usize| {
            let (body, op) = (bodies[index], row[index]);
            let operands: Vec<usize> =
                body.operands(op).map(|value| numbers[index][&value]).collect();
            (body.op_name(op), operands, body.result_count(op), body.regions(op).len())
        };
        let first = shape(0);
        if (1..row.len()).any(|index| shape(index) != first) {
            return Err(format!("`{}` is another operation for other extents", first.0));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// A function with counts.
pub(crate) struct Counted {
    pub(crate) item: Item,
    /// What its counts are, as formulas of the extents.
    pub(crate) counts: Vec<Formula>,
}

/// What an attribute is for each of the extents.
pub(super) fn values<T: AttrValue>(bodies: &[&Body], row: &[OpId], key: &str) -> Option<Vec<T>> {
    bodies.iter().zip(row).map(|(body, op)| body.attrs(*op).value::<T>(key)).collect()
}

/// A number that depends on extents, as an integer or its reciprocal.
pub(super) struct Number {
    formula: Formula,
    is_reciprocal: bool,
}

impl Number {
    /// The numbers that are the elements of `values` at `points`.
    pub(super) fn fit_all(points: &[Vec<i64>], values: &[TensorData]) -> Option<Vec<Number>> {
        let first = values.first()?;
        let (ty, dtype) = (first.ty(), first.dtype());
        if values.iter().any(|value| value.ty() != ty) {
            return None;
        }
        let element = |place: usize| {
            let elements = values.iter().map(|value| value.element(place));
            Number::fit(points, &elements.collect::<Option<Vec<Scalar>>>()?, dtype)
        };
        (0..first.elements().count()).map(element).collect()
    }

    /// The number of type `dtype` that is `elements` at `points`.
    fn fit(points: &[Vec<i64>], elements: &[Scalar], dtype: DType) -> Option<Number> {
        if dtype.is_integer() {
            let integers: Vec<i64> = elements.iter().map(|element| element.as_i64()).collect();
            let formula = Formula::fit(points, &integers)?;
            return Some(Number { formula, is_reciprocal: false });
        }
        [false, true].into_iter().find_map(|is_reciprocal| {
            let integer = |element: &Scalar| {
                let value = element.as_f64();
                let integer = if is_reciprocal { 1.0 / value } else { value }.round();
                // What `dtype` holds as it is.
                let small = integer.abs() < 2f64.powi(11);
                let again = if is_reciprocal { 1.0 / integer } else { integer };
                let same = Scalar::Float(again).cast(dtype).as_f64() == value;
                (same && (small || dtype.bits() >= 32 && integer.abs() < 2f64.powi(24)))
                    .then_some(integer as i64)
            };
            let integers: Vec<i64> = elements.iter().map(integer).collect::<Option<_>>()?;
            let formula = Formula::fit(points, &integers)?;
            Some(Number { formula, is_reciprocal })
        })
    }
}

/// What is to change in the first function.
#[derive(Default)]
struct Changes {
    counts: IndexSet<Formula, FxBuildHasher>,
    /// By stage, the counts of its axes.
    stages: Vec<(OpId, Vec<i64>)>,
    numbers: Vec<(OpId, Number)>,
    /// What checks say.
    messages: Vec<(OpId, String)>,
}

/// What several messages have in common; their words that differ are left open.
fn common(messages: &[String]) -> String {
    let mut words: Vec<&str> = messages[0].split(' ').collect();
    for message in &messages[1..] {
        for (word, other) in words.iter_mut().zip(message.split(' ')) {
            if *word != other {
                *word = "…";
            }
        }
    }
    words.join(" ")
}

impl Changes {
    /// The number of the count of an axis whose extents are `extents`, or -1.
    fn count(&mut self, points: &[Vec<i64>], extents: &[i64]) -> Result<i64, String> {
        if extents.iter().all(|extent| *extent == extents[0]) {
            // As large a number says that an axis ends at a count.
            if extents[0] >= OPEN {
                return Err(NO_FORMULA.to_string());
            }
            return Ok(-1);
        }
        let formula = Formula::fit(points, extents).filter(Formula::grows).ok_or(NO_FORMULA)?;
        Ok(self.counts.insert_full(formula).0 as i64)
    }

    fn stage(&mut self, points: &[Vec<i64>], bodies: &[&Body], row: &[OpId]) -> Result<(), String> {
        let views = bodies.iter().zip(row).map(|(body, op)| Stage::of(body, *op));
        let views: Vec<Stage> = views.collect::<Option<_>>().ok_or("it is no list of stages")?;
        let axes = |view: &Stage| -> Vec<i64> {
            view.shape.iter().chain(&view.reduction).copied().collect()
        };
        let all: Vec<Vec<i64>> = views.iter().map(axes).collect();
        if all.iter().any(|one| one.len() != all[0].len())
            || views.iter().any(|view| view.shape.len() != views[0].shape.len())
        {
            return Err(format!("`{}` has other axes for other extents", views[0].name));
        }
        let mut counts = Vec::with_capacity(all[0].len());
        for axis in 0..all[0].len() {
            let extents: Vec<i64> = all.iter().map(|one| one[axis]).collect();
            counts.push(self.count(points, &extents)?);
        }
        if counts.iter().any(|count| *count >= 0) {
            self.stages.push((row[0], counts));
        }
        Ok(())
    }

    /// What the attributes of an operation depend on.
    fn operation(
        &mut self,
        points: &[Vec<i64>],
        bodies: &[&Body],
        row: &[OpId],
    ) -> Result<(), String> {
        let attrs: Vec<_> = bodies.iter().zip(row).map(|(body, op)| body.attrs(*op)).collect();
        let is_stage = Stage::of(bodies[0], row[0]).is_some();
        if is_stage {
            self.stage(points, bodies, row)?;
        }
        if attrs.iter().all(|one| *one == attrs[0]) {
            return Ok(());
        }
        let name = bodies[0].op_name(row[0]);
        if bodies[0].is::<Constant>(row[0]) {
            let values = values::<TensorData>(bodies, row, "value");
            let number = values.and_then(|values| Number::fit_all(points, &values));
            let number = number.and_then(|numbers| numbers.into_iter().next());
            let number =
                number.ok_or("a number in it depends on an extent in another way than by sums")?;
            self.numbers.push((row[0], number));
            return Ok(());
        }
        if bodies[0].is::<Check>(row[0]) {
            let messages = values::<String>(bodies, row, "message");
            let messages = messages.ok_or("a check in it has no message")?;
            self.messages.push((row[0], common(&messages)));
        }
        let keys = attrs.iter().flat_map(|one| one.entries().iter().map(|(key, _)| *key));
        for key in keys.collect::<IndexSet<Symbol, FxBuildHasher>>() {
            let known = is_stage && ["shape", "extents"].contains(&key.as_str())
                || bodies[0].is::<Check>(row[0]) && key.as_str() == "message";
            let values: Vec<Option<Attr>> = attrs.iter().map(|one| one.get(key)).collect();
            if !known && values.iter().any(|value| *value != values[0]) {
                return Err(format!("`{key}` of `{name}` depends on an extent"));
            }
        }
        Ok(())
    }
}

/// The function with open counts that `functions`, for the extents `points`, are for these.
///
/// # Errors
/// What depends on the extents in a way that counts cannot say.
pub(crate) fn open(points: &[Vec<i64>], functions: &[&Item]) -> Result<Counted, String> {
    let Counted { mut item, mut counts } = generalize(points, functions)?;
    let mut known: IndexSet<Formula, FxBuildHasher> = counts.drain(..).collect();
    let before = known.len();
    // What a tensor has as extents are counts as well.
    let types = functions.iter().map(|item| te::loops::buffer_types(&item.signature));
    let types: Vec<Vec<Type>> = types.collect::<Option<_>>().ok_or("it is no function")?;
    let mut shapes = Vec::with_capacity(types[0].len());
    for number in 0..types[0].len() {
        let all = types.iter().map(|types| types.get(number)?.as_tensor()?.known_shape());
        let all = all
            .collect::<Option<Vec<_>>>()
            .filter(|all| all.iter().all(|one| one.len() == all[0].len()));
        let all = all.ok_or("a tensor has other axes for other extents")?;
        let mut shape = Vec::with_capacity(all[0].len());
        for axis in 0..all[0].len() {
            let extents: Vec<i64> = all.iter().map(|shape| shape[axis]).collect();
            shape.push(match extents.iter().all(|extent| *extent == extents[0]) {
                true => extents[0],
                false => {
                    let formula = Formula::fit(points, &extents).ok_or(NO_FORMULA)?;
                    open_bound_of(known.insert_full(formula).0)?
                }
            });
        }
        shapes.push(shape);
    }
    let body = item.body_mut().ok_or("it has no body")?;
    for stage in Stage::all(body) {
        let mut axes = Vec::new();
        for (axis, extent) in stage.shape.iter().chain(&stage.reduction).enumerate() {
            axes.push(match stage.count(axis) {
                Some(count) => open_bound_of(count)?,
                None => *extent,
            });
        }
        let (shape, reduction) = axes.split_at(stage.shape.len());
        let mut attrs = body.attrs(stage.op).with("shape", &shape.to_vec());
        if body.attrs(stage.op).get("extents").is_some() {
            attrs = attrs.with("extents", &reduction.to_vec());
        }
        body.set_attrs(stage.op, attrs);
        for result in body.results(stage.op).collect::<Vec<_>>() {
            let dtype = body.ty(result).as_tensor().ok_or("a stage gives no tensor")?.dtype;
            body.set_ty(result, Type::tensor(shape.iter().copied(), dtype));
        }
    }
    // Counts that only tensors have come behind the others, which stages know by their numbers.
    let entry = body.entry();
    insert_counts(body, before, known.len() - before);
    let own = body.block_args(entry)[known.len()..].to_vec();
    for (param, shape) in own.iter().zip(&shapes) {
        let dtype = body.ty(*param).as_tensor().ok_or("it takes no tensor")?.dtype;
        body.set_ty(*param, Type::tensor(shape.iter().copied(), dtype));
    }
    let params: Vec<Type> = body.block_args(entry).iter().map(|arg| body.ty(*arg)).collect();
    let results: Vec<Type> = types[0][own.len()..]
        .iter()
        .zip(&shapes[own.len()..])
        .filter_map(|(ty, shape)| Some(Type::tensor(shape.iter().copied(), ty.as_tensor()?.dtype)))
        .collect();
    let result = match results[..] {
        [one] => one,
        _ => Type::tuple(results),
    };
    item.signature.ty = Type::function(params, result);
    let bounds = (0..known.len()).map(open_bound_of).collect::<Result<Vec<i64>, String>>()?;
    item.signature.attrs = item.signature.attrs.with(COUNTS, &bounds);
    Ok(Counted { item, counts: known.into_iter().collect() })
}

/// Why an extent is no count.
pub(crate) const NO_FORMULA: &str =
    "an extent of it is no sum of products of the extents that are open";

/// What stands for open count `number`.
fn open_bound_of(number: usize) -> Result<i64, String> {
    match number < MOST_OPEN {
        true => Ok(open_bound(number)),
        false => Err("it has more open extents than a function takes".to_string()),
    }
}

/// The function with counts that `functions`, for the extents `points`, are for these.
///
/// # Errors
/// What depends on the extents in a way that counts cannot say.
pub(super) fn generalize(points: &[Vec<i64>], functions: &[&Item]) -> Result<Counted, String> {
    let bodies: Option<Vec<&Body>> = functions.iter().map(|item| item.body.as_deref()).collect();
    let bodies = bodies.ok_or("it has no body")?;
    let mut changes = Changes::default();
    for row in side_by_side(&bodies)? {
        changes.operation(points, &bodies, &row)?;
    }
    let Changes { mut counts, stages, numbers, messages } = changes;
    // Numbers are made of the extents themselves.
    for (_, number) in &numbers {
        for extent in number.formula.terms.iter().flat_map(|(of, _)| of) {
            counts.insert(Formula { constant: 0, terms: vec![(vec![*extent], 1)] });
        }
    }
    let mut item = functions[0].clone();
    if counts.is_empty() {
        return Ok(Counted { item, counts: vec![] });
    }
    let body = item.body_mut().ok_or("it has no body")?;
    for (op, message) in messages {
        let attrs = body.attrs(op).with("message", &message);
        body.set_attrs(op, attrs);
    }
    let bounds = counts.iter().map(|count| count.at(&points[0]).filter(|bound| *bound > 0));
    let bounds: Vec<i64> = bounds.collect::<Option<_>>().ok_or("an extent of it may be 0 only")?;
    let body = item.body_mut().ok_or("it has no body")?;
    let params = insert_counts(body, 0, counts.len());
    for (op, counts) in stages {
        let attrs = body.attrs(op).with("counts", &counts);
        body.set_attrs(op, attrs);
    }
    for (op, number) in numbers {
        let param = |extent: usize| {
            let of = Formula { constant: 0, terms: vec![(vec![extent], 1)] };
            counts.get_index_of(&of).map(|number| params[number])
        };
        replace(body, op, &number, param).ok_or("a number in it depends on an unknown extent")?;
    }
    let function = item.signature.ty.as_function().ok_or("it is no function")?;
    let index = Type::scalar(DType::INT64);
    let types = bounds.iter().map(|_| index).chain(function.params.iter().copied());
    item.signature.ty = Type::function(types, function.result);
    item.signature.attrs = item.signature.attrs.with(COUNTS, &bounds);
    Ok(Counted { item, counts: counts.into_iter().collect() })
}

/// Writes operations at a place.
pub(super) struct Emit<'b> {
    pub(super) body: &'b mut Body,
    pub(super) at: InsertPoint,
}

impl Emit<'_> {
    fn add<T: OpFields<ValueId>>(&mut self, op: &T, ty: Type) -> ValueId {
        let (operands, types) = (op.operands(), [ty]);
        let parts = OpParts::new(T::NAME, &operands, &types).attrs(op.attrs());
        let op = self.body.insert_op(self.at, parts);
        self.body.result(op, 0)
    }

    fn scalar(&mut self, op: ScalarOp, a: ValueId, b: ValueId, dtype: DType) -> ValueId {
        let (operands, types) = ([a, b], [Type::scalar(dtype)]);
        let parts = OpParts::new(op.name(), &operands, &types);
        let op = self.body.insert_op(self.at, parts);
        self.body.result(op, 0)
    }

    /// The index `value`.
    pub(super) fn index(&mut self, value: i64) -> ValueId {
        let value = TensorData::scalar(DType::INT64, Scalar::Int(value));
        self.add(&Constant { value }, Type::scalar(DType::INT64))
    }

    /// `number` as element type `dtype`, where the scalars that `extent` gives hold the extents.
    pub(super) fn number(
        &mut self,
        number: &Number,
        dtype: DType,
        extent: impl Fn(usize) -> Option<ValueId>,
    ) -> Option<ValueId> {
        let mut value = self.formula(&number.formula, extent)?;
        if dtype != DType::INT64 {
            value = self.add(&Cast { a: value, dtype }, Type::scalar(dtype));
        }
        if number.is_reciprocal {
            let one = TensorData::scalar(dtype, Scalar::Float(1.0));
            let one = self.add(&Constant { value: one }, Type::scalar(dtype));
            value = self.scalar(ScalarOp::Div, one, value, dtype);
        }
        Some(value)
    }

    /// What `formula` is where the scalars that `extent` gives hold the extents.
    pub(super) fn formula(
        &mut self,
        formula: &Formula,
        extent: impl Fn(usize) -> Option<ValueId>,
    ) -> Option<ValueId> {
        let mut sum: Option<ValueId> = None;
        for (of, factor) in &formula.terms {
            let mut term = self.index(*factor);
            for one in of {
                let load = Load { tensor: extent(*one)?, indices: vec![] };
                let loaded = self.add(&load, Type::scalar(DType::INT64));
                term = match factor {
                    1 if of.len() == 1 => loaded,
                    _ => self.scalar(ScalarOp::Mul, term, loaded, DType::INT64),
                };
            }
            sum = Some(match sum {
                None => term,
                Some(sum) => self.scalar(ScalarOp::Add, sum, term, DType::INT64),
            });
        }
        let constant = self.index(formula.constant);
        Some(match sum {
            None => constant,
            Some(sum) if formula.constant == 0 => sum,
            Some(sum) => self.scalar(ScalarOp::Add, sum, constant, DType::INT64),
        })
    }
}

/// Writes `number` in the place of the constant `op`.
fn replace(
    body: &mut Body,
    op: OpId,
    number: &Number,
    param: impl Fn(usize) -> Option<ValueId>,
) -> Option<()> {
    let result = body.result(op, 0);
    let dtype = te::scalar::dtype_of(body.ty(result))?;
    let value = Emit { body, at: InsertPoint::Before(op) }.number(number, dtype, param)?;
    body.replace_all_uses(result, value);
    body.erase(op);
    Some(())
}
