//! Liveness and readiness probes.

use std::sync::Arc;
use std::time::Duration;

use api_types::node::{Alive, Ready};
use api_types::{JobId, routes};
use axum::extract::State;
use daemon::collect;
use daemon::http::Operations;
use scheduler::Scheduler;

use crate::driver::CallError;
use crate::http::api::{Api, Handled};
use crate::http::error::Failure;
use crate::http::openapi::{CALL, examples, refusals, refusals_of_process};
use crate::http::respond::json;

/// How long the driver may take to answer before it counts as stuck. A commit of a full batch on a
/// slow disk takes less.
const DRIVER_TIMEOUT: Duration = Duration::from_secs(5);

const MASS_SILENCE: &str = "most nodes fell silent together: the network of the orchestrator may be \
    down, so nothing is replaced for up to two minutes";

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(live)).merge(collect!(ready))
}

/// Liveness
///
/// Answers while the process runs.
#[utoipa::path(
    get,
    path = routes::LIVEZ,
    operation_id = "isLive",
    tag = "Health",
    responses((status = 200, description = "The process runs.", body = Alive, example = json!(examples::alive()))),
    extensions(("x-error-codes" = json!(refusals_of_process()))),
)]
async fn live() -> Handled {
    json(&Alive { status: "OK".to_owned() })
}

/// Readiness
///
/// Ready once the driver answers, after its first scheduling round, and the store can be read.
/// `Message` says that most nodes are silent, as long as nothing is replaced because of it.
#[utoipa::path(
    get,
    path = routes::READYZ,
    operation_id = "isReady",
    tag = "Health",
    responses((status = 200, description = "The service is ready.", body = Ready, example = json!(examples::alive()))),
    extensions(("x-error-codes" = json!(refusals(&[CALL])))),
)]
async fn ready(State(api): State<Arc<Api>>) -> Handled {
    readiness(api).await
}

/// The readiness of a process that leads.
pub(in crate::http) async fn readiness(api: Arc<Api>) -> Handled {
    if api.stopping.is_cancelled() {
        return Err(CallError::Stopping.into());
    }
    let asked = api.handle.ask(Scheduler::is_mass_silence);
    let is_mass_silence = tokio::time::timeout(DRIVER_TIMEOUT, asked)
        .await
        .map_err(|_| Failure::Call(CallError::StoreUnavailable))??;
    // No job has the nil ID: this only checks that the store answers.
    let nil = JobId::from_uuid(uuid::Uuid::nil());
    api.read(move |reads| Ok(reads.job(nil)?)).await?;
    // Still ready: it takes jobs, and what it serves is true.
    let message = if is_mass_silence { MASS_SILENCE } else { "" };
    json(&Ready { status: "OK".to_owned(), message: message.to_owned() })
}
