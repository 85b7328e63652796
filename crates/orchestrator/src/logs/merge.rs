//! Merges the output of all requested executions of a job into one sequence.
//!
//! A reader that follows several executions gets their output as it arrives, and new executions
//! join in. Otherwise the executions come one after the other, in the order of their creation. By
//! time, both are merged; past output in blocks of executions.

mod search;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api_types::job::{JobSpec, JobType};
use api_types::log::LogPosition;
use api_types::{ExecutionId, JobId, NodeId};
use control_plane::store::{ExecutionOrder, ExecutionPosition, ExecutionQuery, Reads};
use futures_util::stream::{self, BoxStream, SelectAll, StreamExt};
use scheduler::change::ExecutionRow;
use tokio::sync::watch;
use tokio::time::Instant;

use super::by_time::{ByTime, left_out};
use super::item::{Event, Item, Label, LogOptions, LogOrder};
use super::service::LogService;
use super::source::Source;
use crate::reads::{AskedBy, ReadError};
use search::{Due, Search, due, find};

/// Executions that one reader follows at the same time; each may hold a connection from its node.
/// Further executions wait until another ends, and a remark informs the reader.
const MAX_AT_ONCE: usize = 64;

/// The same for a page of the store.
const BLOCK: u32 = 64;

/// Interval between scans for new executions.
const SCAN_INTERVAL: Duration = Duration::from_millis(250);

/// What the reader already has of some executions.
pub(crate) type Resumed = HashMap<ExecutionId, LogPosition>;

/// Which executions.
#[derive(Clone, Copy)]
pub(crate) enum Which {
    One(ExecutionId),
    /// Those of a job with one slot: each begins after the previous one has ended.
    InTurn(JobId),
    /// Those of a job with several.
    Together(JobId),
}

pub(super) struct Merge {
    service: Arc<LogService>,
    options: LogOptions,
    at_once: usize,
    running: Running,
    waiting: VecDeque<Waiting>,
    resumed: Resumed,
    search: Search,
    commits: watch::Receiver<u64>,
}

/// An execution to be read when others are over.
struct Waiting {
    id: ExecutionId,
    options: LogOptions,
    /// Of one in a block.
    known: Option<Known>,
}

/// What its record says.
#[derive(Clone, Copy)]
struct Known {
    index: u32,
    node: NodeId,
}

/// The executions that are being read.
enum Running {
    AsItArrives(SelectAll<BoxStream<'static, Event>>),
    ByTime(ByTime),
}

// === impl Which ===

impl Which {
    /// All executions of a job. Text output of a job with one slot needs no labels.
    pub(crate) fn for_job(job: JobId, spec: &JobSpec) -> Self {
        match spec.job_type {
            JobType::Batch | JobType::Service if spec.count <= 1 => Self::InTurn(job),
            JobType::Batch | JobType::Service | JobType::Ops | JobType::Daemon => {
                Self::Together(job)
            }
        }
    }
}

// === impl Merge ===

impl Merge {
    pub(super) fn new(
        service: &Arc<LogService>,
        which: Which,
        options: LogOptions,
        resumed: Resumed,
    ) -> Self {
        let as_it_arrives = || Running::AsItArrives(SelectAll::new());
        let by_time = || Running::ByTime(ByTime::new(options.follow));
        let (search, waiting, at_once, running) = match which {
            Which::One(id) => {
                let one = Waiting { id, options, known: None };
                (Search::Over, VecDeque::from([one]), 1, as_it_arrives())
            }
            Which::InTurn(job) => (Search::begin(job), VecDeque::new(), 1, as_it_arrives()),
            Which::Together(job) => {
                let (search, at_once) = match (options.order, options.follow) {
                    (LogOrder::Time, false) => (Search::Blocks { job, after: None }, MAX_AT_ONCE),
                    (LogOrder::Time | LogOrder::Arrival, true) => (Search::begin(job), MAX_AT_ONCE),
                    (LogOrder::Arrival, false) => (Search::begin(job), 1),
                };
                let running = match options.order {
                    LogOrder::Time => by_time(),
                    LogOrder::Arrival => as_it_arrives(),
                };
                (search, VecDeque::new(), at_once, running)
            }
        };
        let commits = service.view.feed().last_seq();
        let service = Arc::clone(service);
        Self { service, options, at_once, running, waiting, resumed, search, commits }
    }

    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            while self.running.len() < self.at_once
                && let Some(Waiting { id, options, known }) = self.waiting.pop_front()
            {
                if let Some(Known { index, .. }) = known.filter(|known| self.gave_up(known.node)) {
                    return Some(left_out(Label { id, index }));
                }
                let position = self.resumed.get(&id).copied();
                let source = Source::new(&self.service, id, options, position);
                self.running.push(id, known, source);
            }
            if self.running.is_empty() && matches!(self.search, Search::Blocks { .. }) {
                match self.next_block().await {
                    Ok(None) => continue,
                    Ok(Some(event)) => return Some(event),
                    Err(error) => return Some(unreadable(&error)),
                }
            }
            if self.running.is_empty() && matches!(self.search, Search::Over) {
                return None;
            }
            tokio::select! {
                () = self.service.stopping.cancelled() => {
                    return Some(Event::Interrupted("the service is stopping"));
                }
                event = self.running.next(), if !self.running.is_empty() => {
                    // `None` when the last of them has just ended.
                    if event.is_some() {
                        return event;
                    }
                }
                // Those that wait come first, so that few are held in memory.
                () = due(&mut self.search, &mut self.commits), if self.waiting.is_empty() => {
                    match self.scan().await {
                        Ok(None) => {}
                        Ok(Some(event)) => return Some(event),
                        Err(error) => return Some(unreadable(&error)),
                    }
                }
            }
        }
    }

    /// The next event, if it is here already.
    pub(super) fn next_ready(&mut self) -> Option<Event> {
        match &mut self.running {
            Running::AsItArrives(_) => None,
            Running::ByTime(sources) => sources.next_ready(),
        }
    }

    fn gave_up(&self, node: NodeId) -> bool {
        match &self.running {
            Running::AsItArrives(_) => false,
            Running::ByTime(sources) => sources.gave_up(node),
        }
    }

    /// Finds further executions by their first events.
    async fn scan(&mut self) -> Result<Option<Event>, ReadError> {
        let Search::Of { job, after, existing, .. } = self.search else { return Ok(None) };
        let found = self
            .service
            .reader
            .run(AskedBy::User, move |reads| find(reads, job, after, existing))
            .await?;
        // An execution that joins later starts from its beginning.
        let joining = LogOptions { tail: None, ..self.options };
        let options = |seq| if seq <= found.existing { self.options } else { joining };
        let found_ones = found.executions.iter();
        self.waiting.extend(found_ones.map(|(id, seq)| Waiting {
            id: *id,
            options: options(*seq),
            known: None,
        }));
        self.search = if !found.more && (found.job_is_over || !self.options.follow) {
            Search::Over
        } else {
            let now = Instant::now();
            let due = if found.more { Due::At(now) } else { Due::AfterCommit(now + SCAN_INTERVAL) };
            Search::Of { job, after: found.through, existing: Some(found.existing), due }
        };
        self.overfull().await
    }

    async fn overfull(&mut self) -> Result<Option<Event>, ReadError> {
        let free = self.at_once - self.running.len().min(self.at_once);
        let Some(id) = self.waiting.get(free).map(|waiting| waiting.id) else { return Ok(None) };
        if self.at_once != MAX_AT_ONCE {
            return Ok(None);
        }
        let read = move |reads: &dyn Reads| Ok::<_, ReadError>(reads.execution(id)?);
        let stored = self.service.reader.run(AskedBy::User, read).await?;
        let label = Label { id, index: stored.map_or(0, |stored| stored.row.index) };
        let remark = format!(
            "{MAX_AT_ONCE} executions are followed at the same time: this one and those after it \
             join in when one of these is over"
        );
        Ok(Some(Event::Item(label, Item::Remark(remark))))
    }

    /// Begins the next block of executions.
    async fn next_block(&mut self) -> Result<Option<Event>, ReadError> {
        let Search::Blocks { job, after } = self.search else { return Ok(None) };
        let query = ExecutionQuery {
            job,
            order: ExecutionOrder::Index,
            reverse: false,
            slots: None,
            states: Vec::new(),
            after,
            limit: BLOCK,
        };
        let read = move |reads: &dyn Reads| Ok::<_, ReadError>(reads.executions(&query)?);
        let page = self.service.reader.run(AskedBy::User, read).await?;
        let rows = page.items.iter().map(|stored| &stored.row);
        self.waiting.extend(rows.map(|row| Waiting {
            id: row.id,
            options: self.options,
            known: Some(Known { index: row.index, node: row.node }),
        }));
        if let Running::ByTime(sources) = &mut self.running {
            sources.begin_block();
        }
        let position = |row: &ExecutionRow| ExecutionPosition {
            key: ExecutionOrder::Index.key(row),
            id: row.id,
        };
        let last = page.items.last().map(|stored| position(&stored.row));
        self.search = match last.filter(|_| page.more) {
            Some(last) => Search::Blocks { job, after: Some(last) },
            None => Search::Over,
        };
        let first = page.items.first().filter(|_| after.is_some());
        Ok(first.map(|stored| {
            let label = Label { id: stored.row.id, index: stored.row.index };
            let remark = format!(
                "{MAX_AT_ONCE} executions are merged at a time: this one and those after it follow"
            );
            Event::Item(label, Item::Remark(remark))
        }))
    }
}

fn unreadable(error: &ReadError) -> Event {
    tracing::warn!(%error, "cannot read the store for a log reader");
    Event::Interrupted("the state database is not available")
}

// === impl Running ===

impl Running {
    fn len(&self) -> usize {
        match self {
            Self::AsItArrives(sources) => sources.len(),
            Self::ByTime(sources) => sources.len(),
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push(&mut self, id: ExecutionId, known: Option<Known>, source: Source) {
        let events = events_of(id, source);
        match self {
            Self::AsItArrives(sources) => sources.push(events),
            Self::ByTime(sources) => {
                let index = known.map_or(0, |known| known.index);
                sources.push(Label { id, index }, known.map(|known| known.node), events);
            }
        }
    }

    async fn next(&mut self) -> Option<Event> {
        match self {
            Self::AsItArrives(sources) => sources.next().await,
            Self::ByTime(sources) => sources.next().await,
        }
    }
}

fn events_of(id: ExecutionId, source: Source) -> BoxStream<'static, Event> {
    stream::unfold(source, move |mut source| async move {
        let item = source.next().await?;
        Some((Event::Item(Label { id, index: source.index() }, item), source))
    })
    .chain(stream::once(async move { Event::Ended(id) }))
    .boxed()
}
