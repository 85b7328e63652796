//! Describe Job, immediately or when its record has changed.
//!
//! A waiting read holds its connection, one of the permits for waiting reads, and an entry in the
//! feed: no thread, no lock, no query. It reads the store again only when the job has changed.

use std::sync::Arc;
use std::time::Duration;

use api_types::job::DescribeJob;
use api_types::{JobId, routes};
use axum::extract::State;
use control_plane::store::StoredJob;
use tokio::time::Instant;

use super::record;
use crate::http::authenticate::Access;
use crate::http::edge::json;
use crate::http::error::{Failure, Kind};
use crate::http::openapi::{JOB, QUERY, READ, examples, params, refusals};
use crate::http::query::{Number, Wait, query};
use crate::http::{Api, Handled, Parameter, lookup};

/// The longest wait; a longer one is reduced to this. Proxies give up on a silent connection after
/// about as long.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// How long `after_revision` waits without `wait`.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);

/// What a read waits for, and how long.
struct WaitRequest {
    /// `None` for the first change after the read began.
    after_revision: Option<u64>,
    wait: Duration,
}

query! {
    pub(super) struct DescribeQuery {
        wait: Option<Duration> = (
            "wait",
            Wait,
            "How long to wait for a change: a whole number of `ms`, `s` or `m`, or of seconds \
             without a unit. At most 5 minutes; 0 answers immediately; the default with \
             `after_revision` is 30 seconds."
        );
        after_revision: Option<u64> = (
            "after_revision",
            Number,
            "The last revision that the caller has seen; the current one by default."
        );
    }
}

/// Describe Job
///
/// The record of a job, immediately, or with `wait` or `after_revision` once it has changed.
#[utoipa::path(
    get,
    path = routes::JOB,
    operation_id = "describeJob",
    tag = "Jobs",
    params(params::JobPath, DescribeQuery),
    responses((status = 200, description = "The record.", body = DescribeJob, example = json!(examples::describe_job()))),
    extensions(("x-error-codes" = json!(refusals(&[JOB, QUERY, READ])))),
)]
pub(super) async fn describe(
    State(api): State<Arc<Api>>,
    access: Access,
    query: DescribeQuery,
    Parameter(text): Parameter,
) -> Handled {
    let wait_request = wait_request(&query);
    let asks = access.clone();
    let stored = api.read(move |reads| lookup::job(reads, &asks, &text)).await?;
    let stored = match wait_request {
        Some(wait_request) => changed(&api, stored, wait_request).await?,
        None => stored,
    };
    json(&DescribeJob { job: record(stored, &api.view, &access) })
}

fn wait_request(query: &DescribeQuery) -> Option<WaitRequest> {
    let after_revision = query.after_revision;
    let wait = match (query.wait, after_revision) {
        (Some(wait), _) => wait.min(MAX_WAIT),
        (None, Some(_)) => DEFAULT_WAIT,
        (None, None) => return None,
    };
    Some(WaitRequest { after_revision, wait })
}

/// The job once it is newer than requested, or as it is when the wait ends or the service stops.
async fn changed(
    api: &Api,
    first: StoredJob,
    WaitRequest { after_revision, wait }: WaitRequest,
) -> Result<StoredJob, Failure> {
    let after = after_revision.unwrap_or(first.revision);
    if first.revision > after || wait.is_zero() {
        return Ok(first);
    }
    let _place = api.waiting.take()?;
    let over = Instant::now() + wait;
    let id = first.id;
    // A change before the watch began does not wake it, so read once more.
    let mut watch = api.view.feed().watch(id);
    loop {
        let stored = read(api, id).await?;
        if stored.revision > after {
            return Ok(stored);
        }
        tokio::select! {
            biased;
            () = api.stopping.cancelled() => return Ok(stored),
            () = watch.changed() => {}
            () = tokio::time::sleep_until(over) => return Ok(stored),
        }
    }
}

async fn read(api: &Api, id: JobId) -> Result<StoredJob, Failure> {
    let stored = api.read(move |reads| Ok(reads.job(id)?)).await?;
    // Retention may have removed it meanwhile.
    stored.ok_or_else(|| lookup::absent(Kind::Job, &id.to_string()))
}
