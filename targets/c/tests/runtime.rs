//! The compiler, the cache and the loader, when all is well and when it is not.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Writer, cache, call, compilers, module, target};
use ir_core::{DType, Item, Module, TensorData, verify};
use target_c::runtime::{Cache, Compiler};
use target_core::{Buffer, Executable, Targets};
use te::scalar::ScalarOp;

/// `y = x + number`.
fn shift(number: f64) -> Item {
    let mut w = Writer::new();
    let x = w.param("x", &[8], DType::FLOAT32);
    let y = w.param("y", &[8], DType::FLOAT32);
    w.serial("i", 8, |w, i| {
        let (value, number) = (w.load(x, &[i]), w.float(number));
        let sum = w.scalar(ScalarOp::Add, &[value, number]);
        w.store(sum, y, &[i]);
    });
    w.finish(1)
}

fn eight() -> TensorData {
    TensorData::from_f64(DType::FLOAT32, &[8], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).unwrap()
}

fn first(module: &Module, compiler: &Compiler, cache: &Cache) -> f64 {
    let registry = common::registry();
    let verified = verify(module, &registry).expect("a verified module");
    let loaded = target("host").load_with(verified, compiler, cache).expect("kernels");
    call(&loaded, "shift", &[eight()])[0].to_f64()[0]
}

/// An empty folder of this test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let files = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path()).collect()
    };
    files(folder).iter().filter(|path| path.is_dir()).flat_map(|path| files(path)).collect()
}

#[test]
fn a_broken_entry_is_made_again() {
    let Some((_, compiler)) = compilers().into_iter().next() else { return };
    let folder = folder("broken");
    let cache = Cache::at(&folder).unwrap();
    // With it the kernels that the compiler is tested with.
    assert_eq!(first(&module([("shift", shift(2.0))]), &compiler, &cache), 2.0);
    let before = entries(&folder);
    let entries = |folder: &Path| -> Vec<PathBuf> {
        entries(folder).into_iter().filter(|path| !before.contains(path)).collect()
    };
    let module = module([("shift", shift(3.0))]);
    assert_eq!(first(&module, &compiler, &cache), 3.0);
    let made = entries(&folder);
    assert_eq!(made.len(), 1, "{made:?}");
    // Another file under the old name, since the old one is mapped into this process.
    fs::remove_file(&made[0]).unwrap();
    fs::write(&made[0], b"half a file").unwrap();
    assert_eq!(first(&module, &compiler, &cache), 3.0);
    let again = entries(&folder);
    assert_eq!(again.len(), 1, "{again:?}");
    assert!(fs::metadata(&again[0]).unwrap().len() > 100);
    // Another program is another entry.
    assert_eq!(first(&common::module([("shift", shift(4.0))]), &compiler, &cache), 4.0);
    assert_eq!(entries(&folder).len(), 2);
}

#[test]
fn refused_code_is_kept_with_the_messages() {
    let Some((_, compiler)) = compilers().into_iter().next() else { return };
    let cache = Cache::at(folder("refused")).unwrap();
    let error = cache.shared_object(&compiler, &[], &["int f(void) { return x; }\n"]).unwrap_err();
    assert_eq!(error[0].code, "E0904");
    let kept = error[0].notes[0].split('`').nth(1).expect("a file");
    assert!(fs::read_to_string(kept).unwrap().contains("return x"));
    assert!(error[0].notes.iter().any(|note| note.contains("undeclared")), "{error:?}");
}

#[test]
fn what_is_missing_is_said() {
    let error = Compiler::named("no-such-compiler-anywhere").unwrap_err();
    assert_eq!(error[0].code, "E0903");
    let file = folder("file");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "").unwrap();
    assert_eq!(Cache::at(file.join("inside")).unwrap_err()[0].code, "E0905");
    fs::remove_file(&file).unwrap();
}

#[test]
fn buffers_are_checked_before_the_call() {
    let Some((_, compiler)) = compilers().into_iter().next() else { return };
    let module = module([("shift", shift(5.0))]);
    let registry = common::registry();
    let verified = verify(&module, &registry).expect("a verified module");
    let loaded = target("host").load_with(verified, &compiler, &cache()).expect("kernels");
    let good = || Buffer::zeroed(32);
    let code = |result: Result<(), ir_core::Diagnostics>| result.unwrap_err()[0].code;
    assert_eq!(code(loaded.call("shift", &mut [good()])), "E0907");
    assert_eq!(code(loaded.call("shift", &mut [good(), Buffer::zeroed(31)])), "E0907");
    let error = loaded.call("shif", &mut [good(), good()]).unwrap_err();
    assert_eq!(error[0].help.as_deref(), Some("did you mean `@shift`?"));
    assert!(loaded.call("shift", &mut [good(), good()]).is_ok());
}

#[test]
fn targets_are_named_by_text() {
    let targets = Targets::from([target_c::registration()]);
    let target =
        targets.parse("c{isa=avx2, width=4, threads=3}").unwrap_or_else(|e| panic!("{e:?}"));
    let capabilities = target.capabilities();
    assert_eq!((capabilities.isa, capabilities.vector_bits), ("avx2", 128));
    assert_eq!(capabilities.threads, 3);
    let mistake = |text: &str| {
        let error = targets.parse(text).err().expect("an error");
        format!(
            "{} {} {}",
            error[0].code,
            error[0].message,
            error[0].help.clone().unwrap_or_default()
        )
    };
    insta::assert_snapshot!(
        ["d", "c{with=4}", "c{width=5}", "c{isa=avx3}", "c,c", "", "c{isa=avx2,isa=avx2}"]
            .map(mistake)
            .join("\n")
    );
}

/// A compiler that runs `script` before or instead of the first of the usual ones, `$CC`.
#[cfg(unix)]
fn scripted(name: &str, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let file = folder(name).join("cc");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let compilers = common::installed::usual_compilers();
    let usual = compilers.first().copied().unwrap_or("cc");
    fs::write(&file, format!("#!/bin/sh\nCC={usual}\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

/// What loading a kernel by `script` gives: the remarks, or the error.
#[cfg(unix)]
fn loaded_by(name: &str, script: &str) -> Result<ir_core::Diagnostics, ir_core::Diagnostics> {
    let file = scripted(name, script);
    let compiler = Compiler::named(file.to_str().unwrap())?;
    let cache = Cache::at(file.with_file_name("cache"))?;
    let module = module([("shift", shift(3.0))]);
    let registry = common::registry();
    let verified = verify(&module, &registry).expect("a verified module");
    let loaded = target("host").load_with(verified, &compiler, &cache);
    let loaded = loaded.map_err(|mut errors| errors.remove(0))?;
    assert_eq!(call(&loaded, "shift", &[eight()])[0].to_f64()[0], 3.0);
    Ok(loaded.remarks().iter().cloned().collect())
}

/// Turns a choice around where `flag` is not given.
#[cfg(unix)]
fn wrong_without(flag: &str) -> String {
    format!(
        "case \"$* \" in\n*' {flag} '*) ;;\n\
         *) [ -e kernels0.c ] && sed -i 's/>= 31 ?/>= 32 ?/' kernels0.c ;;\nesac\nexec $CC \"$@\""
    )
}

#[cfg(unix)]
#[test]
fn a_compiler_is_tested_before_it_is_used() {
    if compilers().is_empty() {
        return;
    }
    assert_eq!(loaded_by("right", "exec $CC \"$@\"").expect("kernels").len(), 0);
    let remarks = loaded_by("helped", &wrong_without("-O1")).expect("kernels");
    assert_eq!(remarks.len(), 1);
    assert_eq!((remarks[0].code, remarks[0].is_error()), ("E0913", false));
    assert!(remarks[0].message.ends_with("without `-O1`"), "{remarks:?}");
    let error = loaded_by("wrong", &wrong_without("-no-such-flag")).expect_err("an error");
    assert_eq!(error[0].code, "E0913");
    assert!(error[0].notes[0].contains("`concatenate`"), "{error:?}");
}

#[cfg(unix)]
#[test]
fn a_compiler_that_floods_is_ended() {
    let error = loaded_by("flood", "exec yes").expect_err("an error");
    assert_eq!(error[0].code, "E0903");
    assert!(error[0].message.contains("it printed more than"), "{error:?}");
    let script = "case \"$1\" in --version) exec $CC --version ;; esac\nexec yes >&2";
    let error = loaded_by("messages", script).expect_err("an error");
    assert_eq!(error[0].code, "E0904");
    let script =
        "case \"$1\" in --version) exec $CC --version ;; esac\nyes | head -1000 >&2; exit 1";
    let error = loaded_by("lines", script).expect_err("an error");
    assert!(error[0].notes.len() < 110, "{}", error[0].notes.len());
}
