//! What the executions of a job published.

use std::sync::Arc;

use api_types::execution::ListResults;
use api_types::{Code, routes};
use axum::extract::State;
use control_plane::store::{ResultQuery, StoredResult};
use daemon::collect;
use daemon::http::Operations;

use super::archives;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::error::BadRequest;
use crate::http::lookup;
use crate::http::openapi::{JOB, PAGE, READ, examples, params, refusals};
use crate::http::paging::{List, Listing};
use crate::http::query::HundredAPage;
use crate::http::respond::json;

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(list))
}

/// Job Results
///
/// The published results of a batch or ops job's executions, also while others still run.
#[utoipa::path(
    get,
    path = routes::JOB_RESULTS,
    operation_id = "listResults",
    tag = "Jobs",
    params(params::JobPath, HundredAPage),
    responses((status = 200, description = "A page of results.", body = ListResults, example = json!(examples::list_results()))),
    extensions(("x-error-codes" = json!(refusals(&[JOB, PAGE, READ, &[Code::NoResultsForType]])))),
)]
async fn list(
    State(api): State<Arc<Api>>,
    access: Access,
    page: HundredAPage,
    Parameter(text): Parameter,
) -> Handled {
    let HundredAPage { limit, next_token: token } = page;
    // Rendered there too: a page may have 16 MB.
    api.read(move |reads| {
        let job = lookup::job(reads, &access, &text)?;
        if !job.job_type.is_finite() {
            return Err(BadRequest::NoResultsForType { job: job.id, job_type: job.job_type }.into());
        }
        let listing =
            Listing { list: List::Results, order: 0, reverse: false, of: Some(job.id.uuid()) };
        let after = listing.position(token.as_deref())?;
        let page = reads.results(&ResultQuery { job: job.id, after, limit })?;
        let last = page.items.last().map(|result| result.position);
        let next_token = listing.token(last, page.more);
        let shown =
            |StoredResult { position, result }| archives::published(result, position.id, &access);
        let results = page.items.into_iter().map(shown).collect();
        json(&ListResults { results, next_token })
    })
    .await
}
