//! Blocks and threads, shared memory, barriers, atomics and vectors, and what is wrong with them: what
//! is planted is found.

use crate::common;

use common::{call, load, parse, text};
use ir_core::{DType, Diagnostics, Module, Scalar, TensorData, verify};
use target_ptx::Arch;
use target_ptx::interpreter::{Memory, Options, Program};
use te::interpreter::{Order, run_kernel, same_numbers};

const ORDERS: [Order; 4] = [Order::Forward, Order::Reverse, Order::Shuffled(1), Order::Shuffled(2)];

/// Tiles of a product in shared memory, and sums in registers of the threads.
const PRODUCT: &str = "
te.kernel @product(%x: Tensor[(32, 32), float32], %w: Tensor[(32, 32), float32], %y: Tensor[(32, 32), float32]) outputs 1 {
  thread(blockIdx.y) by < 4 {
    thread(blockIdx.x) bx < 4 {
      %xs = alloc[(8, 8), float32] shared
      %ws = alloc[(8, 8), float32] shared
      %acc = alloc[(8, 8, 1), float32] register
      thread(threadIdx.y) ty < 8 {
        thread(threadIdx.x) tx < 8 {
          %acc[ty, tx, 0] = 0f
        }
      }
      for k < 4 {
        thread(threadIdx.y) ty < 8 {
          thread(threadIdx.x) tx < 8 {
            %xs[ty, tx] = %x[by * 8 + ty, k * 8 + tx]
            %ws[ty, tx] = %w[k * 8 + ty, bx * 8 + tx]
          }
        }
        barrier
        thread(threadIdx.y) ty < 8 {
          thread(threadIdx.x) tx < 8 {
            for kk < 8 {
              %acc[ty, tx, 0] = %acc[ty, tx, 0] + %xs[ty, kk] * %ws[kk, tx]
            }
          }
        }
        barrier
      }
      thread(threadIdx.y) ty < 8 {
        thread(threadIdx.x) tx < 8 {
          %y[by * 8 + ty, bx * 8 + tx] = %acc[ty, tx, 0]
        }
      }
    }
  }
}
";

/// Fewer iterations than threads, and vectors.
const ROWS: &str = "
te.kernel @rows(%x: Tensor[(10, 64), float32], %y: Tensor[(10, 64), float32]) outputs 1 {
  thread(blockIdx.x) b < 3 {
    thread(threadIdx.x) t < 4 {
      if b * 4 + t < 10 {
        for j < 16 {
          %y[b * 4 + t, ramp(j * 4, 1, 4)] = %x[b * 4 + t, ramp(j * 4, 1, 4)] * broadcast(2f, 4)
        }
      }
    }
  }
}
";

/// Small whole numbers, whose sums do not round.
fn whole(dtype: DType, shape: &[i64], seed: u64) -> TensorData {
    let mut random = ir_core::Random::new(seed);
    let count = shape.iter().product::<i64>();
    let least = if dtype.is_integer() && !dtype.is_signed() { 0 } else { -4 };
    let numbers = (0..count).map(|_| Scalar::Int(random.below(9) as i64 + least));
    TensorData::from_scalars(dtype, shape, numbers.map(|n| n.cast(dtype))).expect("numbers")
}

/// Runs the only entry of `text` on a grid, with `inputs` and then results of the sizes `results`.
fn run(
    text: &str,
    grid: [u32; 3],
    inputs: &[TensorData],
    results: &[usize],
    options: Options,
) -> Result<Vec<Vec<u8>>, Diagnostics> {
    let program = Program::parse(text)?;
    let name =
        text.split(".entry ").nth(1).and_then(|rest| rest.split('(').next()).expect("an entry");
    let mut memory = Memory::new();
    let mut pointers: Vec<u64> = inputs
        .iter()
        .map(|input| {
            let pointer = memory.allocate(input.bytes().len());
            memory.store(pointer, input.bytes()).expect("a buffer");
            pointer
        })
        .collect();
    pointers.extend(results.iter().map(|bytes| memory.allocate(*bytes)));
    program.run(name, grid, &pointers, &mut memory, options)?;
    let results = &pointers[inputs.len()..];
    Ok(results.iter().map(|pointer| memory.bytes(*pointer).expect("a buffer").to_vec()).collect())
}

/// The message of a run that has to fail, with races looked for.
fn trap(text: &str, grid: [u32; 3], inputs: &[TensorData], results: &[usize]) -> String {
    let options = Options { check_races: true, step_limit: Some(1 << 20), ..Options::default() };
    let errors = run(text, grid, inputs, results, options).expect_err("a run that fails");
    assert_eq!(errors[0].code, "E0925", "{errors:#?}");
    errors[0].message.clone()
}

/// An entry with these instructions, on a block of 4 threads, and one buffer of 64 bytes.
fn entry(code: &str) -> String {
    format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry e(\n    .param .u64 p0\n)\n\
         .reqntid 4, 1, 1\n{{\n    .reg .pred %p<4>;\n    .reg .b32 %r<8>;\n    .reg .b64 %rd<8>;\n    \
         .reg .f32 %f<8>;\n    .shared .align 16 .b8 s[64];\n    ld.param.u64 %rd1, [p0];\n    \
         mov.u32 %r1, %tid.x;\n{code}    ret;\n}}\n"
    )
}

fn product_inputs() -> [TensorData; 2] {
    [1, 2].map(|seed| whole(DType::FLOAT32, &[32, 32], seed))
}

#[test]
fn threads_of_a_block_share_tiles() {
    let module = parse(PRODUCT);
    let inputs = product_inputs();
    let [x, w] = inputs.each_ref().map(TensorData::to_f64);
    let sum = |i: usize, j: usize| (0..32).map(|k| x[i * 32 + k] * w[k * 32 + j]).sum::<f64>();
    let expected: Vec<f64> = (0..1024).map(|at| sum(at / 32, at % 32)).collect();
    for order in ORDERS {
        let options = Options { order, check_races: true, step_limit: None };
        let found = call(&load(&module, "sm_80", options), "product", &inputs);
        assert_eq!(found[0].to_f64(), expected, "{order:?}");
    }
    // One register for each sum, and the two tiles.
    assert!(!text(&module, "sm_80").contains(".local"));
    for arch in Arch::all() {
        for usage in common::assembled(&module, arch) {
            assert_eq!((usage.spilled, usage.shared), (0, 512), "{usage:?}");
            assert!(usage.registers <= 48, "{usage:?}");
        }
    }
}

#[test]
fn lanes_are_vectors_where_they_are_aligned() {
    let module = parse(ROWS);
    let code = text(&module, "sm_80");
    assert!(code.contains("ld.global.nc.v4.f32") && code.contains("st.global.v4.f32"), "{code}");
    let x = whole(DType::FLOAT32, &[10, 64], 3);
    let found = call(&load(&module, "sm_80", Options::default()), "rows", std::slice::from_ref(&x));
    let expected: Vec<f64> = x.to_f64().iter().map(|number| number * 2.0).collect();
    assert_eq!(found[0].to_f64(), expected);
    // Rows of another length begin anywhere.
    let odd = ROWS.replace("(10, 64)", "(10, 66)");
    let code = text(&parse(&odd), "sm_80");
    assert!(code.contains(".v2.f32") && !code.contains(".v4.f32"), "{code}");
}

#[test]
fn atomics_combine() {
    for (dtype, how) in [
        ("float32", "sum"),
        ("float64", "sum"),
        ("int32", "sum"),
        ("uint32", "sum"),
        ("int64", "sum"),
        ("float32", "max"),
        ("float64", "min"),
        ("int32", "min"),
        ("uint64", "max"),
        ("int64", "max"),
    ] {
        let module = parse(&format!(
            "te.kernel @combine(%x: Tensor[(64), {dtype}], %z: Tensor[(4), {dtype}], %y: Tensor[(4), {dtype}]) outputs 1 {{
  thread(blockIdx.x) b < 1 {{
    thread(threadIdx.x) t < 4 {{
      %y[t] = %z[t]
    }}
    barrier
    thread(threadIdx.x) t < 64 {{
      atomic %y[t % 4] = {how} %x[t]
    }}
  }}
}}"
        ));
        let dtype: DType = dtype.parse().expect("a type");
        let inputs = [whole(dtype, &[64], 5), whole(dtype, &[4], 6)];
        let (x, z) = (inputs[0].to_f64(), inputs[1].to_f64());
        let expected: Vec<f64> = (0..4)
            .map(|at| {
                (0..16).map(|row| x[row * 4 + at]).fold(z[at], |all, one| match how {
                    "sum" => all + one,
                    "max" => all.max(one),
                    _ => all.min(one),
                })
            })
            .collect();
        for order in ORDERS {
            let options = Options { order, check_races: true, step_limit: None };
            let found = call(&load(&module, "sm_80", options), "combine", &inputs);
            let expected: Vec<i64> = expected.iter().map(|number| *number as i64).collect();
            let expected = TensorData::from_i64(dtype, &[4], &expected).expect("numbers");
            let same = same_numbers(&found[0], &expected);
            assert!(same, "{dtype} {how} {order:?}: {found:?}, not {expected:?}");
        }
        common::assembled(&module, Arch::DEFAULT);
    }
}

#[test]
fn what_stands_outside_of_threads_runs_once() {
    let module = parse(
        "te.kernel @f(%x: Tensor[(4), int32], %y: Tensor[(4), int32], %z: Tensor[(1), int32]) outputs 2 {
  thread(blockIdx.x) b < 1 {
    thread(threadIdx.x) t < 4 {
      %y[t] = %x[t]
    }
    %z[0] = 7i32
  }
}",
    );
    let options = Options { check_races: true, ..Options::default() };
    let x = whole(DType::INT32, &[4], 7);
    let found = call(&load(&module, "sm_80", options), "f", std::slice::from_ref(&x));
    assert!(same_numbers(&found[0], &x));
    assert_eq!(found[1].to_i64(), [7]);
}

#[test]
fn missing_barriers_are_found() {
    let code = text(&parse(PRODUCT), "sm_80");
    let inputs = product_inputs();
    let (before, after) = code.split_once("    bar.sync 0;\n").expect("a barrier");
    let first = format!("{before}{after}");
    assert!(trap(&first, [4, 4, 1], &inputs, &[4096]).contains("nothing was written"), "{first}");
    let (before, after) = code.rsplit_once("    bar.sync 0;\n").expect("a barrier");
    let second = format!("{before}{after}");
    assert!(trap(&second, [4, 4, 1], &inputs, &[4096]).contains("races"), "{second}");
    // A device may give anything; one order gives wrong sums.
    let wrong =
        |order| run(&second, [4, 4, 1], &inputs, &[4096], Options { order, ..Options::default() });
    let right = run(&code, [4, 4, 1], &inputs, &[4096], Options::default()).expect("a run");
    assert!(ORDERS.into_iter().any(|order| wrong(order).is_ok_and(|found| found != right)));
}

#[test]
fn accesses_out_of_bounds_are_found() {
    let module = parse(ROWS);
    let code = text(&module, "sm_80");
    let x = [whole(DType::FLOAT32, &[10, 64], 3)];
    assert!(code.contains(", 10;"), "{code}");
    let beyond = code.replace(", 10;", ", 11;");
    let said = trap(&beyond, [3, 1, 1], &x, &[2560]);
    assert!(said.contains("a read of 4 bytes at 2560 of a buffer of 2560"), "{said}");
    // One block more than there is, without a guard.
    let open = text(
        &parse(
            &ROWS.replace("(10, 64)", "(12, 64)").replace("if b * 4 + t < 10", "if b * 4 + t < 12"),
        ),
        "sm_80",
    );
    let x = [whole(DType::FLOAT32, &[12, 64], 3)];
    let said = trap(&open, [4, 1, 1], &x, &[3072]);
    assert!(said.contains("a read of 4 bytes at 3072 of a buffer of 3072"), "{said}");
}

#[test]
fn races_are_found() {
    let module = parse(
        "te.kernel @f(%x: Tensor[(8), float32], %y: Tensor[(1), float32]) outputs 1 {
  thread(blockIdx.x) b < 2 {
    thread(threadIdx.x) t < 4 {
      %y[(t + b) / 8] = %x[b * 4 + t]
    }
  }
}",
    );
    let x = [whole(DType::FLOAT32, &[8], 1)];
    let code = text(&module, "sm_80");
    assert!(trap(&code, [2, 1, 1], &x, &[4]).contains("a store at 0 races with a store"));
    // The interpreter of loops finds it, too.
    let item = module.get("f").expect("a kernel");
    let options = te::interpreter::Options { check_races: true, ..Default::default() };
    let body = item.body.as_ref().expect("a body");
    let found = options.run_kernel(&module, body, &x, 1).expect_err("a race");
    assert_eq!(found.code, "E0857");
    assert!(run_kernel(&module, body, &x, 1).is_ok());
}

#[test]
fn wrong_text_is_refused_with_its_line() {
    let code = text(&parse(PRODUCT), "sm_80");
    let of = |text: &str| Program::parse(text).err().expect("an error")[0].message.clone();
    assert!(
        of(&code.replace("fma.rn.f32", "fma.rn.f64")).contains("is a register of f32, read as f64")
    );
    assert!(
        of(&code.replace("fma.rn.f32", "fma.rx.f32"))
            .contains("`fma.rx.f32` on such operands is not known")
    );
    assert!(of(&code.replace("bra $L1", "bra $L9")).contains("there is no label `$L9`"));
    assert!(of(&code.replace("%f1, 0f", "%f99, 0f")).contains("there is no register `%f99`"));
    assert!(of(&entry("    add.s32 %r2, %r1, 1\n")).contains("expected `,`, found `ret`"));
    if let Some(ptxas) = common::ptxas() {
        let wrong = code.replace("fma.rn.f32", "fma.rn.f64");
        let errors = ptxas.assemble(&wrong, Arch::DEFAULT).expect_err("a type error");
        assert_eq!(errors[0].code, "E0922");
        assert!(errors[0].notes.iter().any(|note| note.contains("line")), "{errors:?}");
    }
}

#[test]
fn what_a_device_leaves_open_ends_a_run() {
    let bytes = [TensorData::zeros(DType::UINT8, &[64]).expect("bytes")];
    let of = |code: &str| trap(&entry(code), [1, 1, 1], &bytes, &[]);
    let diverges = "    setp.lt.u32 %p1, %r1, 2;\n    @!%p1 bra $L1;\n    bar.sync 0;\n$L1:\n";
    assert!(of(diverges).contains("not all threads of the block arrive"));
    let apart = "    setp.lt.u32 %p1, %r1, 2;\n    @%p1 bra $L1;\n    bar.sync 0;\n    bra $L2;\n$L1:\n    bar.sync 0;\n$L2:\n";
    assert!(of(apart).contains("wait at different barriers"));
    assert!(of("    ld.global.f32 %f1, [%rd1+2];\n").contains("no multiple of it"));
    assert!(
        of("    ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+8];\n")
            .contains("an access of 16 bytes at 8")
    );
    assert!(of("    ld.global.f32 %f1, [%rd1+-4];\n").contains("where no buffer is"));
    assert!(of("    add.s32 %r2, %r3, 1;\n").contains("never written to"));
    assert!(of("    @%p2 add.s32 %r2, %r1, 1;\n").contains("never set"));
    assert!(of("    ld.shared.f32 %f1, [s];\n").contains("nothing was written"));
    assert!(
        of("    mov.f32 %f1, 0f00000000;\n    st.shared.f32 [s+64], %f1;\n")
            .contains("a store of 4 bytes at 64 of a buffer of 64")
    );
    assert!(of("$L1:\n    bra $L1;\n").contains("limit of steps"));
    // What two phases use, a barrier between them, is no race.
    let fine = "    mad.lo.s32 %r2, %r1, 4, 0;\n    mov.u32 %r3, s;\n    add.s32 %r2, %r2, %r3;\n    \
                st.shared.u32 [%r2], %r1;\n    bar.sync 0;\n    ld.shared.u32 %r4, [s];\n    bar.sync 0;\n    \
                st.shared.u32 [%r2], %r4;\n";
    let options = Options { check_races: true, ..Options::default() };
    run(&entry(fine), [1, 1, 1], &bytes, &[], options).expect("a run");
    let racing = fine.replacen("    bar.sync 0;\n    st", "    st", 1);
    assert!(of(&racing).contains("a read at 0 races with a store"), "{racing}");
}

/// What the target says against `module`.
fn refused(module: &Module) -> (String, String) {
    let registry = common::registry();
    let verified = verify(module, &registry).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let errors = common::target("sm_80").source(verified).expect_err("a refusal");
    (errors[0].code.to_string(), errors[0].message.clone())
}

#[test]
fn what_devices_do_not_have_is_named() {
    let kernel = |inner: &str| {
        parse(&format!(
            "te.kernel @f(%x: Tensor[(4), int8], %y: Tensor[(4), int8]) outputs 1 {{\n{inner}\n}}"
        ))
    };
    for (inner, code, said) in [
        (
            "thread(blockIdx.x) b < 1 {\n thread(threadIdx.x) t < 4 {\n atomic %y[t] = sum %x[t]\n }\n }",
            "E0902",
            "an atomic `add` of int8",
        ),
        (
            "thread(threadIdx.x) t < 2 {\n thread(threadIdx.x) u < 2 {\n %y[t] = %x[u]\n }\n }",
            "E0902",
            "a loop over threadIdx.x in another one",
        ),
        (
            "for i < 2 {\n thread(blockIdx.x) b < 2 {\n %y[b] = %x[i]\n }\n }",
            "E0902",
            "is not around all else",
        ),
        (
            "thread(threadIdx.x) t < 2000 {\n if t < 4 {\n %y[t] = %x[t]\n }\n }",
            "E0915",
            "2000 iterations over threadIdx.x, of which there are 1024",
        ),
        (
            "thread(threadIdx.y) s < 64 {\n thread(threadIdx.x) t < 32 {\n if t < 4 {\n %y[t] = %x[t]\n }\n }\n }",
            "E0915",
            "a block of 2048 threads",
        ),
        (
            "thread(threadIdx.x) t < 4 {\n %s = alloc[(50000), int8] shared\n %s[t] = %x[t]\n %y[t] = %s[t]\n }",
            "E0915",
            "50000 bytes of shared memory; the most are 49152",
        ),
    ] {
        let (found, message) = refused(&kernel(inner));
        assert!(found == code && message.contains(said), "{found} {message}\n{inner}");
    }
}

#[test]
fn checks_are_reported() {
    let module = common::lowered(parse(
        "te.func @f(%x: Tensor[(4), int32], %z: Tensor[(4), int32]) -> Tensor[(4), int32] {\n  y[i < 4] = %x[i] / %z[i]\n  return y\n}",
    ));
    let loaded = load(&module, "sm_80", Options { check_races: true, ..Options::default() });
    let of = |z: &[i64]| {
        let inputs = [&[7, -7, 8, 9][..], z]
            .map(|n| TensorData::from_i64(DType::INT32, &[4], n).expect("numbers"));
        call(&loaded, "f", &inputs)
    };
    let right = of(&[2, 2, -1, 3]);
    assert_eq!((right[0].to_i64(), right[1].to_i64()), (vec![3, -3, -8, 3], vec![0]));
    assert_ne!(of(&[2, 0, 1, 1])[1].to_i64(), [0]);
}
