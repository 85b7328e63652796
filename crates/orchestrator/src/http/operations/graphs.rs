//! Graphs: jobs that are submitted together, and what became of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::error::FieldError;
use api_types::graph::{
    CreateGraph, CreateGraphRequest, DescribeGraph, Graph, GraphEdge, GraphJob, GraphSummary,
    ListGraphs, StopGraph, state_of,
};
use api_types::job::DEFAULT_NAMESPACE;
use api_types::{Code, GraphId, JobId, routes};
use axum::extract::State;
use control_plane::step::GraphSubmission;
use control_plane::store::{GraphQuery, Reads, StoreError, StoredGraph, StoredGraphSummary};
use daemon::collect;
use daemon::http::Operations;
use http::HeaderMap;
use scheduler::input::{Answer, Input, Submit, SubmitGraph};
use scheduler::slots::Slots;

use super::jobs::create;
use super::jobs::dependencies;
use crate::admission;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::JobBody;
use crate::http::error::{BadRequest, Failure, Kind};
use crate::http::lookup;
use crate::http::openapi::{BODY, CALL, PAGE, QUERY, READ, examples, params, refusals};
use crate::http::paging::{List, Listing};
use crate::http::query::{Namespace, Query, TenAPage, Text, query};
use crate::http::respond::{blocking, json};
use crate::submission::Accepted;
use crate::submission::graph::AcceptedGraph;

/// The most graphs of a page: the jobs of each are counted.
const MOST: u32 = 100;

query! {
    struct ListQuery {
        namespace: Option<String> = (
            "namespace",
            Namespace { default: DEFAULT_NAMESPACE },
            "The graphs of one namespace, or `*` for all."
        );
        name: Option<String> = ("name", Text, "The exact name.");
        page: TenAPage = part;
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default()
        .merge(collect!(create))
        .merge(collect!(list))
        .merge(collect!(describe, stop))
}

/// Create Graph
///
/// Stores up to 1,000 jobs in one step, or none of them. `Job` in `DependsOn` names another job of the
/// graph. The body may be YAML as well, with the content type `application/yaml`.
#[utoipa::path(
    post,
    path = routes::JOB_GRAPH,
    operation_id = "createGraph",
    tag = "Graphs",
    params(params::IdempotencyKey),
    request_body(content = CreateGraphRequest, example = json!(examples::graph_submission())),
    responses((status = 200, description = "All jobs are on disk.", body = CreateGraph, example = json!(examples::create_graph()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, BODY, CALL, &[Code::InvalidJob, Code::IdempotencyConflict, Code::NamespaceNotFound, Code::QuotaExceeded]])))),
)]
async fn create(
    State(api): State<Arc<Api>>,
    access: Access,
    headers: HeaderMap,
    _: Query,
    mut body: JobBody,
) -> Handled {
    let key = create::idempotency_key(&headers, &body.body.bytes, "POST jobs/graph\n").await?;
    let graph = create::accept_graph(&api, &mut body).await?;
    lookup::namespace(&api, &access, &graph.namespace)?;
    let graph = named(&api, graph).await?;
    let admitting = Arc::clone(&api);
    let AcceptedGraph { id, name, namespace, jobs, warnings } =
        blocking(move || admitted(&admitting, graph)).await??;
    let jobs = jobs.into_iter().map(|(name, accepted)| {
        let Accepted { id, spec, spec_json, .. } = accepted;
        (name, Submit::new(id, spec, spec_json))
    });
    let submit = SubmitGraph { id, name, namespace, jobs: jobs.collect() };
    let submission = GraphSubmission { submit, warnings, key };
    let answer = api.handle.on_behalf(access.audit()).submit_graph(submission).await?;
    lookup::note("graph", answer.graph_id);
    json(&answer)
}

/// With the names of the jobs outside the graph on which others depend.
async fn named(api: &Api, mut graph: AcceptedGraph) -> Result<AcceptedGraph, Failure> {
    let read = move |reads: &dyn Reads| {
        let members: std::collections::BTreeSet<JobId> =
            graph.jobs.iter().map(|(_, accepted)| accepted.id).collect();
        let mut problems = Vec::new();
        for (name, accepted) in &mut graph.jobs {
            let list = &accepted.spec.depends_on;
            if list.iter().all(|other| members.contains(&other.job_id)) {
                continue;
            }
            let is_new =
                |other: &api_types::dependency::Dependency| members.contains(&other.job_id);
            let slots = Slots::below(accepted.spec.count);
            match dependencies::name(reads, (&accepted.spec, &slots), is_new)? {
                Ok(named) => accepted.set_dependencies(named),
                Err(found) => problems.extend(found.into_iter().map(|found| of(name, found))),
            }
        }
        Ok(if problems.is_empty() { Ok(graph) } else { Err(problems) })
    };
    Ok(api.read(read).await?.map_err(BadRequest::Job)?)
}

/// As the namespace allows each of the jobs.
pub(super) fn admitted(api: &Api, mut graph: AcceptedGraph) -> Result<AcceptedGraph, Failure> {
    let (mut problems, mut jobs) = (Vec::new(), Vec::with_capacity(graph.jobs.len()));
    for (name, accepted) in graph.jobs {
        match admission::admit(&api.view, &accepted.spec, accepted.priority_given) {
            Ok(admission) => {
                let mut accepted = accepted.admitted(admission);
                let warnings = accepted.warnings.drain(..);
                graph.warnings.extend(warnings.map(|warning| format!("{name}: {warning}")));
                jobs.push((name, accepted));
            }
            Err(found) => problems.extend(found.into_iter().map(|found| of(&name, found))),
        }
    }
    graph.jobs = jobs;
    graph.warnings = crate::submission::bounded(graph.warnings);
    match problems.is_empty() {
        true => Ok(graph),
        false => {
            problems.truncate(crate::json::MAX_PROBLEMS);
            Err(BadRequest::Job(problems).into())
        }
    }
}

/// A problem of one job of a graph.
fn of(name: &str, FieldError { path, reason }: FieldError) -> FieldError {
    FieldError { path: format!("Jobs.{name}.{path}"), reason }
}

/// List Graphs
///
/// The newest first, each with how many of its jobs are in which state; at most 100 a page.
#[utoipa::path(
    get,
    path = routes::GRAPHS,
    operation_id = "listGraphs",
    tag = "Graphs",
    params(ListQuery),
    responses((status = 200, description = "A page of graphs.", body = ListGraphs, example = json!(examples::list_graphs()))),
    extensions(("x-error-codes" = json!(refusals(&[PAGE, READ, &[Code::NamespaceNotFound]])))),
)]
async fn list(State(api): State<Arc<Api>>, access: Access, query: ListQuery) -> Handled {
    let listing = Listing { list: List::Graphs, order: 0, reverse: false, of: None };
    let question = GraphQuery {
        namespaces: access.within(query.namespace)?,
        name: query.name,
        after: listing.position(query.page.next_token.as_deref())?,
        limit: query.page.limit.min(MOST),
    };
    let page = api.read(move |reads| Ok(reads.graphs(&question)?)).await?;
    let last = page.items.last().map(|graph| graph.number);
    let next_token = listing.token(last, page.more);
    json(&ListGraphs { graphs: page.items.into_iter().map(summary).collect(), next_token })
}

fn summary(stored: StoredGraphSummary) -> GraphSummary {
    let StoredGraphSummary { id, name, namespace, create_time, jobs, .. } = stored;
    let state = state_of(jobs.keys().copied());
    let jobs = jobs.into_iter().map(|(state, count)| (state.to_string(), count));
    GraphSummary { id, name, namespace, create_time, state, jobs: jobs.collect::<BTreeMap<_, _>>() }
}

/// Describe Graph
///
/// The jobs of a graph with their states, and what each depends on. Jobs that retention has removed are
/// missing.
#[utoipa::path(
    get,
    path = routes::GRAPH,
    operation_id = "describeGraph",
    tag = "Graphs",
    params(params::GraphPath),
    responses((status = 200, description = "The graph.", body = DescribeGraph, example = json!(examples::describe_graph()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, READ, &[Code::GraphNotFound, Code::PathNotFound]])))),
)]
async fn describe(
    State(api): State<Arc<Api>>,
    access: Access,
    _: Query,
    Parameter(text): Parameter,
) -> Handled {
    let stored = api.read(move |reads| find(reads, &access, &text)).await?;
    let StoredGraph { id, name, namespace, create_time, jobs, edges } = stored;
    let state = state_of(jobs.iter().map(|job| job.state));
    let jobs = jobs.into_iter().map(|job| GraphJob {
        name: job.name,
        job_id: job.job,
        state: job.state,
        message: job.message,
    });
    let edges = edges.into_iter().map(|edge| GraphEdge {
        from: edge.from,
        to: edge.to,
        condition: edge.condition,
        indexes: edge.indexes,
    });
    let (jobs, edges) = (jobs.collect(), edges.collect());
    json(&DescribeGraph { graph: Graph { id, name, namespace, create_time, state, jobs, edges } })
}

/// Stop Graph
///
/// Stops every job of the graph that has not ended, in one step.
#[utoipa::path(
    delete,
    path = routes::GRAPH,
    operation_id = "stopGraph",
    tag = "Graphs",
    params(params::GraphPath),
    responses((status = 200, description = "The jobs are stopped.", body = StopGraph, example = json!(StopGraph { stopped: 3 }))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, READ, CALL, &[Code::GraphNotFound, Code::PathNotFound]])))),
)]
async fn stop(
    State(api): State<Arc<Api>>,
    access: Access,
    _: Query,
    Parameter(text): Parameter,
) -> Handled {
    let audit = access.audit();
    let graph = api.read(move |reads| find(reads, &access, &text)).await?;
    let live = graph.jobs.iter().filter(|job| !job.state.is_terminal());
    let jobs: Vec<JobId> = live.map(|job| job.job).collect();
    if jobs.is_empty() {
        return json(&StopGraph { stopped: 0 });
    }
    let reason = format!("with graph '{}'", graph.name);
    let answer = api.handle.on_behalf(audit).call(Input::StopJobs { jobs, reason }).await?;
    let Answer::StoppedJobs(stopped) = answer else {
        let cause = "stopped jobs were answered without their number".to_owned();
        return Err(Failure::Internal { cause });
    };
    json(&StopGraph { stopped })
}

/// The graph with this ID, if the caller sees its namespace and may do there what the operation does.
fn find(reads: &dyn Reads, access: &Access, text: &str) -> Result<StoredGraph, Failure> {
    let absent = || lookup::absent(Kind::Graph, text);
    let id: GraphId = text.parse().map_err(|_| absent())?;
    let found: Result<_, StoreError> = reads.graph(id);
    let graph = found?.ok_or_else(absent)?;
    access.check(&graph.namespace, absent)?;
    lookup::note("graph", id);
    Ok(graph)
}
