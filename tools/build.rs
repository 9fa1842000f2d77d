//! Says which sources and which compiler a build is made of, so that a plugin of another one is
//! told apart.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Folders of the crates that plugins share with relay-opt.
const CRATES: [&str; 8] =
    ["ir-core", "dialects", "passes", "rewrites", "targets", "frontends", "lit-tests", "tools"];

fn main() -> io::Result<()> {
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = own.join("..");
    let mut files = BTreeMap::new();
    if root.join(CRATES[0]).is_dir() {
        for name in CRATES {
            sources(&root.join(name), name, &mut files)?;
        }
    } else {
        // A package alone: the others are where cargo keeps them, of the same version.
        sources(&own, "tools", &mut files)?;
    }
    // Stable over runs and machines, which the hasher of a map need not be.
    let mut hash = rustc_hash::FxHasher::default();
    for (name, path) in &files {
        println!("cargo::rerun-if-changed={}", path.display());
        hash.write(name.as_bytes());
        hash.write(&fs::read(path)?);
    }
    println!("cargo::rustc-env=RELAY_OPT_BUILD={:016x}", hash.finish());
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output()?.stdout;
    println!("cargo::rustc-env=RELAY_OPT_COMPILER={}", String::from_utf8_lossy(&version).trim());
    Ok(())
}

/// Adds what is compiled of the crates under `folder`, by its name from the root.
fn sources(folder: &Path, name: &str, files: &mut BTreeMap<String, PathBuf>) -> io::Result<()> {
    let mut folders = vec![(folder.to_path_buf(), name.to_string())];
    while let Some((folder, name)) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let Some(last) = path.file_name().and_then(|last| last.to_str()) else { continue };
            let name = format!("{name}/{last}");
            if path.is_dir() {
                folders.push((path, name));
            } else if name.contains("/src/") || name.contains("/rules/") {
                files.insert(name, path);
            }
        }
    }
    Ok(())
}
