//! The target that the variable `FUZZ_TARGET` names, as a program of libFuzzer.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<fuzz::Target> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        let target = fuzz::target(&name).expect("FUZZ_TARGET names a target");
        TARGET.get_or_init(|| target);
    },
    |data: &[u8]| {
        if let Some(target) = TARGET.get() {
            (target.run)(data);
        }
    }
);
