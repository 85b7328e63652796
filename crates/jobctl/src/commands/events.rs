//! `jobctl events`: the events of all jobs, or of all nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use api_client::{ClientError, EventsQuery, ExecutionsQuery, StreamedEvent};
use api_types::execution::Execution;
use api_types::history::HistoryEvent;
use api_types::{Code, ExecutionId, JobId};
use futures_util::{Stream, StreamExt};

use crate::cli::{EventsArgs, StreamLevel};
use crate::clock;
use crate::exit::Exit;
use crate::handles::{self, index_of};
use crate::output::{Format, Rows, note};
use crate::reconnect::Reconnect;
use crate::session::Session;
use crate::view::{EventNames, NumberedEvent};

/// Without `--follow` the command ends at the event that was the last one when it started. If a
/// filter excludes that event, the stream does not show that it was passed, and this long without
/// an event means the end. The service searches about half a million events per second.
const SILENCE: Duration = Duration::from_secs(2);

/// Delay before a stream that ended regularly is opened again.
const REOPEN_DELAY: Duration = Duration::from_millis(500);

/// Jobs whose names are asked for; those of later ones are their short IDs.
const MAX_NAMED: usize = 500;

/// Executions of a job whose indexes are asked for.
const MAX_INDEXED: u32 = 1000;

/// The names of jobs, executions and nodes, each asked for once.
struct Names<'a> {
    session: &'a Session,
    /// Whether a table shows them.
    are_shown: bool,
    jobs: BTreeMap<JobId, String>,
    indexes: BTreeMap<ExecutionId, u64>,
    asked: usize,
}

pub(super) async fn events(session: &Session, args: &EventsArgs) -> Result<Exit> {
    // Nodes belong to no namespace.
    let namespace = if args.all_namespaces || args.level == StreamLevel::Node {
        None
    } else {
        session.namespace(&args.namespace)
    };
    let job_id = match &args.job {
        Some(text) => Some(handles::job(session, namespace.as_deref(), text).await?.to_string()),
        None => None,
    };
    let query = EventsQuery {
        job_id,
        namespace,
        event_type: Some(args.level.word().to_owned()),
        since: args.since(clock::now()),
        last_event_id: args.after,
    };
    let mut names = Names::new(session, args.output.format == Format::Table);
    let rows = Rows::new(session.out, args.output.format, NumberedEvent::WIDTHS);
    if args.follow {
        follow(&mut names, query, rows).await?;
    } else {
        until_now(&mut names, &query, rows).await?;
    }
    Ok(Exit::Done)
}

async fn until_now(
    names: &mut Names<'_>,
    query: &EventsQuery,
    mut rows: Rows<NumberedEvent>,
) -> Result<()> {
    let client = &names.session.client;
    // A stream without parameters begins with the position of the last event.
    let last = match client.events(&EventsQuery::default()).await?.next().await.transpose()? {
        Some(first) => id(&first),
        None => return Ok(()),
    };
    let mut stream = client.events(query).await?;
    while let Ok(Some(item)) = tokio::time::timeout(SILENCE, stream.next()).await {
        let item = item?;
        let position = id(&item);
        show(names, &mut rows, item).await?;
        if position >= last {
            break;
        }
    }
    Ok(())
}

/// Resumes broken streams at their last event, so that no event is lost or repeated.
async fn follow(
    names: &mut Names<'_>,
    mut query: EventsQuery,
    mut rows: Rows<NumberedEvent>,
) -> Result<()> {
    let mut reconnect = Reconnect::default();
    let mut opened = false;
    loop {
        let ended = match names.session.client.events(&query).await {
            Ok(mut stream) => {
                reconnect.succeeded();
                opened = true;
                relay(&mut stream, &mut query, names, &mut rows).await?
            }
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => tokio::time::sleep(REOPEN_DELAY).await,
            // Removal of the job ended the stream.
            Err(error) if opened && error.code() == Some(Code::JobNotFound) => return Ok(()),
            Err(error) => tokio::time::sleep(reconnect.retry_delay(error)?).await,
        }
    }
}

/// Shows events until the stream ends or breaks, and records the position.
async fn relay(
    stream: &mut (impl Stream<Item = Result<StreamedEvent, ClientError>> + Unpin),
    query: &mut EventsQuery,
    names: &mut Names<'_>,
    rows: &mut Rows<NumberedEvent>,
) -> Result<Result<(), ClientError>> {
    while let Some(item) = stream.next().await {
        match item {
            Ok(item) => {
                query.last_event_id = Some(id(&item));
                show(names, rows, item).await?;
            }
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(()))
}

async fn show(
    names: &mut Names<'_>,
    rows: &mut Rows<NumberedEvent>,
    item: StreamedEvent,
) -> Result<()> {
    match item {
        StreamedEvent::History { id, event } => {
            let names = names.resolve(&event).await;
            rows.show(&NumberedEvent { sequence: id, event: *event, names })
        }
        StreamedEvent::Gap { gap, .. } => {
            note(&format!("events {} to {} are missing: retention removed them", gap.from, gap.to));
            Ok(())
        }
        StreamedEvent::Position { .. } => Ok(()),
    }
}

const fn id(item: &StreamedEvent) -> u64 {
    match item {
        StreamedEvent::History { id, .. }
        | StreamedEvent::Gap { id, .. }
        | StreamedEvent::Position { id } => *id,
    }
}

// === impl Names ===

impl<'a> Names<'a> {
    fn new(session: &'a Session, are_shown: bool) -> Self {
        Self { session, are_shown, jobs: BTreeMap::new(), indexes: BTreeMap::new(), asked: 0 }
    }

    async fn resolve(&mut self, event: &HistoryEvent) -> EventNames {
        if !self.are_shown {
            return EventNames::default();
        }
        let node = match event.node_id {
            Some(id) => Some(self.session.node_names([id]).await.name_of(id)),
            None => None,
        };
        let Some(job) = event.job_id else { return EventNames { node, ..EventNames::default() } };
        if !self.jobs.contains_key(&job) && self.may_ask() {
            let name = self.session.client.describe_job(job).await.map(|job| job.spec.name);
            self.jobs.insert(job, name.unwrap_or_else(|_| job.short()));
        }
        if event.execution_id.is_some_and(|id| !self.indexes.contains_key(&id)) && self.may_ask() {
            self.learn_indexes(job).await;
        }
        let index = |id: ExecutionId| match self.indexes.get(&id) {
            Some(index) => format!("[{index}]"),
            None => id.short(),
        };
        EventNames {
            job: Some(self.jobs.get(&job).cloned().unwrap_or_else(|| job.short())),
            execution: event.execution_id.map(index),
            node,
        }
    }

    fn may_ask(&mut self) -> bool {
        self.asked += 1;
        self.asked <= 2 * MAX_NAMED
    }

    /// The newest executions, which include the one of the event.
    async fn learn_indexes(&mut self, job: JobId) {
        let query = ExecutionsQuery {
            limit: Some(MAX_INDEXED),
            order_by: Some("create_time".to_owned()),
            reverse: true,
            ..ExecutionsQuery::default()
        };
        if let Ok(page) = self.session.client.job_executions(job, &query).await {
            let index = |found: &Execution| Some((found.id, index_of(found)?));
            self.indexes.extend(page.executions.iter().filter_map(index));
        }
    }
}
