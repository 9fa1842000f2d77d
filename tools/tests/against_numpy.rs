//! The reference interpreter, and the loops that operators are lowered to, against numpy: see
//! `against_numpy.py`.
//!
//! Needs a python3 with the packages numpy and ml_dtypes. Without them nothing is compared, unless
//! `REQUIRE_TOOLS` is set: then the test fails.

use std::path::Path;
use std::process::Command;

#[test]
fn operators_mean_what_they_mean_in_numpy() {
    let imports = Command::new("python3").args(["-c", "import numpy, ml_dtypes"]).output();
    if !imports.is_ok_and(|ran| ran.status.success()) {
        let required = std::env::var_os("REQUIRE_TOOLS").is_some();
        assert!(!required, "expected a python3 with the packages numpy and ml_dtypes");
        eprintln!("skipped: there is no python3 with the packages numpy and ml_dtypes");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/against_numpy.py");
    for executor in ["interp", "loops"] {
        let mut command = Command::new("python3");
        command.arg(&script).arg(env!("CARGO_BIN_EXE_relay-opt")).args(["--executor", executor]);
        let ran = command.output().unwrap();
        let out = String::from_utf8_lossy(&ran.stdout);
        let err = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{executor}:\n{out}\n{err}");
    }
}
