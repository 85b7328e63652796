//! `jobctl explain`: what a job waits for, node by node.

use anyhow::{Context, Result};
use api_types::NodeId;
use api_types::execution::{ComputeState, Execution};
use api_types::job::{DryRunNode, Job};
use serde::Serialize;

use super::{Exit, Session};
use crate::cli::DescribeArgs;
use crate::clock;
use crate::output::{Cell, Fields, Format, Layout, Table, age};
use crate::submission;
use crate::view::{DryRunRow, job_tone, state_word};
use crate::waiting::executions;

#[derive(Debug, Serialize)]
struct Explanation {
    #[serde(rename = "JobID")]
    job_id: api_types::JobId,
    #[serde(rename = "State")]
    state: String,
    #[serde(rename = "Message")]
    message: String,
    /// The failed and rejected executions.
    #[serde(rename = "Failures")]
    failures: Vec<Failure>,
    /// For each node, whether it could run another execution; empty for an ended job.
    #[serde(rename = "Nodes")]
    nodes: Vec<DryRunNode>,
}

#[derive(Debug, Serialize)]
struct Failure {
    #[serde(rename = "ExecutionID")]
    execution_id: api_types::ExecutionId,
    #[serde(rename = "NodeID")]
    node_id: NodeId,
    #[serde(rename = "State")]
    state: &'static str,
    #[serde(rename = "Reason")]
    reason: String,
}

pub(super) async fn explain(session: &Session, args: &DescribeArgs) -> Result<Exit> {
    let client = &session.client;
    let job = client.describe_job(&args.job).await?;
    let id = job.id.to_string();
    let all = executions(client, &id).await?;
    let failures = all.iter().filter_map(failure).collect();
    let nodes = if job.state.state_type.is_terminal() {
        Vec::new()
    } else {
        let body = submission::resubmission(&job.spec)?;
        client.dry_run_job_raw(body).await.context("find out where it could run")?.nodes
    };
    let explanation = Explanation {
        job_id: job.id,
        state: job.state.state_type.to_string(),
        message: job.state.message.clone(),
        failures,
        nodes,
    };
    match args.output.format {
        Format::Json => session.out.json(&explanation)?,
        Format::Yaml => session.out.yaml(&explanation)?,
        Format::Name => session.out.line(&id)?,
        Format::Table | Format::Wide => {
            show(session, &job, &all, &explanation, args.output.format).await?;
        }
    }
    Ok(Exit::Done)
}

fn failure(execution: &Execution) -> Option<Failure> {
    let state = execution.compute_state.state_type;
    let failed = match state {
        ComputeState::Failed | ComputeState::AskForBidRejected => true,
        ComputeState::Undefined
        | ComputeState::New
        | ComputeState::AskForBid
        | ComputeState::AskForBidAccepted
        | ComputeState::BidAccepted
        | ComputeState::BidRejected
        | ComputeState::Completed
        | ComputeState::Cancelled => false,
    };
    failed.then(|| Failure {
        execution_id: execution.id,
        node_id: execution.node_id,
        state: state_word(state),
        reason: execution.compute_state.message.clone(),
    })
}

async fn show(
    session: &Session,
    job: &Job,
    all: &[Execution],
    explanation: &Explanation,
    format: Format,
) -> Result<()> {
    let out = session.out;
    let now = clock::now();
    let state = job.state.state_type;
    let mut fields = Fields::default();
    fields
        .add("Job", format!("{} {}", job.id, job.spec.name))
        .add_toned("State", format!("{state} for {}", age(now, job.modify_time)), job_tone(state))
        .add_some("Message", &job.state.message)
        .add("Executions", count_by_state(all));
    out.fields(&fields)?;
    if !explanation.failures.is_empty() {
        let mut table = Table::new(vec!["EXECUTION", "NODE", "STATE", "REASON"]);
        for failure in &explanation.failures {
            table.push(vec![
                Cell::plain(failure.execution_id.short()),
                Cell::plain(failure.node_id.short()),
                Cell::plain(failure.state),
                Cell::plain(&failure.reason),
            ]);
        }
        out.line("\nFailures so far:")?;
        out.table(&table)?;
    }
    if state.is_terminal() {
        return out.line("\nThe job has ended.");
    }
    let rows = DryRunRow::all(&explanation.nodes, &session.hostnames().await?);
    if rows.is_empty() {
        return out.line("\nThere is no compute node: start an agent, or approve one.");
    }
    out.line("\nIf the job were submitted again now:")?;
    out.list(format, &Layout::of(format), &rows)
}

/// `2 Completed, 1 Running`, ordered by state number.
fn count_by_state(executions: &[Execution]) -> String {
    let counts: Vec<_> = ComputeState::ALL
        .iter()
        .map(|state| {
            let count =
                executions.iter().filter(|found| found.compute_state.state_type == *state).count();
            (state, count)
        })
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!("{count} {}", state_word(*state)))
        .collect();
    if counts.is_empty() { "none yet".to_owned() } else { counts.join(", ") }
}
