//! What its user reads of each end of a process, as a table.

use alloc::string::ToString;
use alloc::vec::Vec;

use api_types::rows;
use api_types::testing::{flaw, plain_work};

use super::*;

/// A docker task with this memory.
fn work(memory: u64) -> Work {
    let mut work = plain_work();
    work.task.engine.engine_type = EngineType::Docker;
    work.resources.memory = memory;
    work.task.timeouts.execution_timeout = 60;
    work
}

fn exit(code: i32) -> Exit {
    Exit { code, ..Exit::default() }
}

fn killed(code: i32) -> Exit {
    Exit { out_of_memory: true, ..exit(code) }
}

fn own_end(exit: &Exit, memory: u64) -> String {
    Verdict::of_exit(exit, None, &work(memory)).message
}

fn assert_said(said: &[String], expected: &[&str]) {
    assert!(said.iter().all(|text| flaw(text).is_none()), "{said:?}");
    assert_eq!(said, expected);
}

#[test]
fn every_exit_code_of_docker_is_explained() {
    let codes = [0, 1, 125, 126, 127, 129, 130, 131, 132, 134, 135, 136, 137, 139, 141, 142, 143];
    let said: Vec<_> = codes.into_iter().map(|code| own_end(&exit(code), 0)).collect();
    let expected = [
        "",
        "exit code 1",
        "exit code 125",
        "exit code 126 (not executable)",
        "exit code 127 (command not found)",
        "exit code 129 (SIGHUP)",
        "exit code 130 (SIGINT)",
        "exit code 131 (SIGQUIT)",
        "exit code 132 (SIGILL)",
        "exit code 134 (SIGABRT)",
        "exit code 135 (SIGBUS)",
        "exit code 136 (SIGFPE)",
        "exit code 137 (SIGKILL)",
        "exit code 139 (SIGSEGV)",
        "exit code 141 (SIGPIPE)",
        "exit code 142 (SIGALRM)",
        "exit code 143 (SIGTERM)",
    ];
    assert_said(&said, &expected);
}

#[test]
fn a_lack_of_memory_names_the_limit() {
    let trapped = Exit { fault: Some("memory.grow failed".to_owned()), ..killed(1) };
    let said = [
        own_end(&killed(137), 128_000_000),
        own_end(&killed(137), 0),
        own_end(&killed(0), 128_000_000),
        own_end(&killed(0), 0),
        own_end(&trapped, 128_000_000),
        own_end(&trapped, 0),
    ];
    let expected = [
        "used more than its 128 MB of memory and was killed; its limit is Resources.Memory",
        "its machine ran out of memory, and the kernel killed it",
        "completed, but one of its processes was killed for using more than the 128 MB of memory, \
         the limit in Resources.Memory",
        "completed, but the kernel killed one of its processes: its machine ran out of memory",
        "needed more than its 128 MB of memory, the limit in Resources.Memory: memory.grow failed",
        "its machine ran out of memory: memory.grow failed",
    ];
    assert_said(&said, &expected);
}

#[test]
fn every_outage_is_named() {
    let rows = rows!(Outage {
        Outage::Machine => [Outage::Machine],
        Outage::Engine => [Outage::Engine],
        Outage::Removal => [Outage::Removal],
    });
    let said: Vec<_> = rows
        .into_iter()
        .flat_map(|(_, outage)| [NO_EXIT_CODE, 137].map(|code| (outage, code)))
        .map(|(outage, code)| Verdict::of_exit(&exit(code), Some(outage), &work(0)).message)
        .collect();
    let expected = [
        "its machine restarted while it ran",
        "its machine restarted while it ran; its process ended with exit code 137",
        "the Docker Engine was restarted or unreachable while it ran",
        "the Docker Engine was restarted or unreachable while it ran; its process ended with exit \
         code 137",
        "its container was removed by someone else",
        "its container was removed by someone else; its process ended with exit code 137",
    ];
    assert_said(&said, &expected);
}

#[test]
fn every_stop_and_every_failure_after_a_success_is_named() {
    let overfull = || Failure::task("wrote more than its 1 GB of disk");
    let rows = rows!(StopReason {
        StopReason::NoLongerWanted { .. } => [
            StopReason::NoLongerWanted { message: "enough".to_string() },
        ],
        StopReason::ExecutionTimeout => [StopReason::ExecutionTimeout],
        StopReason::Overfull(_) => [StopReason::Overfull(overfull())],
    });
    let mut said: Vec<_> = rows
        .into_iter()
        .map(|(_, reason)| Verdict::of_stop(&reason, &exit(143), &work(0)).message)
        .collect();
    said.push(Verdict::of_exit(&exit(0), None, &work(0)).unpublished(Failure::fetch("no route")));
    let expected = [
        "enough",
        "execution timeout: still running after 60 s",
        "wrote more than its 1 GB of disk",
        "the results could not be published: no route",
    ];
    assert_said(&said, &expected);
}
