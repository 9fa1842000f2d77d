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

mod cases;
mod differences;
mod rules;

use std::collections::BTreeSet;

use indexmap::IndexMap;
use ir_core::{
    Attr, AttrData, AttrDict, DType, InferCx, Module, OpFields, Random, Registry, Scalar, Symbol,
    TensorData, Type, ValueId,
};
use relay::define::{Define, tensor_types};
use relay::interpreter::{Interpreter, Value, flatten};
use relay::language::{Constant, Tuple, TupleGet, short_name};
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::Gradient;
use super::derived::{Derived, Vjp};
use crate::batch::Batched;
use crate::elements::type_of;
use cases::Case;

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
        } else if report.name == <Batched as OpFields<ValueId>>::NAME {
            report.excluded = Some("it is derived from other operators");
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
