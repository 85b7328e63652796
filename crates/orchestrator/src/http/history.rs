//! The history of a job.

use std::sync::Arc;

use api_types::history::{
    EventType, ExecutionStateChange, HistoryEvent, JobStateChange, ListHistory,
};
use api_types::{NodeId, Timestamp, routes};
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as collect;

use super::edge::json;
use super::error::{Failure, Kind};
use super::openapi::{EXECUTION, JOB, NODE, PAGE, READ, examples, params, refusals};
use super::paging::{List, Listing};
use super::query::Query;
use super::{Api, Handled, Parameter, lookup};
use crate::engine::change::{EventRow, EventSubject};
use crate::store::HistoryQuery;

const DEFAULT_LIMIT: u32 = 100;

pub(super) const EVENT_TYPES: &[(&str, Option<EventType>)] = &[
    ("job", Some(EventType::JobLevel)),
    ("execution", Some(EventType::ExecutionLevel)),
    ("all", None),
];

pub(super) fn router() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default().routes(collect!(list))
}

/// Job History
///
/// What happened to a job and its executions, in the order in which it happened.
#[utoipa::path(
    get,
    path = routes::JOB_HISTORY,
    operation_id = "listHistory",
    tag = "Jobs",
    params(params::JobPath, params::HundredAPage, params::EventFilters, params::HistoryFilters),
    responses((status = 200, description = "A page of events.", body = ListHistory, example = json!(examples::list_history()))),
    extensions(("x-error-codes" = json!(refusals(&[JOB, EXECUTION, NODE, PAGE, READ])))),
)]
async fn list(State(api): State<Arc<Api>>, query: Query, Parameter(text): Parameter) -> Handled {
    let since = query.moment("since")?.unwrap_or(Timestamp::ZERO);
    let event_type = query.choice("event_type", EVENT_TYPES, None)?;
    let execution = query.text("execution_id")?.map(str::to_owned);
    let node = query.text("node_id")?.map(|text| node_of_events(&api, text)).transpose()?;
    let limit = query.limit(DEFAULT_LIMIT)?;
    let token = query.text("next_token")?.map(str::to_owned);
    let answer = api
        .reader
        .run(move |reads| {
            let job = lookup::job(reads, &text)?.id;
            let listing = Listing { list: List::History, order: 0, reverse: false, job: Some(job) };
            let after = listing.position(token.as_deref())?;
            let execution = match execution {
                Some(text) => {
                    let row = lookup::execution(reads, &text)?.row;
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
            Ok(ListHistory { history, next_token })
        })
        .await?;
    json(&answer)
}

/// A full ID is taken as it is: the events of a node outlive it.
fn node_of_events(api: &Api, text: &str) -> Result<NodeId, Failure> {
    match text.parse() {
        Ok(id) => Ok(id),
        Err(_) => lookup::node(api, text),
    }
}

/// An event as answers carry it.
pub(super) fn record(row: EventRow) -> HistoryEvent {
    let event = HistoryEvent {
        event_type: EventType::JobLevel,
        job_id: row.job,
        node_id: None,
        execution_id: None,
        job_state: None,
        execution_state: None,
        new_revision: row.revision,
        comment: row.comment.to_string(),
        time: row.time.rfc3339(),
    };
    match row.subject {
        EventSubject::Job { previous, new } => {
            HistoryEvent { job_state: Some(JobStateChange { previous, new }), ..event }
        }
        EventSubject::Execution { id, node, previous, new } => HistoryEvent {
            event_type: EventType::ExecutionLevel,
            node_id: Some(node),
            execution_id: Some(id),
            execution_state: Some(ExecutionStateChange { previous, new }),
            ..event
        },
    }
}
