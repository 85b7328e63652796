//! The commands of the README share one build, so that one need not compile again what another did.
//!
//! Cargo compiles a dependency once for each set of features requested of it, and requests what the
//! crates being built need. So every dependency must have the same features whether Cargo builds
//! the demo, as `cargo run` does, or the whole workspace.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Each dependency with its features, as these arguments make cargo build it.
fn features(arguments: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .args(["tree", "--edges", "normal,build", "--prefix", "none", "--no-dedupe"])
        .args(["--format", "{p} with {f}"])
        .args(arguments)
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).expect("UTF-8");
    tree.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_demo_and_the_workspace_share_their_dependencies() {
    let workspace = features(&["--workspace"]);
    let compiled_again: Vec<_> = features(&[]).difference(&workspace).cloned().collect();
    assert!(
        compiled_again.is_empty(),
        "after `cargo run --release`, `cargo build --release --workspace` compiles these again, \
         with more features; have crates/demo ask for them in [dependencies]:\n  {}",
        compiled_again.join("\n  ")
    );
}
