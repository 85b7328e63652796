//! The executions of a job.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::execution::{
    AllocatedResources, ComputeStateRecord, DesiredStateRecord, Execution, ListExecutions,
};
use api_types::job::JobSpec;
use api_types::routes;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as collect;

use super::edge::json;
use super::openapi::{JOB, PAGE, READ, examples, params, refusals};
use super::paging::{List, Listing};
use super::query::Query;
use super::{Api, Handled, Parameter, jobs, lookup};
use crate::store::{ExecutionOrder, ExecutionPosition, ExecutionQuery, StoredExecution};

const DEFAULT_LIMIT: u32 = 100;

const ORDERS: &[(&str, ExecutionOrder)] = &[
    ("modify_time", ExecutionOrder::ModifyTime),
    ("create_time", ExecutionOrder::CreateTime),
    ("id", ExecutionOrder::Id),
    ("state", ExecutionOrder::State),
];

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
    params(params::JobPath, params::HundredAPage, params::ExecutionOrder, params::Reverse),
    responses((status = 200, description = "A page of executions.", body = ListExecutions, example = json!(examples::list_executions()))),
    extensions(("x-error-codes" = json!(refusals(&[JOB, PAGE, READ])))),
)]
async fn list(State(api): State<Arc<Api>>, query: Query, Parameter(text): Parameter) -> Handled {
    let order = query.choice("order_by", ORDERS, ExecutionOrder::default())?;
    let reverse = query.flag("reverse")?;
    let limit = query.limit(DEFAULT_LIMIT)?;
    let token = query.text("next_token")?.map(str::to_owned);
    let answer = api
        .reader
        .run(move |reads| {
            let job = lookup::job(reads, &text)?;
            let listing =
                Listing { list: List::Executions, order: order as u8, reverse, job: Some(job.id) };
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

/// An execution as answers carry it.
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
