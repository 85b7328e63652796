//! The systemd units, as systemd itself judges them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::{has, root, said};

const UNITS: [&str; 2] = ["orchestrator", "compute-agent"];

/// Ten times the exposure that is allowed: below 2.0 systemd says "OK", above 5.0 "MEDIUM".
const EXPOSURE: &str = "--threshold=20";

/// The units as they are, but for programs that are there.
fn units() -> (TempDir, Vec<PathBuf>) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("program");
    fs::copy("/bin/true", &program).expect("there is a /bin/true");
    let units = UNITS.map(|name| {
        let path = root().join(format!("deploy/systemd/{name}.service"));
        let text = fs::read_to_string(&path).expect("the unit is there");
        let line = format!("ExecStart=/usr/local/bin/{name} ");
        assert!(text.contains(&line), "{}: no {line}", path.display());
        let text = text.replace(&line, &format!("ExecStart={} ", program.display()));
        let copy = directory.path().join(format!("{name}.service"));
        fs::write(&copy, text).expect("the copy can be written");
        copy
    });
    (directory, units.into())
}

#[test]
fn systemd_finds_no_fault_with_the_units() {
    if !has("systemd-analyze", "systemd") {
        return;
    }
    let (_directory, units) = units();
    let verify =
        Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units).output().unwrap();
    assert!(verify.status.success(), "{}", said(&verify));
    // It warns of unknown keys, and calls that a success.
    let about_ours: Vec<_> = said(&verify)
        .lines()
        .filter(|line| UNITS.iter().any(|name| line.contains(&format!("{name}.service"))))
        .map(str::to_owned)
        .collect();
    assert!(about_ours.is_empty(), "{about_ours:#?}");
}

#[test]
fn the_daemons_are_fenced_in() {
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
        assert!(security.status.success(), "{}", said(&security));
    }
}
