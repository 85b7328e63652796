//! Operations on concurrency groups.

use std::sync::Arc;

use api_types::error::FieldError;
use api_types::group::{DescribeGroup, Group, GroupJob, ListGroups, MAX_GROUP_LIMIT, PutGroup};
use api_types::{Code, JobId, routes};
use axum::extract::State;
use control_plane::groups::{self, StoredGroup};
use control_plane::records::{Expected, Record, RecordKind, RecordWrite};
use control_plane::store::{Namespaces, Reads};
use daemon::collect;
use daemon::http::Operations;
use scheduler::GroupUse;

use super::sealed::{self, ListQuery, OneQuery};
use super::survey;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::JsonBody;
use crate::http::error::{BadRequest, Failure, Kind};
use crate::http::lookup;
use crate::http::openapi::{BODY, CALL, QUERY, READ, examples, params, refusals};
use crate::http::respond::json;
use crate::{clock, names};

/// The most holders and the most waiters that a response names.
const LISTED: usize = 100;

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(list)).merge(collect!(describe, put, delete))
}

/// List Groups
///
/// The concurrency groups of a namespace, and how many executions and waiting jobs each has.
#[utoipa::path(
    get,
    path = routes::GROUPS,
    operation_id = "listGroups",
    tag = "Groups",
    params(ListQuery),
    responses((status = 200, description = "The groups, in order of namespace and name.", body = ListGroups, example = json!(examples::list_groups()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::NamespaceNotFound]])))),
)]
async fn list(State(api): State<Arc<Api>>, access: Access, query: ListQuery) -> Handled {
    let wanted = access.within(query.namespace)?;
    let mut records = api.view.records().of_kind(RecordKind::Group);
    records.retain(|record| match &wanted {
        Namespaces::All => true,
        Namespaces::Only(names) => names.contains(groups::place(&record.key).0),
    });
    let keys: Vec<_> = records.iter().map(|record| record.key.clone()).collect();
    let question = move |scheduler: &scheduler::Scheduler| {
        let usage = keys.iter().map(|key| {
            let (namespace, name) = groups::place(key);
            scheduler.group(namespace, name, 0)
        });
        usage.collect::<Vec<_>>()
    };
    let (uses, _turn) = survey::ask(&api, question).await?;
    let shown = records.iter().zip(uses);
    let groups = shown.map(|(record, usage)| wire(record, usage.unwrap_or_default())).collect();
    json(&ListGroups { groups })
}

/// Describe Group
///
/// One concurrency group, with the jobs that have live executions and the first of those that wait.
#[utoipa::path(
    get,
    path = routes::GROUP,
    operation_id = "describeGroup",
    tag = "Groups",
    params(params::GroupPath, OneQuery),
    responses((status = 200, description = "The group.", body = DescribeGroup, example = json!(examples::describe_group()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, READ, CALL, &[Code::GroupNotFound, Code::NamespaceNotFound, Code::PathNotFound]])))),
)]
async fn describe(
    State(api): State<Arc<Api>>,
    access: Access,
    query: OneQuery,
    Parameter(name): Parameter,
) -> Handled {
    let record = find(&api, &access, query, &name)?;
    json(&DescribeGroup { group: described(&api, record).await? })
}

/// Put Group
///
/// Creates the group, or changes its limit. A lower limit stops nothing, and 0 pauses the group: jobs
/// of it wait until the limit is raised.
#[utoipa::path(
    put,
    path = routes::GROUP,
    operation_id = "putGroup",
    tag = "Groups",
    params(params::GroupPath, OneQuery),
    request_body(content = PutGroup, example = json!(examples::put_group())),
    responses((status = 200, description = "The group.", body = DescribeGroup, example = json!(examples::describe_group()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, BODY, READ, CALL, &[Code::NamespaceNotFound, Code::PathNotFound, Code::Conflict]])))),
)]
async fn put(
    State(api): State<Arc<Api>>,
    access: Access,
    query: OneQuery,
    Parameter(name): Parameter,
    body: JsonBody,
) -> Handled {
    let namespace = sealed::own_namespace(&api, &access, query)?;
    let limit = checked(&name, &body.read()?).map_err(BadRequest::Body)?;
    let key = groups::key(&namespace, &name);
    // It counts for other requests until this one is done.
    let begun = sealed::check_count(&api, &key)?;
    let before = api.view.records().get(&key);
    let now = clock::now();
    let create_time = before.as_ref().map_or(now, |it| StoredGroup::from_record(it).create_time);
    let stored = StoredGroup { limit, create_time, modify_time: now };
    let write = RecordWrite::json(key.clone(), Expected::as_read(before.as_ref()), &stored);
    let value = write.value.clone().unwrap_or_default();
    api.handle.on_behalf(access.audit_of(&key.key)).change_records(vec![write]).await?;
    drop(begun);
    let record = Record { key, version: 0, value };
    json(&DescribeGroup { group: described(&api, record).await? })
}

/// Delete Group
///
/// Only while no live job names it.
#[utoipa::path(
    delete,
    path = routes::GROUP,
    operation_id = "deleteGroup",
    tag = "Groups",
    params(params::GroupPath, OneQuery),
    responses((status = 200, description = "The group as it was.", body = DescribeGroup, example = json!(examples::deleted_group()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::GroupNotFound, Code::NamespaceNotFound, Code::PathNotFound, Code::Conflict]])))),
)]
async fn delete(
    State(api): State<Arc<Api>>,
    access: Access,
    query: OneQuery,
    Parameter(name): Parameter,
) -> Handled {
    let record = find(&api, &access, query, &name)?;
    let group = wire(&record, GroupUse::default());
    let audit = access.audit_of(&record.key.key);
    api.handle.on_behalf(audit).change_records(vec![RecordWrite::removal(record.key)]).await?;
    json(&DescribeGroup { group })
}

fn find(api: &Api, access: &Access, query: OneQuery, name: &str) -> Result<Record, Failure> {
    let key = groups::key(&sealed::own_namespace(api, access, query)?, name);
    api.view.records().get(&key).ok_or_else(|| lookup::absent(Kind::Group, name))
}

/// The limit that the body asks for.
fn checked(name: &str, body: &PutGroup) -> Result<u32, Vec<FieldError>> {
    let mut problems = Vec::new();
    let mut problem = |path: &str, reason: String| {
        problems.push(FieldError { path: path.to_owned(), reason });
    };
    if !names::is_name(name) {
        problem("", format!("the name of a group {}", names::RULE));
    }
    let limit = body.limit.and_then(|limit| u32::try_from(limit).ok());
    let limit = limit.filter(|limit| *limit <= MAX_GROUP_LIMIT);
    match (body.limit, limit) {
        (None, _) => problem("Limit", "is required; 0 pauses the group".to_owned()),
        (Some(asked), None) => {
            let reason = format!("must be between 0 (paused) and {MAX_GROUP_LIMIT}, got {asked}");
            problem("Limit", reason);
        }
        (Some(_), Some(_)) => {}
    }
    if problems.is_empty() { Ok(limit.unwrap_or_default()) } else { Err(problems) }
}

/// The group with the jobs that have executions and that wait.
async fn described(api: &Api, record: Record) -> Result<Group, Failure> {
    let (namespace, name) = groups::place(&record.key);
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    let question =
        move |scheduler: &scheduler::Scheduler| scheduler.group(&namespace, &name, LISTED);
    let (usage, _turn) = survey::ask(api, question).await?;
    let usage = usage.unwrap_or_default();
    let (holders, waiters) = (usage.holders.clone(), usage.waiters.clone());
    let read = move |reads: &dyn Reads| -> Result<_, Failure> {
        let job = |(id, executions): (JobId, u32)| -> Result<Option<GroupJob>, Failure> {
            let named = |stored: control_plane::store::StoredSummary| GroupJob {
                job_id: id,
                name: stored.name,
                executions,
            };
            Ok(reads.summary(id)?.map(named))
        };
        let some = |jobs: Vec<(JobId, u32)>| {
            jobs.into_iter().filter_map(|it| job(it).transpose()).collect::<Result<Vec<_>, _>>()
        };
        Ok((some(holders)?, some(waiters.into_iter().map(|id| (id, 0)).collect())?))
    };
    let (holders, waiters) = api.read(read).await?;
    Ok(Group { holders, waiters, ..wire(&record, usage) })
}

fn wire(record: &Record, usage: GroupUse) -> Group {
    let (namespace, name) = groups::place(&record.key);
    let StoredGroup { limit, create_time, modify_time } = StoredGroup::from_record(record);
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Group {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        limit,
        running: usage.units,
        holding: count(usage.holding),
        waiting: count(usage.waiting),
        waiting_is_more: usage.more,
        holders: Vec::new(),
        waiters: Vec::new(),
        create_time: create_time.rfc3339(),
        modify_time: modify_time.rfc3339(),
    }
}
