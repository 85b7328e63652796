//! Requests from agents: sessions, heartbeats, reports, output; [`assignments`] streams their work.

mod assignments;
mod bounds;
mod credentials;
mod inputs;
mod sealed;
mod secrets;
mod specification;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use api_types::error::FieldError;
use api_types::execution::ComputeState;
use api_types::protocol::{
    Heartbeat, HeartbeatAnswer, MAX_REPORTS_PER_BATCH, ReportAnswer, ReportBatch, SessionAnswer,
    SessionRequest,
};
use api_types::{Code, routes};
use axum::Extension;
use axum::extract::State;
use control_plane::clock::Reading;
use daemon::collect;
use daemon::http::Operations;
use failpoint::StepFailpoints;
use scheduler::input::{Answer, Input};
use scheduler::silence::NodeLease;

use crate::access::node::{CertifiedNode, without_claims};
use crate::driver::CallError;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::body::{JsonBody, READ_ON_THE_SPOT_BYTES};
use crate::http::error::{BadRequest, Failure};
use crate::http::lookup;
use crate::http::openapi::{BODY, CALL, OWN_NODE_ID, QUERY, SESSION, examples, params, refusals};
use crate::http::query::Query;
use crate::http::respond::{blocking, json};

const REPORT_FAILPOINTS: StepFailpoints<CallError> = StepFailpoints {
    before: "report.take",
    after: "report.answer",
    refused: || CallError::QueueFull,
    lost: || CallError::StoreUnavailable,
};

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default()
        .merge(collect!(join))
        .merge(collect!(heartbeat))
        .merge(collect!(assignments::stream))
        .merge(collect!(report))
        .merge(collect!(secrets::read))
        .merge(collect!(credentials::read))
        .merge(collect!(inputs::results))
        .merge(collect!(inputs::archive))
        .merge(collect!(inputs::needed))
        .merge(collect!(streams::deliver))
}

/// Session
///
/// Joins, or joins again after anything went wrong; each join increments the session number.
#[utoipa::path(
    put,
    path = routes::NODE_SESSION,
    operation_id = "joinNode",
    tag = "Agent protocol",
    params(params::OwnNodePath),
    request_body(content = SessionRequest, example = json!(examples::session_request())),
    responses((status = 200, description = "The session, and how to keep it.", body = SessionAnswer, example = json!(examples::session()))),
    extensions(("x-error-codes" = json!(refusals(&[OWN_NODE_ID, QUERY, BODY, CALL, &[Code::Forbidden, Code::NodeConflict]])))),
)]
async fn join(
    State(api): State<Arc<Api>>,
    certified: Option<Extension<CertifiedNode>>,
    _: Query,
    Parameter(text): Parameter,
    body: JsonBody,
) -> Handled {
    let node = bounds::agent_node(&api, lookup::full_node(&text)?)?;
    bounds::check_size(&body)?;
    let mut request: SessionRequest = body.read_exactly()?;
    bounds::check_session(&request)?;
    without_claims(&mut request);
    if let Some(Extension(certified)) = certified {
        certified.identity.amend(&mut request);
    }
    match api.handle.call(Input::Join { node, request: Box::new(request) }).await? {
        Answer::Joined { session, membership, lease } => {
            api.observer.metrics.sessions.inc();
            let answer = SessionAnswer::granting(session, lease, membership);
            json(&SessionAnswer { term: api.view.term().to_string(), ..answer })
        }
        other => Err(unexpected("join", &other)),
    }
}

/// Heartbeat
///
/// Renews the lease of a session.
#[utoipa::path(
    put,
    path = routes::NODE_HEARTBEAT,
    operation_id = "renewLease",
    tag = "Agent protocol",
    params(params::OwnNodePath),
    request_body(content = Heartbeat, example = json!(examples::heartbeat())),
    responses((status = 200, description = "The lease is renewed.", body = HeartbeatAnswer, example = json!(examples::heartbeat_answer()))),
    extensions(("x-error-codes" = json!(refusals(&[OWN_NODE_ID, QUERY, BODY, CALL, SESSION])))),
)]
async fn heartbeat(
    State(api): State<Arc<Api>>,
    _: Query,
    Parameter(text): Parameter,
    body: JsonBody,
) -> Handled {
    let node = lookup::full_node(&text)?;
    bounds::check_size(&body)?;
    let mut heartbeat: Heartbeat = body.read_exactly()?;
    heartbeat.cut_texts();
    let boot = Reading::now().boot;
    // The listener renews a known session without waiting for the driver.
    if let Some(NodeLease { lease, probe, .. }) = api.view.presence().heard(node, &heartbeat, boot)
    {
        return json(&renewed(&api, lease, probe));
    }
    match api.handle.call(Input::Heartbeat { node, heartbeat }).await? {
        Answer::Renewed { lease, probe } => json(&renewed(&api, lease, probe)),
        other => Err(unexpected("heartbeat", &other)),
    }
}

fn renewed(api: &Api, lease: Duration, probe: Option<u64>) -> HeartbeatAnswer {
    let term = api.view.term().to_string();
    HeartbeatAnswer { probe, term, ..HeartbeatAnswer::granting(lease) }
}

/// Reports
///
/// Up to 1,000 observed states; each is acknowledged when it is on disk or was not needed, and
/// repetitions are harmless.
#[utoipa::path(
    put,
    path = routes::NODE_EXECUTIONS,
    operation_id = "reportExecutions",
    tag = "Agent protocol",
    params(params::OwnNodePath),
    request_body(content = ReportBatch, example = json!(examples::report_batch())),
    responses((status = 200, description = "The acknowledged reports.", body = ReportAnswer, example = json!(examples::report_answer()))),
    extensions(("x-error-codes" = json!(refusals(&[OWN_NODE_ID, QUERY, BODY, CALL, SESSION])))),
)]
async fn report(
    State(api): State<Arc<Api>>,
    _: Query,
    Parameter(text): Parameter,
    body: JsonBody,
) -> Handled {
    let node = lookup::full_node(&text)?;
    let (ReportBatch { session, reports }, _body) = read_reports(body).await?;
    let take = || api.handle.call(Input::Reports { node, session, reports: reports.clone() });
    api.observer.metrics.reports.inc_by(reports.len() as u64);
    match failpoint::around(REPORT_FAILPOINTS, take).await? {
        Answer::Acknowledged(acknowledged) => json(&ReportAnswer { acknowledged }),
        other => Err(unexpected("reports", &other)),
    }
}

/// Reads reports, many of them on a blocking thread; returns the body, which keeps its memory.
async fn read_reports(body: JsonBody) -> Result<(ReportBatch, JsonBody), Failure> {
    if body.bytes.len() <= READ_ON_THE_SPOT_BYTES {
        return Ok((checked_reports(&body)?, body));
    }
    blocking(move || Ok((checked_reports(&body)?, body))).await?
}

fn checked_reports(body: &JsonBody) -> Result<ReportBatch, Failure> {
    let mut batch: ReportBatch = body.read_exactly()?;
    if batch.reports.len() > MAX_REPORTS_PER_BATCH {
        let reason = format!("must not be more than {MAX_REPORTS_PER_BATCH}");
        let problem = FieldError { path: "Reports".to_owned(), reason };
        return Err(BadRequest::Body(vec![problem]).into());
    }
    let problems: Vec<FieldError> = batch
        .reports
        .iter_mut()
        .enumerate()
        .filter_map(|(index, report)| {
            bounds::bound_report(report);
            (!is_reported(report.compute_state)).then(|| FieldError {
                path: format!("Reports[{index}].ComputeState"),
                reason: "must be one of 3, 4, 5, 7, 8, 9".to_owned(),
            })
        })
        .collect();
    if problems.is_empty() { Ok(batch) } else { Err(BadRequest::Body(problems).into()) }
}

/// Whether a node can observe this state; the others are the orchestrator's own.
fn is_reported(state: ComputeState) -> bool {
    match state {
        ComputeState::AskForBidAccepted
        | ComputeState::AskForBidRejected
        | ComputeState::BidAccepted
        | ComputeState::Completed
        | ComputeState::Failed
        | ComputeState::Cancelled => true,
        ComputeState::Undefined
        | ComputeState::New
        | ComputeState::AskForBid
        | ComputeState::BidRejected => false,
    }
}

fn unexpected(input: &str, answer: &Answer) -> Failure {
    Failure::Internal { cause: format!("{input} was answered by {answer:?}") }
}
