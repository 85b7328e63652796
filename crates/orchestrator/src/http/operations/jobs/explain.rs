//! Explain Job: why it is where it is.

use std::sync::Arc;

use api_types::explanation::{ExecutionFailure, Explanation, WaitingJob};
use api_types::gate::ClosedGate;
use api_types::{JobId, reason, routes};
use axum::extract::State;
use control_plane::store::Reads;
use scheduler::change::ExecutionRow;
use scheduler::{Held, Reasons, Standing, Waits};

use super::super::slots;
use super::summary::summary;
use crate::access::masking;
use crate::clock;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::error::{Failure, Kind};
use crate::http::lookup;
use crate::http::openapi::{CALL, JOB, READ, examples, params, refusals};
use crate::http::operations::survey;
use crate::http::respond::rendered;

/// The most failed executions that an explanation lists.
const FAILURES: u32 = 100;

/// Explain Job
///
/// Why a job waits or failed: what waits and how many jobs come first, what each node lacks for
/// another execution, and which executions failed.
#[utoipa::path(
    get,
    path = routes::JOB_EXPLAIN,
    operation_id = "explainJob",
    tag = "Jobs",
    params(params::JobPath),
    responses((status = 200, description = "The explanation.", body = Explanation, example = json!(examples::explanation()))),
    extensions(("x-error-codes" = json!(refusals(&[JOB, READ, CALL])))),
)]
pub(super) async fn explain(
    State(api): State<Arc<Api>>,
    access: Access,
    Parameter(text): Parameter,
) -> Handled {
    let (id, access) =
        api.read(move |reads| Ok((lookup::job_id(reads, &access, &text)?, access))).await?;
    // First the scheduler, then the store: a job that ends in between is over in both.
    let (standing, _turn) = survey::ask(&api, move |scheduler| scheduler.standing(id)).await?;
    let view = Arc::clone(&api.view);
    let read = move |reads: &dyn Reads| {
        let stored = reads.summary(id)?.ok_or_else(|| absent(id))?;
        // Reads specifications, which takes a moment if they are large.
        let failed = slots::failed_indexes(reads, id, stored.failed_slots)?;
        Ok((summary(stored, &view), reads.failures(id, FAILURES)?, failed))
    };
    let (job, failures, failed_indexes) = api.read(read).await?;
    let is_over = job.state.state_type.is_terminal();
    let standing = standing.filter(|_| !is_over);
    let Standing { waits, gates, nodes, reasons: Reasons { groups, hopeless } } =
        standing.unwrap_or_default();
    let groups = match access.shows_content(&job.namespace) {
        true => groups,
        false => groups.into_iter().map(masking::reason).collect(),
    };
    let title = waits.as_ref().map_or_else(String::new, |waits| {
        reason::title(&groups, waits.ahead.jobs, waits.ahead.more)
    });
    // There may be thousands of nodes.
    rendered(Explanation {
        job_id: id,
        state: job.state.state_type,
        message: job.state.message,
        title,
        hopeless,
        groups,
        executions: job.executions,
        failed_count: job.state.failed_count,
        failed_indexes,
        waiting: waits.as_ref().map(waiting),
        gates: gates.into_iter().map(closed_gate).collect(),
        nodes,
        failures: failures.into_iter().map(failure).collect(),
    })
    .await
}

fn absent(id: JobId) -> Failure {
    lookup::absent(Kind::Job, &id.to_string())
}

fn waiting(waits: &Waits) -> WaitingJob {
    WaitingJob {
        since: (clock::now() - waits.waited).rfc3339(),
        slots: waits.slots,
        ahead: waits.ahead.jobs,
        ahead_is_more: waits.ahead.more,
        reserved_node: waits.reserved,
    }
}

fn closed_gate(held: Held) -> ClosedGate {
    ClosedGate {
        gate_type: held.gate_type.to_string(),
        slots: held.slots,
        since: held.since.rfc3339(),
        message: held.message.to_string(),
    }
}

fn failure(row: ExecutionRow) -> ExecutionFailure {
    ExecutionFailure {
        execution_id: row.id,
        node_id: row.node,
        state: row.compute,
        reason: row.compute_message.to_string(),
        time: row.modify_time.rfc3339(),
    }
}
