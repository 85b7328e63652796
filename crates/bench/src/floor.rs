//! The floor of submissions: the same HTTP stack, which parses a job and responds without storing
//! it. It runs as a separate process, like the orchestrator.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::Context;
use api_types::submission::CreateJobRequest;
use axum::Router;
use axum::body::Bytes;
use axum::response::IntoResponse;
use axum::routing::put;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tower::ServiceExt;
use uuid::Uuid;

/// The argument that starts this program as the floor.
const ARGUMENT: &str = "--serve-floor";

/// The process of the floor; dropping it ends the process.
pub(super) struct Floor {
    pub(super) address: SocketAddr,
    _process: Child,
}

/// Serves until the process is killed; calls `report_address` first.
pub async fn serve(report_address: impl FnOnce(SocketAddr)) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    report_address(listener.local_addr()?);
    let router = Router::new().route(api_types::routes::JOBS, put(respond));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let router = router.clone();
        tokio::spawn(http1::Builder::new().serve_connection(
            TokioIo::new(stream),
            service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                router.clone().oneshot(request.map(axum::body::Body::new))
            }),
        ));
    }
}

async fn respond(body: Bytes) -> axum::response::Response {
    match serde_json::from_slice::<CreateJobRequest>(&body) {
        Ok(CreateJobRequest { job: Some(_) }) => {
            let id = Uuid::from_u128(u128::MAX / 3);
            let response = json!({ "JobID": format!("j-{id}"), "EvaluationID": format!("v-{id}") });
            ([("content-type", "application/json")], response.to_string()).into_response()
        }
        _ => http::StatusCode::BAD_REQUEST.into_response(),
    }
}

// === impl Floor ===

impl Floor {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(ARGUMENT)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = process.stdout.take().context("its output")?;
        let line = BufReader::new(output).lines().next_line().await?.context("its address")?;
        Ok(Self { address: line.parse()?, _process: process })
    }
}
