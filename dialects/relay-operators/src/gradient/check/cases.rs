//! Comparing what is derived of one use of an operator.

use ir_core::{AttrDict, DType, Item, Random, Registry, TensorData, Type};
use relay::define::tensor_types;
use relay::interpreter::{Value, flatten};
use relay::language::short_name;

use super::differences::{Direction, limit};
use super::{Findings, MOST_WORK, OTHERWISE, Sample, changed, random_like, rules};
use crate::elements::type_of;
use crate::gradient::derived::{Attributes, Derived};

/// A derivative that was derived, with operands.
pub(super) struct Case<'a> {
    pub(super) registry: &'a Registry,
    pub(super) sample: &'a Sample,
    pub(super) types: &'a [Type],
    pub(super) wrt: usize,
    pub(super) item: Item,
    /// The change of the result.
    pub(super) change: Vec<TensorData>,
}

impl Case<'_> {
    /// What is derived, for `change` and `operands`.
    pub(super) fn run(&self, change: &[TensorData], operands: &[Value]) -> Option<Vec<TensorData>> {
        let mut inputs = change.to_vec();
        for operand in operands {
            inputs.extend(flatten(operand).ok()?);
        }
        te::interpreter::run_compute(self.item.body.as_deref()?, &inputs).ok()
    }

    pub(super) fn fault(&self, findings: &mut Findings, message: impl std::fmt::Display) {
        let types: Vec<String> = self.types.iter().map(Type::to_string).collect();
        let (attrs, wrt) = (self.sample.attrs, self.wrt);
        findings.faults.push(format!(
            "by operand {wrt} of ({}), attributes {attrs:?}: {message}",
            types.join(", ")
        ));
    }
}

impl Case<'_> {
    /// Compares what the rule of the operator gives.
    pub(super) fn compare_rule(
        &self,
        derived: &[TensorData],
        dtype: DType,
        findings: &mut Findings,
    ) {
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
            // Rules sum in the type of the operands, and the more is summed the more is rounded.
            let summed = self.change.iter().map(TensorData::len).sum::<usize>() as f64;
            let rounded = if dtype.bits() < 32 { 1.0 + summed.sqrt() / 8.0 } else { 1.0 };
            let scale = rounded * largest.fold(1.0f64, |scale, x| scale.max(x.abs()));
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
    pub(super) fn compare_differences(
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
    pub(super) fn transpose(&self, random: &mut Random, findings: &mut Findings) {
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
        // Far from where it is as well: what is bounded may be linear nearby.
        let [one, other] = [(); 2].map(|()| quarters(&own, random));
        for (other, factor) in [(one, 1.0), (other, -0.75), (own.clone(), 7.0), (own.clone(), -9.0)]
        {
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
    pub(super) fn count_work(&self, findings: &mut Findings) {
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
    pub(super) fn differentiate_again(&self, random: &mut Random, findings: &mut Findings) {
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
