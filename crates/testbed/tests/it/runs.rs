//! A run from submission to end: history, output, exit code.

use api_client::HistoryQuery;
use api_types::execution::{ComputeState, DesiredState, RUN_OUTPUT_BYTES};
use api_types::history::{EventType, HistoryEvent};
use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{Cluster, batch, eventually};

/// `http-api.md`, "States and transitions".
pub(crate) const SIX_TRANSITIONS: [(u8, u8); 6] = [(1, 1), (1, 2), (2, 3), (3, 3), (3, 5), (5, 7)];

pub(crate) fn transitions(events: &[HistoryEvent]) -> Vec<(u8, u8)> {
    events
        .iter()
        .filter_map(|event| event.execution_state)
        .map(|change| (change.previous.into(), change.new.into()))
        .collect()
}

#[tokio::test]
async fn a_successful_run_has_exactly_the_six_transitions_of_the_specification() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["echo", "hello", "world"])).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;

    let execution = cluster.execution(id).await;
    assert_eq!(execution.compute_state.state_type, ComputeState::Completed);
    assert_eq!(execution.desired_state.state_type, DesiredState::Stopped);
    assert_eq!(execution.revision, 6);
    assert_eq!(execution.job_id, id);
    assert_eq!(execution.node_id, cluster.agents[0].node_id());
    assert_eq!(execution.name, "echo[0]");
    assert_eq!(execution.run_output.stdout, "hello world\n");
    assert_eq!(execution.run_output.exit_code, 0);
    assert!(execution.eval_id.is_some());

    let query =
        HistoryQuery { event_type: Some("execution".to_owned()), ..HistoryQuery::default() };
    let events = cluster.history(id, &query).await;
    assert_eq!(transitions(&events), SIX_TRANSITIONS);
    for (revision, event) in (1..).zip(&events) {
        assert_eq!(event.event_type, EventType::ExecutionLevel);
        assert_eq!(event.new_revision, revision);
        assert_eq!(event.job_id, Some(id));
        assert_eq!(event.execution_id, Some(execution.id));
        assert_eq!(event.node_id, Some(execution.node_id));
        assert_eq!(event.job_state, None);
        assert!(!event.comment.is_empty(), "{event:?}");
    }
    assert!(events.is_sorted_by_key(|event| &event.time), "{events:#?}");
}

#[tokio::test]
async fn the_history_of_a_job_leads_from_pending_to_completed() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["echo", "x"])).await;
    let job = cluster.wait_for_job(id, JobStateType::Completed).await;

    let query = HistoryQuery { event_type: Some("job".to_owned()), ..HistoryQuery::default() };
    let events = cluster.history(id, &query).await;
    let states: Vec<_> = events
        .iter()
        .filter_map(|event| event.job_state)
        .map(|change| (change.previous, change.new))
        .filter(|(previous, new)| previous != new)
        .collect();
    assert_eq!(
        states,
        [
            (JobStateType::Pending, JobStateType::Running),
            (JobStateType::Running, JobStateType::Completed),
        ]
    );
    for (revision, event) in (1..).zip(&events) {
        assert_eq!(event.event_type, EventType::JobLevel);
        assert_eq!(event.new_revision, revision);
        assert_eq!((event.execution_id, event.execution_state), (None, None));
        assert!(!event.comment.is_empty(), "{event:?}");
    }
    assert_eq!(Some(job.revision), events.last().map(|event| event.new_revision));
    for key in ["service.org/requester.id", "service.org/requester.publicKey"] {
        let value = job.spec.meta.get(key);
        assert!(value.is_some_and(|value| !value.is_empty()), "{key}: {value:?}");
    }
}

#[tokio::test]
async fn output_is_stored_up_to_its_limit_and_flagged_beyond_it() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let exact = cluster.submit(&batch(&cluster.image, &["bytes", "2048"])).await;
    let more = cluster.submit(&batch(&cluster.image, &["bytes", "2049", "stderr"])).await;
    let much = cluster.submit(&batch(&cluster.image, &["lines", "20000", "both"])).await;

    cluster.wait_for_job(exact, JobStateType::Completed).await;
    let output = cluster.execution(exact).await.run_output;
    assert_eq!((output.stdout.len(), output.stdout_truncated), (RUN_OUTPUT_BYTES, false));
    assert_eq!((output.stderr.as_str(), output.stderr_truncated), ("", false));

    cluster.wait_for_job(more, JobStateType::Completed).await;
    let output = cluster.execution(more).await.run_output;
    assert_eq!((output.stderr.len(), output.stderr_truncated), (RUN_OUTPUT_BYTES, true));
    assert!(output.stderr.starts_with("0123456789"), "{}", output.stderr);
    assert_eq!((output.stdout.as_str(), output.stdout_truncated), ("", false));

    cluster.wait_for_job(much, JobStateType::Completed).await;
    let output = cluster.execution(much).await.run_output;
    for (stream, truncated) in
        [(output.stdout, output.stdout_truncated), (output.stderr, output.stderr_truncated)]
    {
        assert_eq!((stream.len(), truncated), (RUN_OUTPUT_BYTES, true));
        assert!(stream.starts_with("line 0\nline 1\n"), "the first bytes are kept: {stream}");
    }
}

#[tokio::test]
async fn a_non_zero_exit_code_fails_the_job_and_keeps_the_output() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["exit", "7", "so", "far"])).await;
    let job = cluster.wait_for_job(id, JobStateType::Failed).await;
    assert!(!job.state.message.is_empty());

    let execution = cluster.execution(id).await;
    assert_eq!(execution.compute_state.state_type, ComputeState::Failed);
    assert!(execution.compute_state.message.contains('7'), "{:?}", execution.compute_state);
    assert_eq!(execution.run_output.exit_code, 7);
    assert_eq!(execution.run_output.stdout, "so far\n");
    let events = cluster.history(id, &HistoryQuery::default()).await;
    assert_eq!(transitions(&events).last(), Some(&(5, 8)));
}

#[tokio::test]
async fn a_batch_job_runs_count_times() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let mut job = batch(&cluster.image, &["env"]);
    job["Count"] = json!(3);
    let mut executions = cluster.run(&job).await;
    executions.sort_by(|one, other| one.name.cmp(&other.name));
    let names: Vec<_> = executions.iter().map(|execution| execution.name.as_str()).collect();
    assert_eq!(names, ["env[0]", "env[1]", "env[2]"]);
    for (index, execution) in executions.iter().enumerate() {
        let line = format!("SERVICE_EXECUTION_INDEX={index}\n");
        assert!(execution.run_output.stdout.contains(&line), "{:?}", execution.run_output);
    }
}

#[tokio::test]
async fn one_failed_execution_fails_the_batch_and_the_others_end_too() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let mut job = batch(&cluster.image, &["wc", "--share", "/nowhere"]);
    job["Count"] = json!(2);
    let id = cluster.submit(&job).await;
    cluster.wait_for_job(id, JobStateType::Failed).await;
    eventually("both executions have ended", async || {
        let executions = cluster.executions(id).await;
        let live =
            executions.iter().filter(|one| !one.compute_state.state_type.is_terminal()).count();
        if live == 0 { Ok(()) } else { Err(format!("{live} are live")) }
    })
    .await;
    cluster.no_container_left().await;
}

#[tokio::test]
async fn the_exit_code_is_minus_one_until_a_process_has_ended() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let running = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    let execution = cluster.wait_for_execution(running, ComputeState::BidAccepted).await;
    assert_eq!(execution.run_output.exit_code, -1, "it runs");
    cluster.client().stop_job(running, "").await.unwrap();
    cluster.ending(running).await;
    assert_eq!(cluster.execution(running).await.run_output.exit_code, 143);

    let mut absent = batch("127.0.0.1:9/absent:1", &["echo"]);
    absent["Tasks"][0]["Engine"]["Params"]["PullPolicy"] = json!("never");
    let absent = cluster.submit(&absent).await;
    let failed = eventually("its first try has failed", async || {
        let executions = cluster.executions(absent).await;
        let failed = executions.iter().find(|one| one.compute_state.state_type.is_terminal());
        failed.cloned().ok_or_else(|| format!("{executions:?}"))
    })
    .await;
    assert_eq!(failed.run_output.exit_code, -1, "nothing ran: {failed:?}");
}
