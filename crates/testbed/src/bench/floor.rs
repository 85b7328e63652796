//! The floor of submissions: the same HTTP stack, which reads a job and answers, and stores
//! nothing. It runs as a process of its own, as the orchestrator does.

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

/// What tells this program to be the floor.
const ARGUMENT: &str = "--serve-floor";

/// A floor that ends with this.
pub(super) struct Floor {
    pub(super) address: SocketAddr,
    _process: Child,
}

/// Serves until it is killed; `said` is told the address.
pub async fn serve(said: impl FnOnce(SocketAddr)) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    said(listener.local_addr()?);
    let router = Router::new().route(api_types::routes::JOBS, put(answer));
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

async fn answer(body: Bytes) -> axum::response::Response {
    match serde_json::from_slice::<CreateJobRequest>(&body) {
        Ok(CreateJobRequest { job: Some(_) }) => {
            let id = Uuid::from_u128(u128::MAX / 3);
            let answer = json!({ "JobID": format!("j-{id}"), "EvaluationID": format!("v-{id}") });
            ([("content-type", "application/json")], answer.to_string()).into_response()
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
