//! Says where the libraries lie that the plugin is linked with.

use std::process::Command;

fn main() {
    let rustc = std::env::var_os("RUSTC").expect("cargo sets RUSTC");
    let output = Command::new(rustc).args(["--print", "target-libdir"]).output();
    let output = output.expect("rustc runs").stdout;
    let folder = String::from_utf8_lossy(&output);
    // Before the folders that the environment names.
    println!("cargo::rustc-link-arg-cdylib=-Wl,--disable-new-dtags");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-rpath,$ORIGIN:$ORIGIN/deps:{}", folder.trim());
}
