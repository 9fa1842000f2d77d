//! Checking gradients: what rules give, and what is derived from definitions, against each other and against
//! differences of values.
//!
//! Of an operator on random operands, in each type of floats, for each operand that has some:
//!
//! - what its rule gives is what is derived;
//! - what is derived is the limit of differences of the evaluator, in `float64`;
//! - where the operator is linear in the operand, `⟨v, J u⟩ = ⟨Jᵀ v, u⟩` holds bit by bit for numbers that
//!   nothing rounds;
//! - the derivative of what is derived is the limit of its differences;
//! - computing it takes at most [`MOST_WORK`] times the arithmetic of the operator.

mod differences;
mod rules;

use std::collections::BTreeSet;

use indexmap::IndexMap;
use ir_core::{
    Attr, AttrData, AttrDict, DType, InferCx, Item, Module, OpFields, Random, Registry, Scalar,
    Symbol, TensorData, Type, ValueId,
};
use relay::define::{Define, tensor_types};
use relay::interpreter::{Interpreter, Value, flatten};
use relay::language::{Constant, Tuple, TupleGet, short_name};
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::Gradient;
use super::derived::{Attributes, Derived, Vjp};
use crate::elements::type_of;
use differences::{Direction, limit};

/// How many times the arithmetic of an operator, and of moving what it reads and makes, a derivative by one operand
/// may take.
pub const MOST_WORK: u64 = 4;

/// Operators whose rule gives other than derivatives of their value, and why.
const OTHERWISE: &[(&str, &str)] =
    &[("relay.stop_gradient", "nothing changes by what it gives, by intent")];

/// What is said of operators that nothing is known of.
const UNTRIED: &str = "no operands were found";

/// How many random networks operators are looked for in.
const NETWORKS: u64 = 1000;

/// What samples take at most: operations on floats, and bytes of operands and results.
const MOST_SAMPLE: u64 = 20_000;

/// Extents of the operands that operators are tried on which no network has.
const SHAPES: &[&[i64]] = &[&[3, 2], &[5], &[], &[2, 3, 5], &[1, 2, 5, 4]];

/// The types of floats that gradients are checked in.
const FLOATS: [DType; 4] = [DType::FLOAT64, DType::FLOAT32, DType::FLOAT16, DType::BFLOAT16];

/// A use of an operator.
#[derive(Clone, Debug)]
struct Sample {
    name: Symbol,
    attrs: AttrDict,
    operands: Vec<Value>,
    result: Type,
}

/// What a check of an operator found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Operands, in one type of floats each, of which the derivative was derived and compared.
    pub compared: u32,
    /// How often the derivative was compared with differences.
    pub limits: u32,
    /// How often it was transposed, bit by bit.
    pub transposed: u32,
    /// How often the derivative of a derivative was compared with differences.
    pub second: u32,
    /// Why derivatives are not derived.
    pub underived: BTreeSet<String>,
    /// Why what the rule gives is not compared.
    pub otherwise: Option<&'static str>,
    /// What is wrong.
    pub faults: Vec<String>,
}

/// What a check of an operator came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// The operator.
    pub name: &'static str,
    /// Whether it has a rule.
    pub has_rule: bool,
    /// How many uses of it were checked.
    pub samples: u32,
    /// Why there is nothing to check.
    pub excluded: Option<&'static str>,
    /// What was found.
    pub findings: Findings,
}

/// Checks the gradients of all operators that have a [definition](Define), on up to `most` uses of each in the modules
/// that `network` makes of seeds; of operators that these have not, on operands of a few shapes. The same on every
/// machine.
pub fn check_all(registry: &Registry, most: u32, network: impl Fn(u64) -> Module) -> Vec<Report> {
    let defined = registry.ops().filter(|info| info.hook::<Define>().is_some());
    let mut reports: IndexMap<Symbol, Report, FxBuildHasher> = defined
        .map(|info| {
            let (name, has_rule) = (info.def.name, info.hook::<Gradient>().is_some());
            let excluded = Some(UNTRIED);
            let findings = Findings::default();
            (Symbol::new(name), Report { name, has_rule, samples: 0, excluded, findings })
        })
        .collect();
    for seed in 0..NETWORKS {
        // What has no value is no use of an operator.
        for sample in samples(&network(seed), registry, seed).unwrap_or_default() {
            if let Some(report) = reports.get_mut(&sample.name) {
                report.add(&sample, registry, seed, most);
            }
        }
    }
    for (name, report) in &mut reports {
        if report.name == <Vjp as OpFields<ValueId>>::NAME {
            report.excluded = Some("it is checked with each operator, a second time");
        } else if report.is_untried() {
            for sample in plain_samples(*name, registry) {
                report.add(&sample, registry, 0, most);
            }
        }
    }
    reports.into_values().collect()
}

impl Report {
    /// Whether no operands were found, so that nobody knows whether there is something to check.
    pub fn is_untried(&self) -> bool {
        self.excluded == Some(UNTRIED)
    }

    fn add(&mut self, sample: &Sample, registry: &Registry, seed: u64, most: u32) {
        if self.samples >= most {
            return;
        }
        if !sample.has_floats() {
            if self.samples == 0 {
                self.excluded = Some("it makes no floats of floats");
            }
            return;
        }
        if sample.work(registry).is_some_and(|work| work <= MOST_SAMPLE) {
            self.excluded = None;
            self.samples += 1;
            check(sample, registry, seed, self.samples == 1, &mut self.findings);
        }
    }
}

/// Uses of the operator `name` on tensors of one shape, without attributes, where it takes such.
fn plain_samples(name: Symbol, registry: &Registry) -> Vec<Sample> {
    let Some(def) = registry.def(name) else { return vec![] };
    let (Ok(attrs), Some(infer)) = (def.normalize_attrs(AttrDict::empty()), def.infer) else {
        return vec![];
    };
    let mut random = Random::new(0);
    let samples = SHAPES.iter().filter_map(|shape| {
        let ty = Type::tensor(shape.iter().copied(), DType::FLOAT32);
        let types = vec![ty; def.operands.len()];
        let result = InferCx::new(&types, attrs).answer(infer).ok()?;
        let operands = types.iter().map(|ty| random_like(*ty, &mut random).swap_remove(0).into());
        let sample = Sample { name, attrs, operands: operands.collect(), result };
        sample.value(registry, &sample.operands).is_some().then_some(sample)
    });
    samples.collect()
}

/// The uses of operators in `@main` of `module`, a list of operators on tensors and tuples, with the operands that
/// they have for random arguments.
///
/// # Errors
/// Where there is no such function, or an operator has no value.
fn samples(module: &Module, registry: &Registry, seed: u64) -> Result<Vec<Sample>, String> {
    let main = module.get("main").ok_or("there is no function `@main`")?;
    let body = main.body.as_deref().ok_or("`@main` has no body")?;
    let arguments =
        relay::interpreter::random_arguments(main, registry, &module.signatures(), seed)?;
    let params = body.block_args(body.entry()).iter().copied();
    let mut values: FxHashMap<ValueId, Value> = params.zip(arguments).collect();
    let interpreter = Interpreter::new(module, registry);
    let mut found = vec![];
    for op in body.block_ops(body.entry()).filter(|op| body.result_count(*op) == 1) {
        let result = body.result(op, 0);
        let operands = body.operands(op).map(|operand| values.get(&operand).cloned());
        let operands = operands.collect::<Option<Vec<Value>>>().ok_or("a value is not known")?;
        let value = if let Some(Constant { value }) = body.view(op) {
            value.into()
        } else if body.is::<Tuple>(op) {
            Value::tuple(operands)
        } else if let Some(TupleGet { index, .. }) = body.view(op) {
            let field = operands[0].as_tuple().and_then(|fields| fields.get(index as usize));
            field.ok_or("no such field")?.clone()
        } else {
            let (name, attrs, result) = (body.op_name(op), body.attrs(op), body.ty(result));
            let value = interpreter.evaluate_operator(name, &operands, attrs, result);
            found.push(Sample { name, attrs, operands, result });
            value.map_err(|errors| format!("{errors:?}"))?
        };
        values.insert(result, value);
    }
    Ok(found)
}

impl Sample {
    /// About how much computing it once takes: elements of its operands and its result, and arithmetic of its
    /// definition. `None` where it has none.
    fn work(&self, registry: &Registry) -> Option<u64> {
        let types: Vec<Type> = self.types()?;
        let work = te::compute::work(&self.derived(&types, 0).primal(registry).ok()?);
        Some(work.flops.saturating_add(work.bytes))
    }

    /// Whether it gives floats, and takes some.
    fn has_floats(&self) -> bool {
        let has_floats = super::is_differentiable;
        let types = self.types().unwrap_or_default();
        has_floats(self.result) && types.iter().any(|ty| has_floats(*ty))
    }

    fn types(&self) -> Option<Vec<Type>> {
        self.operands.iter().map(|value| type_of(value).ok()).collect()
    }

    fn derived<'a>(&'a self, operands: &'a [Type], wrt: usize) -> Derived<'a> {
        let of = short_name(self.name.as_str());
        Derived { of, attributes: self.attrs, operands, result: self.result, wrt }
    }

    /// The same with floats of type `dtype`, and with numbers that are a little different, so that no two are equal.
    /// `None` where the operator takes none such.
    fn with_floats(
        &self,
        dtype: DType,
        registry: &Registry,
        random: &mut Random,
    ) -> Option<Sample> {
        let operands: Vec<Value> = self
            .operands
            .iter()
            .map(|value| {
                changed(value, &mut |tensor| {
                    let numbers = tensor.elements().map(|x| {
                        let u = 0.001 + random.below(1000) as f64 / 100_000.0;
                        Scalar::Float(x.as_f64() * (1.0 + u) + u)
                    });
                    let numbers: Vec<Scalar> = numbers.collect();
                    TensorData::from_scalars(dtype, tensor.shape(), numbers)
                        .expect("as many elements")
                })
            })
            .collect();
        let attrs = with_floats(Attr::of(&self.attrs), dtype);
        let AttrData::Dict(attrs) = attrs.data() else { return None };
        let types: Vec<Type> =
            operands.iter().map(|value| type_of(value).ok()).collect::<Option<_>>()?;
        let def = registry.def(self.name)?;
        let attrs = def.normalize_attrs(*attrs).ok()?;
        let constant = |number: usize| {
            let tensor = operands.get(number)?.as_tensor()?;
            Some(Attr::new(AttrData::Tensor(tensor.clone())))
        };
        let infer = def.infer?;
        let result = InferCx::with_constants(&types, attrs, &constant).answer(infer).ok()?;
        let is_known = !result.facts().has_any && !result.facts().has_unknown;
        (is_known).then_some(Sample { name: self.name, attrs, operands, result })
    }

    fn value(&self, registry: &Registry, operands: &[Value]) -> Option<Vec<TensorData>> {
        let interpreter = Interpreter::with_signatures(&Module::new().signatures(), registry);
        let value = interpreter.evaluate_operator(self.name, operands, self.attrs, self.result);
        flatten(&value.ok()?).ok()
    }
}

// Recursion is bounded by the nesting of attributes.
/// `attr` with `dtype` for the types of floats that it names.
fn with_floats(attr: Attr, dtype: DType) -> Attr {
    match attr.data() {
        AttrData::DType(own) if own.is_float() => Attr::of(&dtype),
        AttrData::String(text) => match text.parse::<DType>() {
            Ok(own) if own.is_float() => Attr::of(&dtype.to_string()),
            _ => attr,
        },
        AttrData::Dict(dict) => {
            let entries =
                dict.entries().iter().map(|(key, value)| (*key, with_floats(*value, dtype)));
            Attr::of(&AttrDict::new(entries))
        }
        _ => attr,
    }
}

/// `value` with what `change` makes of each tensor of floats.
fn changed(value: &Value, change: &mut dyn FnMut(&TensorData) -> TensorData) -> Value {
    // Operators take tensors and flat tuples.
    match (value.as_tensor(), value.as_tuple()) {
        (Some(tensor), _) if tensor.dtype().is_float() => change(tensor).into(),
        (_, Some(fields)) => Value::tuple(fields.iter().map(|field| changed(field, change))),
        _ => value.clone(),
    }
}

/// Random numbers for the tensors of type `ty`, multiples of 1/4; 0 where they are no floats.
fn random_like(ty: Type, random: &mut Random) -> Vec<TensorData> {
    let types = tensor_types(ty).unwrap_or_default();
    let tensors = types.iter().filter_map(|ty| ty.as_tensor());
    let tensors = tensors.filter_map(|tensor| {
        let shape = tensor.known_shape()?;
        let count = shape.iter().product::<i64>();
        let numbers = (0..count).map(|_| match tensor.dtype.is_float() {
            true => Scalar::Float((random.below(17) as f64 - 8.0) / 4.0),
            false => Scalar::Int(0),
        });
        TensorData::from_scalars(tensor.dtype, &shape, numbers.collect::<Vec<_>>()).ok()
    });
    tensors.collect()
}

/// A derivative that was derived, with operands.
struct Case<'a> {
    registry: &'a Registry,
    sample: &'a Sample,
    types: &'a [Type],
    wrt: usize,
    item: Item,
    /// The change of the result.
    change: Vec<TensorData>,
}

impl Case<'_> {
    /// What is derived, for `change` and `operands`.
    fn run(&self, change: &[TensorData], operands: &[Value]) -> Option<Vec<TensorData>> {
        let mut inputs = change.to_vec();
        for operand in operands {
            inputs.extend(flatten(operand).ok()?);
        }
        te::interpreter::run_compute(self.item.body.as_deref()?, &inputs).ok()
    }

    fn fault(&self, findings: &mut Findings, message: impl std::fmt::Display) {
        let types: Vec<String> = self.types.iter().map(Type::to_string).collect();
        let (attrs, wrt) = (self.sample.attrs, self.wrt);
        findings.faults.push(format!(
            "by operand {wrt} of ({}), attributes {attrs:?}: {message}",
            types.join(", ")
        ));
    }
}

/// Checks the gradient of the operator of `sample` on its operands, in every type of floats; derivatives of
/// derivatives too where `second`. The same for the same `seed` on every machine.
fn check(sample: &Sample, registry: &Registry, seed: u64, second: bool, findings: &mut Findings) {
    for dtype in FLOATS {
        let mut random = Random::new(seed);
        let Some(sample) = sample.with_floats(dtype, registry, &mut random) else { continue };
        let Some(types) = sample.types() else { continue };
        if !sample.has_floats() {
            continue;
        }
        for wrt in 0..types.len() {
            let is_float = |ty: &Type| ty.as_tensor().is_some_and(|ty| ty.dtype.is_float());
            let tensors = tensor_types(types[wrt]).unwrap_or_default();
            if tensors.is_empty() || !tensors.iter().all(is_float) {
                continue;
            }
            let vjp = match sample.derived(&types, wrt).vjp(registry) {
                Ok(vjp) => vjp,
                Err(reason) => {
                    findings.underived.insert(reason);
                    continue;
                }
            };
            let change = random_like(sample.result, &mut random);
            let (sample, types) = (&sample, &types[..]);
            let case = Case { registry, sample, types, wrt, item: vjp.item, change };
            let Some(derived) = case.run(&case.change, &sample.operands) else {
                case.fault(findings, "what is derived has no value");
                continue;
            };
            findings.compared += 1;
            case.compare_rule(&derived, dtype, findings);
            let results = tensor_types(sample.result).unwrap_or_default();
            let is_precise = |ty: &Type| {
                ty.as_tensor().is_some_and(|ty| ty.dtype == DType::FLOAT64 || !ty.dtype.is_float())
            };
            if dtype == DType::FLOAT64 && results.iter().all(is_precise) {
                case.compare_differences(&derived, &mut random, findings);
                case.transpose(&mut random, findings);
                case.count_work(findings);
                if second {
                    case.differentiate_again(&mut random, findings);
                }
            }
        }
    }
}

impl Case<'_> {
    /// Compares what the rule of the operator gives.
    fn compare_rule(&self, derived: &[TensorData], dtype: DType, findings: &mut Findings) {
        if let Some((_, why)) = OTHERWISE.iter().find(|(name, _)| self.sample.name == *name) {
            findings.otherwise = Some(why);
            return;
        }
        let Some(ruled) = rules::gradient(self) else { return };
        let ruled = match ruled {
            Ok(ruled) => ruled,
            Err(message) => return self.fault(findings, message),
        };
        let tolerance = match dtype {
            DType::FLOAT64 => 1e-8,
            DType::FLOAT32 => 1e-4,
            DType::FLOAT16 => 3e-2,
            _ => 1.5e-1,
        };
        for (derived, ruled) in derived.iter().zip(&ruled) {
            let (derived, ruled) = (derived.to_f64(), ruled.to_f64());
            let largest = derived.iter().chain(&ruled).filter(|x| x.is_finite());
            let scale = largest.fold(1.0f64, |scale, x| scale.max(x.abs()));
            let differs = |(a, b): (&f64, &f64)| {
                let both = a.is_finite() && b.is_finite();
                both && (a - b).abs() > tolerance * scale
            };
            if let Some(at) = derived.iter().zip(&ruled).position(differs) {
                let (a, b) = (derived[at], ruled[at]);
                let message =
                    format!("element {at} is {a} as derived, and {b} by the rule, in {dtype}");
                return self.fault(findings, message);
            }
        }
    }

    /// Compares with differences of the evaluator.
    fn compare_differences(
        &self,
        derived: &[TensorData],
        random: &mut Random,
        findings: &mut Findings,
    ) {
        let sample = self.sample;
        let direction = Direction::random(&sample.operands[self.wrt], random);
        let expected = limit(&self.change, |step| {
            let mut operands = sample.operands.clone();
            operands[self.wrt] = direction.from(&operands[self.wrt], step);
            sample.value(self.registry, &operands)
        });
        let Some(expected) = expected else { return };
        findings.limits += 1;
        let found = direction.dot(derived);
        if !expected.is_near(found) {
            self.fault(findings, format!("differences say {expected}, what is derived {found}"));
        }
    }

    /// Compares `⟨v, J u⟩` and `⟨Jᵀ v, u⟩`, where the operator is linear.
    fn transpose(&self, random: &mut Random, findings: &mut Findings) {
        let sample = self.sample;
        let quarters = |value: &Value, random: &mut Random| {
            changed(value, &mut |tensor| random_like(tensor.ty(), random).swap_remove(0))
        };
        let operands: Vec<Value> =
            sample.operands.iter().map(|value| quarters(value, random)).collect();
        let own = operands[self.wrt].clone();
        let at = |value: Value| {
            let mut operands = operands.clone();
            operands[self.wrt] = value;
            sample.value(self.registry, &operands)
        };
        let combined = |a: &Value, b: &Value, factor: f64| {
            let others = flatten(b).unwrap_or_default();
            let mut others = others.into_iter();
            changed(a, &mut |tensor| {
                let other = others.next().expect("as many tensors");
                let sums = tensor.to_f64().into_iter().zip(other.to_f64());
                let sums: Vec<f64> = sums.map(|(a, b)| a + factor * b).collect();
                TensorData::from_f64(tensor.dtype(), tensor.shape(), &sums).expect("as many")
            })
        };
        let numbers = |tensors: &[TensorData]| -> Vec<f64> {
            tensors.iter().flat_map(TensorData::to_f64).collect()
        };
        let Some(image) = at(own.clone()) else { return };
        let image = numbers(&image);
        for factor in [1.0, -0.75] {
            let other = quarters(&own, random);
            let (Some(a), Some(b)) = (at(other.clone()), at(combined(&own, &other, factor))) else {
                return;
            };
            let sums = image.iter().zip(numbers(&a)).map(|(image, a)| image + factor * a);
            if sums.zip(numbers(&b)).any(|(sum, b)| sum != b) {
                return;
            }
        }
        let (Some(image), Some(back)) = (at(own.clone()), self.run(&self.change, &operands)) else {
            return;
        };
        // What divides, as means do, rounds.
        let exact = |tensors: &[TensorData]| {
            numbers(tensors).iter().all(|x| (x * 1024.0).fract() == 0.0 && x.abs() < 1e9)
        };
        if !exact(&image) || !exact(&back) {
            return;
        }
        let dot = |a: &[TensorData], b: &[TensorData]| -> f64 {
            let floats = a.iter().zip(b).filter(|(a, _)| a.dtype().is_float());
            floats
                .flat_map(|(a, b)| a.to_f64().into_iter().zip(b.to_f64()))
                .map(|(a, b)| a * b)
                .sum()
        };
        let own = flatten(&own).unwrap_or_default();
        let (there, back) = (dot(&image, &self.change), dot(&own, &back));
        findings.transposed += 1;
        if there != back {
            self.fault(findings, format!("⟨v, J u⟩ is {there}, ⟨Jᵀ v, u⟩ is {back}"));
        }
    }

    /// Compares the arithmetic with that of the operator.
    fn count_work(&self, findings: &mut Findings) {
        let Ok(primal) = self.sample.derived(self.types, self.wrt).primal(self.registry) else {
            return;
        };
        let stages =
            te::compute::Stage::all(primal.body.as_deref().expect("a definition has a body"));
        let points: i64 = stages.iter().map(|stage| stage.points()).sum();
        let (primal, own) = (te::compute::work(&primal), te::compute::work(&self.item));
        // Elements of operands and results, and of what is on the way.
        let moved = primal.bytes / DType::FLOAT64.bytes() as u64 + points.unsigned_abs();
        let most = MOST_WORK * (primal.flops + moved);
        if own.flops > most {
            let (flops, found) = (primal.flops, own.flops);
            self.fault(findings, format!(
                "{found} operations on floats, of an operator that takes {flops} and moves {moved}"
            ));
        }
    }

    /// Compares derivatives of what is derived with its differences.
    fn differentiate_again(&self, random: &mut Random, findings: &mut Findings) {
        let sample = self.sample;
        let attributes = AttrDict::empty()
            .with("of", &short_name(sample.name.as_str()).to_string())
            .with("wrt", &(self.wrt as i64))
            .with("attributes", &Attributes(sample.attrs));
        let change = match sample.result.as_tuple() {
            Some(_) => Value::tuple(self.change.iter().cloned().map(Value::Tensor)),
            None => self.change[0].clone().into(),
        };
        let operands: Vec<Value> = std::iter::once(change).chain(sample.operands.clone()).collect();
        let Some(types) =
            operands.iter().map(|value| type_of(value).ok()).collect::<Option<Vec<Type>>>()
        else {
            return;
        };
        let result = self.types[self.wrt];
        let again = random_like(result, random);
        for wrt in 0..types.len() {
            let is_float = |ty: &Type| ty.as_tensor().is_some_and(|ty| ty.dtype.is_float());
            if !tensor_types(types[wrt]).is_some_and(|types| types.iter().all(is_float)) {
                continue;
            }
            let derived = Derived { of: "vjp", attributes, operands: &types, result, wrt };
            let vjp = match derived.vjp(self.registry) {
                Ok(vjp) => vjp,
                Err(reason) => {
                    findings.underived.insert(format!("a second time: {reason}"));
                    continue;
                }
            };
            let direction = Direction::random(&operands[wrt], random);
            let expected = limit(&again, |step| {
                let mut moved = operands.clone();
                moved[wrt] = direction.from(&operands[wrt], step);
                let change = flatten(&moved[0]).ok()?;
                self.run(&change, &moved[1..])
            });
            let Some(expected) = expected else { continue };
            let mut inputs = again.clone();
            inputs.extend(operands.iter().flat_map(|value| flatten(value).unwrap_or_default()));
            let body = vjp.item.body.as_deref().expect("what is derived has a body");
            let Ok(found) = te::interpreter::run_compute(body, &inputs) else {
                self.fault(findings, "what is derived a second time has no value");
                continue;
            };
            findings.second += 1;
            let found = direction.dot(&found);
            if !expected.is_near(found) {
                self.fault(findings, format!(
                    "by operand {wrt} a second time: differences say {expected}, what is derived {found}"
                ));
            }
        }
    }
}
