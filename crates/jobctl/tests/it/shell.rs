//! `jobctl completions` and `jobctl man`.

use crate::service::{finish, program};

/// Some of the manual pages.
const PAGES: [&str; 8] = [
    "jobctl.1",
    "jobctl-run.1",
    "jobctl-submit.1",
    "jobctl-list.1",
    "jobctl-wait.1",
    "jobctl-node.1",
    "jobctl-node-drain.1",
    "jobctl-context-set.1",
];

#[tokio::test]
async fn every_shell_has_completions() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let arguments = ["completions", shell];
        let ran = finish(program(folder.path(), &arguments), &arguments, "", None).await;
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        // The shell asks the program itself, wherever it is found.
        for word in ["COMPLETE", "jobctl"] {
            assert!(ran.stdout.contains(word), "{shell} does not ask: {ran}");
        }
    }
}

#[tokio::test]
async fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["man", "pages"];
    let ran = finish(program(folder.path(), &arguments), &arguments, "", None).await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for page in PAGES {
        let text = std::fs::read_to_string(folder.path().join("pages").join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
    }
    let arguments = ["man"];
    let ran = finish(program(folder.path(), &arguments), &arguments, "", None).await;
    assert!(ran.stdout.contains("Exit codes") && ran.stdout.contains(".TH jobctl 1"));
}
