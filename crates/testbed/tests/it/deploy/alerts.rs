//! The alerts of Prometheus: valid, and each fires in its situation and in no other.

use std::process::Command;

use super::{has, root, text_of};

#[test]
fn every_alert_is_valid_and_fires_in_its_situation_alone() {
    if !has("promtool", "prometheus") {
        return;
    }
    let folder = root().join("deploy/prometheus");
    for arguments in [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]] {
        let output = Command::new("promtool").args(arguments).current_dir(&folder).output();
        let output = output.expect("promtool runs");
        assert!(output.status.success(), "{arguments:?}: {}", text_of(&output));
    }
}

#[test]
fn every_alert_has_a_test_and_a_row_in_the_manual() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("the file exists");
    let (rules, tests) =
        (read("deploy/prometheus/rules.yml"), read("deploy/prometheus/rules_test.yml"));
    let manual = read("docs/operations.md");
    let alerts: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10, "found only {alerts:?}");
    for alert in alerts {
        let test = format!("- name: {alert} fires");
        assert!(tests.contains(&test), "no test of {alert} in rules_test.yml");
        assert!(manual.contains(&format!("| `{alert}` |")), "no row of {alert} in operations.md");
    }
}
