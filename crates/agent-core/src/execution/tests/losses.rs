//! What a node loses of a run does not change how the run ended.

use super::*;

const LATER: Now = Now { time: Timestamp(7_000_000_000), boot_id: BOOT };

fn lost() -> Event {
    Event::Failed(Failure::node("docker answers 500"))
}

/// A run with a timeout of five seconds, started at [`NOW`].
fn running_for_five_seconds() -> Execution {
    let mut execution = accepted(5);
    for event in [
        desired(DesiredState::Running, ""),
        Event::Prepared,
        Event::Started { at: NOW.time, remark: None },
    ] {
        execution.handle(event, NOW);
    }
    execution
}

#[test]
fn a_failed_collection_leaves_a_run_that_did_not_succeed_as_it_ended() {
    let mut cancelled = running();
    cancelled.handle(stopped(), NOW);
    let mut late = running();
    late.handle(Event::TimedOut, NOW);
    let timeout = "execution timeout: still running after 0 s";
    for (mut execution, code, state, cause, message) in [
        (running(), 3, ComputeState::Failed, FailureCause::Task, "exit code 3"),
        (late, 143, ComputeState::Failed, FailureCause::Timeout, timeout),
        (cancelled, 143, ComputeState::Cancelled, FailureCause::Task, "enough"),
    ] {
        execution.handle(exited(code), NOW);
        let (report, rest) = split(execution.handle(lost(), NOW));
        assert_eq!((report.compute_state, report.cause), (state, cause));
        assert_eq!(report.message, format!("{message}; docker answers 500"));
        assert_eq!(report.run_output.unwrap().exit_code, code);
        assert_eq!(rest, [Effect::Discard]);
    }
}

#[test]
fn a_successful_run_whose_collection_fails_has_failed_on_its_node() {
    let mut execution = running();
    execution.handle(exited(0), NOW);
    let (report, rest) = split(execution.handle(lost(), NOW));
    assert_eq!((report.compute_state, report.cause), (ComputeState::Failed, FailureCause::Node));
    assert_eq!(report.message, "docker answers 500");
    let output = report.run_output.unwrap();
    assert_eq!((output.exit_code, output.runner_error), (0, report.message));
    assert_eq!(rest, [Effect::Discard]);
}

/// The kernel ends a wasm program that uses too much CPU time while its agent is away.
#[test]
fn a_process_that_is_gone_after_its_deadline_has_timed_out() {
    let mut found_gone = running_for_five_seconds();
    assert_eq!(
        found_gone.resume(LATER),
        [Effect::Watch { deadline: Some(Timestamp(6_000_000_000)) }]
    );
    let mut timed_out_first = running_for_five_seconds();
    timed_out_first.handle(Event::TimedOut, LATER);
    for mut execution in [found_gone, timed_out_first] {
        let collect = [Effect::Collect { exit_code: NO_EXIT_CODE }];
        assert_eq!(execution.handle(lost(), LATER), collect);
        let (report, _) = split(execution.handle(Event::Collected(Box::default()), LATER));
        assert_eq!(report.cause, FailureCause::Timeout);
        assert_eq!(report.message, "execution timeout: still running after 5 s");
        assert_eq!(report.run_output.unwrap().exit_code, NO_EXIT_CODE);
    }
    let (report, _) = split(running_for_five_seconds().handle(lost(), NOW));
    assert_eq!(report.cause, FailureCause::Node);
}

#[test]
fn a_process_that_vanishes_while_it_is_ended_for_its_disk_ended_for_that() {
    let mut execution = running();
    execution.handle(Event::Overfull(Failure::task("too much")), NOW);
    execution.handle(lost(), NOW);
    let (report, _) = split(execution.handle(Event::Collected(Box::default()), NOW));
    assert_eq!((report.cause, report.message.as_str()), (FailureCause::Task, "too much"));
}

#[test]
fn a_run_that_ended_with_its_machine_did_not_time_out() {
    let rebooted = Now { boot_id: OTHER_BOOT, ..LATER };
    let mut execution = running_for_five_seconds();
    assert_eq!(execution.resume(rebooted), [Effect::Watch { deadline: None }]);
    let (report, _) = split(execution.handle(lost(), rebooted));
    assert_eq!(report.cause, FailureCause::Node);
}

#[test]
fn a_repeated_outcome_says_who_caused_it_and_where_the_results_are() {
    let mut execution = running();
    execution.handle(exited(0), NOW);
    let result = PublishedResult { publisher_type: PublisherType::Local, ..Default::default() };
    let collected =
        Collected { publishing: Publishing::Done(result.clone()), ..Default::default() };
    let (first, _) = split(execution.handle(Event::Collected(Box::new(collected)), NOW));
    let (again, _) = split(execution.repeat(ComputeState::BidAccepted));
    assert_eq!((again.published_result, again.cause), (Some(result), first.cause));
    assert_eq!(again.run_output.unwrap().exit_code, 0);

    let mut execution = running();
    execution.handle(Event::Failed(Failure::node("the container is gone")), NOW);
    let (again, _) = split(execution.repeat(ComputeState::BidAccepted));
    assert_eq!(
        (again.cause, again.message.as_str()),
        (FailureCause::Node, "the container is gone")
    );
}

/// Its state was restored from a backup.
#[test]
fn an_orchestrator_that_knows_less_is_told_again_what_runs() {
    let told = |execution: &mut Execution, known| {
        let effects = execution.repeat(known).into_iter();
        let states = effects.map(|effect| match effect {
            Effect::Report(report) => (report.compute_state, report.process_ended),
            other => panic!("{other:?}"),
        });
        states.collect::<Vec<_>>()
    };
    use ComputeState::{AskForBid, AskForBidAccepted, BidAccepted};
    let mut offered = accepted(0);
    assert_eq!(told(&mut offered, AskForBid), [(AskForBidAccepted, false)]);
    assert_eq!(told(&mut offered, AskForBidAccepted), []);
    for known in [AskForBid, AskForBidAccepted] {
        assert_eq!(told(&mut running(), known), [(BidAccepted, false)]);
    }
    assert_eq!(told(&mut running(), BidAccepted), []);
    let mut stopping = running();
    stopping.handle(stopped(), NOW);
    assert_eq!(told(&mut stopping, AskForBid), [(BidAccepted, false)]);
}

#[test]
fn many_long_notes_make_no_long_message() {
    let mut execution = running();
    execution.handle(exited(0), NOW);
    let notes = vec!["x".repeat(1 << 12); 64];
    let collected = Collected { notes, ..Default::default() };
    let (report, _) = split(execution.handle(Event::Collected(Box::new(collected)), NOW));
    assert_eq!(execution.phase.message(), report.message);
    assert!(report.message.len() <= MAX_MESSAGE_BYTES, "{} bytes", report.message.len());
}

#[test]
fn what_a_probe_has_shown_of_the_node_is_in_the_report_and_in_its_repetition() {
    for (failure, confirmed) in
        [(Failure::confirmed("it starts nothing"), true), (Failure::refused("no program"), false)]
    {
        let mut execution = accepted(0);
        execution.handle(desired(DesiredState::Running, ""), NOW);
        let (report, _) = split(execution.handle(Event::Failed(failure.clone()), NOW));
        assert_eq!((report.cause, report.confirmed), (failure.cause, confirmed));
        let (again, _) = split(execution.repeat(ComputeState::BidAccepted));
        assert_eq!((again.cause, again.confirmed), (failure.cause, confirmed));
    }
    // Its process went well, and its output cannot be read.
    let mut execution = running();
    execution.handle(exited(0), NOW);
    let spoilt = Event::Failed(Failure::confirmed("its disk is broken"));
    let (report, _) = split(execution.handle(spoilt, NOW));
    assert_eq!((report.cause, report.confirmed), (FailureCause::Node, true));
    assert_eq!(report.compute_state, ComputeState::Failed);
}

/// The ledger of an earlier release knows nothing of probes.
#[test]
fn a_failure_without_a_word_on_probes_is_not_confirmed() {
    let old: Failure = serde_json::from_str(r#"{"cause":"Node","message":"x"}"#).unwrap();
    assert_eq!(old, Failure::node("x"));
    assert_eq!(serde_json::to_string(&old).unwrap(), r#"{"cause":"Node","message":"x"}"#);
}
