//! What an execution, a job or a node used over time: from the nodes while it runs, and from the
//! record afterwards.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use api_types::curve::{MAX_POINTS, UsageCurve, sum};
use api_types::execution::ComputeState;
use api_types::node::Connection;
use api_types::quantity::Resources;
use api_types::usage::{
    DescribeExecutionUsage, DescribeJobUsage, DescribeNodeUsage, ExecutionCurve,
};
use api_types::{ExecutionId, JobId, NodeId, routes};
use axum::extract::State;
use control_plane::store::{ExecutionOrder, ExecutionQuery, StoredCurve};
use daemon::collect;
use daemon::http::Operations;
use futures_util::future::join_all;
use scheduler::change::ExecutionRow;

use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::lookup;
use crate::http::openapi::{EXECUTION, JOB, NODE, QUERY, READ, examples, params, refusals};
use crate::http::query::{Flag, query};
use crate::http::respond::{json, rendered};
use crate::logs::Used;

/// Nodes that are asked about one job; each costs a request to its agent.
const MAX_NODES: usize = 64;

/// Executions of a job that are read, of those that run and of those that ended: some megabytes.
const MAX_EXECUTIONS: u32 = 1000;

/// Executions whose curves are listed, and the points of each: what a page of them shows.
const LISTED: usize = 100;
const LISTED_POINTS: usize = 24;

query! {
    struct JobUsageQuery {
        executions: bool =
            ("executions", Flag, "Lists the curves of the first 100 executions as well.");
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default()
        .merge(collect!(of_execution))
        .merge(collect!(of_job))
        .merge(collect!(of_node))
}

/// Execution Usage
///
/// What an execution used over time, in at most 120 points. Its node keeps the curve while it runs,
/// and is asked for it.
#[utoipa::path(
    get,
    path = routes::EXECUTION_USAGE,
    operation_id = "describeExecutionUsage",
    tag = "Executions",
    params(params::ExecutionPath),
    responses((status = 200, description = "The curve.", body = DescribeExecutionUsage, example = json!(examples::execution_usage()))),
    extensions(("x-error-codes" = json!(refusals(&[EXECUTION, READ])))),
)]
async fn of_execution(
    State(api): State<Arc<Api>>,
    access: Access,
    Parameter(text): Parameter,
) -> Handled {
    let (stored, curve) = api
        .read(move |reads| {
            let stored = lookup::execution(reads, &access, &text)?;
            let curve = reads.usage_curve(stored.row.id)?;
            Ok((stored, curve))
        })
        .await?;
    let row = stored.row;
    let mut shown = DescribeExecutionUsage {
        execution_id: row.id,
        node_id: row.node,
        running: row.compute == ComputeState::BidAccepted && row.process_ended_at.is_none(),
        answered: true,
        allocated: row.resources.into(),
        usage: stored.usage,
        curve,
    };
    if row.compute == ComputeState::BidAccepted {
        let answer = api.logs.curves_on(row.node, row.job).await;
        shown.answered = answer.is_some();
        if let Some(used) = answer.and_then(|mut answer| answer.remove(&row.id)) {
            (shown.usage, shown.curve) = (Some(used.usage), used.curve);
        }
    }
    json(&shown)
}

/// What a job's executions used, as far as the store and the nodes say.
struct Measured {
    job: JobId,
    live: Vec<ExecutionRow>,
    ended: Vec<StoredCurve>,
    more: bool,
}

/// Job Usage
///
/// What the executions of a job used together over time, in at most 120 points. At most 64 nodes
/// are asked for the curves of those that run.
#[utoipa::path(
    get,
    path = routes::JOB_USAGE,
    operation_id = "describeJobUsage",
    tag = "Jobs",
    params(params::JobPath, JobUsageQuery),
    responses((status = 200, description = "The curve.", body = DescribeJobUsage, example = json!(examples::job_usage()))),
    extensions(("x-error-codes" = json!(refusals(&[JOB, QUERY, READ])))),
)]
async fn of_job(
    State(api): State<Arc<Api>>,
    access: Access,
    query: JobUsageQuery,
    Parameter(text): Parameter,
) -> Handled {
    let measured = api
        .read(move |reads| {
            let job = lookup::job_id(reads, &access, &text)?;
            let live = reads.executions(&ExecutionQuery {
                job,
                order: ExecutionOrder::Index,
                reverse: false,
                states: vec![ComputeState::BidAccepted],
                slots: None,
                after: None,
                limit: MAX_EXECUTIONS,
            })?;
            let mut ended = reads.usage_curves(job, MAX_EXECUTIONS + 1)?;
            let more = live.more || ended.len() > MAX_EXECUTIONS as usize;
            ended.truncate(MAX_EXECUTIONS as usize);
            let live = live.items.into_iter().map(|stored| stored.row).collect();
            Ok(Measured { job, live, ended, more })
        })
        .await?;
    let job = measured.job;
    let nodes: BTreeSet<NodeId> = measured.live.iter().map(|row| row.node).collect();
    let asked = nodes.iter().take(MAX_NODES);
    let answers = asked.map(async |node| Some((*node, api.logs.curves_on(*node, job).await?)));
    let used: HashMap<_, _> = join_all(answers).await.into_iter().flatten().collect();
    let answered = used.len();
    rendered(measured.together(used, (nodes.len(), answered), query.executions)).await
}

/// Node Usage
///
/// What the executions on a node used and held: the last hour in steps of ten seconds, and the last
/// day in steps of two minutes. The node keeps the curves.
#[utoipa::path(
    get,
    path = routes::NODE_USAGE,
    operation_id = "describeNodeUsage",
    tag = "Nodes",
    params(params::NodePath),
    responses((status = 200, description = "The curves.", body = DescribeNodeUsage, example = json!(examples::node_usage()))),
    extensions(("x-error-codes" = json!(refusals(&[NODE])))),
)]
async fn of_node(State(api): State<Arc<Api>>, Parameter(text): Parameter) -> Handled {
    let node_id = lookup::node(&api, &text)?;
    let node = api.view.node(node_id);
    let is_connected = node.as_ref().is_some_and(|node| node.connection == Connection::Connected);
    let answer = if is_connected { api.logs.curves_of_node(node_id).await } else { None };
    let capacity = node.map(|node| node.compute_node_info.max_capacity).unwrap_or_default();
    let answered = answer.is_some();
    let (hour, day) = answer.unzip();
    json(&DescribeNodeUsage { node_id, answered, capacity, hour, day })
}

// === impl Measured ===

impl Measured {
    fn together(
        self,
        mut used: HashMap<NodeId, Used>,
        (nodes, answered): (usize, usize),
        lists: bool,
    ) -> DescribeJobUsage {
        let mut allocated = Resources::ZERO;
        let mut curves: Vec<(u32, ExecutionId, UsageCurve)> = Vec::new();
        for row in &self.live {
            allocated = allocated.plus(&row.resources);
            // A node speaks for its own executions, whatever else it names.
            let of_node = used.get_mut(&row.node);
            let curve = of_node.and_then(|used| used.remove(&row.id)).and_then(|one| one.curve);
            curves.extend(curve.map(|curve| (row.index, row.id, curve)));
        }
        // One that has just ended may be in both.
        let known: BTreeSet<ExecutionId> = curves.iter().map(|(_, id, _)| *id).collect();
        let ended = self.ended.into_iter().filter(|stored| !known.contains(&stored.id));
        curves.extend(ended.map(|StoredCurve { id, index, curve }| (index, id, curve)));
        curves.sort_by_key(|(index, id, curve)| (*index, curve.begin_time, *id));
        let listed = curves.iter().take(if lists { LISTED } else { 0 });
        let executions = listed.map(|(index, id, curve)| ExecutionCurve {
            execution_id: *id,
            index: *index,
            curve: curve.reduced(LISTED_POINTS),
        });
        let executions = executions.collect();
        let curves: Vec<UsageCurve> = curves.into_iter().map(|(_, _, curve)| curve).collect();
        DescribeJobUsage {
            job_id: self.job,
            curve: (!curves.is_empty()).then(|| sum(&curves, MAX_POINTS)),
            allocated: allocated.into(),
            measured: curves.len() as u64,
            nodes: nodes as u64,
            answered: answered as u64,
            more: self.more,
            executions,
        }
    }
}
