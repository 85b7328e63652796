//! Compiles `sandbox/program.rs` as a static program, for the library to embed in its image, and
//! has the linker put what the agent runs at rest side by side.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// The functions that an agent runs until it is at rest, one symbol a line; `deploy/order.sh`
/// makes it.
const ORDER: &str = "order.txt";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    compile_sandbox();
    order_functions();
}

fn compile_sandbox() {
    println!("cargo:rerun-if-changed=sandbox/program.rs");
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
        let mut option = OsString::from("linker=");
        option.push(linker);
        rustc.arg("-C").arg(option);
    }
    let status = rustc.status().unwrap_or_else(|error| panic!("cannot start rustc: {error}"));
    assert!(status.success(), "sandbox/program.rs does not compile: {status}");
}

/// Only in what is given away (`just static`): the list is that of its symbols. Where Rust's own
/// linker is not the default there is none that is known to take what it is told here.
fn order_functions() {
    println!("cargo:rerun-if-changed={ORDER}");
    let is = |name: &str, wanted: &str| {
        env::var(name).is_ok_and(|value| value.split(',').any(|word| word == wanted))
    };
    let given_away = is("CARGO_CFG_TARGET_FEATURE", "crt-static");
    let own_linker = is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !given_away || !own_linker {
        return;
    }
    let order = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join(ORDER);
    // Symbols that are gone are passed over: a list that is out of date does no harm.
    let options = format!("--no-warn-symbol-ordering,--symbol-ordering-file={}", order.display());
    println!("cargo::rustc-link-arg-bin=compute-agent=-Wl,{options}");
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"))
}
