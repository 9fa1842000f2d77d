//! Where the interpreter says that an operator has no value, compiled code says so too.

use std::path::{Path, PathBuf};

use arrays::Arrays;
use ir_core::{DType, TensorData};

/// Extents and numbers of an operand, of type `int32`.
type Operand<'a> = (&'a [i64], &'a [i64]);

const SEVENS: Operand<'_> = (&[5], &[7; 5]);
const FROM_MINUS_ONE: Operand<'_> = (&[5], &[-1, 0, 1, 2, 3]);
const TABLE: Operand<'_> = (&[5, 4], &[0; 20]);
const ROW: Operand<'_> = (&[5], &[0, 1, 2, 3, 4]);
const THREE: Operand<'_> = (&[3], &[1, 2, 3]);
const LONG: Operand<'_> = (&[200], &[3; 200]);

const fn long_with(place: usize, number: i64) -> [i64; 200] {
    let mut numbers = [3; 200];
    numbers[place] = number;
    numbers
}

const LONG_WITH_ZERO: Operand<'_> = (&[200], &long_with(197, 0));
const LONG_WITH_FIVE: Operand<'_> = (&[200], &long_with(63, 5));

/// Expressions on operands on which they have no value, and what is said of that.
const CASES: &[(&str, &[Operand<'_>], &str)] = &[
    ("divide(%a, %b)", &[SEVENS, FROM_MINUS_ONE], "integer division by zero"),
    ("divide(%a, %b)", &[LONG, LONG_WITH_ZERO], "integer division by zero"),
    ("mod(%a, %b)", &[LONG, LONG_WITH_ZERO], "integer division by zero"),
    ("floor_divide(%a, %b)", &[LONG, LONG_WITH_ZERO], "integer division by zero"),
    ("floor_mod(%a, %b)", &[SEVENS, FROM_MINUS_ONE], "integer division by zero"),
    ("trunc_divide(%a, %b)", &[SEVENS, FROM_MINUS_ONE], "integer division by zero"),
    ("trunc_mod(%a, %b)", &[SEVENS, FROM_MINUS_ONE], "integer division by zero"),
    (
        "divide(cast(%a, dtype=\"uint8\"), cast(%b, dtype=\"uint8\"))",
        &[LONG, LONG_WITH_ZERO],
        "integer division by zero",
    ),
    (
        "divide(cast(%a, dtype=\"int64\"), cast(%b, dtype=\"int64\"))",
        &[LONG, LONG_WITH_ZERO],
        "integer division by zero",
    ),
    // What is chosen in the end makes no difference.
    (
        "where(equal(%b, 0), %a, divide(%a, %b))",
        &[SEVENS, FROM_MINUS_ONE],
        "integer division by zero",
    ),
    // Nor does a sum over it, nor padding around it.
    ("sum(divide(%a, %b))", &[LONG, LONG_WITH_ZERO], "integer division by zero"),
    (
        "nn.pad(divide(%a, %b), 0, pad_width=[[3, 4]])",
        &[LONG, LONG_WITH_ZERO],
        "integer division by zero",
    ),
    ("power(%a, %b)", &[SEVENS, FROM_MINUS_ONE], "expected an exponent of at least 0"),
    ("left_shift(%a, %b)", &[SEVENS, FROM_MINUS_ONE], "expected a shift of at least 0"),
    ("right_shift(%a, %b)", &[SEVENS, FROM_MINUS_ONE], "expected a shift of at least 0"),
    ("take(%a, %b, mode=\"fast\")", &[ROW, LONG_WITH_FIVE], "expected an index below 5"),
    ("take(%a, %b, axis=0, mode=\"fast\")", &[TABLE, LONG_WITH_FIVE], "expected an index below 5"),
    ("take(%a, %b, axis=1, mode=\"fast\")", &[TABLE, (&[1], &[-5])], "expected an index below 4"),
    ("gather(%a, %b, axis=0)", &[TABLE, (&[1, 4], &[0, 1, 2, 5])], "expected an index below 5"),
    ("gather(%a, %b, axis=1)", &[TABLE, (&[1, 4], &[0, 1, 2, 4])], "expected an index below 4"),
    ("gather_nd(%a, %b)", &[TABLE, (&[2, 2], &[0, 1, 2, 4])], "expected an index below 4"),
    ("adv_index((%a, %b))", &[TABLE, (&[2], &[-6, 0])], "expected an index below 5"),
    ("unravel_index(%a, %b)", &[(&[2], &[5, 6]), (&[2], &[2, 3])], "expected an index below"),
    (
        "invert_permutation(%a)",
        &[(&[3], &[0, 2, 2])],
        "expected a permutation of the numbers below 3",
    ),
    (
        "scatter_elements(%a, %b, %c)",
        &[ROW, (&[3], &[0, 1, 5]), THREE],
        "expected an index below 5",
    ),
    (
        "scatter_elements(%a, %b, %c, reduction=\"add\")",
        &[ROW, (&[3], &[0, 1, -6]), THREE],
        "expected an index below 5",
    ),
    ("scatter_nd(%a, %b, %c)", &[ROW, (&[1, 3], &[0, 1, 5]), THREE], "expected an index below 5"),
    (
        "nn.nll_loss(cast(%a, dtype=\"float32\"), %b, cast(%c, dtype=\"float32\"))",
        &[TABLE, ROW, (&[4], &[1; 4])],
        "expected a target below 4",
    ),
    (
        "qnn.quantize(cast(%a, dtype=\"float32\"), cast(%b, dtype=\"float32\"), %c, \
         out_dtype=\"int8\")",
        &[ROW, (&[], &[0]), (&[], &[0])],
        "expected positive scales",
    ),
    (
        "qnn.simulated_quantize(cast(%a, dtype=\"float32\"), %b, 0.5f, 0)",
        &[ROW, (&[], &[4])],
        "expected a number from 0 to 3",
    ),
    (
        "strided_set(%a, %b, %c, %d, %e)",
        &[ROW, THREE, (&[1], &[0]), (&[1], &[3]), (&[1], &[0])],
        "strides",
    ),
    (
        "strided_set(%a, %b, %c, %d, %e)",
        &[ROW, THREE, (&[1], &[0]), (&[1], &[5]), (&[1], &[1])],
        "expected values of",
    ),
];

/// Expressions whose operands are as far out as they may be.
const BORDERS: &[(&str, &[Operand<'_>])] = &[
    ("take(%a, %b, mode=\"fast\")", &[ROW, (&[2], &[-5, 4])]),
    ("take(%a, %b)", &[ROW, (&[2], &[-9, 9])]),
    ("take(%a, %b, mode=\"wrap\")", &[ROW, (&[2], &[-9, 9])]),
    ("gather(%a, %b, axis=0)", &[TABLE, (&[1, 4], &[-5, 4, 0, -1])]),
    ("right_shift(%a, %b)", &[SEVENS, (&[5], &[0, 31, 32, 64, 1000])]),
    ("left_shift(%a, %b)", &[SEVENS, (&[5], &[0, 31, 32, 64, 1000])]),
    ("divide(%a, %b)", &[(&[1], &[i32::MIN as i64]), (&[1], &[-1])]),
    ("invert_permutation(%a)", &[(&[3], &[1, 2, 0])]),
    ("unravel_index(%a, %b)", &[(&[2], &[-6, 5]), (&[2], &[2, 3])]),
    ("scatter_elements(%a, %b, %c)", &[ROW, (&[3], &[-5, 4, 0]), THREE]),
    ("strided_set(%a, %b, %c, %d, %e)", &[ROW, THREE, (&[1], &[-1]), (&[1], &[-9]), (&[1], &[-2])]),
];

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("checks");
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Writes the operands of case `number` to a file; its name, and the program.
fn program(number: &str, expression: &str, operands: &[Operand<'_>]) -> (String, String) {
    let (mut arrays, mut parameters) = (Arrays::default(), Vec::new());
    for (name, (shape, numbers)) in NAMES.iter().zip(operands) {
        let tensor = TensorData::from_i64(DType::INT32, shape, numbers).expect("a tensor");
        parameters.push(format!("%{name}: {}", tensor.ty()));
        arrays.insert(name.to_string(), tensor);
    }
    let file = format!("{number}.npz");
    arrays::save(&folder().join(&file), &arrays).expect("a file");
    (file, format!("def @main({}) {{\n  {expression}\n}}\n", parameters.join(", ")))
}

/// The exit status and what was printed.
fn run(file: &str, text: &str, more: &[&str]) -> (i32, String) {
    let args = [&["run", "-", "--inputs", file], more].concat();
    let ran = tools::run_within(&tools::registry(), &folder(), &args, text.as_bytes());
    (ran.status, ran.out + &ran.err)
}

fn refuse(ways: &[&[&str]]) {
    for (number, (expression, operands, message)) in CASES.iter().enumerate() {
        let (file, text) = program(&format!("{number}-{}", ways.len()), expression, operands);
        for way in ways {
            let (status, found) = run(&file, &text, way);
            assert_eq!(status, 1, "{expression} {way:?}: {found}");
            assert!(found.contains("error[E0502]"), "{expression} {way:?}: {found}");
            assert!(found.contains(message), "{expression} {way:?}: {found}");
            assert!(found.contains("<stdin>:2:"), "{expression} {way:?}: {found}");
        }
    }
}

#[test]
fn every_executor_refuses_what_the_interpreter_refuses() {
    refuse(&[&["--executor", "interp"], &["--executor", "loops"], &["--executor", "graph"]]);
}

#[test]
fn portable_code_on_one_thread_refuses_it() {
    refuse(&[&["--executor", "graph", "--target", "c{isa=scalar}", "--threads", "1"]]);
}

#[test]
fn what_is_on_the_border_has_a_value() {
    for (number, (expression, operands)) in BORDERS.iter().enumerate() {
        let (file, text) = program(&format!("border-{number}"), expression, operands);
        for executor in ["loops", "graph"] {
            let (status, found) =
                run(&file, &text, &["--executor", executor, "--compare", "interp"]);
            assert_eq!(status, 0, "{expression}: {found}");
        }
    }
}

#[test]
fn the_first_failure_of_the_program_is_told() {
    // In one kernel, in several, and in parallel loops.
    let numbers = [0; 40_000];
    let operand: Operand<'_> = (&[40_000], &numbers);
    let kernels = "let %x = divide(%a, %b);\n  let %y = sum(left_shift(%a, subtract(%b, 1)));\n  \
                   (mod(%a, %b), %y, %x)";
    for (name, expression, place) in
        [("one", "add(divide(%a, %b), mod(%a, %b))", ":2:7: "), ("several", kernels, ":2:12: ")]
    {
        let (file, text) = program(name, expression, &[operand, operand]);
        for more in [&["--threads", "1"][..], &["--threads", "3"], &["--executor", "loops"]] {
            let (status, found) = run(&file, &text, more);
            assert_eq!(status, 1, "{found}");
            assert!(found.contains("integer division by zero"), "{found}");
            assert!(found.contains(place.trim_end_matches(": ")), "{found}");
        }
    }
}

#[test]
fn what_is_not_checked_still_ends() {
    for (number, (expression, operands, _)) in CASES.iter().enumerate() {
        let (file, text) = program(&format!("{number}-unchecked"), expression, operands);
        let (status, found) = run(&file, &text, &["--executor", "graph", "--unchecked"]);
        assert_eq!(status, 0, "{expression}: {found}");
    }
}
