//! Compiles `sandbox/program.rs` as a static program, for the library to embed in its image, and
//! has the linker put what the agent runs at rest side by side.

use std::env;
use std::fs;
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
    let variable = |name| env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let order = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join(ORDER);
    let script = PathBuf::from(variable("OUT_DIR")).join("order.ld");
    let symbols = fs::read_to_string(&order).unwrap_or_else(|error| panic!("{ORDER}: {error}"));
    fs::write(&script, section_of(&symbols)).expect("the output directory can be written to");
    // The script gathers Rust's functions, each of which has a section of its own; the list moves
    // those of the C library next to them. Symbols that are gone are passed over by both: a list
    // that is out of date does no harm.
    let (order, script) = (order.display(), script.display());
    let list = format!("--no-warn-symbol-ordering,--symbol-ordering-file={order}");
    println!("cargo::rustc-link-arg-bin=compute-agent=-Wl,{list},-T,{script}");
}

/// A section before all other code. A function that link-time optimisation shares between units
/// has a number behind its name, which changes with every change of its unit.
fn section_of(symbols: &str) -> String {
    let functions: String = symbols
        .lines()
        .map(|symbol| format!("    *(.text.{symbol} .text.{symbol}.llvm.*)\n"))
        .collect();
    format!("SECTIONS {{\n  .text.at_rest : {{\n{functions}  }}\n}} INSERT BEFORE .text;\n")
}
