//! What is said where there is no device, and whole programs by option.

use crate::common;

use ir_core::{DType, Options as _, TensorData, verify};
use target_core::{Buffer, Target};
use target_ptx::{PtxOptions, PtxTarget};

const TWICE: &str = "
te.kernel @twice(%x: Tensor[(4), float32], %y: Tensor[(4), float32]) outputs 1 {
  thread(threadIdx.x) i < 4 {
    %y[i] = %x[i] + %x[i]
  }
}
";

fn target(run: &str) -> PtxTarget {
    let options = [("run".to_string(), run.to_string()), ("arch".to_string(), "sm_70".to_string())];
    PtxTarget::new(PtxOptions::read(&options).expect("options"))
}

/// With a device, it computes; without one, the error names what is missing, and another way.
#[test]
fn a_device_computes_or_its_absence_is_named() {
    let module = common::parse(TWICE);
    let registry = common::registry();
    let verified = verify(&module, &registry).expect("a module that holds");
    match target("device").load(verified) {
        Ok(loaded) => {
            let x =
                TensorData::from_f64(DType::FLOAT32, &[4], &[1.0, 2.0, 3.0, 4.0]).expect("numbers");
            let found = common::call(loaded.as_ref(), "twice", std::slice::from_ref(&x));
            assert_eq!(found[0].to_f64(), [2.0, 4.0, 6.0, 8.0]);
        }
        Err(errors) => {
            assert_eq!(errors[0].code, "E0923", "{errors:#?}");
            let help = errors[0].help.clone().unwrap_or_default();
            assert!(help.contains("run=interpreter"), "{errors:#?}");
        }
    }
}

#[test]
fn buffers_that_do_not_fit_are_refused() {
    let module = common::parse(TWICE);
    let registry = common::registry();
    let verified = verify(&module, &registry).expect("a module that holds");
    let loaded = target("interpreter").load(verified).expect("kernels");
    let mut small = [Buffer::zeroed(8), Buffer::zeroed(16)];
    assert_eq!(loaded.call("twice", &mut small).expect_err("a misfit")[0].code, "E0907");
    assert_eq!(loaded.call("thrice", &mut small).expect_err("no kernel")[0].code, "E0907");
}

#[test]
fn options_are_checked() {
    let of = |key: &str, value: &str| PtxOptions::read(&[(key.to_string(), value.to_string())]);
    assert!(of("arch", "sm_60").expect_err("no architecture").contains("sm_70"));
    assert!(of("run", "host").expect_err("nothing that runs").contains("interpreter"));
}
