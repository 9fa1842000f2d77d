//! Tensorized dot products of int8 numbers.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::Command;

use ir_core::{DType, Module, Symbol, TensorData};
use target_core::checks::{first_failure, report_checks};
use target_core::program::Sites;
use target_core::{Buffer, Interpreted};
use te::checks::spell_out;
use te::interpreter::run_compute;
use te::loops::{simplify, unroll, vectorize};
use te::lower::lower;
use te::schedule::Schedule;
use te::schedule::replay::replay;

const PROGRAM: &str = "
te.func @dense(%x: Tensor[(3, 64), int8], %w: Tensor[(2, 16, 16, 4), int8]) {
  dense[i < 3, j < 32] =
    sum[k < 64] cast<int32>(%x[i, k]) * cast<int32>(%w[div(j, 16), div(k, 4), mod(j, 16), mod(k, 4)])
  return dense
}

te.func @dot(%a: Tensor[(4), int8], %b: Tensor[(16, 4), int8])
    attributes {update = True, extern = \"vendor_dot\"} {
  c[i < 16] = sum[k < 4] cast<int32>(%a[k]) * cast<int32>(%b[i, k])
  return c
}

te.schedule @fast for @dense {
  %dense, %i, %j, %k = stage dense
  %jo, %ji = split %j factor 16
  %ko, %ki = split %k factor 4
  reorder %jo, %ko, %ji, %ki
  parallel %i
  tensorize %ji @dot
  vectorize %ji
}
";

/// The kernels of `program`, of which `@fast` schedules the function `outer`, with calls of
/// `inner`; and the functions.
fn kernels(program: &str, outer: &'static str, inner: &'static str) -> (Module, Module) {
    let registry = common::registry();
    let mut module = common::items(program, &registry);
    for name in [outer, inner] {
        spell_out(module.items.get_mut(&Symbol::new(name)).unwrap().body_mut().unwrap());
    }
    let schedule = replay(module.get("fast").unwrap(), &module, &registry);
    let schedule = schedule.unwrap_or_else(|error| panic!("{error:#?}"));
    let own = Schedule::new(module.get(inner).unwrap()).unwrap();
    let mut kernels = Module::new();
    for (name, schedule) in [(outer, schedule), (inner, own)] {
        let mut kernel = lower(&schedule).unwrap();
        let body = kernel.body_mut().unwrap();
        vectorize(body);
        unroll(body);
        simplify(body);
        let own = module.get(name).unwrap().signature.attrs.entries();
        let attrs = own.iter().chain(kernel.signature.attrs.entries()).copied();
        kernel.signature.attrs = ir_core::AttrDict::new(attrs);
        kernels.items.insert(Symbol::new(name), kernel);
    }
    (kernels, module)
}

/// The kernels of the program, its operands and its result.
fn program() -> (Module, [TensorData; 2], TensorData) {
    let (kernels, module) = kernels(PROGRAM, "dense", "dot");
    let tensor = |shape: &[i64], seed: u64| {
        let count = shape.iter().product::<i64>() as usize;
        let numbers: Vec<f64> =
            common::numbers(count, seed, -128.0, 128.0).into_iter().map(f64::floor).collect();
        TensorData::from_f64(DType::INT8, shape, &numbers).unwrap()
    };
    let inputs = [tensor(&[3, 64], 1), tensor(&[2, 16, 16, 4], 2)];
    let expected = run_compute(module.body("dense").unwrap(), &inputs).unwrap();
    (kernels, inputs, expected.into_iter().next().unwrap())
}

#[test]
fn a_dot_product_is_right_by_its_own_kernel() {
    let (module, inputs, expected) = program();
    common::run_everywhere(&module, "dense", &inputs, |how, found| {
        assert_eq!(found[0], expected, "{how}");
    });
}

#[test]
fn a_dot_product_is_right_by_a_function_of_others() {
    let (module, inputs, expected) = program();
    let text = common::text(&module, "scalar");
    assert!(text.contains("\nvoid vendor_dot(const int8_t *a, const int8_t *b, int32_t *c);\n"));
    assert!(!text.contains("te_dot"), "{text}");
    let list = |tensor: &TensorData| {
        let elements = tensor.elements().map(|element| element.as_i64().to_string());
        elements.collect::<Vec<_>>().join(", ")
    };
    let [x, w] = [&inputs[0], &inputs[1]].map(list);
    let driver = format!(
        "{text}
static int calls;

void vendor_dot(const int8_t *a, const int8_t *b, int32_t *c)
{{
    calls++;
    for (int i = 0; i < 16; i++) {{
        for (int k = 0; k < 4; k++) {{
            c[i] += a[k] * b[4 * i + k];
        }}
    }}
}}

int main(void)
{{
    static const int8_t x[] = {{{x}}}, w[] = {{{w}}};
    static const int32_t expected[] = {{{}}};
    static int32_t y[96];
    te_dense(x, w, y);
    for (int i = 0; i < 96; i++) {{
        if (y[i] != expected[i]) {{
            return 1;
        }}
    }}
    return calls == 3 * 2 * 16 ? 0 : 2;
}}
",
        list(&expected)
    );
    for (command, _) in common::compilers() {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tensorize-{command}"));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("main.c"), &driver).expect("a file");
        let flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "main", "main.c", "-lm"];
        let built = Command::new(command).args(flags).current_dir(&folder).output().expect("a run");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let status = Command::new(folder.join("main")).status().expect("a run");
        assert_eq!(status.code(), Some(0), "{command}");
    }
}

const RATIOS: &str = "
te.func @ratios(%x: Tensor[(3, 64), int32], %w: Tensor[(2, 16, 16, 4), int32]) {
  ratios[i < 3, j < 32] = sum[k < 64] %x[i, k] / %w[div(j, 16), div(k, 4), mod(j, 16), mod(k, 4)]
  return ratios
}

te.func @ratio(%a: Tensor[(4), int32], %b: Tensor[(16, 4), int32]) attributes {update = True} {
  c[i < 16] = sum[k < 4] %a[k] / %b[i, k]
  return c
}

te.schedule @fast for @ratios {
  %ratios, %i, %j, %k = stage ratios
  %jo, %ji = split %j factor 16
  %ko, %ki = split %k factor 4
  reorder %jo, %ko, %ji, %ki
  parallel %i
  tensorize %ji @ratio
}
";

#[test]
fn what_calls_a_kernel_with_checks_tells_which_failed() {
    let (mut module, functions) = kernels(RATIOS, "ratios", "ratio");
    let calls = report_checks(&mut module, "ratios", Sites::default(), true).unwrap();
    let [checked] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(checked.kernel, Symbol::new("ratios"));
    assert_eq!(checked.sites.len(), 1);
    let numbers: Vec<i64> = (0..2048).map(|number| number % 7 - 3).collect();
    let x = TensorData::from_i64(DType::INT32, &[3, 64], &numbers[..192]).unwrap();
    let fine: Vec<i64> = numbers.iter().map(|number| number * 2 + 1).collect();
    // All calls but the one that meets the 0 are without fault.
    let with_zero = [&fine[..1500], &[0], &fine[1501..]].concat();
    for (w, failed) in [(fine, 0), (with_zero, 1)] {
        let inputs = [x.clone(), TensorData::from_i64(DType::INT32, &[2, 16, 16, 4], &w).unwrap()];
        let expected = run_compute(functions.body("ratios").unwrap(), &inputs);
        assert_eq!(expected.is_ok(), failed == 0, "{expected:?}");
        let check = |how: &str, found: Vec<TensorData>| {
            assert_eq!(found[1].to_i64(), [failed], "{how}");
            if let Ok(expected) = &expected {
                assert_eq!(found[0], expected[0], "{how}");
            }
        };
        let registry = common::registry();
        let verified = ir_core::verify(&module, &registry).unwrap();
        check("interpreted", common::call(&Interpreted::new(verified), "ratios", &inputs));
        common::run_everywhere(&module, "ratios", &inputs, check);
    }
    let status = Buffer::of_tensor(&TensorData::from_i64(DType::INT32, &[1], &[1]).unwrap());
    let failure = first_failure(&calls, &[status], None).unwrap();
    assert!(failure.message.contains("integer division by zero"), "{}", failure.message);
}

#[test]
fn what_others_provide_reports_no_check() {
    let program = RATIOS.replace("{update = True}", "{update = True, extern = \"vendor_ratio\"}");
    let (module, _) = kernels(&program, "ratios", "ratio");
    let errors = report_checks(&mut module.clone(), "ratios", Sites::default(), true).unwrap_err();
    let [error] = &errors[..] else { panic!("{errors:#?}") };
    assert_eq!(error.code, "E0910");
    assert!(error.message.contains("`@ratio`"), "{error:#?}");
    assert!(report_checks(&mut module.clone(), "ratios", Sites::default(), false).is_ok());
}
