//! Describe Job, at once or when its record has changed.
//!
//! A read that waits holds its connection, a place among those that may wait, and an entry in the
//! feed: no thread, no lock, no query. It looks at the store again only when the job was changed.

use std::sync::Arc;
use std::time::Duration;

use api_types::job::DescribeJob;
use api_types::{JobId, routes};
use axum::extract::State;
use tokio::time::Instant;

use super::record;
use crate::http::edge::json;
use crate::http::error::{Failure, Kind};
use crate::http::openapi::{JOB, QUERY, READ, examples, params, refusals};
use crate::http::query::Query;
use crate::http::{Api, Handled, Parameter, lookup};
use crate::store::StoredJob;

/// The longest wait; a longer one is taken as this one. Proxies give up on a silent connection
/// after about as much.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// How long `after_revision` waits when `wait` does not say.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);

/// For what a read waits, and for how long.
struct Patience {
    /// None for the first change after the read has begun.
    after_revision: Option<u64>,
    wait: Duration,
}

/// Describe Job
///
/// The record of a job, at once, or with `wait` or `after_revision` as soon as it has changed.
#[utoipa::path(
    get,
    path = routes::JOB,
    operation_id = "describeJob",
    tag = "Jobs",
    params(params::JobPath, params::Waiting),
    responses((status = 200, description = "The record.", body = DescribeJob, example = json!(examples::describe_job()))),
    extensions(("x-error-codes" = json!(refusals(&[JOB, QUERY, READ])))),
)]
pub(super) async fn describe(
    State(api): State<Arc<Api>>,
    query: Query,
    Parameter(text): Parameter,
) -> Handled {
    let patience = patience(&query)?;
    let stored = api.reader.run(move |reads| lookup::job(reads, &text)).await?;
    let stored = match patience {
        Some(patience) => changed(&api, stored, patience).await?,
        None => stored,
    };
    json(&DescribeJob { job: record(stored, &api.view)? })
}

fn patience(query: &Query) -> Result<Option<Patience>, Failure> {
    let after_revision = query.optional_number("after_revision")?;
    let wait = match (query.duration("wait")?, after_revision) {
        (Some(wait), _) => wait.min(MAX_WAIT),
        (None, Some(_)) => DEFAULT_WAIT,
        (None, None) => return Ok(None),
    };
    Ok(Some(Patience { after_revision, wait }))
}

/// The job as soon as it is newer than was asked for, or as it is when the wait is over or the
/// service stops.
async fn changed(
    api: &Api,
    first: StoredJob,
    Patience { after_revision, wait }: Patience,
) -> Result<StoredJob, Failure> {
    let after = after_revision.unwrap_or(first.revision);
    if first.revision > after || wait.is_zero() {
        return Ok(first);
    }
    let _place = api.waiting.take()?;
    let over = Instant::now() + wait;
    let id = first.id;
    // What changed since the first look does not wake the watch: it is looked at once more.
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
    let stored = api.reader.run(move |reads| Ok(reads.job(id)?)).await?;
    // Retention may remove it meanwhile.
    stored.ok_or_else(|| lookup::absent(Kind::Job, &id.to_string()))
}
