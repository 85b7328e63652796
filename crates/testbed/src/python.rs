//! Interpreters of Python with packages from PyPI, which `.ci/run` installs.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

/// An interpreter of Python that has the package: `python3`, or the one that the variable names. None,
/// with the reason printed, where it lacks the package; where `CI` is set that is a failure.
pub async fn with(package: &str, variable: &str) -> Option<PathBuf> {
    let python = std::env::var_os(variable).map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let imports = Command::new(&python)
        .args(["-c", &format!("import {package}")])
        .stderr(Stdio::null())
        .status()
        .await;
    if imports.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    let missing = format!(
        "'{}' has no package {package}: install it from PyPI, as .ci/run does, or name an \
         interpreter that has it in {variable}",
        python.display()
    );
    assert!(std::env::var_os("CI").is_none(), "{missing}");
    eprintln!("skipped: {missing}");
    None
}
