//! The operations of the agent protocol, as the scripted orchestrator serves them.

use std::sync::Arc;

use api_types::credential::CredentialsAnswer;
use api_types::job_input::Archives;
use api_types::node::Membership;
use api_types::protocol::{
    Acknowledgement, AssignmentLine, FailureCause, Heartbeat, HeartbeatAnswer, Report,
    ReportAnswer, ReportBatch, SessionAnswer,
};
use api_types::secret::{SecretValue, SecretsAnswer};
use api_types::{ApiError, Code, routes};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use futures_util::StreamExt;
use http::StatusCode;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Shared;

pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let router = Router::new()
        .route(routes::NODE_SESSION, put(join))
        .route(routes::NODE_HEARTBEAT, put(heartbeat))
        .route(routes::NODE_ASSIGNMENTS, get(assignments))
        .route(routes::NODE_EXECUTIONS, put(report))
        .route(routes::NODE_CREDENTIALS, post(credentials))
        .route(routes::NODE_SECRETS, post(secrets))
        .route(routes::NODE_NEEDED_ARCHIVES, post(needed_archives))
        .with_state(shared);
    // Dropped with this future, and every connection with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let service = TowerToHyperService::new(router.clone());
        connections.spawn(async move {
            let served = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            drop(served.await);
        });
    }
}

fn json<T: serde::Serialize>(value: &T) -> Response {
    serde_json::to_vec(value).expect("JSON").into_response()
}

fn read<T: serde::de::DeserializeOwned>(body: &Bytes) -> T {
    serde_json::from_slice(body).expect("the agent sends what the protocol says")
}

fn stale() -> Response {
    let error = ApiError::new(Code::StaleSession, "join again");
    (StatusCode::CONFLICT, serde_json::to_vec(&error).expect("JSON")).into_response()
}

async fn join(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let request = read(&body);
    let (session, causes, term) = shared.change(|state| {
        state.node = Some(request);
        state.session += 1;
        state.streams.clear();
        let causes = if state.is_old { Vec::new() } else { vec![FailureCause::REFUSED.to_owned()] };
        (state.session, causes, state.term.clone())
    });
    json(&SessionAnswer {
        session,
        lease_seconds: 3,
        heartbeat_seconds: 1,
        membership: Membership::Approved,
        causes,
        term,
    })
}

async fn heartbeat(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let heartbeat: Heartbeat = read(&body);
    let (known, probe, term) = shared.change(|state| {
        let known = state.session == heartbeat.session;
        state.heartbeats.push(heartbeat);
        (known, state.probe, state.term.clone())
    });
    let answer = HeartbeatAnswer { lease_seconds: 3, heartbeat_seconds: 1, probe, term };
    if known { json(&answer) } else { stale() }
}

async fn assignments(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let lines = shared.change(|state| {
        if query != Some(format!("session={}", state.session)) {
            return None;
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        let executions = state.desired.len() as u64;
        let snapshot = state.desired.values().cloned();
        let lines = std::iter::once(AssignmentLine::Snapshot { executions })
            .chain(snapshot.map(|assignment| AssignmentLine::Assignment(Box::new(assignment))));
        for line in lines {
            sender.send(line).expect("the receiver is here");
        }
        state.streams.push(sender);
        Some(receiver)
    });
    let Some(receiver) = lines else { return stale() };
    let lines = futures_util::stream::unfold(receiver, |mut receiver| async {
        let line = receiver.recv().await?;
        let mut bytes = serde_json::to_vec(&line).expect("JSON");
        bytes.push(b'\n');
        Some((Ok::<_, std::convert::Infallible>(bytes), receiver))
    });
    Body::from_stream(lines.boxed()).into_response()
}

async fn credentials(State(shared): State<Arc<Shared>>) -> Response {
    let credentials = shared.change(|state| state.credentials.clone());
    json(&CredentialsAnswer { credentials })
}

/// Every task has these.
async fn secrets() -> Response {
    let value =
        |name: &str| SecretValue { name: name.to_owned(), version: 1, data: "eA==".to_owned() };
    json(&SecretsAnswer { secrets: ["first", "second"].map(value).into() })
}

/// No job depends on any.
async fn needed_archives() -> Response {
    json(&Archives::default())
}

async fn report(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let ReportBatch { session, reports } = read(&body);
    if shared.change(|state| std::mem::take(&mut state.loses_a_batch)) {
        return std::future::pending().await;
    }
    if shared.change(|state| state.refuses_outputs)
        && reports.iter().any(|report| report.run_output.is_some())
    {
        let error = ApiError::new(Code::MalformedBody, "it says too much");
        return (StatusCode::BAD_REQUEST, serde_json::to_vec(&error).expect("JSON"))
            .into_response();
    }
    let acknowledged = shared.change(|state| {
        if state.session != session {
            return None;
        }
        let acknowledged = match state.keeps_reports_unacknowledged {
            true => Vec::new(),
            false => reports.iter().map(acknowledgement).collect(),
        };
        for report in reports.iter().filter(|_| !acknowledged.is_empty()) {
            if report.compute_state.is_terminal() {
                state.desired.remove(&report.execution_id);
            } else if let Some(assignment) = state.desired.get_mut(&report.execution_id) {
                assignment.compute_state = report.compute_state;
            }
        }
        state.came.extend(reports);
        Some(acknowledged)
    });
    acknowledged.map_or_else(stale, |acknowledged| json(&ReportAnswer { acknowledged }))
}

fn acknowledgement(report: &Report) -> Acknowledgement {
    Acknowledgement { execution_id: report.execution_id, sequence: report.sequence }
}
