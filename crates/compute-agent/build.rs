//! Builds the program of the network sandboxes as a static binary that the library embeds.
//!
//! A nested cargo build, since cargo cannot yet depend on another crate's binary for another
//! target (`-Z bindeps`). Its target directory is below `OUT_DIR`, so that it does not wait for
//! the outer build's lock. Rejected: a direct call of `rustc`, which would ignore the workspace's
//! lints and cannot resolve dependencies.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// See `[profile.sandbox]` in the workspace's manifest.
const PROFILE: &str = "sandbox";

fn main() {
    let crates = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("..");
    let sandbox = crates.join("sandbox");
    for path in ["Cargo.toml", "src"].map(|name| sandbox.join(name)) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", crates.join("../Cargo.lock").display());
    let program = build(&sandbox.join("Cargo.toml"));
    let embedded = PathBuf::from(variable("OUT_DIR")).join("sandbox");
    std::fs::copy(&program, &embedded)
        .unwrap_or_else(|error| panic!("cannot copy {}: {error}", program.display()));
}

/// Returns the path of the program.
fn build(manifest: &Path) -> PathBuf {
    let folder = PathBuf::from(variable("OUT_DIR")).join("sandbox-target");
    let target = variable("TARGET");
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        // The outer build has already locked and fetched every dependency of this one.
        .args(["build", "--frozen", "--quiet", "--profile", PROFILE, "--bin", "sandbox"])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target")
        .arg(&target)
        .arg("--target-dir")
        .arg(&folder)
        .env("CARGO_ENCODED_RUSTFLAGS", static_flags())
        // The outer build applies the lints.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CLIPPY_ARGS");
    let status = cargo.status().unwrap_or_else(|error| panic!("cannot start cargo: {error}"));
    assert!(status.success(), "the program of the network sandboxes does not compile: {status}");
    folder.join(target).join(PROFILE).join("sandbox")
}

/// The flags of the outer build, and flags for a program that needs nothing from its image.
fn static_flags() -> OsString {
    let mut flags = env::var_os("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if !flags.is_empty() {
        flags.push("\u{1f}");
    }
    flags.push("-Ctarget-feature=+crt-static");
    flags
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"))
}
