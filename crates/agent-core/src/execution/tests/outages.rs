//! A process that ended with its machine or its engine is no failure of its task.

use super::*;

const REBOOTED: Now = Now { time: NOW.time, boot_id: OTHER_BOOT };

const MACHINE: &str = "its machine restarted while it ran; its process ended with exit code 137";
const ENGINE: &str = "the Docker Engine was restarted or unreachable while it ran; its process \
                      ended with exit code 137";

/// What the report of an end says: state, cause, exit code, message.
type Outcome = (ComputeState, FailureCause, i32, String);

fn end(mut execution: Execution, code: i32, engine_away: bool, now: Now) -> Outcome {
    let exit = Exit { code, engine_away, ..Exit::default() };
    execution.handle(Event::Exited(exit), now);
    let (report, _) = split(execution.handle(Event::Collected(Box::default()), now));
    let exit_code = report.run_output.expect("a run has an output").exit_code;
    (report.compute_state, report.cause, exit_code, report.message)
}

fn outcome(state: ComputeState, cause: FailureCause, exit_code: i32, message: &str) -> Outcome {
    (state, cause, exit_code, message.to_owned())
}

#[test]
fn a_process_that_ended_with_its_machine_or_engine_is_a_failure_of_the_node() {
    let node = |message| outcome(ComputeState::Failed, FailureCause::Node, NO_EXIT_CODE, message);
    let own = outcome(ComputeState::Failed, FailureCause::Task, 137, "exit code 137");
    for (engine_away, now, expected) in [
        (false, NOW, own),
        (true, NOW, node(ENGINE)),
        (false, REBOOTED, node(MACHINE)),
        // An Engine comes back later than the agent.
        (true, REBOOTED, node(MACHINE)),
    ] {
        assert_eq!(end(running(), 137, engine_away, now), expected, "{engine_away} {now:?}");
    }
}

#[test]
fn a_process_that_succeeded_has_succeeded_whatever_happened_meanwhile() {
    for engine_away in [false, true] {
        for now in [NOW, REBOOTED] {
            let expected = outcome(ComputeState::Completed, FailureCause::Task, 0, "");
            assert_eq!(end(running(), 0, engine_away, now), expected, "{engine_away} {now:?}");
        }
    }
}

#[test]
fn a_process_that_was_asked_to_end_ended_for_that() {
    let timeout = "execution timeout: still running after 0 s";
    for engine_away in [false, true] {
        for now in [NOW, REBOOTED] {
            for code in [0, 137] {
                let mut unwanted = running();
                unwanted.handle(stopped(), NOW);
                let expected = outcome(ComputeState::Cancelled, FailureCause::Task, code, "enough");
                assert_eq!(end(unwanted, code, engine_away, now), expected);
                let mut late = running();
                late.handle(Event::TimedOut, NOW);
                let expected = outcome(ComputeState::Failed, FailureCause::Timeout, code, timeout);
                assert_eq!(end(late, code, engine_away, now), expected);
            }
        }
    }
}

#[test]
fn a_process_of_an_unknown_boot_is_judged_by_its_exit_code() {
    let old: Phase = serde_json::from_str(r#"{"Running":{"started_at":1000000000}}"#).unwrap();
    assert_eq!(old, Phase::Running { started_at: NOW.time, boot_id: BootId::UNKNOWN });
    let own = outcome(ComputeState::Failed, FailureCause::Task, 137, "exit code 137");
    let execution = Execution { phase: old, ..running() };
    assert_eq!(end(execution, 137, false, REBOOTED), own);
    let unknown = Now { boot_id: BootId::UNKNOWN, ..NOW };
    assert_eq!(end(running(), 137, false, unknown), own);
}

/// The runner of a wasm program that ended with its machine has left no exit code.
#[test]
fn a_process_that_left_no_trace_is_a_failure_of_the_node() {
    let lost = || Event::Failed(Failure::node("its runner recorded no outcome"));
    for (now, message) in [
        (NOW, "its runner recorded no outcome"),
        (REBOOTED, "its machine restarted while it ran; its runner recorded no outcome"),
    ] {
        let (report, _) = split(running().handle(lost(), now));
        assert_eq!((report.cause, report.message.as_str()), (FailureCause::Node, message));
        assert_eq!(report.run_output.unwrap().exit_code, NO_EXIT_CODE);
    }
    let mut unwanted = running();
    unwanted.handle(stopped(), NOW);
    let (report, _) = split(unwanted.handle(lost(), REBOOTED));
    assert_eq!(report.compute_state, ComputeState::Cancelled);
}

#[test]
fn a_start_that_a_reboot_interrupted_is_not_repeated() {
    let mut execution = accepted(0);
    execution.handle(desired(DesiredState::Running, ""), NOW);
    execution.handle(Event::Prepared, NOW);
    assert_eq!(execution.clone().resume(NOW), [Effect::Start]);
    let (report, rest) = split(execution.resume(REBOOTED));
    assert_eq!(report.cause, FailureCause::Node);
    assert_eq!(report.message, "its machine restarted while it was being started");
    assert_eq!(rest, [Effect::Discard]);
}

/// The engine is away, and comes back long after.
#[test]
fn a_start_that_nobody_wants_any_more_is_given_up() {
    let mut execution = accepted(0);
    execution.handle(desired(DesiredState::Running, ""), NOW);
    execution.handle(Event::Prepared, NOW);
    assert_eq!(execution.handle(Event::StartGivenUp, NOW), [], "it is wanted");
    execution.handle(stopped(), NOW);
    let stop_and_watch = [Effect::Stop, Effect::Watch { deadline: None }];
    assert_eq!(execution.handle(Event::StartGivenUp, NOW), stop_and_watch);
    assert_eq!(execution.handle(exited(0), NOW), [Effect::Collect { exit_code: 0 }]);
    let (report, _) = split(execution.handle(Event::Collected(Box::default()), NOW));
    assert_eq!(report.compute_state, ComputeState::Cancelled);
}

/// What an earlier agent started is dated by the wall clock, which was set forward or back since.
#[test]
fn no_process_started_before_it_was_to_or_later_than_now() {
    for (at, believed) in [(0, NOW.time.0), (i64::MAX, NOW.time.0 + 5)] {
        let mut execution = accepted(60);
        execution.handle(desired(DesiredState::Running, ""), NOW);
        execution.handle(Event::Prepared, NOW);
        let later = Now { time: Timestamp(NOW.time.0 + 5), ..NOW };
        execution.handle(Event::Started { at: Timestamp(at), remark: None }, later);
        let Phase::Running { started_at, .. } = execution.phase else { panic!("it runs") };
        assert_eq!(started_at, Timestamp(believed));
    }
}

#[test]
fn a_success_in_spite_of_a_killed_process_says_so() {
    let mut execution = running();
    execution.handle(Event::Exited(Exit { out_of_memory: true, ..Exit::default() }), NOW);
    let (report, _) = split(execution.handle(Event::Collected(Box::default()), NOW));
    assert_eq!(report.compute_state, ComputeState::Completed);
    assert_eq!(
        report.message,
        "completed, but one of its processes was killed for using more than the 64 MB of memory, \
         the limit in Resources.Memory"
    );
    assert_eq!(report.run_output.unwrap().runner_error, "");
}
