//! Puts the commit and the date of the build into the version record.

use std::process::Command;

fn main() {
    // A build from an archive has no repository; it sets these variables instead.
    println!("cargo:rerun-if-env-changed=BUILD_GIT_COMMIT");
    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    println!("cargo:rerun-if-changed=build.rs");
    let commit = std::env::var("BUILD_GIT_COMMIT")
        .ok()
        .or_else(|| output("git", &["rev-parse", "HEAD"]))
        .unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=BUILD_GIT_COMMIT={commit}");

    let seconds = std::env::var("SOURCE_DATE_EPOCH")
        .ok()
        .or_else(|| output("git", &["log", "-1", "--format=%ct"]))
        .unwrap_or_else(|| "0".to_owned());
    let date = output("date", &["-u", "-d", &format!("@{seconds}"), "+%Y-%m-%dT%H:%M:%SZ"])
        .unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned());
    println!("cargo:rustc-env=BUILD_DATE={date}");
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
