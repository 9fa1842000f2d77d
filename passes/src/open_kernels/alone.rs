//! Operators as a function, and what becomes of it for some extents.

use ir_core::{Body, Dim, InsertPoint, Item, Loc, Module, OpId, OpParts, Registry, Symbol};
use ir_core::{TensorData, Type, ValueId};
use relay::interpreter::{Interpreter, Value};
use relay::language::{Constant, FUNC, Yield};
use rustc_hash::FxHashMap;
use te::compute::counts::OPEN;
use te::compute::parts::split;
use te::compute::simplify::simplify;

use super::assumptions::{Assumed, MOST_VARIABLES, least, stepped, variables};
use super::singles::{single_axes, without_indices};
use super::{LONGEST, OpenKernels, Places};
use crate::bind_extents::bind_extents;
use crate::bounds::formula::Formula;
use crate::bounds::function::{Counted, NO_FORMULA, open};
use crate::bounds::{MOST_OF_FEW, points};
use crate::dynamic_to_static::settle;
use crate::extents::{is_open, without_names};
use crate::lower_te::function::Function;

/// Extents that kernels are written for: larger than what definitions mention.
const PRIMES: [i64; 19] = [
    1009, 67, 131, 257, 311, 401, 503, 601, 701, 809, 907, 1103, 1201, 149, 223, 353, 457, 557, 653,
];

/// Those for more variables than [`MOST_OF_FEW`], so small that tensors have memory.
const SMALL_PRIMES: [i64; 53] = [
    17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109,
    113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197, 199, 211, 223,
    227, 229, 233, 239, 241, 251, 257, 263, 269, 271, 277,
];

/// Different extents of variables, from large ones to small ones.
const BASES: [[i64; MOST_VARIABLES]; 3] = [
    [1009, 907, 1103, 1201, 1301, 1409, 1511, 1607],
    [67, 71, 73, 79, 83, 89, 97, 101],
    [3, 5, 7, 11, 13, 17, 19, 23],
];

/// Different extents of so many variables, of which `fixed` are as given: the largest of which memory holds a
/// tensor, or the smallest.
fn base(variables: usize, fixed: &[(usize, i64)]) -> Vec<i64> {
    let extents = |base: &[i64; MOST_VARIABLES]| {
        let mut extents = base[..variables].to_vec();
        fixed.iter().for_each(|(variable, extent)| extents[*variable] = *extent);
        extents
    };
    let smallest = extents(&BASES[BASES.len() - 1]);
    BASES.iter().map(extents).find(|extents| has_memory(extents)).unwrap_or(smallest)
}

/// Different extents of so many variables that kernels are written for, many times.
pub(super) fn points_of(variables: usize) -> Vec<Vec<i64>> {
    let primes = if variables <= MOST_OF_FEW { &PRIMES[..] } else { &SMALL_PRIMES };
    points(&base(variables, &[]), primes)
}

/// Whether a tensor with all these extents has memory.
fn has_memory(extents: &[i64]) -> bool {
    extents.iter().map(|extent| i128::from(*extent)).product::<i128>() < 1 << 59
}

/// Extents that are tried, down from the largest.
const TRIED: [i64; 23] = [
    1000, 513, 512, 511, 257, 256, 255, 129, 128, 127, 65, 64, 63, 33, 32, 31, 17, 16, 8, 4, 2, 1,
    0,
];

/// The numbers that extents are divided by, where they themselves decide nothing by sums.
const STEPS: [i64; 3] = [2, 3, 4];

/// The largest number of which extents are tried as multiples, where operators take no others.
const LARGEST_STEP: i64 = 16;

/// The most kernels for one operator.
const MOST_WAYS: i64 = 16;

/// Numbers that are tried where they are no extents, further down.
const BELOW: [i64; 4] = [-1, -2, -1000, -LONGEST];

/// Extents that are tried, up from these, to the longest axis.
const ABOVE: [i64; 9] =
    [1202, 2047, 2048, 1 << 14, (1 << 16) + 1, 1 << 20, (1 << 24) + 1, 1 << 28, LONGEST];

/// Operators as a function of their operands.
pub(crate) struct Alone {
    /// They are its `@main`, whose last parameters are the `values`.
    module: Module,
    /// How many operands are no tensors of kernels: their elements decide extents.
    values: usize,
    /// Whether they are several.
    are_several: bool,
}

const MAIN: &str = "main";

/// Why there are no kernels where operators are another function for each extent.
const OTHER_FUNCTION: &str = "it is another function for most extents";

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
        let are_several = ops.len() > 1;
        Some(Alone { module, values: values.len(), are_several })
    }

    /// The function that they are.
    pub(crate) fn body(&self) -> &Body {
        let main = self.module.get(MAIN).and_then(|main| main.body.as_deref());
        main.expect("it is a function")
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
        let numbers = assumption.iter().map(|assumed| assumed.at(extents));
        let mut next = numbers.collect::<Option<Vec<i64>>>()?.into_iter();
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

    /// The places that decide its extents, and the extents of the tensors that it takes, where they are known.
    fn places(&self) -> Option<(Places, Vec<Vec<Option<i64>>>)> {
        let (params, values) = self.params();
        let tensors = params.iter().map(|ty| prog::operators::tensors(*ty));
        let tensors: Vec<Type> = tensors.collect::<Option<Vec<_>>>()?.concat();
        let (mut axes, mut shapes) = (Vec::new(), Vec::new());
        for (number, ty) in tensors.iter().enumerate() {
            let shape: Vec<Option<i64>> =
                ty.as_tensor()?.shape.iter().map(|dim| dim.known()).collect();
            let open = shape.iter().enumerate().filter(|(_, extent)| extent.is_none());
            axes.extend(open.map(|(axis, _)| (number, axis)));
            shapes.push(shape);
        }
        for (number, ty) in values.iter().enumerate() {
            let count = ty.as_tensor()?.known_shape()?.iter().product::<i64>();
            axes.extend((0..count as usize).map(|element| (tensors.len() + number, element)));
        }
        Some((Places { tensors: tensors.len(), axes }, shapes))
    }

    /// The kernels that compute it: some for some extents, others for others.
    ///
    /// # Errors
    /// Why there are none.
    pub(crate) fn kernels(&self, registry: &Registry) -> Result<Vec<OpenKernels>, String> {
        let (places, shapes) = self.places().ok_or("an operand of it is no tensor")?;
        // As large a number says that an axis ends at a count.
        if shapes.iter().flatten().flatten().any(|extent| *extent >= OPEN) {
            return Err(format!("an extent of it is larger than {LONGEST}"));
        }
        let typed = |step: i64| {
            let is_typed = |one: &[Assumed]| {
                let steps = extents(&places, one).into_iter().map(|variable| (variable, 0));
                let stepped = stepped(one, step, &steps.collect::<Vec<_>>());
                let one = if step == 1 { one } else { &stepped };
                self.at(registry, one, &base(variables(one), &[])).is_some()
            };
            least(&places.axes, &shapes, is_typed)
        };
        let Some(assumption) = typed(1) else {
            // Some operators take multiples of a number only. Where one of several does, the others may be
            // computed for any extents alone.
            let largest = if self.are_several { 1 } else { LARGEST_STEP };
            let found = (2..=largest).find_map(|step| Some((step, typed(step)?)));
            let found = found.map(|(step, one)| self.by_steps(registry, &places, &one, &[step]));
            return found.filter(|kernels| !kernels.is_empty()).ok_or_else(|| {
                "its operands do not go together for extents that are tried".to_string()
            });
        };
        self.assume(registry, &places, &assumption).map(|one| vec![one]).or_else(|reason| {
            let stepped = self.by_steps(registry, &places, &assumption, &STEPS);
            if stepped.is_empty() { Err(reason) } else { Ok(stepped) }
        })
    }

    /// The kernels that compute it where extents divided by one of `steps` leave a rest, some for each rest: so
    /// are what a window with strides gives, and the halves of a tensor, sums.
    fn by_steps(
        &self,
        registry: &Registry,
        places: &Places,
        assumption: &[Assumed],
        steps: &[i64],
    ) -> Vec<OpenKernels> {
        let variables = extents(places, assumption);
        let of = |step: i64, steps: &[(usize, i64)]| {
            self.assume(registry, places, &stepped(assumption, step, steps)).ok()
        };
        for step in steps.iter().copied() {
            let mut steps: Vec<(usize, i64)> =
                variables.iter().map(|variable| (*variable, 0)).collect();
            if of(step, &steps).is_none() {
                continue;
            }
            for variable in &variables {
                let fewer: Vec<(usize, i64)> =
                    steps.iter().filter(|one| one.0 != *variable).copied().collect();
                if of(step, &fewer).is_some() {
                    steps = fewer;
                }
            }
            let ways = (0..steps.len()).try_fold(1, |ways: i64, _| ways.checked_mul(step));
            let Some(ways) = ways.filter(|ways| *ways <= MOST_WAYS) else { continue };
            let way = |way: i64| {
                let digit = |(place, one): (usize, &(usize, i64))| {
                    (one.0, way / step.pow(place as u32) % step)
                };
                of(step, &steps.iter().enumerate().map(digit).collect::<Vec<_>>())
            };
            return (0..ways).filter_map(way).collect();
        }
        vec![]
    }

    /// Whether it has a value where the variables `empty` are 0.
    fn has_value(&self, registry: &Registry, assumption: &[Assumed], empty: &[usize]) -> bool {
        let mut extents = vec![2; variables(assumption)];
        empty.iter().for_each(|variable| extents[*variable] = 0);
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
    ) -> Result<OpenKernels, String> {
        let count = variables(assumption);
        let points = points_of(count);
        let mut functions = Vec::with_capacity(points.len());
        let mut extents = Vec::with_capacity(points.len());
        for point in &points {
            let (known, function) = self
                .written(registry, assumption, point)
                .ok_or("it has no form for some of the extents that are tried")?;
            extents.push(known);
            functions.push(function);
        }
        let items: Vec<&Item> = functions.iter().map(|function| &function.item).collect();
        let Counted { mut item, counts } = open(&points, &items)?;
        simplify(item.body_mut().ok_or("it has no body")?);
        // What products are is found for extents that are not too large, and compared with their bound.
        let is_product = |formula: &Formula| formula.terms.iter().any(|(of, _)| of.len() > 1);
        let is_plain =
            |formula: &Formula| !is_product(formula) || formula.constant >= 0 && formula.grows();
        // Where nothing ends at a count, elements alone decide, and these are no extents.
        if counts.is_empty() {
            return Err("no axis of it ends at an extent that is not known".to_string());
        }
        if !counts.iter().all(is_plain) {
            return Err("an extent of it is a difference of products".to_string());
        }
        let (parts, results) = split(&item)?;
        let mut kernels = OpenKernels {
            name: functions[0].name.clone(),
            places: places.clone(),
            assumption: assumption.to_vec(),
            least: vec![0; count],
            most: vec![LONGEST; count],
            unless: vec![vec![]; count],
            counts,
            parts,
            results,
            constants: vec![],
        };
        let place = |place: usize| {
            let values = extents.iter().map(|one| one.get(place).copied());
            Formula::fit(&points, &values.collect::<Option<Vec<i64>>>()?)
        };
        let extents = (0..extents[0].len()).map(place).collect::<Option<Vec<Formula>>>();
        let extents = extents.ok_or(NO_FORMULA)?;
        let written = Written { registry, assumption, points: &points, items: &items, extents };
        let is_element = |variable: usize| places.is_element(kernels.first(variable));
        let are_elements: Vec<bool> = (0..count).map(is_element).collect();
        for (variable, is_element) in are_elements.iter().enumerate() {
            let with = |extent: i64| self::base(count, &[(variable, extent)]);
            let least = self.least(&written, &kernels.counts, *is_element, with);
            kernels.least[variable] = least.ok_or(OTHER_FUNCTION)?;
            kernels.most[variable] = self.most(&written, &kernels.counts, with);
        }
        // All at once, as far as each of them goes.
        let (least, most) = (kernels.least.clone(), kernels.most.clone());
        let with = |extent: i64| -> Vec<i64> {
            (0..count).map(|one| extent.clamp(least[one], most[one])).collect()
        };
        let is_negative = least.iter().any(|least| *least < 0);
        let all = self.least(&written, &kernels.counts, is_negative, with);
        let all = all.ok_or(OTHER_FUNCTION)?;
        kernels.least.iter_mut().for_each(|least| *least = all.max(*least));
        for variable in 0..count {
            // Where nothing is there, operators may have no value.
            if kernels.least[variable] > 0 || self.has_value(registry, assumption, &[variable]) {
                continue;
            }
            kernels.least[variable] = 1;
            if are_elements[variable] {
                continue;
            }
            kernels.unless[variable] = (0..count)
                .filter(|other| *other != variable && !are_elements[*other])
                .filter(|other| kernels.least[*other] == 0)
                .filter(|other| self.has_value(registry, assumption, &[variable, *other]))
                .filter(|other| {
                    let empty = [(variable, 0), (*other, 0)];
                    self.agrees(&written, &kernels.counts, &self::base(count, &empty))
                })
                .collect();
        }
        kernels.constants = functions.swap_remove(0).constants;
        Ok(kernels)
    }

    /// It for `extents`: the extents of all that it computes, and its function; `None` where there is none.
    fn written(
        &self,
        registry: &Registry,
        assumption: &[Assumed],
        extents: &[i64],
    ) -> Option<(Vec<i64>, Function)> {
        let module = self.at(registry, assumption, extents)?;
        let function = Function::of_body(registry, module.body(Symbol::new(MAIN))?).ok()?;
        Some((computed(&module)?, function))
    }

    /// From which number on operands, of the extents that `with` gives for it, give what was `written` for others,
    /// with these `counts`; `None` where there is no such number. What holds for two numbers that are tried is
    /// taken to hold between them. `is_negative` says whether it may be less than 0.
    fn least(
        &self,
        written: &Written<'_>,
        counts: &[Formula],
        is_negative: bool,
        with: impl Fn(i64) -> Vec<i64>,
    ) -> Option<i64> {
        let agrees = |extent: i64| self.agrees(written, counts, &with(extent));
        let mut least = None;
        let below = if is_negative { &BELOW[..] } else { &[] };
        let tried = TRIED.iter().chain(below).copied();
        for extent in tried.filter(|extent| has_memory(&with(*extent))) {
            if !agrees(extent) {
                return least.map(|inside| edge(agrees, inside, extent));
            }
            least = Some(extent);
        }
        least
    }

    /// Up to which number they do; the first that is [tried](TRIED) is one for which they do.
    fn most(
        &self,
        written: &Written<'_>,
        counts: &[Formula],
        with: impl Fn(i64) -> Vec<i64>,
    ) -> i64 {
        let agrees = |extent: i64| self.agrees(written, counts, &with(extent));
        let mut most = TRIED[0];
        for extent in ABOVE {
            if !agrees(extent) {
                return edge(agrees, most, extent);
            }
            most = extent;
        }
        most
    }

    /// Whether operands of `extents` give the function with `counts` that was `written` for others: all its
    /// extents and numbers are the same formulas. Where something is empty, definitions leave out what would
    /// read it, and the extents of all that is computed are compared.
    fn agrees(&self, written: &Written<'_>, counts: &[Formula], extents: &[i64]) -> bool {
        let of = |formula: &Formula| formula.at(extents);
        let Some(found) = counts.iter().map(of).collect::<Option<Vec<i64>>>() else { return false };
        // What numbers are made of is told as it is.
        let is_told =
            |(formula, count): (&Formula, &i64)| formula.as_extent().is_none() || *count >= 0;
        if !counts.iter().zip(&found).all(is_told) {
            return false;
        }
        // What is longer than any axis is refused before.
        if found.iter().any(|count| *count > OPEN) {
            return true;
        }
        let is_cut = found.iter().any(|count| *count < 0);
        match is_cut || extents.contains(&0) {
            true => self.is_empty_so(written, extents, is_cut).is_some(),
            false => self.is_so(written, counts, extents).is_some(),
        }
    }

    /// Whether operands of `extents` give tensors of the same extents; where a formula is less than 0, of 0. Where
    /// some are, which `is_cut` says, nothing that it gives has elements.
    fn is_empty_so(&self, written: &Written<'_>, extents: &[i64], is_cut: bool) -> Option<()> {
        let module = self.at(written.registry, written.assumption, extents)?;
        let found = computed(&module)?;
        let expected = written.extents.iter().map(|formula| formula.at(extents));
        let expected = expected.map(|extent| extent.map(|extent| extent.max(0)));
        let result = module.get(MAIN)?.signature.ty.as_function()?.result;
        let is_empty = |ty: &Type| {
            let shape = ty.as_tensor().and_then(|tensor| tensor.known_shape());
            shape.is_some_and(|shape| shape.contains(&0))
        };
        let are_empty = !is_cut || prog::operators::tensors(result)?.iter().all(is_empty);
        (are_empty && found.into_iter().map(Some).eq(expected)).then_some(())
    }

    fn is_so(&self, written: &Written<'_>, counts: &[Formula], extents: &[i64]) -> Option<()> {
        let module = self.at(written.registry, written.assumption, extents)?;
        let body = module.body(Symbol::new(MAIN))?;
        let function = Function::of_body(written.registry, body).ok()?;
        let points: Vec<Vec<i64>> =
            written.points.iter().cloned().chain([extents.to_vec()]).collect();
        let items: Vec<&Item> = written.items.iter().copied().chain([&function.item]).collect();
        if open(&points, &items).is_ok_and(|found| found.counts == counts) {
            return Some(());
        }
        // They may differ in how they write an index that is 0 here.
        let single = single_axes(&function.item)?;
        let items: Vec<Item> = items.iter().map(|item| without_indices(item, &single)).collect();
        let items: Vec<&Item> = items.iter().collect();
        let count = written.points.len();
        let expected = open(&points[..count], &items[..count]).ok()?.counts;
        (open(&points, &items).ok()?.counts == expected).then_some(())
    }
}

/// The variables of `assumption` that are extents, and not elements.
fn extents(places: &Places, assumption: &[Assumed]) -> Vec<usize> {
    let is_extent = |variable: &usize| {
        let variable = Assumed::Variable(*variable);
        let first = assumption.iter().position(|assumed| *assumed == variable);
        first.is_some_and(|first| !places.is_element(first))
    };
    (0..variables(assumption)).filter(is_extent).collect()
}

/// The last number that agrees, on the way from `inside`, which does, to `outside`, which does not.
fn edge(agrees: impl Fn(i64) -> bool, mut inside: i64, mut outside: i64) -> i64 {
    while inside.abs_diff(outside) > 1 {
        let middle = inside.midpoint(outside);
        match agrees(middle) {
            true => inside = middle,
            false => outside = middle,
        }
    }
    inside
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
