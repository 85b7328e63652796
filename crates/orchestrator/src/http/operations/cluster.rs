//! The cluster as a whole: its counts, and its load over the last day.

use std::sync::Arc;
use std::time::Duration;

use api_types::cluster::{Cluster, ClusterLoad};
use api_types::{Timestamp, routes};
use axum::extract::State;
use daemon::collect;
use daemon::http::Operations;

use crate::clock;
use crate::http::api::{Api, Handled};
use crate::http::openapi::{QUERY, READ, examples, refusals};
use crate::http::query::{Moment, Number, query};
use crate::http::respond::json;

/// How far back the load goes if the reader does not specify it.
const USUAL_SPAN: Duration = Duration::from_secs(3600);

query! {
    struct LoadQuery {
        since: Option<Timestamp> = (
            "since",
            Moment,
            "From this time on: Unix seconds, optionally with a fraction, RFC 3339, a date, or a \
             duration back from now, like `2h`; an hour by default, and a week at most."
        );
        step: Option<u64> = (
            "step",
            Number,
            "Seconds that each sample covers: rounded up to tens, and to what makes 1,000 samples \
             at most; by default what makes 360."
        );
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(describe)).merge(collect!(load))
}

/// Describe Cluster
///
/// Counts of jobs, executions and nodes, over all namespaces, and the capacity of the nodes.
#[utoipa::path(
    get,
    path = routes::CLUSTER,
    operation_id = "describeCluster",
    tag = "Cluster",
    responses((status = 200, description = "The counts.", body = Cluster, example = json!(examples::cluster()))),
    extensions(("x-error-codes" = json!(refusals(&[READ])))),
)]
async fn describe(State(api): State<Arc<Api>>) -> Handled {
    json(&api.cluster.describe().await?)
}

/// Cluster Load
///
/// What the cluster had and what was used of it while the orchestrator ran: sampled every ten
/// seconds for the last hour, and every two minutes for the last week.
#[utoipa::path(
    get,
    path = routes::CLUSTER_LOAD,
    operation_id = "readClusterLoad",
    tag = "Cluster",
    params(LoadQuery),
    responses((status = 200, description = "The load, step by step.", body = ClusterLoad, example = json!(examples::cluster_load()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, READ])))),
)]
async fn load(State(api): State<Arc<Api>>, query: LoadQuery) -> Handled {
    let since = query.since.unwrap_or_else(|| clock::now() - USUAL_SPAN);
    json(&api.cluster.load(since, query.step).await?)
}
