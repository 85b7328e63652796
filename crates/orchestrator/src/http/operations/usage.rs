//! List Usage: the running executions that use most.

use std::sync::Arc;

use api_types::execution::{ComputeState, Execution};
use api_types::node::Connection;
use api_types::usage::{ExecutionUsage, ListUsage};
use api_types::{Code, NodeId, routes};
use axum::extract::State;
use control_plane::store::Reads;
use daemon::collect;
use daemon::http::Operations;
use futures_util::future::join_all;

use super::executions::{self, Specs};
use crate::http::api::{Api, Handled};
use crate::http::edge::authenticate::Access;
use crate::http::error::Failure;
use crate::http::lookup;
use crate::http::openapi::{JOB, NODE, QUERY, READ, examples, refusals};
use crate::http::query::{Choice, IdPrefix, Limit, Namespace, query};
use crate::http::respond::json;
use crate::logs::OfNode;

const ORDERS: Choice<Order> =
    Choice { permitted: &[("cpu", Order::Cpu), ("memory", Order::Memory)], default: Order::Cpu };

/// Records that are read to find those listed: a node may name executions that are over by now.
const MAX_READ: usize = 5000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Cpu,
    Memory,
}

query! {
    struct UsageQuery {
        job: Option<String> = ("job_id", IdPrefix('j'), "Executions of one job, by ID or prefix.");
        node: Option<String> = ("node_id", IdPrefix('n'), "Executions on one node, by ID or prefix.");
        namespace: Option<String> = (
            "namespace",
            Namespace { default: "*" },
            "Executions of one namespace; `*`, the default, means all that the caller sees."
        );
        order: Order = ("order_by", ORDERS, "What they are sorted by, the highest first.");
        limit: u32 = (
            "limit",
            Limit { default: 20 },
            "Rows; 0 selects the default, the maximum is 1,000."
        );
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(list))
}

/// List Usage
///
/// The running executions that use most CPU or memory, measured for this response: every connected
/// node is asked, at most once a second. A response has no further pages, since the order changes
/// between any two.
#[utoipa::path(
    get,
    path = routes::USAGE,
    operation_id = "listUsage",
    tag = "Executions",
    params(UsageQuery),
    responses((status = 200, description = "The executions.", body = ListUsage, example = json!(examples::list_usage()))),
    extensions(("x-error-codes" = json!(refusals(&[JOB, NODE, QUERY, READ, &[Code::NamespaceNotFound]])))),
)]
async fn list(State(api): State<Arc<Api>>, access: Access, query: UsageQuery) -> Handled {
    let UsageQuery { job, node, namespace, order, limit } = query;
    let node = node.map(|text| lookup::node(&api, &text)).transpose()?;
    let visible = access.within(namespace)?;
    let (job, access) = api
        .read(move |reads| {
            let job = job.map(|text| lookup::job_id(reads, &access, &text)).transpose()?;
            Ok((job, access))
        })
        .await?;
    let (answers, unanswered_node_ids) = ask(&api, node).await;
    // Sorted and rendered there too: a cluster may run a hundred thousand.
    let read = move |reads: &dyn Reads| {
        let used = answers.iter().flat_map(|(node, of)| of.values().map(|one| (*node, one)));
        let mut used: Vec<_> = used
            .filter(|(_, one)| visible.contain(&one.namespace))
            .filter(|(_, one)| job.is_none_or(|id| one.job_id == id))
            .collect();
        used.sort_unstable_by(|(_, a), (_, b)| {
            let by_order = match order {
                Order::Cpu => b.usage.cpu.total_cmp(&a.usage.cpu),
                Order::Memory => b.usage.memory.cmp(&a.usage.memory),
            };
            by_order.then(a.execution_id.cmp(&b.execution_id))
        });
        let measured = used.len() as u64;
        let mut specs = Specs::default();
        let mut executions = Vec::new();
        for (node, one) in used.into_iter().take(MAX_READ) {
            if executions.len() == limit as usize {
                break;
            }
            if let Some(execution) = record(reads, &access, &mut specs, node, one)?
                && visible.contain(&execution.namespace)
                && job.is_none_or(|id| execution.job_id == id)
            {
                executions.push(execution);
            }
        }
        json(&ListUsage { executions, measured, unanswered_node_ids })
    };
    api.read(read).await
}

/// What the connected nodes, or one of them, say; and which of them did not answer.
async fn ask(api: &Api, only: Option<NodeId>) -> (Vec<(NodeId, OfNode)>, Vec<NodeId>) {
    let nodes = api.view.nodes();
    let connected = nodes.iter().filter(|node| node.connection == Connection::Connected);
    let asked = connected
        .filter(|node| node.compute_node_info.running_executions > 0)
        .map(|node| node.peer_info.id)
        .filter(|node| only.is_none_or(|only| only == *node));
    let answers = join_all(asked.map(async |node| (node, api.logs.usage_on(node).await))).await;
    let (mut used, mut unanswered) = (Vec::new(), Vec::new());
    for (node, answer) in answers {
        match answer {
            Some(answer) => used.push((node, answer)),
            None => unanswered.push(node),
        }
    }
    (used, unanswered)
}

/// The record of an execution that runs on the node which measured it.
fn record(
    reads: &dyn Reads,
    access: &Access,
    specs: &mut Specs,
    node: NodeId,
    one: &ExecutionUsage,
) -> Result<Option<Execution>, Failure> {
    let Some(stored) = reads.execution(one.execution_id)? else { return Ok(None) };
    if stored.row.node != node || stored.row.compute != ComputeState::BidAccepted {
        return Ok(None);
    }
    let Some(spec) = specs.for_execution(reads, &stored.row)? else { return Ok(None) };
    let execution = executions::record(stored, spec, access);
    Ok(Some(Execution { usage: Some(one.usage), ..execution }))
}
