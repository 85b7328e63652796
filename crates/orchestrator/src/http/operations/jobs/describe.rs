//! Describe Job, immediately or when its record has changed.
//!
//! A waiting read holds its connection, one of the permits for waiting reads, and an entry in the
//! feed: no thread, no lock, no query, and no record. When the job has changed it reads its summary,
//! and the record, which may have 10 MB, once at the end.

use std::sync::Arc;
use std::time::Duration;

use api_types::job::DescribeJob;
use api_types::{JobId, routes};
use axum::extract::State;
use control_plane::store::{Reads, StoredJob};
use tokio::time::Instant;

use super::super::slots;
use super::record;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::error::{Failure, Kind};
use crate::http::lookup;
use crate::http::openapi::{JOB, QUERY, READ, examples, params, refusals};
use crate::http::query::{Number, Wait, query};
use crate::http::respond::json;
use crate::shares::Owner;
use crate::view::View;

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
    let view = Arc::clone(&api.view);
    let Some(wait_request) = wait_request(&query) else {
        let read = move |reads: &dyn Reads| {
            let stored = lookup::job(reads, &access, &text)?;
            rendered(reads, stored, &view, &access)
        };
        return api.read(read).await;
    };
    let asks = access.clone();
    let find = move |reads: &dyn Reads| {
        let id = lookup::job_id(reads, &asks, &text)?;
        revision(reads, id)
    };
    let owner = api.pools.owner(access.caller());
    let id = changed(&api, &owner, api.read(find).await?, wait_request).await?;
    let read = move |reads: &dyn Reads| {
        let stored = reads.job(id)?.ok_or_else(|| absent(id))?;
        rendered(reads, stored, &view, &access)
    };
    api.read(read).await
}

/// The response; part of a read, so that a large job delays no other connection.
fn rendered(reads: &dyn Reads, stored: StoredJob, view: &View, access: &Access) -> Handled {
    let failed_indexes = slots::failed_indexes(reads, stored.id, stored.failed_slots)?;
    let mut job = record(stored, view, access);
    job.state.failed_indexes = failed_indexes;
    json(&DescribeJob { job })
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

/// Returns when the job is newer than requested, the wait ends, or the service stops.
async fn changed(
    api: &Api,
    owner: &Owner,
    (id, first): (JobId, u64),
    WaitRequest { after_revision, wait }: WaitRequest,
) -> Result<JobId, Failure> {
    let after = after_revision.unwrap_or(first);
    if first > after || wait.is_zero() {
        return Ok(id);
    }
    let _place = api.pools.waiting.take(owner, 1)?;
    let over = Instant::now() + wait;
    // A change before the watch began does not wake it, so read once more.
    let mut watch = api.view.feed().watch(id);
    loop {
        let (_, now) = api.read(move |reads| revision(reads, id)).await?;
        if now > after {
            return Ok(id);
        }
        tokio::select! {
            biased;
            () = api.stopping.cancelled() => return Ok(id),
            () = watch.changed() => {}
            () = tokio::time::sleep_until(over) => return Ok(id),
        }
    }
}

fn revision(reads: &dyn Reads, id: JobId) -> Result<(JobId, u64), Failure> {
    let summary = reads.summary(id)?.ok_or_else(|| absent(id))?;
    Ok((id, summary.revision))
}

/// Retention may have removed it in between.
fn absent(id: JobId) -> Failure {
    lookup::absent(Kind::Job, &id.to_string())
}
