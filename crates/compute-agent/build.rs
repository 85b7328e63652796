//! Compiles `sandbox/program.rs` as a static program, for the library to embed in its image.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=sandbox/program.rs");
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name| env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let output = PathBuf::from(variable("OUT_DIR")).join("sandbox");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args(["--edition", "2024", "--crate-name", "sandbox", "--crate-type", "bin"])
        .args(["-C", "target-feature=+crt-static", "-C", "opt-level=s", "-C", "panic=abort"])
        .args(["-C", "strip=symbols", "-D", "warnings", "--target"])
        .arg(variable("TARGET"))
        .arg("-o")
        .arg(&output)
        .arg("sandbox/program.rs");
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = std::ffi::OsString::from("linker=");
        option.push(linker);
        rustc.arg("-C").arg(option);
    }
    let status = rustc.status().unwrap_or_else(|error| panic!("cannot start rustc: {error}"));
    assert!(status.success(), "sandbox/program.rs does not compile: {status}");
}
