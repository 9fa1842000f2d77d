//! Tests of the operators without `nn`, quantized ones included: values, and that relations agree with evaluators.

use ir_core::{Attr, AttrData, AttrDict, DType, InferCx, Registry, Scalar, TensorData, Type};
use relay::define::{Define, define_alone};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value, approx_equal, flatten};

use te::interpreter::run_compute;

use super::elements;

mod properties;
mod quantized;
mod values;
mod vision;

/// The operators under test.
fn registry() -> Registry {
    let mut registry = Registry::new();
    super::elementwise::register(&mut registry);
    super::broadcast::register(&mut registry);
    super::reduce::register(&mut registry);
    super::create::register(&mut registry);
    super::shape::register(&mut registry);
    super::join::register(&mut registry);
    super::index::register(&mut registry);
    super::dynamic::register(&mut registry);
    super::sort::register(&mut registry);
    super::spectrum::register(&mut registry);
    super::image::register(&mut registry);
    super::vision::register(&mut registry);
    super::linalg::register(&mut registry);
    super::nn::deformable::register(&mut registry);
    super::qnn::register(&mut registry);
    registry
}

/// Why an operator with a definition may have none for some operands and attributes.
const UNDEFINED: &[&str] = &[
    // 64-bit numbers need products of 128 bits.
    "expected at most 32 bits",
    // How many places a bin has depends on the regions.
    "expected a fixed number of places",
];

/// An operator applied to operands.
#[derive(Clone, Debug)]
struct Case {
    name: String,
    operands: Vec<Value>,
    attrs: AttrDict,
}

impl Case {
    fn new(name: &str, operands: impl IntoIterator<Item = Value>) -> Case {
        let operands = operands.into_iter().collect();
        Case { name: format!("relay.{name}"), operands, attrs: AttrDict::empty() }
    }

    fn with(mut self, key: &str, value: &impl ir_core::AttrValue) -> Case {
        self.attrs = self.attrs.with(key, value);
        self
    }

    /// The type that the relation gives, with operand values as constants or without.
    fn infer(&self, registry: &Registry, constants: bool) -> Result<Type, String> {
        let def = registry.def(&*self.name).ok_or("no such operator")?;
        let attrs = def.normalize_attrs(self.attrs).map_err(|errors| errors.join("; "))?;
        let types: Vec<Type> = self
            .operands
            .iter()
            .map(elements::type_of)
            .collect::<Result<_, _>>()
            .map_err(|e| e.0)?;
        let constant = |index: usize| {
            let tensor = self.operands[index].as_tensor().filter(|_| constants)?;
            Some(Attr::new(AttrData::Tensor(tensor.clone())))
        };
        let mut cx = InferCx::with_constants(&types, attrs, &constant);
        let infer = def.infer.ok_or("no relation")?;
        infer(&mut cx).map_err(|stop| format!("{stop:?}"))
    }

    fn evaluate(&self, registry: &Registry) -> Result<Value, EvalError> {
        let def = registry.def(&*self.name).ok_or("no such operator".to_string())?;
        let attrs = def.normalize_attrs(self.attrs).map_err(|errors| errors.join("; "))?;
        let Evaluate(evaluate) =
            registry.hook::<Evaluate>(&*self.name).ok_or("no evaluator".to_string())?;
        let result = self.infer(registry, false).unwrap_or(Type::unknown());
        evaluate(&EvalCx { operands: &self.operands, attrs, result, registry })
    }

    /// The value, after checking that its type is the inferred one.
    fn run(&self) -> Value {
        let registry = registry();
        let value = self.evaluate(&registry).unwrap_or_else(|error| panic!("{self:?}: {error:?}"));
        for constants in [false, true] {
            let inferred = self.infer(&registry, constants);
            let inferred = inferred.unwrap_or_else(|error| panic!("{self:?}: {error}"));
            assert!(fits(inferred, &value), "{self:?}: inferred {inferred}, found {value:?}");
        }
        self.check_definition(&registry, &value);
        value
    }

    /// Checks that the definition as tensor expressions, where there is one, gives `value`.
    fn check_definition(&self, registry: &Registry, value: &Value) {
        let Some(info) = registry.info(&*self.name) else { return };
        if info.hook::<Define>().is_none() {
            return;
        }
        let types: Vec<Type> =
            self.operands.iter().map(|operand| elements::type_of(operand).unwrap()).collect();
        let attrs = info.def.normalize_attrs(self.attrs).unwrap();
        let item = define_alone(registry, info, &types, attrs, elements::type_of(value).unwrap());
        let item = match item {
            Ok(item) => item,
            Err(error) if UNDEFINED.iter().any(|reason| error.starts_with(reason)) => return,
            Err(error) => panic!("{self:?}: {error}"),
        };
        let flat = |values: &[Value]| -> Vec<TensorData> {
            values.iter().flat_map(|value| flatten(value).unwrap()).collect()
        };
        let found = run_compute(item.body.as_ref().unwrap(), &flat(&self.operands));
        let found = found.unwrap_or_else(|error| panic!("{self:?}: {error}"));
        for (found, expected) in found.into_iter().zip(flat(std::slice::from_ref(value))) {
            let tolerance = match (expected.dtype(), expected.dtype().bits()) {
                (DType::BFLOAT16, _) => 5e-2,
                (_, 16) => 1e-2,
                _ => 1e-5,
            };
            let (found, expected) = (Value::from(found), Value::from(expected));
            if let Err(mismatch) = approx_equal(&found, &expected, tolerance, tolerance) {
                panic!("{self:?}: as tensor expressions {mismatch}");
            }
        }
    }

    /// Why the relation refuses.
    fn type_error(&self) -> String {
        match self.infer(&registry(), false) {
            Ok(ty) => panic!("{self:?}: expected an error, found {ty}"),
            Err(message) => message,
        }
    }

    /// Why there is no value.
    fn value_error(&self) -> String {
        match self.evaluate(&registry()) {
            Ok(value) => panic!("{self:?}: expected an error, found {value:?}"),
            Err(error) => error.0,
        }
    }

    /// Checks that the result is one tensor of this shape and these elements, up to 1e-6.
    #[track_caller]
    fn gives(&self, shape: &[i64], expected: &[f64]) {
        let value = self.run();
        let Some(tensor) = value.as_tensor() else { panic!("{self:?}: found {value:?}") };
        assert_eq!(tensor.shape(), shape, "{self:?}");
        let dtype = tensor.dtype();
        let found: Vec<f64> = tensor.elements().map(|v| elements::real(v, dtype)).collect();
        let close = |(a, b): (&f64, &f64)| {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-6 * b.abs().max(1.0)
        };
        let same = found.len() == expected.len() && found.iter().zip(expected).all(close);
        assert!(same, "{self:?}: expected {expected:?}, found {found:?}");
    }
}

/// Whether `value` is of type `ty`, where `?` is any extent.
fn fits(ty: Type, value: &Value) -> bool {
    let tensor_fits = |ty: Type, tensor: &TensorData| {
        ty.as_tensor().is_some_and(|ty| {
            let extents = ty.shape.iter().zip(tensor.shape());
            ty.dtype == tensor.dtype()
                && ty.rank() == tensor.rank()
                && extents.into_iter().all(|(dim, &n)| dim.known().is_none_or(|dim| dim == n))
        })
    };
    match (value.as_tensor(), elements::tensors(value), ty.as_tuple()) {
        (Some(tensor), _, _) => tensor_fits(ty, tensor),
        (None, Ok(fields), Some(types)) => {
            fields.len() == types.len() && types.iter().zip(fields).all(|(&t, v)| tensor_fits(t, v))
        }
        _ => false,
    }
}

fn tensor(dtype: DType, shape: &[i64], values: &[f64]) -> Value {
    TensorData::from_f64(dtype, shape, values).unwrap().into()
}

fn floats(shape: &[i64], values: &[f64]) -> Value {
    tensor(DType::FLOAT32, shape, values)
}

fn ints(shape: &[i64], values: &[i64]) -> Value {
    TensorData::from_i64(DType::INT32, shape, values).unwrap().into()
}

fn scalar(dtype: DType, value: f64) -> Value {
    TensorData::scalar(dtype, Scalar::Float(value)).into()
}
