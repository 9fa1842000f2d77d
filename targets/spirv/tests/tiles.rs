//! Products in tiles: phases, shared memory and registers, as the default schedules write them, without
//! races, on a device and in the interpreter.

use crate::common;

use ir_core::{Module, Random, Symbol, TensorData, Type};
use te::interpreter::{Options, run_compute};
use te::loops::{Alloc, Barrier, Scope};

/// Products and convolutions of sizes that tiles divide, and that they do not.
const FUNCTIONS: &str = "
te.func @even(%a: Tensor[(64, 32), float32], %b: Tensor[(64, 32), float32]) -> Tensor[(64, 64), float32] {
  y[i < 64, j < 64] = sum[k < 32] %a[i, k] * %b[j, k]
  return y
}

te.func @odd(%a: Tensor[(37, 19), float32], %b: Tensor[(19, 53), float32]) -> Tensor[(37, 53), float32] {
  y[i < 37, j < 53] = sum[k < 19] %a[i, k] * %b[k, j]
  z[i < 37, j < 53] = max(y[i, j] + 1f, 0f)
  return z
}

te.func @batch(%a: Tensor[(3, 40, 24), float32], %b: Tensor[(3, 40, 24), float32]) -> Tensor[(3, 40, 40), float32] {
  y[n < 3, i < 40, j < 40] = sum[k < 24] %a[n, i, k] * %b[n, j, k]
  return y
}

te.func @large(%a: Tensor[(400, 9), float32], %b: Tensor[(9, 400), float32]) -> Tensor[(400, 400), float32] {
  y[i < 400, j < 400] = sum[k < 9, l < 2] %a[i, k] * %b[k, j]
  return y
}
";

/// The values of a tensor of `ty`: multiples of 1/8, whose products and sums are exact.
fn eighths(ty: Type, random: &mut Random) -> TensorData {
    let tensor = ty.as_tensor().expect("a tensor");
    let shape = tensor.known_shape().expect("extents");
    let count = shape.iter().product::<i64>();
    let values: Vec<f64> = (0..count).map(|_| (random.below(33) as f64 - 16.0) / 8.0).collect();
    TensorData::from_f64(tensor.dtype, &shape, &values).expect("a tensor")
}

fn inputs(module: &Module, name: &str) -> Vec<TensorData> {
    let function = module.get(name).expect("the function").signature.ty;
    let mut random = Random::new(7);
    let params = &function.as_function().expect("a function").params;
    params.iter().map(|ty| eighths(*ty, &mut random)).collect()
}

#[test]
fn products_in_tiles_agree_with_the_interpreter() {
    let functions = common::parse(FUNCTIONS);
    let kernels = common::lowered(functions.clone());
    common::check_text(&kernels);
    for (name, item) in &kernels.items {
        let body = item.body.as_deref().expect("a body");
        let shared = body.walk().filter_map(|op| body.view::<Alloc>(op));
        assert!(shared.filter(|alloc| alloc.scope == Scope::Shared).count() >= 2, "{name}");
        assert!(body.walk().any(|op| body.view::<Barrier>(op).is_some()), "{name}");
        let data = inputs(&functions, name.as_str());
        let expected = run_compute(functions.body(*name).expect("a body"), &data);
        let races = Options { check_races: true, ..Options::default() };
        let found = races.run_kernel(&kernels, body, &data, 1);
        assert_eq!(expected, found, "{name}");
    }
    let Some(loaded) = common::load(&kernels) else { return };
    for name in functions.items.keys() {
        let data = inputs(&functions, name.as_str());
        let expected = run_compute(functions.body(*name).expect("a body"), &data);
        let found = common::call(&loaded, name.as_str(), &data);
        assert_eq!(expected.as_ref(), Ok(&found), "{name}");
    }
}

/// The kernel `even` with its barriers left out is one that a device gets wrong.
#[test]
fn a_missing_barrier_is_found() {
    let functions = common::parse(FUNCTIONS);
    let kernels = common::lowered(functions.clone());
    let data = inputs(&functions, "even");
    let body = kernels.body(Symbol::new("even")).expect("a body");
    let barriers = body.walk().filter(|op| body.view::<Barrier>(*op).is_some());
    for barrier in barriers.collect::<Vec<_>>() {
        let mut module = kernels.clone();
        let item = module.items.get_mut(&Symbol::new("even")).expect("the kernel");
        item.body_mut().expect("a body").erase(barrier);
        let faulty = module.body(Symbol::new("even")).expect("a body");
        let races = Options { check_races: true, ..Options::default() };
        let error = races.run_kernel(&module, faulty, &data, 1).expect_err("a race");
        assert_eq!(error.code, "E0857");
        let errors = common::try_load(&module).err().expect("a refusal");
        assert!(errors[0].message.contains("a barrier is missing"), "{errors:?}");
    }
}
