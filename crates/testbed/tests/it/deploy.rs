//! What is in `deploy/`: units, settings files, installation, and what a service manager hears.

mod compose;
mod install;
mod notify;
mod samples;
mod units;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("this crate is two folders below the root")
}

/// Both outputs of a program that ended, for messages.
fn said(output: &Output) -> String {
    let bytes = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether this machine has a program. Says so when not; where `CI` is set that is a failure.
fn has(program: &str, package: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        let missing = format!("no {program} here: install the package {package}");
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        eprintln!("skipped: {missing}");
    }
    found
}
