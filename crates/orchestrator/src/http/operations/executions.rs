//! Executions: those of a job, those that are live, and one by its ID.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use api_types::execution::{
    AllocatedResources, ComputeState, ComputeStateRecord, DescribeExecution, DesiredStateRecord,
    Execution, ListExecutions, RunOutput,
};
use api_types::job::JobSpec;
use api_types::{Code, JobId, routes};
use axum::extract::State;
use control_plane::store::{
    ExecutionOrder, ExecutionPosition, ExecutionQuery, LiveExecutionsQuery, Reads, StoreError,
    StoredExecution,
};
use daemon::collect;
use daemon::http::Operations;
use scheduler::change::ExecutionRow;
use scheduler::slots::Slots;

use super::{archives, jobs};
use crate::access::masking;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::error::Kind;
use crate::http::lookup;
use crate::http::openapi::{EXECUTION, JOB, NODE, PAGE, READ, examples, params, refusals};
use crate::http::paging::{List, Listing};
use crate::http::query::{
    Choice, ExecutionStates, HundredAPage, IdPrefix, Indexes, Reverse, query,
};
use crate::http::respond::{json, rendered};

const ORDERS: Choice<ExecutionOrder> = Choice {
    permitted: &[
        ("modify_time", ExecutionOrder::ModifyTime),
        ("create_time", ExecutionOrder::CreateTime),
        ("id", ExecutionOrder::Id),
        ("state", ExecutionOrder::State),
        ("index", ExecutionOrder::Index),
        ("created_at", ExecutionOrder::CreateTime),
        ("modified_at", ExecutionOrder::ModifyTime),
    ],
    default: ExecutionOrder::ModifyTime,
};

/// The only set of executions that is listed across jobs: those that have ended are many, and are
/// found through their job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selected {
    Live,
}

const SELECTED: Choice<Selected> =
    Choice { permitted: &[("live", Selected::Live)], default: Selected::Live };

query! {
    struct LiveQuery {
        node: Option<String> = ("node_id", IdPrefix('n'), "Executions on one node, by ID or prefix.");
        selected: Selected = ("state", SELECTED, "`live`: those that have not ended.");
        page: HundredAPage = part;
        direction: Reverse = part;
    }

    struct ListQuery {
        states: Vec<ComputeState> = (
            "state",
            ExecutionStates,
            "A comma list of states, as `Offered`, `Accepted`, `Declined`, `Running`, `Completed`, \
             `Failed`, `Cancelled`, or their numbers."
        );
        slots: Option<Slots> = (
            "index",
            Indexes,
            "A comma list of indexes and ranges, as `3,17,90-99`; at most 100 of them."
        );
        page: HundredAPage = part;
        order: ExecutionOrder =
            ("order_by", ORDERS, "The sort key; ties are broken by ID. `created_at` and `modified_at` are other words for `create_time` and `modify_time`.");
        direction: Reverse = part;
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(list)).merge(collect!(list_live)).merge(collect!(describe))
}

/// Job Executions
///
/// The executions of a job, page by page.
#[utoipa::path(
    get,
    path = routes::JOB_EXECUTIONS,
    operation_id = "listExecutions",
    tag = "Jobs",
    params(params::JobPath, ListQuery),
    responses((status = 200, description = "A page of executions.", body = ListExecutions, example = json!(examples::list_executions()))),
    extensions(("x-error-codes" = json!(refusals(&[JOB, PAGE, READ])))),
)]
async fn list(
    State(api): State<Arc<Api>>,
    access: Access,
    query: ListQuery,
    Parameter(text): Parameter,
) -> Handled {
    let ListQuery { states, slots, page, order, direction: Reverse { reverse } } = query;
    let HundredAPage { limit, next_token: token } = page;
    let answer = api
        .read(move |reads| {
            let job = lookup::job(reads, &access, &text)?;
            let listing = Listing {
                list: List::Executions,
                order: order as u8,
                reverse,
                of: Some(job.id.uuid()),
            };
            let after = listing.position(token.as_deref())?;
            let query = ExecutionQuery { job: job.id, order, reverse, states, slots, after, limit };
            let page = reads.executions(&query)?;
            let last = page.items.last().map(|execution| ExecutionPosition {
                key: order.key(&execution.row),
                id: execution.row.id,
            });
            let next_token = listing.token(last, page.more);
            let mut specs = Specs::default();
            specs.insert(job.id, job.version, jobs::specification_of(&job));
            let mut executions = Vec::with_capacity(page.items.len());
            for stored in page.items {
                let spec = specs.for_execution(reads, &stored.row)?;
                let spec = spec.ok_or_else(|| lookup::absent(Kind::Job, &text))?;
                executions.push(record(stored, spec, &access));
            }
            Ok(ListExecutions { executions, next_token })
        })
        .await?;
    measured(&api, answer).await
}

/// List Live Executions
///
/// The executions of all jobs, or those on one node, that have not ended, the oldest first.
#[utoipa::path(
    get,
    path = routes::EXECUTIONS,
    operation_id = "listLiveExecutions",
    tag = "Executions",
    params(LiveQuery),
    responses((status = 200, description = "A page of executions.", body = ListExecutions, example = json!(examples::list_executions()))),
    extensions(("x-error-codes" = json!(refusals(&[NODE, PAGE, READ])))),
)]
async fn list_live(State(api): State<Arc<Api>>, access: Access, query: LiveQuery) -> Handled {
    let LiveQuery { node, selected: Selected::Live, page, direction: Reverse { reverse } } = query;
    let node = node.map(|text| lookup::node(&api, &text)).transpose()?;
    let list = List::LiveExecutions;
    let listing = Listing { list, order: 0, reverse, of: node.map(|node| node.uuid()) };
    let after = listing.position(page.next_token.as_deref())?;
    let namespaces = access.caller().visible();
    let question = LiveExecutionsQuery { namespaces, node, reverse, after, limit: page.limit };
    let answer = api
        .read(move |reads| {
            let page = reads.live_executions(&question)?;
            let next_token = listing.token(page.items.last().map(|last| last.number), page.more);
            let mut executions = Vec::with_capacity(page.items.len());
            for live in page.items {
                let spec = match jobs::specification(&live.spec_json) {
                    Ok(spec) => Some(spec),
                    Err(_) => {
                        reads.job(live.execution.row.job)?.as_ref().map(jobs::specification_of)
                    }
                };
                executions.extend(spec.map(|spec| record(live.execution, &spec, &access)));
            }
            Ok(ListExecutions { executions, next_token })
        })
        .await?;
    measured(&api, answer).await
}

/// The page, with what its running executions use.
async fn measured(api: &Api, mut page: ListExecutions) -> Handled {
    api.logs.measure(&mut page.executions).await;
    // Rendered on another thread: a page may have 16 MB.
    rendered(page).await
}

/// Describe Execution
///
/// The record of one execution, whatever its job.
#[utoipa::path(
    get,
    path = routes::EXECUTION,
    operation_id = "describeExecution",
    tag = "Executions",
    params(params::ExecutionPath),
    responses((status = 200, description = "The record.", body = DescribeExecution, example = json!(examples::describe_execution()))),
    extensions(("x-error-codes" = json!(refusals(&[EXECUTION, &[Code::PathNotFound], READ])))),
)]
async fn describe(
    State(api): State<Arc<Api>>,
    access: Access,
    Parameter(text): Parameter,
) -> Handled {
    let mut execution = api
        .read(move |reads| {
            let stored = lookup::execution(reads, &access, &text)?;
            // Retention may have removed the job since.
            let mut specs = Specs::default();
            let spec = specs.for_execution(reads, &stored.row)?;
            let spec = spec.ok_or_else(|| lookup::absent(Kind::Execution, &text))?;
            Ok(record(stored, spec, &access))
        })
        .await?;
    api.logs.measure(std::slice::from_mut(&mut execution)).await;
    json(&DescribeExecution { execution })
}

/// The specifications that executions were offered with.
#[derive(Default)]
pub(super) struct Specs(HashMap<(JobId, u64), JobSpec>);

// === impl Specs ===

impl Specs {
    fn insert(&mut self, job: JobId, version: u64, spec: JobSpec) {
        self.0.insert((job, version), spec);
    }

    /// That of this execution; none if the job is gone.
    pub(super) fn for_execution(
        &mut self,
        reads: &dyn Reads,
        row: &ExecutionRow,
    ) -> Result<Option<&JobSpec>, StoreError> {
        match self.0.entry((row.job, row.version)) {
            Entry::Occupied(known) => Ok(Some(known.into_mut())),
            Entry::Vacant(unknown) => {
                let json = reads.specification(row.job, row.version)?;
                let spec = match json.and_then(|json| jobs::specification(&json).ok()) {
                    Some(spec) => Some(spec),
                    None => reads.job(row.job)?.as_ref().map(jobs::specification_of),
                };
                Ok(spec.map(|spec| &*unknown.insert(spec)))
            }
        }
    }
}

/// An execution as responses render it for this caller.
pub(super) fn record(stored: StoredExecution, spec: &JobSpec, access: &Access) -> Execution {
    let mut whole = whole_record(stored, spec);
    whole.published_result = archives::published(whole.published_result, whole.id, access);
    if access.shows_content(&spec.namespace) { whole } else { masking::execution(whole) }
}

fn whole_record(stored: StoredExecution, spec: &JobSpec) -> Execution {
    let StoredExecution { row, next, run_output, usage, published_result } = stored;
    let task = spec.tasks.first().map(|task| task.name.clone()).unwrap_or_default();
    Execution {
        id: row.id,
        namespace: spec.namespace.clone(),
        eval_id: Some(row.evaluation),
        name: format!("{}[{}]", spec.name, row.index),
        node_id: row.node,
        job_id: row.job,
        allocated_resources: AllocatedResources {
            tasks: BTreeMap::from([(task, row.resources.into())]),
        },
        desired_state: DesiredStateRecord {
            state_type: row.desired,
            message: row.desired_message.to_string(),
        },
        compute_state: ComputeStateRecord {
            state_type: row.compute,
            message: row.compute_message.to_string(),
        },
        published_result: published_result.unwrap_or_default(),
        run_output: run_output.unwrap_or_else(RunOutput::none),
        usage,
        previous_execution: row.previous,
        next_execution: next,
        followup_eval_id: row.followup,
        revision: row.revision,
        create_time: row.create_time,
        modify_time: row.modify_time,
    }
}
