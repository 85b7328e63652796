//! Compiles `task.rs` into a static program that the library embeds in its image.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=task.rs");
    println!("cargo:rerun-if-changed=span.rs");
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name| env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let output = PathBuf::from(variable("OUT_DIR")).join("task");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args(["--edition", "2024", "--crate-name", "task", "--crate-type", "bin"])
        .args(["-C", "target-feature=+crt-static", "-C", "opt-level=1", "-C", "panic=abort"])
        .args(["-C", "strip=symbols", "-D", "warnings", "--target"])
        .arg(variable("TARGET"))
        .arg("-o")
        .arg(&output)
        .arg("task.rs");
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = std::ffi::OsString::from("linker=");
        option.push(linker);
        rustc.arg("-C").arg(option);
    }
    let status = rustc.status().unwrap_or_else(|error| panic!("cannot start rustc: {error}"));
    assert!(status.success(), "cannot compile task.rs: {status}");
}
