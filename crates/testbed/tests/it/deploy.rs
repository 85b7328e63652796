//! The contents of `deploy/`: units, settings files, installation, and service notifications.

mod alerts;
mod compose;
mod containers;
mod install;
mod machine;
mod notify;
mod package;
mod pair;
mod samples;
mod systemd;
mod units;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("this crate is two folders below the root")
}

/// Standard output and standard error of a program, for messages.
fn text_of(output: &Output) -> String {
    let bytes = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a program is installed. If not, prints the reason, or panics when `CI` is set.
fn has(program: &str, package: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        let missing = format!("{program} is not installed: install the package {package}");
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        eprintln!("skipped: {missing}");
    }
    found
}
