//! Operators as a function, and what becomes of it for some extents.

use ir_core::{Body, Dim, InsertPoint, Item, Loc, Module, OpId, OpParts, Registry, Symbol};
use ir_core::{TensorData, Type, ValueId};
use relay::interpreter::{Interpreter, Value};
use relay::language::{Constant, FUNC, Yield};
use rustc_hash::FxHashMap;
use te::compute::counts::OPEN;
use te::compute::parts::split;

use super::assumptions::{Assumed, Assumption, MOST_VARIABLES, assumptions, variables};
use super::{LONGEST, OpenKernels, Places};
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

/// Extents that are tried, up from these, to the longest axis.
const ABOVE: [i64; 9] =
    [1202, 2047, 2048, 1 << 14, (1 << 16) + 1, 1 << 20, (1 << 24) + 1, 1 << 28, LONGEST];

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
        // As large a number says that an axis ends at a count.
        if known.iter().any(|extent| *extent >= OPEN) {
            return None;
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
        let mut extents = Vec::with_capacity(points.len());
        for point in &points {
            let module = self.at(registry, assumption, point)?;
            extents.push(computed(&module)?);
            functions.push(Function::of_body(registry, module.body(Symbol::new(MAIN))?).ok()?);
        }
        let items: Vec<&Item> = functions.iter().map(|function| &function.item).collect();
        let Counted { item, counts } = open(&points, &items).ok()?;
        // What products are is found for extents that are not too large, and compared with their bound.
        let is_product = |formula: &Formula| formula.terms.iter().any(|(of, _)| of.len() > 1);
        let is_plain =
            |formula: &Formula| !is_product(formula) || formula.constant >= 0 && formula.grows();
        // Where nothing ends at a count, elements alone decide, and these are no extents.
        if counts.is_empty() || !counts.iter().all(is_plain) {
            return None;
        }
        let (parts, results) = split(&item).ok()?;
        let mut kernels = OpenKernels {
            name: functions[0].name.clone(),
            places: places.clone(),
            assumption: assumption.to_vec(),
            least: vec![0; count],
            most: vec![LONGEST; count],
            counts,
            parts,
            results,
            constants: vec![],
        };
        let place = |place: usize| {
            let values = extents.iter().map(|one| one.get(place).copied());
            Formula::fit(&points, &values.collect::<Option<Vec<i64>>>()?)
        };
        let extents = (0..extents[0].len()).map(place).collect::<Option<Vec<Formula>>>()?;
        let written = Written { registry, assumption, points: &points, items: &items, extents };
        for variable in 0..count {
            let with = |extent: i64| {
                let mut extents = base.clone();
                extents[variable] = extent;
                extents
            };
            let (least, most) = self.range(&written, &kernels.counts, with)?;
            (kernels.least[variable], kernels.most[variable]) = (least, most);
        }
        // All at once, as far as each of them goes.
        let (least, most) = (kernels.least.clone(), kernels.most.clone());
        let with = |extent: i64| -> Vec<i64> {
            (0..count).map(|one| extent.clamp(least[one], most[one])).collect()
        };
        let (all, _) = self.range(&written, &kernels.counts, with)?;
        kernels.least.iter_mut().for_each(|least| *least = all.max(*least));
        kernels.constants = functions.swap_remove(0).constants;
        Some(kernels)
    }

    /// From which number to which operands, of the extents that `with` gives for it, give what was `written` for
    /// others, with these `counts`; `None` where there is no such number. What holds for two numbers that are
    /// tried is taken to hold between them.
    fn range(
        &self,
        written: &Written<'_>,
        counts: &[Formula],
        with: impl Fn(i64) -> Vec<i64>,
    ) -> Option<(i64, i64)> {
        let agrees = |extent: i64| {
            let extents = with(extent);
            let of = |count: &Formula| count.at(&extents);
            match counts.iter().map(of).collect::<Option<Vec<i64>>>() {
                Some(counts) if counts.iter().any(|count| *count < 0) => false,
                // What is longer than any axis is refused before.
                Some(counts) if counts.iter().any(|count| *count > OPEN) => true,
                Some(_) => self.is_so(written, counts, &extents).is_some(),
                None => false,
            }
        };
        // The last number that agrees, on the way from one that does to one that does not.
        let edge = |mut inside: i64, mut outside: i64| {
            while inside.abs_diff(outside) > 1 {
                let middle = inside.midpoint(outside);
                match agrees(middle) {
                    true => inside = middle,
                    false => outside = middle,
                }
            }
            inside
        };
        let mut least = None;
        for extent in TRIED {
            if !agrees(extent) {
                least = least.map(|inside| edge(inside, extent));
                break;
            }
            least = Some(extent);
        }
        let mut most = TRIED[0];
        for extent in ABOVE {
            if !agrees(extent) {
                most = edge(most, extent);
                break;
            }
            most = extent;
        }
        Some((least?, most))
    }

    /// Whether operands of `extents` give the function with `counts` that was `written` for others: all its
    /// extents and numbers are the same formulas. Where something is empty, definitions leave out what would
    /// read it, and the extents of all that is computed are compared.
    fn is_so(&self, written: &Written<'_>, counts: &[Formula], extents: &[i64]) -> Option<()> {
        let module = self.at(written.registry, written.assumption, extents)?;
        if extents.contains(&0) {
            let found = computed(&module)?;
            let expected = written.extents.iter().map(|formula| formula.at(extents));
            return found.into_iter().map(Some).eq(expected).then_some(());
        }
        let body = module.body(Symbol::new(MAIN))?;
        let function = Function::of_body(written.registry, body).ok()?;
        let points: Vec<Vec<i64>> =
            written.points.iter().cloned().chain([extents.to_vec()]).collect();
        let items: Vec<&Item> = written.items.iter().copied().chain([&function.item]).collect();
        (open(&points, &items).ok()?.counts == counts).then_some(())
    }
}

/// What operators are for some extents.
struct Written<'w> {
    registry: &'w Registry,
    assumption: &'w [Assumed],
    points: &'w [Vec<i64>],
    items: &'w [&'w Item],
    /// The extents of all that is computed.
    extents: Vec<Formula>,
}

/// The extents of all that `@main` of `module` computes, in order.
fn computed(module: &Module) -> Option<Vec<i64>> {
    let (body, mut all) = (module.body(Symbol::new(MAIN))?, Vec::new());
    for value in body.walk().flat_map(|op| body.results(op)) {
        for ty in prog::operators::tensors(body.ty(value))? {
            all.extend(ty.as_tensor()?.known_shape()?.iter().copied());
        }
    }
    Some(all)
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
