//! `jobctl list`, `describe`, `executions`, `history`: records of jobs.

use anyhow::Result;
use api_client::{ClientError, ExecutionsQuery, HistoryQuery, JobsQuery, LiveExecutionsQuery};
use api_types::history::HistoryEvent;
use serde::Serialize;

use super::{Exit, Session};
use crate::cli::{DescribeArgs, ExecutionsArgs, HistoryArgs, ListArgs};
use crate::clock;
use crate::output::{Format, Layout, Listed, note, show, watch};
use crate::pages::{Collected, collect};
use crate::view::{execution_fields, job_fields};
use crate::waiting;

/// The query value of `--all-namespaces`.
const ALL_NAMESPACES: &str = "*";

/// The query value of `--changed`.
const BY_CHANGE: &str = "modify_time";

/// How the ID of an execution begins.
const EXECUTION_PREFIX: &str = "e-";

/// Number of latest events that `describe` shows.
const DESCRIBED_EVENTS: usize = 10;

pub(super) async fn list(session: &Session, args: &ListArgs) -> Result<Exit> {
    let namespace = if args.all_namespaces {
        Some(ALL_NAMESPACES.to_owned())
    } else {
        args.namespace.namespace.clone().or_else(|| session.namespace.clone())
    };
    let query = JobsQuery {
        namespace,
        labels: args.selector.clone(),
        state: args.state.clone(),
        job_type: args.job_type.clone(),
        name: args.name.clone(),
        name_prefix: args.name_prefix.clone(),
        order_by: args.changed.then(|| BY_CHANGE.to_owned()),
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
    let mut layout = Layout::of(format);
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
    if args.job.starts_with(EXECUTION_PREFIX) {
        let execution = session.client.describe_execution(&args.job).await?;
        let fields = || execution_fields(&execution, clock::now()).render(out.colours());
        out.record(format, &execution, &execution.id.to_string(), fields)?;
        return Ok(Exit::Done);
    }
    let job = session.client.describe_job(&args.job).await?;
    match format {
        Format::Json => out.json(&job)?,
        Format::Yaml => out.yaml(&job)?,
        Format::Name => out.line(&job.id.to_string())?,
        Format::Table | Format::Wide => {
            let id = job.id.to_string();
            let layout = Layout::of(format);
            out.fields(&job_fields(&job, layout.now))?;
            let executions = waiting::executions(&session.client, &id).await?;
            if !executions.is_empty() {
                out.line("\nExecutions:")?;
                out.list(format, &layout, &executions)?;
            }
            let query = HistoryQuery { event_type: Some("job".to_owned()), ..Default::default() };
            let events = events(session, &id, &query, None).await?.items;
            let latest = &events[events.len().saturating_sub(DESCRIBED_EVENTS)..];
            out.line("\nEvents:")?;
            out.list(format, &layout, latest)?;
        }
    }
    Ok(Exit::Done)
}

pub(super) async fn executions(session: &Session, args: &ExecutionsArgs) -> Result<Exit> {
    let client = &session.client;
    let fetch = async || {
        collect(args.limit, async |rows, token| {
            let page = if let Some(job) = &args.job {
                let query = ExecutionsQuery {
                    limit: Some(rows),
                    next_token: token,
                    order_by: Some(args.sort.word().to_owned()),
                    reverse: args.reverse,
                };
                client.job_executions(job, &query).await?
            } else {
                let query = LiveExecutionsQuery {
                    node_id: args.node.clone(),
                    limit: Some(rows),
                    next_token: token,
                    reverse: args.reverse,
                };
                client.live_executions(&query).await?
            };
            Ok((page.executions, page.next_token))
        })
        .await
    };
    show(session.out, &args.watch, async || items(fetch().await)).await?;
    Ok(Exit::Done)
}

pub(super) async fn history(session: &Session, args: &HistoryArgs) -> Result<Exit> {
    let query = HistoryQuery {
        since: args.since(clock::now()),
        event_type: Some(args.level.word().to_owned()),
        execution_id: args.execution.clone(),
        node_id: args.node.clone(),
        ..HistoryQuery::default()
    };
    let fetch = async || items(events(session, &args.job, &query, args.limit).await);
    show(session.out, &args.watch, fetch).await?;
    Ok(Exit::Done)
}

async fn events(
    session: &Session,
    job: &str,
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
