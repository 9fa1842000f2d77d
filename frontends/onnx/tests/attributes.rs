//! The table of attributes is that of the installed package onnx. `UPDATE=1` writes it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::backend_suite::suite;

/// Prints a line for each operator: its name, and its attributes in all versions.
const LIST: &str = "
import onnx.defs

attributes = {}
for schema in onnx.defs.get_all_schemas_with_history():
    name = schema.domain + '.' + schema.name if schema.domain else schema.name
    attributes.setdefault(name, set()).update(schema.attributes)
for name in sorted(attributes):
    print(' '.join([name, *sorted(attributes[name])]))
";

#[test]
fn attributes_are_those_of_the_standard() {
    if suite().is_none() {
        return;
    }
    let ran = Command::new("python3").args(["-c", LIST]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/operators/attributes.txt");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &ran.stdout).unwrap();
    }
    let listed = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(listed, fs::read_to_string(&path).unwrap());
}
