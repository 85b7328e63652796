//! The history of a job, and that of a node.

use std::sync::Arc;

use api_types::history::{
    ExecutionStateChange, HistoryEvent, JobStateChange, ListHistory, NodeStateChange,
};
use api_types::{NodeId, Timestamp, routes};
use axum::extract::State;
use control_plane::store::{HistoryQuery, NodeHistoryQuery};
use daemon::collect;
use daemon::http::Operations;
use scheduler::change::{EventRow, EventSubject};

use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::error::{Failure, Kind};
use crate::http::lookup;
use crate::http::openapi::{EXECUTION, JOB, NODE, PAGE, READ, examples, params, refusals};
use crate::http::paging::{List, Listing};
use crate::http::query::{EventFilters, HundredAPage, IdPrefix, Since, query};
use crate::http::respond::json;

query! {
    struct ListQuery {
        page: HundredAPage = part;
        events: EventFilters = part;
        execution: Option<String> = (
            "execution_id",
            IdPrefix('e'),
            "Events of one execution of the job, by ID or prefix."
        );
        node: Option<String> = (
            "node_id",
            IdPrefix('n'),
            "Events of executions on one node, by ID or prefix."
        );
    }

    struct NodeQuery {
        page: HundredAPage = part;
        since: Since = part;
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(list)).merge(collect!(of_node))
}

/// Job History
///
/// The events of a job and its executions, in order.
#[utoipa::path(
    get,
    path = routes::JOB_HISTORY,
    operation_id = "listHistory",
    tag = "Jobs",
    params(params::JobPath, ListQuery),
    responses((status = 200, description = "A page of events.", body = ListHistory, example = json!(examples::list_history()))),
    extensions(("x-error-codes" = json!(refusals(&[JOB, EXECUTION, NODE, PAGE, READ])))),
)]
async fn list(
    State(api): State<Arc<Api>>,
    access: Access,
    query: ListQuery,
    Parameter(text): Parameter,
) -> Handled {
    let ListQuery { page: HundredAPage { limit, next_token: token }, events, execution, node } =
        query;
    let EventFilters { event_type, since } = events;
    let since = since.since.unwrap_or(Timestamp::ZERO);
    let node = node.map(|text| node_of_events(&api, &text)).transpose()?;
    // Rendered there too: a page may have 16 MB.
    api.read(move |reads| {
        let job = lookup::job(reads, &access, &text)?.id;
        let of = Some(job.uuid());
        let listing = Listing { list: List::History, order: 0, reverse: false, of };
        let after = listing.position(token.as_deref())?;
        let execution = match execution {
            Some(text) => {
                let row = lookup::execution(reads, &access, &text)?.row;
                if row.job != job {
                    return Err(lookup::absent(Kind::Execution, &text));
                }
                Some(row.id)
            }
            None => None,
        };
        let question = HistoryQuery { job, since, event_type, execution, node, after, limit };
        let page = reads.history(&question)?;
        let next_token = listing.token(page.items.last().map(|event| event.seq), page.more);
        let history = page.items.into_iter().map(record).collect();
        json(&ListHistory { history, next_token })
    })
    .await
}

/// Node History
///
/// What became of a node, in order: sessions, silence, failures, and what operators decided. The
/// newest 1,000 events are kept; those of forgotten nodes can be read by the full ID for a while.
#[utoipa::path(
    get,
    path = routes::NODE_HISTORY,
    operation_id = "listNodeHistory",
    tag = "Nodes",
    params(params::NodePath, NodeQuery),
    responses((status = 200, description = "A page of events.", body = ListHistory, example = json!(examples::list_node_history()))),
    extensions(("x-error-codes" = json!(refusals(&[NODE, PAGE, READ])))),
)]
async fn of_node(
    State(api): State<Arc<Api>>,
    NodeQuery { page: HundredAPage { limit, next_token: token }, since }: NodeQuery,
    Parameter(text): Parameter,
) -> Handled {
    let since = since.since.unwrap_or(Timestamp::ZERO);
    let node = node_of_events(&api, &text)?;
    let is_known = node == api.own.id || api.view.node(node).is_some();
    api.read(move |reads| {
        let of = Some(node.uuid());
        let listing = Listing { list: List::NodeHistory, order: 0, reverse: false, of };
        let after = listing.position(token.as_deref())?;
        let query = NodeHistoryQuery { node, since, after, limit };
        let page = reads.node_history(&query)?;
        if page.items.is_empty() && !is_known {
            let any = NodeHistoryQuery { since: Timestamp::ZERO, after: None, limit: 1, node };
            if reads.node_history(&any)?.items.is_empty() {
                return Err(lookup::absent(Kind::Node, &text));
            }
        }
        let next_token = listing.token(page.items.last().map(|event| event.seq), page.more);
        let history = page.items.into_iter().map(record).collect();
        json(&ListHistory { history, next_token })
    })
    .await
}

/// A full ID needs no lookup: the events of a node outlive its record.
fn node_of_events(api: &Api, text: &str) -> Result<NodeId, Failure> {
    match text.parse() {
        Ok(id) => Ok(id),
        Err(_) => lookup::node(api, text),
    }
}

/// An event as responses render it.
pub(super) fn record(row: EventRow) -> HistoryEvent {
    let event = HistoryEvent {
        event_type: row.event_type(),
        job_id: row.job(),
        node_id: None,
        execution_id: None,
        job_state: None,
        execution_state: None,
        node_state: None,
        new_revision: row.revision,
        comment: row.comment.to_string(),
        time: row.time.rfc3339(),
        job_name: None,
        index: None,
        node_name: None,
    };
    match row.subject {
        EventSubject::Job { previous, new, .. } => {
            HistoryEvent { job_state: Some(JobStateChange { previous, new }), ..event }
        }
        EventSubject::Node { node, previous, new } => HistoryEvent {
            node_id: Some(node),
            node_state: Some(NodeStateChange { previous, new }),
            ..event
        },
        EventSubject::Execution { id, node, previous, new, .. } => HistoryEvent {
            node_id: Some(node),
            execution_id: Some(id),
            execution_state: Some(ExecutionStateChange { previous, new }),
            ..event
        },
    }
}
