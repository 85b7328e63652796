//! Merges the output of all requested executions of a job into one sequence.
//!
//! A reader that follows several executions gets their output as it arrives, and new executions
//! join in. Otherwise the executions come one after the other, in the order of their creation. By
//! time, both are merged; past output in blocks of executions.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api_types::history::EventType;
use api_types::job::{JobSpec, JobType};
use api_types::log::LogPosition;
use api_types::{ExecutionId, JobId, Timestamp};
use control_plane::store::{
    EventEntry, EventsQuery, ExecutionOrder, ExecutionPosition, ExecutionQuery, Namespaces, Reads,
};
use futures_util::stream::{self, BoxStream, SelectAll, StreamExt};
use scheduler::change::{EventSubject, ExecutionRow};
use tokio::sync::watch;
use tokio::time::Instant;

use super::by_time::ByTime;
use super::item::{Event, Item, Label, LogOptions, LogOrder};
use super::service::LogService;
use super::source::Source;
use crate::reads::{AskedBy, ReadError};

/// Executions that one reader follows at the same time; each may hold a connection from its node.
/// Further executions wait until another ends, and a remark informs the reader.
const MAX_AT_ONCE: usize = 64;

/// The same for a page of the store.
const BLOCK: u32 = 64;

/// Events examined in one read of the store, which takes about 2 ms. A read that finds more leaves the
/// rest to the next one, so that a job with a million executions keeps no one else from reading.
const EVENTS_AT_ONCE: u32 = 1000;

/// The revision of an execution's first event.
const FIRST_REVISION: u64 = 1;

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
    waiting: VecDeque<(ExecutionId, LogOptions)>,
    resumed: Resumed,
    search: Search,
    commits: watch::Receiver<u64>,
}

/// The executions that are being read.
enum Running {
    AsItArrives(SelectAll<BoxStream<'static, Event>>),
    ByTime(ByTime),
}

/// Where further executions may come from.
enum Search {
    Over,
    /// All that there are, in blocks by index; `after` the last one of the former block.
    Blocks {
        job: JobId,
        after: Option<ExecutionPosition>,
    },
    Of {
        job: JobId,
        /// The sequence up to which the job's events were examined.
        after: u64,
        /// The sequence of the last event when the reader came; `None` until the first read.
        /// Executions that began later join in.
        existing: Option<u64>,
        due: Due,
    },
}

/// What one read of the store found.
struct StoreScan {
    /// Executions, and the sequence of the first event of each.
    executions: Vec<(ExecutionId, u64)>,
    /// The sequence up to which events were examined, and whether later ones exist.
    through: u64,
    more: bool,
    existing: u64,
    job_is_over: bool,
}

/// When the store is read next.
enum Due {
    At(Instant),
    /// After the next commit, and not before this time.
    AfterCommit(Instant),
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
            Which::One(id) => (Search::Over, VecDeque::from([(id, options)]), 1, as_it_arrives()),
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
                && let Some((id, options)) = self.waiting.pop_front()
            {
                let position = self.resumed.get(&id).copied();
                let source = Source::new(&self.service, id, options, position);
                self.running.push(id, source);
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
        self.waiting.extend(found.executions.into_iter().map(|(id, seq)| (id, options(seq))));
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
        let Some((id, _)) = self.waiting.get(free).copied() else { return Ok(None) };
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
            states: Vec::new(),
            after,
            limit: BLOCK,
        };
        let read = move |reads: &dyn Reads| Ok::<_, ReadError>(reads.executions(&query)?);
        let page = self.service.reader.run(AskedBy::User, read).await?;
        let rows = page.items.iter().map(|stored| &stored.row);
        self.waiting.extend(rows.map(|row| (row.id, self.options)));
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

    fn push(&mut self, id: ExecutionId, source: Source) {
        match self {
            Self::AsItArrives(sources) => sources.push(events_of(id, source)),
            Self::ByTime(sources) => sources.push(id, events_of(id, source)),
        }
    }

    async fn next(&mut self) -> Option<Event> {
        match self {
            Self::AsItArrives(sources) => sources.next().await,
            Self::ByTime(sources) => sources.next().await,
        }
    }
}

// === impl Search ===

impl Search {
    fn begin(job: JobId) -> Self {
        Self::Of { job, after: 0, existing: None, due: Due::At(Instant::now()) }
    }
}

/// Examines the next events of the job. A job keeps all of them as long as it exists.
fn find(
    reads: &dyn Reads,
    job: JobId,
    after: u64,
    existing: Option<u64>,
) -> Result<StoreScan, ReadError> {
    // Read the job first: a finished job gets no further executions.
    let job_is_over = reads.summary(job)?.is_none_or(|job| job.state.is_terminal());
    let existing = existing.map_or_else(|| reads.last_event(), Ok)?;
    let page = reads.events(&EventsQuery {
        after,
        job: Some(job),
        namespaces: Namespaces::All,
        event_type: Some(EventType::ExecutionLevel),
        since: Timestamp::ZERO,
        limit: EVENTS_AT_ONCE,
    })?;
    let first = |entry| match entry {
        EventEntry::Event(event) if event.revision == FIRST_REVISION => match event.subject {
            EventSubject::Execution { id, .. } => Some((id, event.seq)),
            EventSubject::Job { .. } | EventSubject::Node { .. } => None,
        },
        EventEntry::Event(_) | EventEntry::Gap { .. } => None,
    };
    let executions = page.entries.into_iter().filter_map(first).collect();
    Ok(StoreScan { executions, through: page.through, more: page.more, existing, job_is_over })
}

/// Returns when the store is due to be read. Cancel safe.
async fn due(search: &mut Search, commits: &mut watch::Receiver<u64>) {
    let Search::Of { due, .. } = search else { return std::future::pending().await };
    if let Due::AfterCommit(earliest) = *due {
        // The sender lives as long as the service.
        if commits.changed().await.is_err() {
            return std::future::pending().await;
        }
        *due = Due::At(earliest);
    }
    if let Due::At(moment) = *due {
        tokio::time::sleep_until(moment).await;
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
