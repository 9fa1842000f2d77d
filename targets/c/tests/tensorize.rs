//! Tensorized dot products of int8 numbers.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use ir_core::{DType, Module, Symbol, TensorData};
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

/// The kernels of the program, its operands and its result.
fn program() -> (Module, [TensorData; 2], TensorData) {
    let registry = common::registry();
    let module = common::items(PROGRAM, &registry);
    let schedule = replay(module.get("fast").unwrap(), &module, &registry);
    let schedule = schedule.unwrap_or_else(|error| panic!("{error:#?}"));
    let dot = module.get("dot").unwrap();
    let mut kernels = Module::new();
    for (name, schedule) in [("dense", schedule), ("dot", Schedule::new(dot).unwrap())] {
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
