//! One list of kernels with counts, of those for some extents.

use indexmap::IndexMap;
use ir_core::module::FreshNames;
use ir_core::{
    Attr, AttrDict, Body, DType, Diagnostic, InsertPoint, Item, Loc, Module, OpFields, OpId,
    OpParts, Symbol, TensorData, Type, ValueId,
};
use rustc_hash::FxBuildHasher;
use te::compute::counts::{COUNTS, insert_counts};
use te::loops::{Alloc, Call, Data, KERNEL, OUTPUTS, Scope, Store, outputs, parameters};

use super::formula::Formula;
use super::function::{Emit, Number, generalize, side_by_side, values};
use super::{Bound, Point};
use crate::codes::BOUNDS;
use crate::rows::take_constants;

/// The extents of a tensor: numbers, or formulas.
type Shape = Vec<Result<i64, Formula>>;

/// The program for any extents within `bounds` by those for some, as they are when they are lowered to
/// tensor expressions.
///
/// # Errors
/// What depends on extents in a way that counts cannot say, with its place.
pub fn join(bounds: &[Bound], points: Vec<Point>) -> Result<Module, Diagnostic> {
    let mut join = Join::new(bounds, points)?;
    join.functions()?;
    join.program()
}

struct Join<'b> {
    bounds: &'b [Bound],
    extents: Vec<Vec<i64>>,
    modules: Vec<Module>,
    /// What is made.
    joined: Module,
    /// The calls of `@main`, and what each calls now, with the counts that it takes.
    calls: Vec<(OpId, Symbol, Vec<Formula>)>,
    /// The constants of `@main` whose elements depend on extents.
    numbers: Vec<(OpId, Vec<Number>)>,
}

const MAIN: &str = "main";

/// Constants of more elements do not depend on extents element by element.
const MOST_NUMBERS: usize = 16;

impl<'b> Join<'b> {
    fn new(bounds: &'b [Bound], points: Vec<Point>) -> Result<Join<'b>, Diagnostic> {
        let (mut extents, mut modules) = (Vec::new(), Vec::new());
        for point in points {
            extents.push(point.extents);
            modules.push(point.module);
        }
        let joined = Module { items: IndexMap::default(), ..modules[0].clone() };
        let join = Join { bounds, extents, modules, joined, calls: vec![], numbers: vec![] };
        if join.modules.iter().any(|module| {
            module.get(MAIN).is_none_or(|main| main.signature.op != KERNEL || main.body.is_none())
        }) {
            return Err(join.error("it is more than a list of kernels", Loc::UNKNOWN));
        }
        Ok(join)
    }

    fn mains(&self) -> Vec<&Body> {
        self.modules
            .iter()
            .filter_map(|module| module.body(Symbol::new(MAIN)).map(|body| &**body))
            .collect()
    }

    /// The error that something at `loc` depends on extents.
    fn error(&self, message: &str, loc: Loc) -> Diagnostic {
        let base = self.modules[0].get(MAIN).and_then(|main| main.signature.span);
        let message = format!("`@{MAIN}` has no program for any extents: {message}");
        Diagnostic::error(BOUNDS, message).at(loc.span(base).or(base)).help(
            "write numbers for the extents that it depends on, or take the operator out of the program",
        )
    }

    /// Makes one function of those that each call of `@main` calls.
    fn functions(&mut self) -> Result<(), Diagnostic> {
        let mains = self.mains();
        let rows = side_by_side(&mains).map_err(|message| self.error(&message, Loc::UNKNOWN))?;
        let mut made: IndexMap<Vec<Symbol>, (Symbol, Vec<Formula>), FxBuildHasher> =
            IndexMap::default();
        let (mut calls, mut numbers, mut items) = (Vec::new(), Vec::new(), IndexMap::new());
        let mut names = FreshNames::default();
        for row in rows {
            let (body, op) = (mains[0], row[0]);
            let loc = body.loc(op);
            if body.is::<Data>(op) {
                let values = values::<TensorData>(&mains, &row, "value").unwrap_or_default();
                if !values.iter().all(|value| is_part(value, &values[0])) {
                    let small = values[0].elements().count() <= MOST_NUMBERS;
                    let fitted = Number::fit_all(&self.extents, &values).filter(|_| small);
                    let fitted = fitted
                        .ok_or_else(|| self.error("a constant in it depends on an extent", loc))?;
                    numbers.push((op, fitted));
                }
            }
            if !body.is::<Call>(op) {
                continue;
            }
            let callees = values::<Symbol>(&mains, &row, "kernel").unwrap_or_default();
            if !made.contains_key(&callees) {
                let functions = self.modules.iter().zip(&callees);
                let functions: Option<Vec<&Item>> =
                    functions.map(|(module, name)| module.get(*name)).collect();
                let functions = functions.ok_or_else(|| self.error("a kernel is missing", loc))?;
                let counted = generalize(&self.extents, &functions).map_err(|message| {
                    self.error(&format!("of `{}`, {message}", callees[0]), loc)
                })?;
                let name = names.fresh(callees[0].as_str(), "_", |name| items.contains_key(&name));
                items.insert(name, counted.item);
                made.insert(callees.clone(), (name, counted.counts));
            }
            let (name, counts) = made[&callees].clone();
            calls.push((op, name, counts));
        }
        (self.calls, self.numbers) = (calls, numbers);
        self.joined.items = items.into_iter().collect();
        Ok(())
    }

    /// The extents of parameter `number` of `@main`.
    fn shape(&self, number: usize) -> Result<Shape, Diagnostic> {
        let shapes = self.modules.iter().map(|module| {
            let ty = module.get(MAIN).map(|main| parameters(&main.signature)[number]);
            ty?.as_tensor()?.known_shape()
        });
        let shapes = shapes.collect::<Option<Vec<_>>>();
        let shapes = shapes.filter(|all| all.iter().all(|shape| shape.len() == all[0].len()));
        let shapes = shapes
            .ok_or_else(|| self.error("a tensor has other axes for other extents", Loc::UNKNOWN))?;
        let axis = |axis: usize| {
            let extents: Vec<i64> = shapes.iter().map(|shape| shape[axis]).collect();
            match extents.iter().all(|extent| *extent == extents[0]) {
                true => Ok(Ok(extents[0])),
                false => Formula::fit(&self.extents, &extents).map(Err).ok_or_else(|| {
                    let message =
                        "an extent of its result is no sum of products of the open extents";
                    self.error(message, Loc::UNKNOWN)
                }),
            }
        };
        (0..shapes[0].len()).map(axis).collect()
    }

    /// The program: a kernel that calls the functions, and `@main`, which calls it.
    fn program(mut self) -> Result<Module, Diagnostic> {
        let missing = || Diagnostic::error(BOUNDS, "a program without a main kernel");
        let mut kernel = self.modules[0].get(MAIN).cloned().ok_or_else(missing)?;
        let span = kernel.signature.span;
        let types = parameters(&kernel.signature).to_vec();
        let results = outputs(&kernel.signature);
        let inputs = types.len() - results;
        let shapes = (0..types.len()).map(|number| self.shape(number));
        let shapes = shapes.collect::<Result<Vec<Shape>, _>>()?;
        let body = kernel.body_mut().ok_or_else(missing)?;
        self.write_counts(body, &shapes[inputs..]).ok_or_else(missing)?;
        let constants: IndexMap<Attr, TensorData, FxBuildHasher> = body
            .block_ops(body.entry())
            .filter_map(|op| body.view::<Data>(op).map(|data| (Attr::of(&data.value), data.value)))
            .collect();
        let constants: Vec<TensorData> = constants.into_values().collect();
        let most: Vec<i64> = self.bounds.iter().map(|bound| bound.most).collect();
        let open = shapes[inputs..].iter().filter(|shape| is_open(shape)).count();
        kernel.signature.attrs = kernel.signature.attrs.with(OUTPUTS, &((results + open) as i64));
        if constants.is_empty() {
            let params: Vec<Type> = kernel.body.as_deref().map_or(vec![], |body| {
                body.block_args(body.entry()).iter().map(|arg| body.ty(*arg)).collect()
            });
            kernel.signature.ty = Type::function(params, Type::unit());
        } else {
            take_constants(&mut kernel, &constants, &constants).ok_or_else(missing)?;
        }
        kernel.signature.attrs = kernel.signature.attrs.with(COUNTS, &most);

        let mut names = FreshNames::default();
        let joined = &mut self.joined;
        let name = names.fresh("bounded", "_", |name| joined.items.contains_key(&name));
        joined.items.insert(name, kernel);
        let mut main = entry(self.bounds, &types, inputs, &shapes, constants, name);
        main.signature.span = span;
        joined.items.insert(MAIN.into(), main);
        joined.items.move_index(joined.items.len() - 1, 0);
        Ok(self.joined)
    }

    /// Makes the calls of `body` pass counts, and gives it the extents as first parameters, and the
    /// extents of its results that are open as last ones.
    fn write_counts(&self, body: &mut Body, results: &[Shape]) -> Option<()> {
        let params = insert_counts(body, 0, self.bounds.len());
        for (param, bound) in params.iter().zip(self.bounds) {
            let hint =
                ir_core::NameHint { name: Some(Symbol::new(&bound.name)), ..Default::default() };
            body.set_name_hint(*param, hint);
        }
        let entry = body.entry();
        let mut first = body.first_op(entry)?;
        let mut made: IndexMap<Formula, ValueId, FxBuildHasher> = IndexMap::default();
        let all: Vec<Formula> =
            self.calls.iter().flat_map(|(_, _, counts)| counts.iter().cloned()).collect();
        for formula in all {
            let value = match formula.as_extent() {
                Some(extent) => params[extent],
                None if made.contains_key(&formula) => continue,
                None => scalar_buffer(body, InsertPoint::Before(first), &formula, &params)?,
            };
            made.insert(formula, value);
        }
        for (op, name, counts) in &self.calls {
            let call: Call = body.view(*op)?;
            let mut arguments: Vec<ValueId> = counts.iter().map(|count| made[count]).collect();
            arguments.extend(&call.arguments);
            let loc = body.loc(*op);
            let call = Call { kernel: *name, arguments, ..call };
            body.set_operands(*op, &call.arguments);
            body.set_attrs(*op, call.attrs());
            body.set_loc(*op, loc);
        }
        for (op, numbers) in &self.numbers {
            let Data { value } = body.view(*op)?;
            let (shape, dtype) = (value.shape().to_vec(), value.dtype());
            let at = InsertPoint::Before(*op);
            let buffer = allocate(body, at, shape.clone(), dtype);
            for (place, number) in numbers.iter().enumerate() {
                let mut emit = Emit { body, at };
                let value = emit.number(number, dtype, |extent| params.get(extent).copied())?;
                let mut rest = place as i64;
                let mut indices: Vec<ValueId> = shape
                    .iter()
                    .rev()
                    .map(|extent| {
                        let index = emit.index(rest % extent);
                        rest /= extent;
                        index
                    })
                    .collect();
                indices.reverse();
                store(body, at, value, buffer, indices);
            }
            body.replace_all_uses(body.result(*op, 0), buffer);
            if *op == first {
                first = body.next_op(*op)?;
            }
            body.erase(*op);
        }
        let index = DType::INT64;
        for shape in results.iter().filter(|shape| is_open(shape)) {
            let vector = body.add_block_arg(entry, Type::tensor([shape.len() as i64], index));
            let at = InsertPoint::Before(first);
            for (axis, extent) in shape.iter().enumerate() {
                let mut emit = Emit { body, at };
                let value = match extent {
                    Ok(extent) => emit.index(*extent),
                    Err(formula) => emit.formula(formula, |extent| params.get(extent).copied())?,
                };
                let place = emit.index(axis as i64);
                store(body, at, value, vector, vec![place]);
            }
        }
        Some(())
    }
}

/// Whether `part` is what lies in the first indices of `whole`, as far as both reach.
fn is_part(part: &TensorData, whole: &TensorData) -> bool {
    if part.dtype() != whole.dtype() || part.rank() != whole.rank() {
        return false;
    }
    if part.ty() == whole.ty() {
        return part == whole;
    }
    let elements = part.elements().enumerate();
    let place = |mut number: i64| {
        let (mut at, mut stride) = (0, 1);
        for (extent, other) in part.shape().iter().zip(whole.shape()).rev() {
            let index = number % extent;
            if index >= *other {
                return None;
            }
            (number, at, stride) = (number / extent, at + index * stride, stride * other);
        }
        Some(at as usize)
    };
    elements.into_iter().all(|(number, element)| {
        place(number as i64).is_none_or(|at| {
            // Floats are compared by their bits.
            match (whole.element(at), element) {
                (Some(ir_core::Scalar::Float(a)), ir_core::Scalar::Float(b)) => {
                    a.to_bits() == b.to_bits()
                }
                (other, element) => other == Some(element),
            }
        })
    })
}

fn is_open(shape: &Shape) -> bool {
    shape.iter().any(Result::is_err)
}

fn store(body: &mut Body, at: InsertPoint, value: ValueId, buffer: ValueId, indices: Vec<ValueId>) {
    let store = Store { value, buffer, indices, streaming: false };
    let operands = store.operands();
    body.insert_op(at, OpParts::new("te.store", &operands, &[]).attrs(store.attrs()));
}

fn allocate(body: &mut Body, at: InsertPoint, shape: Vec<i64>, dtype: DType) -> ValueId {
    let types = [Type::tensor(shape.iter().copied(), dtype)];
    let alloc = Alloc { shape, dtype, scope: Scope::Global, offset: None };
    let parts = OpParts::new("te.alloc", &[], &types).attrs(OpFields::<ValueId>::attrs(&alloc));
    let op = body.insert_op(at, parts);
    body.result(op, 0)
}

/// A buffer that holds what `formula` is.
fn scalar_buffer(
    body: &mut Body,
    at: InsertPoint,
    formula: &Formula,
    params: &[ValueId],
) -> Option<ValueId> {
    let buffer = allocate(body, at, vec![], DType::INT64);
    let value = Emit { body, at }.formula(formula, |extent| params.get(extent).copied())?;
    store(body, at, value, buffer, vec![]);
    Some(buffer)
}

/// The function of any extents. `types` are those of the inputs and results of `kernel`, without counts
/// and constants, and `shapes` their extents.
fn entry(
    bounds: &[Bound],
    types: &[Type],
    inputs: usize,
    shapes: &[Shape],
    constants: Vec<TensorData>,
    kernel: Symbol,
) -> Item {
    let open = |(ty, shape): (&Type, &Shape)| match is_open(shape) {
        true => prog::opened(*ty),
        false => *ty,
    };
    let all: Vec<Type> = types.iter().zip(shapes).map(open).collect();
    let (params, results) = all.split_at(inputs);
    let mut axes = Vec::new();
    for shape in shapes[..inputs].iter().filter(|shape| is_open(shape)) {
        let count = |extent: &Result<i64, Formula>| {
            let formula = extent.as_ref().err();
            formula.and_then(Formula::as_extent).map_or(-1, |extent| extent as i64)
        };
        axes.extend(shape.iter().map(count));
    }
    let mut body = Body::new();
    let block = body.entry();
    let mut values: Vec<ValueId> = params.iter().map(|ty| body.add_block_arg(block, *ty)).collect();
    for value in constants {
        let ty = value.ty();
        let at = InsertPoint::End(block);
        values.push(body.add(at, Loc::UNKNOWN, &prog::Constant { value }, ty));
    }
    let bounded = prog::Bounded {
        kernel,
        names: bounds.iter().map(|bound| bound.name.clone()).collect(),
        least: bounds.iter().map(|bound| bound.least).collect(),
        axes,
        inputs: values,
    };
    let parts = OpParts::new("prog.bounded", &bounded.inputs, results);
    let op = body.insert_op(InsertPoint::End(block), parts.attrs(bounded.attrs()));
    let values: Vec<ValueId> = body.results(op).collect();
    body.insert_op(InsertPoint::End(block), OpParts::new("prog.yield", &values, &[]));
    prog::ownership::insert(&mut body);
    let ty = Type::function(params.to_vec(), prog::result_type(results.to_vec()));
    let mut item = Item::new(prog::FUNC, ty, Some(body));
    item.signature.attrs = AttrDict::empty();
    item
}
