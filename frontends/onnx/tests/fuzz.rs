//! Whatever the bytes are, the result is a module or diagnostics.

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use ir_core::Registry;
use onnx_frontend::{Options, Side, import_bytes, read_values, summarize};
use proptest::prelude::*;
use support::registry;

/// The models of the lit tests.
fn models() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lit-tests/onnx/Inputs");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let models = paths.iter().filter(|path| path.extension().is_some_and(|name| name == "onnx"));
    models.map(|path| fs::read(path).unwrap()).collect()
}

/// Imports, and infers and verifies what comes out.
fn survives(bytes: Vec<u8>) {
    let bytes = Bytes::from(bytes);
    let registry = registry();
    let _ = summarize(&bytes);
    // As such, and for inputs: sequences without elements, and no optional values.
    for extents in [None, Some(BTreeMap::new())] {
        let options = Options { extents, ..Options::default() };
        survives_with(&bytes, &options, &registry);
    }
}

fn survives_with(bytes: &Bytes, options: &Options, registry: &Registry) {
    match import_bytes(bytes, None, options, registry) {
        Ok(mut import) => {
            let found = relay::inference::infer_module(&mut import.module, registry);
            if found.is_empty() {
                let found = ir_core::verify(&import.module, registry).err().unwrap_or_default();
                assert!(found.is_empty(), "{found:?}");
            }
        }
        Err(found) => assert!(!found.is_empty()),
    }
}

#[test]
fn cut_files_are_errors_or_modules() {
    for model in models() {
        for length in 0..model.len() {
            survives(model[..length].to_vec());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn changed_bytes_are_errors_or_modules(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let models = models();
        let mut model = which.get(&models).clone();
        for (place, byte) in changes {
            let place = place.index(model.len());
            model[place] = byte;
        }
        survives(model);
    }

    #[test]
    fn changed_files_of_values_are_errors_or_values(
        which in 0usize..4,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        length in any::<prop::sample::Index>(),
    ) {
        let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lit-tests/onnx/Inputs");
        let model = fs::read(inputs.join("sequence.onnx")).unwrap();
        let mut bytes = fs::read(inputs.join(format!("sequence/output_{which}.pb"))).unwrap();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes.truncate(bytes.len() - length.index(bytes.len()) / 4);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(format!("output_{which}.pb")), bytes).unwrap();
        let _ = read_values(&model, folder.path(), Side::Outputs);
    }

    #[test]
    fn arbitrary_bytes_are_errors_or_modules(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survives(bytes);
    }
}
