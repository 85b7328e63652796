//! `jobctl list`, `describe`, `executions`, `history`: records of jobs.

use std::collections::BTreeMap;

use anyhow::Result;
use api_client::{ClientError, ExecutionsQuery, HistoryQuery, JobsQuery, LiveExecutionsQuery};
use api_types::execution::Execution;
use api_types::history::HistoryEvent;
use api_types::{ExecutionId, JobId};
use serde::Serialize;

use crate::cli::{DescribeArgs, ExecutionOrder, ExecutionsArgs, HistoryArgs, ListArgs};
use crate::clock;
use crate::exit::Exit;
use crate::handles::{self, ALL_NAMESPACES, Handle, index_of, resolve};
use crate::output::{Format, Layout, Listed, note, show, watch};
use crate::pages::{Collected, collect};
use crate::session::Session;
use crate::view::{ExecutionRow, JobEvent, execution_fields, job_fields};

/// Number of executions that `describe` shows: more than a screen is for `executions`.
const DESCRIBED_EXECUTIONS: usize = 100;

/// Number of latest events that `describe` shows.
const DESCRIBED_EVENTS: usize = 10;

pub(super) async fn list(session: &Session, args: &ListArgs) -> Result<Exit> {
    let namespace = if args.all_namespaces {
        Some(ALL_NAMESPACES.to_owned())
    } else {
        session.namespace(&args.namespace)
    };
    let query = JobsQuery {
        namespace,
        labels: args.selector.clone(),
        state: args.states()?,
        job_type: args.job_type.clone(),
        name: args.name.clone(),
        name_prefix: args.name_prefix.clone(),
        order_by: Some(args.order().word().to_owned()),
        created_after: args.since(clock::now()),
        created_before: args.before(clock::now()),
        reverse: !args.reverse,
        ..JobsQuery::default()
    };
    let limit = (!args.all).then_some(args.limit);
    let client = &session.client;
    // Programs get whole records, people a row.
    match args.watch.output.format {
        Format::Json | Format::Yaml => {
            let page = async |query: JobsQuery| {
                client.list_jobs(&query).await.map(|page| (page.jobs, page.next_token))
            };
            list_as(session, args, async || collect_jobs(limit, &query, &page).await).await
        }
        Format::Name | Format::Table | Format::Wide => {
            let page = async |query: JobsQuery| {
                client.summarise_jobs(&query).await.map(|page| (page.jobs, page.next_token))
            };
            list_as(session, args, async || collect_jobs(limit, &query, &page).await).await
        }
    }
}

/// Page after page of the query, up to the limit.
async fn collect_jobs<T>(
    limit: Option<u32>,
    query: &JobsQuery,
    page: &impl AsyncFn(JobsQuery) -> Result<(Vec<T>, String), ClientError>,
) -> Result<Collected<T>, ClientError> {
    collect(limit, async |rows, token| {
        page(JobsQuery { limit: Some(rows), next_token: token, ..query.clone() }).await
    })
    .await
}

async fn list_as<T: Listed + Serialize>(
    session: &Session,
    args: &ListArgs,
    fetch: impl AsyncFn() -> Result<Collected<T>, ClientError>,
) -> Result<Exit> {
    let format = args.watch.output.format;
    let mut layout = Layout::for_format(format);
    layout.namespaces = args.all_namespaces;
    if args.watch.watch {
        watch(session.out, format, layout, async || items(fetch().await)).await?;
        return Ok(Exit::Done);
    }
    let Collected { items, more } = fetch().await?;
    session.out.list(format, &layout, &items)?;
    if more {
        note("more jobs exist: --limit N shows more, --all shows all");
    }
    Ok(Exit::Done)
}

pub(super) async fn describe(session: &Session, args: &DescribeArgs) -> Result<Exit> {
    let out = session.out;
    let format = args.output.format;
    let namespace = session.namespace(&args.namespace);
    let id = match resolve(session, namespace.as_deref(), &args.job, args.index).await? {
        Handle::Job(id) => id,
        Handle::Execution(execution) => {
            let node = session.node_names([execution.node_id]).await.name_of(execution.node_id);
            let fields = || execution_fields(&execution, &node, clock::now()).render(out.colours());
            out.record(format, &execution, &execution.id.to_string(), fields)?;
            return Ok(Exit::Done);
        }
    };
    let job = session.client.describe_job(id).await?;
    match format {
        Format::Json => out.json(&job)?,
        Format::Yaml => out.yaml(&job)?,
        Format::Name => out.line(&id.to_string())?,
        Format::Table | Format::Wide => {
            let layout = Layout::for_format(format);
            out.fields(&job_fields(&job, layout.now))?;
            describe_executions(session, id, &layout, format).await?;
            let query = HistoryQuery { event_type: Some("job".to_owned()), ..Default::default() };
            let mut events = events(session, id, &query, None).await?.items;
            let latest = events.split_off(events.len().saturating_sub(DESCRIBED_EVENTS));
            out.line("\nEvents:")?;
            out.list(format, &layout, &JobEvent::all(latest, |_| (None, None)))?;
        }
    }
    Ok(Exit::Done)
}

/// The first executions of a job, and how many more there are.
async fn describe_executions(
    session: &Session,
    id: JobId,
    layout: &Layout,
    format: Format,
) -> Result<()> {
    let out = session.out;
    let (mut shown, mut more) = (Vec::new(), 0);
    collect(None, async |rows, token| {
        let query = ExecutionsQuery {
            limit: Some(rows),
            next_token: token,
            order_by: Some(ExecutionOrder::Created.word().to_owned()),
            ..ExecutionsQuery::default()
        };
        let page = session.client.job_executions(id, &query).await?;
        let room = DESCRIBED_EXECUTIONS - shown.len();
        more += page.executions.len().saturating_sub(room);
        shown.extend(page.executions.into_iter().take(room));
        Ok((Vec::<()>::new(), page.next_token))
    })
    .await?;
    if shown.is_empty() {
        return Ok(());
    }
    out.line("\nExecutions:")?;
    out.list(format, layout, &rows(session, shown).await)?;
    if more > 0 {
        out.line(&format!("… and {more} more: 'jobctl executions {}' shows all", id.short()))?;
    }
    Ok(())
}

/// Executions with the names of their nodes.
async fn rows(session: &Session, executions: Vec<Execution>) -> Vec<ExecutionRow> {
    let names = session.node_names(executions.iter().map(|execution| execution.node_id)).await;
    let row = |execution: Execution| {
        let node = names.name_of(execution.node_id);
        ExecutionRow { execution, node }
    };
    executions.into_iter().map(row).collect()
}

pub(super) async fn executions(session: &Session, args: &ExecutionsArgs) -> Result<Exit> {
    let client = &session.client;
    let namespace = session.namespace(&args.namespace);
    let job = match &args.job {
        Some(text) => Some(handles::job(session, namespace.as_deref(), text).await?),
        None => None,
    };
    let node_id = match &args.node {
        Some(text) => Some(handles::node(session, text).await?.to_string()),
        None => None,
    };
    let fetch = async || {
        let found = collect(args.limit, async |rows, token| {
            let page = if let Some(job) = job {
                let query = ExecutionsQuery {
                    state: args.state.clone(),
                    index: args.index.clone(),
                    limit: Some(rows),
                    next_token: token,
                    order_by: Some(args.sort_by.word().to_owned()),
                    reverse: args.reverse,
                };
                client.job_executions(job, &query).await?
            } else {
                let query = LiveExecutionsQuery {
                    node_id: node_id.clone(),
                    limit: Some(rows),
                    next_token: token,
                    reverse: args.reverse,
                };
                client.live_executions(&query).await?
            };
            Ok((page.executions, page.next_token))
        })
        .await?;
        Ok(rows(session, found.items).await)
    };
    show(session.out, args.watch.output.format, args.watch.watch, fetch).await?;
    Ok(Exit::Done)
}

pub(super) async fn history(session: &Session, args: &HistoryArgs) -> Result<Exit> {
    let namespace = session.namespace(&args.namespace);
    let handle = resolve(session, namespace.as_deref(), &args.job, None).await?;
    let (job, execution) = (handle.job(), handle.execution().map(|id| id.to_string()));
    let node_id = match &args.node {
        Some(text) => Some(handles::node(session, text).await?.to_string()),
        None => None,
    };
    let query = HistoryQuery {
        since: args.since(clock::now()),
        event_type: Some(args.level.word().to_owned()),
        execution_id: args.execution.clone().or(execution),
        node_id,
        ..HistoryQuery::default()
    };
    let mut indexes = BTreeMap::new();
    let fetch = async || {
        let events = events(session, job, &query, args.limit).await?.items;
        let ids = || events.iter().filter_map(|event| event.execution_id);
        if ids().any(|id| !indexes.contains_key(&id)) {
            indexes = indexes_of(session, job).await?;
        }
        let nodes = session.node_names(events.iter().filter_map(|event| event.node_id)).await;
        let names = |event: &HistoryEvent| {
            let index = event.execution_id.map(|id| match indexes.get(&id) {
                Some(index) => format!("[{index}]"),
                None => id.short(),
            });
            (index, event.node_id.map(|id| nodes.name_of(id)))
        };
        Ok(JobEvent::all(events, names))
    };
    show(session.out, args.watch.output.format, args.watch.watch, fetch).await?;
    Ok(Exit::Done)
}

/// The index of each execution of a job.
async fn indexes_of(
    session: &Session,
    job: JobId,
) -> Result<BTreeMap<ExecutionId, u64>, ClientError> {
    let indexes = collect(None, async |rows, token| {
        let query =
            ExecutionsQuery { limit: Some(rows), next_token: token, ..ExecutionsQuery::default() };
        let page = session.client.job_executions(job, &query).await?;
        let index = |execution: &Execution| Some((execution.id, index_of(execution)?));
        Ok((page.executions.iter().filter_map(index).collect(), page.next_token))
    });
    Ok(indexes.await?.items.into_iter().collect())
}

async fn events(
    session: &Session,
    job: JobId,
    query: &HistoryQuery,
    limit: Option<u32>,
) -> Result<Collected<HistoryEvent>, ClientError> {
    collect(limit, async |rows, token| {
        let query = HistoryQuery { limit: Some(rows), next_token: token, ..query.clone() };
        session.client.job_history(job, &query).await.map(|page| (page.history, page.next_token))
    })
    .await
}

fn items<T>(collected: Result<Collected<T>, ClientError>) -> Result<Vec<T>, ClientError> {
    collected.map(|collected| collected.items)
}
