//! Whatever the bytes are, the result is a module or diagnostics.

mod support;

use std::fs;
use std::path::Path;

use bytes::Bytes;
use onnx_frontend::{Options, import_bytes, summarize};
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
    match import_bytes(&bytes, None, &Options::default(), &registry) {
        Ok(mut import) => {
            let found = relay::inference::infer_module(&mut import.module, &registry);
            if found.is_empty() {
                let found = ir_core::verify(&import.module, &registry).err().unwrap_or_default();
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
    fn arbitrary_bytes_are_errors_or_modules(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survives(bytes);
    }
}
