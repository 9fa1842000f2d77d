//! Operators as a function, and what becomes of it for some extents.

use ir_core::{Body, Dim, InsertPoint, Item, Loc, Module, OpId, OpParts, Registry, Symbol};
use ir_core::{TensorData, Type, ValueId};
use relay::interpreter::{Interpreter, Value};
use relay::language::{Constant, FUNC, Yield};
use rustc_hash::FxHashMap;
use te::compute::counts::closed_type;
use te::compute::parts::split;

use super::assumptions::{Assumed, Assumption, MOST_VARIABLES, assumptions, variables};
use super::{OpenKernels, Places};
use crate::bind_extents::bind_extents;
use crate::bounds::formula::Formula;
use crate::bounds::function::{Counted, open};
use crate::bounds::points;
use crate::dynamic_to_static::settle;
use crate::extents::{is_open, without_names};
use crate::lower_te::function::Function;

/// Extents that kernels are written for: larger than what definitions mention.
const PRIMES: [i64; 19] = [
    1009, 67, 131, 257, 311, 401, 503, 601, 701, 809, 907, 1103, 1201, 149, 223, 353, 457, 557, 653,
];

/// Different extents of so many variables.
fn base(variables: usize) -> Vec<i64> {
    const BASE: [i64; MOST_VARIABLES] = [1009, 907, 1103, 1201];
    BASE[..variables].to_vec()
}

/// Extents that are tried, down from the largest.
const TRIED: [i64; 23] = [
    1000, 513, 512, 511, 257, 256, 255, 129, 128, 127, 65, 64, 63, 33, 32, 31, 17, 16, 8, 4, 2, 1,
    0,
];

/// Operators as a function of their operands.
pub(crate) struct Alone {
    /// They are its `@main`, whose last parameters are the `values`.
    module: Module,
    /// How many operands are no tensors of kernels: their elements decide extents.
    values: usize,
}

const MAIN: &str = "main";

impl Alone {
    /// The operations `ops` of `body`, of which the last one gives `result`; `params` are their operands,
    /// of these types, and so are `values`, whose elements decide extents; some are `constants`. Other
    /// operands of theirs are constants in `body`. `None` where something else is.
    pub(crate) fn of(
        body: &Body,
        ops: &[OpId],
        (params, values): (&[(ValueId, Type)], &[(ValueId, Type)]),
        constants: &[(ValueId, TensorData)],
        result: ValueId,
    ) -> Option<Alone> {
        let mut new = Body::new();
        let entry = new.entry();
        let mut map: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        for (value, constant) in constants {
            let constant = Constant { value: constant.clone() };
            let ty = constant.value.ty();
            map.insert(*value, new.add(InsertPoint::End(entry), Loc::UNKNOWN, &constant, ty));
        }
        for (value, ty) in params.iter().chain(values) {
            let param = new.add_block_arg(entry, without_names(*ty));
            new.set_name_hint(param, body.name_hint(*value));
            map.insert(*value, param);
        }
        let at = InsertPoint::End(entry);
        for &op in ops {
            if body.has_regions(op) || body.result_count(op) != 1 {
                return None;
            }
            let mut operands = Vec::new();
            for operand in body.operands(op) {
                if let Some(known) = map.get(&operand) {
                    operands.push(*known);
                    continue;
                }
                let (_, constant) = body.view_def::<Constant>(operand)?;
                let value = new.add(at, Loc::UNKNOWN, &constant, body.ty(operand));
                map.insert(operand, value);
                operands.push(value);
            }
            let value = body.result(op, 0);
            let types = [without_names(body.ty(value))];
            let parts = OpParts::new(body.op_name(op), &operands, &types).attrs(body.attrs(op));
            let copy = new.insert_op(at, parts.at(body.loc(op)));
            map.insert(value, new.result(copy, 0));
        }
        let result = *map.get(&result)?;
        new.insert_op(at, OpParts::new(Yield::<ValueId>::NAME, &[result], &[]));
        let types: Vec<Type> = new.block_args(entry).iter().map(|arg| new.ty(*arg)).collect();
        let ty = Type::function(types, new.ty(result));
        let mut module = Module::new();
        module.items.insert(Symbol::new(MAIN), Item::new(FUNC, ty, Some(new)));
        Some(Alone { module, values: values.len() })
    }

    /// The function that they are.
    pub(crate) fn body(&self) -> Option<&Body> {
        self.module.get(MAIN)?.body.as_deref()
    }

    /// The types of the operands, and of those whose elements decide extents.
    fn params(&self) -> (&[Type], &[Type]) {
        let main = self.module.get(MAIN).and_then(|main| main.signature.ty.as_function());
        let params = &main.expect("it is a function").params;
        params.split_at(params.len() - self.values)
    }

    /// It where variables are `extents`, and open axes and elements are as assumed; `None` where these do not
    /// go together.
    fn at(&self, registry: &Registry, assumption: &[Assumed], extents: &[i64]) -> Option<Module> {
        let mut next = assumption.iter().map(|assumed| match assumed {
            Assumed::Variable(variable) => extents[*variable],
            Assumed::Known(known) => *known,
        });
        let (params, values) = self.params();
        let types = params.iter().map(|ty| with_extents(*ty, &mut || next.next()));
        let types: Vec<Type> = types.collect();
        let mut module = self.module.clone();
        let mut numbers = Vec::with_capacity(values.len());
        for ty in values {
            let tensor = ty.as_tensor()?;
            let shape = tensor.known_shape()?;
            let count = shape.iter().product::<i64>();
            let elements: Vec<i64> = (0..count).map(|_| next.next()).collect::<Option<_>>()?;
            numbers.push(TensorData::from_i64(tensor.dtype, &shape, &elements).ok()?);
        }
        bind_values(&mut module, &numbers)?;
        let is_right = bind_extents(&mut module, registry, &types).is_empty()
            && (numbers.is_empty() || settle(&mut module, registry).is_empty());
        // An operator whose shape is still not known does not go together with these numbers.
        let result = module.get(MAIN)?.signature.ty.as_function()?.result;
        (is_right && !is_open(result)).then_some(module)
    }

    /// The kernels that compute it; `None` where there are none.
    pub(crate) fn kernels(&self, registry: &Registry) -> Option<OpenKernels> {
        let (params, values) = self.params();
        let tensors = params.iter().map(|ty| prog::operators::tensors(*ty));
        let tensors: Vec<Type> = tensors.collect::<Option<Vec<_>>>()?.concat();
        let mut axes = Vec::new();
        for (number, ty) in tensors.iter().enumerate() {
            let dims = ty.as_tensor()?.shape.iter().enumerate();
            axes.extend(
                dims.filter(|(_, dim)| dim.known().is_none()).map(|(axis, _)| (number, axis)),
            );
        }
        for (number, ty) in values.iter().enumerate() {
            let count = ty.as_tensor()?.known_shape()?.iter().product::<i64>();
            axes.extend((0..count as usize).map(|element| (tensors.len() + number, element)));
        }
        let places = Places { tensors: tensors.len(), axes };
        let mut known: Vec<i64> = Vec::new();
        for dim in tensors.iter().flat_map(|ty| ty.as_tensor().map_or(&[][..], |ty| &ty.shape)) {
            known.extend(dim.known().filter(|extent| *extent != 1 && !known.contains(extent)));
        }
        // The first that is well typed assumes as little as there is to assume.
        let all = assumptions(&places.axes, &known);
        let is_typed = |one: &&Assumption| {
            let base = base(variables(one));
            self.at(registry, one, &base).is_some()
        };
        let assumption = all.iter().find(is_typed)?;
        let mut kernels = self.assume(registry, &places, assumption)?;
        for variable in 0..variables(assumption) {
            // Where nothing is there, operators may have no value.
            if !self.has_value(registry, assumption, variable) {
                kernels.least[variable] = kernels.least[variable].max(1);
            }
        }
        Some(kernels)
    }

    /// Whether it has a value where `variable` is 0.
    fn has_value(&self, registry: &Registry, assumption: &[Assumed], variable: usize) -> bool {
        let mut extents = vec![2; variables(assumption)];
        extents[variable] = 0;
        let value = || {
            let module = self.at(registry, assumption, &extents)?;
            let main = module.get(MAIN)?.signature.ty.as_function()?;
            let inputs = main.params.iter().map(|ty| zeros(*ty));
            let inputs: Vec<Value> = inputs.collect::<Option<_>>()?;
            Interpreter::new(&module, registry).call(MAIN, inputs).ok()
        };
        value().is_some()
    }

    /// The kernels that compute it where the numbers at `places` are as assumed.
    fn assume(
        &self,
        registry: &Registry,
        places: &Places,
        assumption: &[Assumed],
    ) -> Option<OpenKernels> {
        let count = variables(assumption);
        let base = base(count);
        let points = points(&base, &PRIMES);
        let mut functions = Vec::with_capacity(points.len());
        for point in &points {
            let module = self.at(registry, assumption, point)?;
            functions.push(Function::of_body(registry, module.body(Symbol::new(MAIN))?).ok()?);
        }
        let items: Vec<&Item> = functions.iter().map(|function| &function.item).collect();
        let Counted { item, counts } = open(&points, &items).ok()?;
        // What products are is found for extents that are not too large, and compared with their bound.
        let is_product = |formula: &Formula| formula.terms.iter().any(|(of, _)| of.len() > 1);
        let is_plain =
            |formula: &Formula| !is_product(formula) || formula.constant >= 0 && formula.grows();
        if !counts.iter().all(is_plain) {
            return None;
        }
        let (parts, results) = split(&item).ok()?;
        let mut kernels = OpenKernels {
            name: functions[0].name.clone(),
            places: places.clone(),
            assumption: assumption.to_vec(),
            least: vec![0; count],
            counts,
            parts,
            results,
            constants: functions.swap_remove(0).constants,
        };
        for variable in 0..count {
            let with = |extent: i64| {
                let mut extents = base.clone();
                extents[variable] = extent;
                extents
            };
            let least = self.least(registry, assumption, &kernels.counts, &item, with)?;
            kernels.least[variable] = least;
        }
        let all =
            self.least(registry, assumption, &kernels.counts, &item, |extent| vec![extent; count])?;
        kernels.least.iter_mut().for_each(|least| *least = all.max(*least));
        Some(kernels)
    }

    /// The least number from which on operands, of the extents that `with` gives for it, give what the
    /// function `item` with `counts` does, as far as tried; `None` where that is large.
    fn least(
        &self,
        registry: &Registry,
        assumption: &[Assumed],
        counts: &[Formula],
        item: &Item,
        with: impl Fn(i64) -> Vec<i64>,
    ) -> Option<i64> {
        let outputs = te::loops::output_count(&item.signature)?;
        let mut types = te::loops::buffer_types(&item.signature)?;
        let results = types.split_off(types.len().checked_sub(outputs)?);
        let agrees = |extents: &[i64]| {
            let counts = counts.iter().map(|count| count.at(extents).filter(|count| *count >= 0));
            let counts: Vec<i64> = counts.collect::<Option<_>>()?;
            let module = self.at(registry, assumption, extents)?;
            let main = module.get(MAIN)?.signature.ty.as_function()?.result;
            let found = prog::operators::tensors(main)?;
            let expected = results.iter().map(|ty| closed_type(*ty, &counts));
            found.into_iter().eq(expected).then_some(())
        };
        let mut least = None;
        for extent in TRIED {
            if agrees(&with(extent)).is_none() {
                return least;
            }
            least = Some(extent);
        }
        least
    }
}

/// A value of type `ty`, of tensors of known extents. Recursion is bounded by the depth of types.
fn zeros(ty: Type) -> Option<Value> {
    if let Some(fields) = ty.as_tuple() {
        return Some(Value::tuple(fields.iter().map(|ty| zeros(*ty)).collect::<Option<Vec<_>>>()?));
    }
    let tensor = ty.as_tensor()?;
    TensorData::zeros(tensor.dtype, &tensor.known_shape()?).ok().map(Value::Tensor)
}

/// Makes constants of the last parameters of `@main`.
fn bind_values(module: &mut Module, values: &[TensorData]) -> Option<()> {
    let item = module.items.get_mut(&Symbol::new(MAIN))?;
    let mut types = item.signature.ty.as_function()?.params.to_vec();
    let result = item.signature.ty.as_function()?.result;
    let body = item.body_mut()?;
    let entry = body.entry();
    for value in values.iter().rev() {
        types.pop();
        let constant = Constant { value: value.clone() };
        let new = body.add(InsertPoint::Start(entry), Loc::UNKNOWN, &constant, value.ty());
        body.replace_all_uses(body.block_args(entry)[types.len()], new);
        body.remove_block_arg(entry, types.len());
    }
    item.signature.ty = Type::function(types, result);
    Some(())
}

/// `ty`, of tensors, with what `next` gives for each extent that is not known. Recursion is bounded by the
/// depth of types.
fn with_extents(ty: Type, next: &mut dyn FnMut() -> Option<i64>) -> Type {
    match (ty.as_tensor(), ty.as_tuple()) {
        (Some(tensor), _) => {
            let dim = |dim: &Dim| match dim.known() {
                Some(known) => Dim::Known(known),
                None => next().map_or(*dim, Dim::Known),
            };
            Type::tensor(tensor.shape.iter().map(dim).collect::<Vec<_>>(), tensor.dtype)
        }
        (_, Some(fields)) => {
            let fields = fields.iter().map(|field| with_extents(*field, next));
            Type::tuple(fields.collect::<Vec<_>>())
        }
        _ => ty,
    }
}
