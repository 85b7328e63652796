//! Every path through the lifecycle of an execution, ending with "and nothing else came out".

mod losses;
mod outages;

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;

use api_types::engine::PublisherType;
use api_types::execution::{PublishedResult, RunOutput};
use api_types::protocol::{FailureCause, MAX_MESSAGE_BYTES, Report};
use api_types::source::ResultPath;
use api_types::testing;
use api_types::usage::Usage;

use super::*;
use crate::boot::BootId;

const NOW: Now = Now { time: Timestamp(1_000_000_000), boot_id: BOOT };
const BOOT: BootId = BootId::from_number(1);
const OTHER_BOOT: BootId = BootId::from_number(2);

fn work(execution_timeout: u64) -> Arc<Work> {
    let mut work = testing::plain_work();
    work.task.timeouts.execution_timeout = execution_timeout;
    Arc::new(work)
}

fn id() -> ExecutionId {
    testing::execution_id(7)
}

fn accepted(execution_timeout: u64) -> Execution {
    Execution::offered(id(), work(execution_timeout), Ok(Vec::new()), NOW.time).0
}

fn running() -> Execution {
    let mut execution = accepted(0);
    for event in [
        desired(DesiredState::Running, ""),
        Event::Prepared,
        Event::Started { at: NOW.time, remark: None },
    ] {
        execution.handle(event, NOW);
    }
    execution
}

fn desired(state: DesiredState, message: &str) -> Event {
    Event::Desired { state, message: message.to_owned() }
}

fn stopped() -> Event {
    desired(DesiredState::Stopped, "enough")
}

fn exited(code: i32) -> Event {
    Event::Exited(Exit { code, ..Exit::default() })
}

/// The one report among the effects, and the names of the others.
fn split(effects: Vec<Effect>) -> (Report, Vec<Effect>) {
    let (mut reports, mut rest) = (Vec::new(), Vec::new());
    for effect in effects {
        match effect {
            Effect::Report(report) => reports.push(*report),
            other => rest.push(other),
        }
    }
    assert_eq!(reports.len(), 1, "{reports:?} and {rest:?}");
    (reports.remove(0), rest)
}

fn plain(sequence: u64, compute_state: ComputeState, message: &str) -> Report {
    Report { message: message.to_owned(), ..Report::new(id(), sequence, compute_state) }
}

#[test]
fn a_run_that_goes_well_reports_three_times_and_leaves_nothing() {
    let (mut execution, effects) = Execution::offered(id(), work(0), Ok(Vec::new()), NOW.time);
    let accepted = plain(1, ComputeState::AskForBidAccepted, "");
    assert_eq!(effects, [Effect::Report(Box::new(accepted))]);
    assert_eq!(execution.handle(desired(DesiredState::Running, ""), NOW), [Effect::Prepare]);
    assert_eq!(execution.handle(Event::Prepared, NOW), [Effect::Start]);
    let started = plain(2, ComputeState::BidAccepted, "");
    assert_eq!(
        execution.handle(Event::Started { at: NOW.time, remark: None }, NOW),
        [Effect::Report(Box::new(started)), Effect::Watch { deadline: None }]
    );
    assert_eq!(execution.handle(exited(0), NOW), [Effect::Collect { exit_code: 0 }]);
    let output = RunOutput { stdout: "hi\n".to_owned(), ..RunOutput::default() };
    let collected = Collected { output: output.clone(), ..Collected::default() };
    let completed = Report { run_output: Some(output), ..plain(3, ComputeState::Completed, "") };
    assert_eq!(
        execution.handle(Event::Collected(Box::new(collected)), NOW),
        [Effect::Report(Box::new(completed)), Effect::Discard]
    );
    assert!(execution.phase.is_done());
}

#[test]
fn an_offer_beyond_capabilities_is_declined_with_the_reason() {
    let (execution, effects) = Execution::offered(
        id(),
        work(0),
        Err(Decline::unfit("no engine 'wasm'".to_owned())),
        NOW.time,
    );
    assert_eq!(
        split(effects),
        (plain(1, ComputeState::AskForBidRejected, "no engine 'wasm'"), Vec::new())
    );
    assert_eq!(execution.phase.word(), "Declined");
}

#[test]
fn a_task_that_fails_keeps_its_output_and_exit_code() {
    let mut execution = running();
    execution.handle(exited(3), NOW);
    let notes = vec!["result path 'out' (/out) does not exist".to_owned()];
    let (report, rest) = split(
        execution
            .handle(Event::Collected(Box::new(Collected { notes, ..Collected::default() })), NOW),
    );
    assert_eq!(report.compute_state, ComputeState::Failed);
    assert_eq!(report.cause, FailureCause::Task);
    assert_eq!(report.message, "exit code 3; result path 'out' (/out) does not exist");
    assert_eq!(report.run_output, Some(RunOutput { exit_code: 3, ..RunOutput::default() }));
    assert_eq!(rest, [Effect::Discard]);
}

#[test]
fn the_end_of_a_process_is_reported_if_its_results_take_longer() {
    let mut publishing = testing::plain_work();
    publishing.task.publisher.publisher_type = PublisherType::S3;
    let mut keeping = testing::plain_work();
    let (name, path) = ("out".to_owned(), "/out".to_owned());
    keeping.task.result_paths.push(ResultPath { name, path });
    for work in [publishing, keeping] {
        let mut execution = Execution { work: Arc::new(work), ..running() };
        assert!(execution.phase.may_run());
        let (report, rest) = split(execution.handle(exited(0), NOW));
        assert_eq!((report.compute_state, report.sequence), (ComputeState::BidAccepted, 3));
        assert!(report.process_ended);
        assert_eq!(rest, [Effect::Collect { exit_code: 0 }]);
        assert!(!execution.phase.may_run());
        assert_eq!(execution.resume(NOW), [Effect::Collect { exit_code: 0 }], "it was reported");
        let (report, _) = split(execution.handle(Event::Collected(Box::default()), NOW));
        assert_eq!((report.compute_state, report.sequence), (ComputeState::Completed, 4));
    }
}

#[test]
fn a_run_whose_publishing_fails_has_failed_and_keeps_its_output() {
    let failing = || {
        let publishing = Publishing::Failed(Failure::node("no bucket 'b'"));
        let output = RunOutput { stdout: "hi".to_owned(), ..RunOutput::default() };
        Event::Collected(Box::new(Collected { output, publishing, ..Collected::default() }))
    };
    let mut execution = running();
    execution.handle(exited(0), NOW);
    let (report, _) = split(execution.handle(failing(), NOW));
    assert_eq!((report.compute_state, report.cause), (ComputeState::Failed, FailureCause::Node));
    assert_eq!(report.message, "the results could not be published: no bucket 'b'");
    let output = report.run_output.unwrap();
    assert_eq!((output.stdout.as_str(), output.exit_code), ("hi", 0));
    assert_eq!(output.runner_error, report.message);
    // A task that failed by itself has failed for that.
    let mut execution = running();
    execution.handle(exited(3), NOW);
    let (report, _) = split(execution.handle(failing(), NOW));
    assert_eq!((report.compute_state, report.cause), (ComputeState::Failed, FailureCause::Task));
    let message = "exit code 3; the results could not be published: no bucket 'b'";
    assert_eq!((report.message.as_str(), report.run_output.unwrap().exit_code), (message, 3));
}

#[test]
fn an_out_of_memory_failure_names_the_limit() {
    let mut execution = running();
    execution
        .handle(Event::Exited(Exit { code: 137, out_of_memory: true, ..Exit::default() }), NOW);
    let usage = Some(Usage { memory_peak: 4_000_000, ..Usage::default() });
    let collected = Collected { usage, ..Collected::default() };
    let (report, _) = split(execution.handle(Event::Collected(Box::new(collected)), NOW));
    assert_eq!(report.usage.unwrap().memory_peak, 64_000_000, "whatever was measured in time");
    assert_eq!(
        report.message,
        "used more than its 64 MB of memory and was killed; its limit is Resources.Memory"
    );
    assert_eq!(report.cause, FailureCause::Task);
    assert_eq!(report.run_output.unwrap().runner_error, report.message);
}

#[test]
fn a_task_beyond_its_timeout_is_stopped_and_fails() {
    let mut execution = accepted(5);
    execution.handle(desired(DesiredState::Running, ""), NOW);
    execution.handle(Event::Prepared, NOW);
    let (_, rest) = split(execution.handle(Event::Started { at: NOW.time, remark: None }, NOW));
    assert_eq!(rest, [Effect::Watch { deadline: Some(Timestamp(6_000_000_000)) }]);
    assert_eq!(execution.handle(Event::TimedOut, NOW), [Effect::Stop]);
    assert_eq!(execution.handle(Event::TimedOut, NOW), []);
    execution.handle(exited(143), NOW);
    let (report, _) = split(execution.handle(Event::Collected(Box::default()), NOW));
    assert_eq!(report.compute_state, ComputeState::Failed);
    assert_eq!(report.cause, FailureCause::Timeout);
    assert_eq!(report.message, "execution timeout: still running after 5 s");
    assert_eq!(report.run_output.unwrap().exit_code, 143);
}

#[test]
fn a_task_beyond_its_disk_limit_is_stopped_and_fails() {
    let mut execution = running();
    let too_much = Failure::task("it has 2 B, more than 1 B");
    assert_eq!(execution.handle(Event::Overfull(too_much.clone()), NOW), [Effect::Stop]);
    assert_eq!(execution.handle(Event::TimedOut, NOW), []);
    execution.handle(exited(143), NOW);
    let collected = Collected { spoilt: Some(too_much.clone()), ..Collected::default() };
    let (report, _) = split(execution.handle(Event::Collected(Box::new(collected)), NOW));
    assert_eq!((report.cause, &report.message), (FailureCause::Task, &too_much.message));
    let output = report.run_output.unwrap();
    assert_eq!((output.exit_code, output.runner_error), (143, too_much.message));
}

#[test]
fn a_successful_run_fails_if_its_results_exceed_the_limit() {
    for (failure, cause) in [
        (Failure::task("too much"), FailureCause::Task),
        (Failure::node("no space left"), FailureCause::Node),
    ] {
        let mut execution = running();
        execution.handle(exited(0), NOW);
        let spoilt = Some(failure.clone());
        let collected = Collected { spoilt, ..Collected::default() };
        let (report, _) = split(execution.handle(Event::Collected(Box::new(collected)), NOW));
        assert_eq!((report.compute_state, report.cause), (ComputeState::Failed, cause));
        assert_eq!(report.message, failure.message);
        let output = report.run_output.unwrap();
        assert_eq!((output.exit_code, output.runner_error), (0, failure.message));
    }
}

#[test]
fn a_stop_before_the_run_cancels_at_once() {
    let mut execution = accepted(0);
    let (report, rest) = split(execution.handle(stopped(), NOW));
    assert_eq!(report, plain(2, ComputeState::Cancelled, "enough"));
    assert_eq!(rest, [Effect::Discard], "an agent that died may have prepared it");
    assert_eq!(execution.handle(desired(DesiredState::Running, ""), NOW), []);
}

#[test]
fn a_stop_during_a_fetch_waits_for_its_cancellation() {
    for end in [Event::Prepared, Event::Failed(Failure::node("no image"))] {
        let mut execution = accepted(0);
        execution.handle(desired(DesiredState::Running, ""), NOW);
        assert_eq!(execution.handle(stopped(), NOW), [Effect::Cancel]);
        assert_eq!(execution.handle(stopped(), NOW), []);
        let (report, rest) = split(execution.handle(end, NOW));
        assert_eq!(report, plain(2, ComputeState::Cancelled, "enough"));
        assert_eq!(rest, [Effect::Discard]);
    }
}

#[test]
fn a_stop_during_the_start_stops_the_started_task() {
    let mut execution = accepted(0);
    execution.handle(desired(DesiredState::Running, ""), NOW);
    execution.handle(Event::Prepared, NOW);
    assert_eq!(execution.handle(stopped(), NOW), [Effect::Cancel]);
    let (report, rest) =
        split(execution.handle(Event::Started { at: NOW.time, remark: None }, NOW));
    assert_eq!(report, plain(2, ComputeState::BidAccepted, ""));
    assert_eq!(rest, [Effect::Stop, Effect::Watch { deadline: None }]);
    assert_eq!(execution.handle(exited(143), NOW), [Effect::Collect { exit_code: 143 }]);
    let (report, _) = split(execution.handle(Event::Collected(Box::default()), NOW));
    assert_eq!(
        (report.compute_state, report.message.as_str()),
        (ComputeState::Cancelled, "enough")
    );
}

#[test]
fn a_stop_of_a_running_task_cancels_it_with_its_output() {
    let mut execution = running();
    assert_eq!(execution.handle(stopped(), NOW), [Effect::Stop]);
    execution.handle(exited(143), NOW);
    let (report, _) = split(execution.handle(Event::Collected(Box::default()), NOW));
    assert_eq!(report.compute_state, ComputeState::Cancelled);
    assert_eq!(report.run_output.unwrap().exit_code, 143);
}

#[test]
fn a_stop_after_the_end_does_not_change_the_outcome() {
    let mut execution = running();
    execution.handle(exited(0), NOW);
    assert_eq!(execution.handle(stopped(), NOW), []);
    let (report, _) = split(execution.handle(Event::Collected(Box::default()), NOW));
    assert_eq!(report.compute_state, ComputeState::Completed);
}

#[test]
fn a_failed_step_fails_the_execution_with_its_cause() {
    let mut execution = accepted(0);
    execution.handle(desired(DesiredState::Running, ""), NOW);
    let (report, rest) = split(execution.handle(Event::Failed(Failure::node("no image")), NOW));
    assert_eq!(report.cause, FailureCause::Node);
    let output = report.run_output.unwrap();
    assert_eq!((output.runner_error.as_str(), output.exit_code), ("no image", NO_EXIT_CODE));
    assert_eq!(rest, [Effect::Discard]);
    assert_eq!(execution.handle(Event::Failed(Failure::task("again")), NOW), []);
}

#[test]
fn progress_is_reported_only_during_preparation() {
    let progress = || Event::Progress { message: "half".to_owned() };
    let mut execution = accepted(0);
    assert_eq!(execution.handle(progress(), NOW), []);
    execution.phase = Phase::Preparing;
    let (report, rest) = split(execution.handle(progress(), NOW));
    assert_eq!(report, plain(2, ComputeState::AskForBidAccepted, "half"));
    assert_eq!((rest, &execution.phase), (Vec::new(), &Phase::Preparing));
    execution.handle(stopped(), NOW);
    assert_eq!(execution.handle(progress(), NOW), []);
    let mut execution = running();
    assert_eq!(execution.handle(progress(), NOW), []);
}

#[test]
fn a_task_that_vanishes_during_its_stop_is_cancelled() {
    let mut execution = running();
    execution.handle(stopped(), NOW);
    let (report, _) = split(execution.handle(Event::Failed(Failure::node("gone")), NOW));
    assert_eq!(report.compute_state, ComputeState::Cancelled);
}

#[test]
fn a_restart_repeats_the_interrupted_step() {
    let message = "enough".to_owned();
    let reason = StopReason::NoLongerWanted { message: message.clone() };
    let verdict = Verdict::of_exit(&Exit::default(), None, &work(0));
    let stop_and_watch = [Effect::Stop, Effect::Watch { deadline: None }];
    for (phase, effects) in [
        (Phase::Accepted, &[][..]),
        (Phase::Preparing, &[Effect::Prepare]),
        (Phase::Starting { boot_id: NOW.boot_id, since: NOW.time }, &[Effect::Start]),
        (Phase::Overtaken { message }, &stop_and_watch),
        (
            Phase::Running { started_at: NOW.time, boot_id: NOW.boot_id },
            &[Effect::Watch { deadline: None }],
        ),
        (Phase::Stopping { reason }, &stop_and_watch),
        (Phase::Collecting { verdict }, &[Effect::Collect { exit_code: 0 }]),
    ] {
        let mut execution = Execution { phase, ..accepted(0) };
        assert_eq!(execution.resume(NOW), effects, "{:?}", execution.phase);
    }
    let phase = Phase::Withdrawing { message: "enough".to_owned() };
    let mut execution = Execution { phase, ..accepted(0) };
    let (report, rest) = split(execution.resume(NOW));
    assert_eq!(report, plain(2, ComputeState::Cancelled, "enough"));
    assert_eq!(rest, [Effect::Discard]);
    assert_eq!(execution.resume(NOW), []);
}

#[test]
fn a_phase_reads_back_from_the_ledger() {
    let verdict = Verdict::of_stop(&StopReason::ExecutionTimeout, &Exit::default(), &work(9));
    for phase in [
        Phase::Accepted,
        Phase::Running { started_at: NOW.time, boot_id: NOW.boot_id },
        Phase::Stopping { reason: StopReason::ExecutionTimeout },
        Phase::Stopping { reason: StopReason::Overfull(Failure::node("full")) },
        Phase::Collecting { verdict },
        Phase::Done {
            state: ComputeState::Failed,
            message: "exit code 3".to_owned(),
            finished_at: NOW.time,
            unpublished: true,
            kept_bytes: Some(7),
            outcome: Some(Box::new(Outcome {
                definite: false,
                cause: FailureCause::Publish,
                confirmed: false,
                exit_code: Some(3),
                published: None,
                ended_agent: false,
            })),
        },
    ] {
        let text = serde_json::to_string(&phase).unwrap();
        assert_eq!(serde_json::from_str::<Phase>(&text).unwrap(), phase);
    }
}
