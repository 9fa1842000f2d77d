//! Faults that are planted in a kernel that holds: each is found before any code is written.

use crate::common;

use ir_core::{Diagnostics, verify};
use target_core::Target;

/// Rows, divided by their sums, which the threads of a block compute together.
const ROWS: &str = "
te.kernel @rows(%x: Tensor[(8, 64), float32], %y: Tensor[(8, 64), float32]) outputs 1 {
  thread(blockIdx.x) b < 8 {
    %own = alloc[(16), float32] register
    %all = alloc[(16), float32] shared
    %total = alloc[(1), float32] shared
    thread(threadIdx.x) t < 16 {
      %own[t] = 0f
      for k < 4 {
        %own[t] = %own[t] + %x[b, k * 16 + t]
      }
      %all[t] = %own[t]
    }
    barrier // of sums
    thread(threadIdx.x) t < 8 {
      %all[t] = %all[t] + %all[t + 8]
    }
    barrier // of pairs
    thread(threadIdx.x) t < 4 {
      %all[t] = %all[t] + %all[t + 4]
    }
    barrier // of quarters
    thread(threadIdx.x) t < 1 {
      %total[0] = %all[0] + %all[1] + %all[2] + %all[3]
    }
    barrier // of totals
    thread(threadIdx.x) t < 16 {
      for k < 4 {
        %y[b, k * 16 + t] = %x[b, k * 16 + t] / %total[0]
      }
    }
  }
}
";

const BARRIER: &str = "a barrier is missing";
const BEYOND: &str = "its index reaches";
const STORES: &str = "several threads store to this element at once";
const SHARES: &str = "a buffer of one thread that several threads use";

/// What stands in the kernel, what is written in its place, and what is said about it.
const FAULTS: [(&str, &str, &str); 24] = [
    ("barrier // of sums", "", BARRIER),
    ("barrier // of pairs", "", BARRIER),
    ("barrier // of quarters", "", BARRIER),
    ("barrier // of totals", "", BARRIER),
    ("= %own[t] + %x[b, k * 16 + t]", "= %own[t] + %x[b, k * 16 + t + 1]", BEYOND),
    ("%y[b, k * 16 + t]", "%y[b, k * 17 + t]", BEYOND),
    ("%all[t + 8]", "%all[t + 9]", BEYOND),
    ("thread(threadIdx.x) t < 8", "thread(threadIdx.x) t < 9", BEYOND),
    ("thread(blockIdx.x) b < 8", "thread(blockIdx.x) b < 9", BEYOND),
    ("%own = alloc[(16)", "%own = alloc[(15)", BEYOND),
    ("thread(threadIdx.x) t < 1 {", "thread(threadIdx.x) t < 4 {", STORES),
    ("%y[b, k * 16 + t]", "%y[b, k]", STORES),
    ("%y[b, k * 16 + t]", "%y[0, k * 16 + t]", STORES),
    ("%all[t] = %own[t]", "%all[3] = %own[t]", STORES),
    ("%total = alloc[(1), float32] shared", "%total = alloc[(1), float32] register", SHARES),
    ("%all = alloc[(16), float32] shared", "%all = alloc[(16), float32] local", SHARES),
    ("%own[t] = 0f", "%own[0] = 0f", SHARES),
    ("%all = alloc[(16), float32] shared", "%all = alloc[(16), float32]", "main memory"),
    (
        "%all = alloc[(16), float32] shared",
        "%all = alloc[(16000), float32] shared",
        "most are 49152",
    ),
    ("%all[t] = %own[t]", "barrier", "a barrier inside a loop over the threads"),
    ("thread(blockIdx.x) b", "thread(threadIdx.x) b", "a barrier inside a loop over the threads"),
    ("thread(blockIdx.x) b", "thread(blockIdx.w) b", "expected `thread`, one of"),
    (
        "thread(blockIdx.x) b < 8 {",
        "for z < 2 {\nthread(blockIdx.x) b < 8 {",
        "not around all else",
    ),
    ("for k < 4 {\n        %own[t] =", "thread(threadIdx.y) k < 4 {\n        %own[t] =", SHARES),
];

/// What is said of the module `text`, before it is code.
fn found(text: &str) -> Result<(), Diagnostics> {
    let registry = common::registry();
    let (module, found) = ir_core::text::Form::Readable.parse("test.te", text, &registry);
    if !found.is_empty() {
        return Err(found);
    }
    let verified = verify(&module, &registry)?;
    common::target("sm_80").codegen(verified).map(drop)
}

#[test]
fn planted_faults_are_found() {
    found(ROWS).expect("a kernel that holds");
    for (from, to, said) in FAULTS {
        let mut faulty = ROWS.replacen(from, to, 1);
        assert!(faulty != ROWS, "{from} is not there");
        faulty += &"}".repeat(usize::from(to.starts_with("for z")));
        let errors = found(&faulty).expect_err(to);
        assert!(errors[0].message.contains(said), "{to}: {errors:#?}");
    }
}
