//! What nodes, clients and browsers do works on the port of a follower: the tests of these groups,
//! run again with a follower in front of each orchestrator.

use std::process::Command;

use crate::front::VARIABLE;

/// The tests of some seconds that together go through every kind of connection.
const QUICK: [&str; 10] = [
    "joining::a_token_makes_one_node_and_says_what_it_is",
    "joining::an_expired_certificate_may_only_be_renewed",
    "login::",
    "rejecting::",
    "tokens::",
    "pages::",
    "archives::",
    "events::",
    "large::",
    "body::",
];

const ALL: [&str; 22] = [
    "access::",
    "archives::",
    "body::",
    "certificates::",
    "changes::",
    "confidential::",
    "events::",
    "inputs::",
    "joining::",
    "labels::",
    "large::",
    "login::",
    "logs::",
    "merged_logs::",
    "node::",
    "oidc::",
    "pages::",
    "rejecting::",
    "roles::",
    "sessions::",
    "stream::",
    "tokens::",
];

/// What differs by design where several orchestrators share a store.
const NOT_OF_A_LEASE: [&str; 2] = [
    // Expects that a stop keeps the last counts of denials: one that resigns may lose those of a minute.
    "certificates::a_node_is_no_user_and_its_tries_are_audited",
    // Expects that a restart keeps the file with the join token: a follower removes its own.
    "joining::a_file_always_has_a_token_for_one_more_node",
];

/// Runs the tests whose names contain one of these words, each with a follower in front.
#[track_caller]
fn pass_through_a_follower(groups: &[&str]) {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    // The names of these tests themselves contain those of groups.
    command.args(groups).args(["--skip", "leading::", "--quiet"]);
    command.args(NOT_OF_A_LEASE.iter().flat_map(|name| ["--skip", name]));
    command.env(VARIABLE, "1");
    let output = command.output().expect("run this program again");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let passed = said.lines().find_map(|line| line.strip_prefix("test result: ok. "));
    let passed = passed.and_then(|line| line.split(' ').next()?.parse().ok());
    assert!(passed.is_some_and(|passed: usize| passed >= groups.len()), "{said}");
}

#[test]
fn a_test_of_each_group_passes_through_a_follower() {
    pass_through_a_follower(&QUICK);
}

#[test]
#[ignore = "long"]
fn all_tests_of_these_groups_pass_through_a_follower() {
    pass_through_a_follower(&ALL);
}
