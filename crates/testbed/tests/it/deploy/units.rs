//! The systemd units pass systemd's own checks.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::{has, root, text_of};

const UNITS: [&str; 2] = ["orchestrator", "compute-agent"];

/// Ten times the permitted exposure level: systemd rates below 2.0 as "OK", above 5.0 as "MEDIUM".
const EXPOSURE: &str = "--threshold=20";

/// Copies of the units that start an existing program.
fn units() -> (TempDir, Vec<PathBuf>) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("program");
    fs::copy("/bin/true", &program).expect("/bin/true exists");
    let units = UNITS.map(|name| {
        let path = root().join(format!("deploy/systemd/{name}.service"));
        let text = fs::read_to_string(&path).expect("the unit exists");
        let line = format!("ExecStart=/usr/local/bin/{name} ");
        assert!(text.contains(&line), "{}: no {line}", path.display());
        let text = text.replace(&line, &format!("ExecStart={} ", program.display()));
        let copy = directory.path().join(format!("{name}.service"));
        fs::write(&copy, text).expect("the directory is writable");
        copy
    });
    (directory, units.into())
}

#[test]
fn the_units_pass_systemd_analyze_verify() {
    if !has("systemd-analyze", "systemd") {
        return;
    }
    let (_directory, units) = units();
    let verify =
        Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units).output().unwrap();
    assert!(verify.status.success(), "{}", text_of(&verify));
    // Unknown keys cause a warning, but no failure.
    let warnings: Vec<_> = text_of(&verify)
        .lines()
        .filter(|line| UNITS.iter().any(|name| line.contains(&format!("{name}.service"))))
        .map(str::to_owned)
        .collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
}

#[test]
fn the_units_are_sandboxed() {
    if !has("systemd-analyze", "systemd") {
        return;
    }
    let (_directory, units) = units();
    for unit in units {
        let security = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--no-pager", EXPOSURE])
            .arg(&unit)
            .output()
            .unwrap();
        assert!(security.status.success(), "{}", text_of(&security));
    }
}
