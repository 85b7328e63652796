//! The executions of a job.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::execution::{
    AllocatedResources, ComputeStateRecord, DesiredStateRecord, Execution, ListExecutions,
};
use api_types::job::JobSpec;
use api_types::routes;
use axum::extract::State;
use control_plane::store::{ExecutionOrder, ExecutionPosition, ExecutionQuery, StoredExecution};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as collect;

use super::edge::json;
use super::openapi::{JOB, PAGE, READ, examples, params, refusals};
use super::paging::{List, Listing};
use super::query::{Choice, HundredAPage, Reverse, query};
use super::{Api, Handled, Parameter, jobs, lookup};

const ORDERS: Choice<ExecutionOrder> = Choice {
    permitted: &[
        ("modify_time", ExecutionOrder::ModifyTime),
        ("create_time", ExecutionOrder::CreateTime),
        ("id", ExecutionOrder::Id),
        ("state", ExecutionOrder::State),
    ],
    default: ExecutionOrder::ModifyTime,
};

query! {
    struct ListQuery {
        page: HundredAPage = part;
        order: ExecutionOrder =
            ("order_by", ORDERS, "The sort key; ties are broken by ID.");
        direction: Reverse = part;
    }
}

pub(super) fn router() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default().routes(collect!(list))
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
    query: ListQuery,
    Parameter(text): Parameter,
) -> Handled {
    let ListQuery { page, order, direction: Reverse { reverse } } = query;
    let HundredAPage { limit, next_token: token } = page;
    let answer = api
        .read(move |reads| {
            let job = lookup::job(reads, &text)?;
            let listing = Listing {
                list: List::Executions,
                order: order as u8,
                reverse,
                of: Some(job.id.uuid()),
            };
            let after = listing.position(token.as_deref())?;
            let page =
                reads.executions(&ExecutionQuery { job: job.id, order, reverse, after, limit })?;
            let last = page.items.last().map(|execution| ExecutionPosition {
                key: order.key(&execution.row),
                id: execution.row.id,
            });
            let next_token = listing.token(last, page.more);
            let spec = jobs::specification(&job.spec_json)?;
            let executions = page.items.into_iter().map(|stored| record(stored, &spec)).collect();
            Ok(ListExecutions { executions, next_token })
        })
        .await?;
    json(&answer)
}

/// An execution as responses render it.
fn record(stored: StoredExecution, spec: &JobSpec) -> Execution {
    let StoredExecution { row, next, run_output, published_result } = stored;
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
        run_output: run_output.unwrap_or_default(),
        previous_execution: row.previous,
        next_execution: next,
        followup_eval_id: row.followup,
        revision: row.revision,
        create_time: row.create_time,
        modify_time: row.modify_time,
    }
}
