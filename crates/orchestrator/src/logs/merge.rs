//! Merges the output of all requested executions of a job into one sequence.
//!
//! A reader that follows several executions gets their output as it arrives, and new executions
//! join in. Otherwise the executions come one after the other, in the order of their creation.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api_types::job::{JobSpec, JobType};
use api_types::log::LogPosition;
use api_types::{ExecutionId, JobId};
use control_plane::store::{ExecutionOrder, ExecutionPosition, ExecutionQuery};
use futures_util::stream::{self, BoxStream, SelectAll, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Access;
use super::source::{Item, LogOptions, Source};
use crate::reads::{AskedBy, ReadError};

/// Executions that one reader follows at once; each may hold a connection from its node. Further
/// executions wait until another ends, and a remark informs the reader.
const MAX_AT_ONCE: usize = 64;

/// Executions read from the store at once.
const PAGE: u32 = 1000;

/// Interval between scans for new executions.
const SCAN_INTERVAL: Duration = Duration::from_millis(250);

/// A message to the reader, and the execution it concerns.
pub(super) enum Event {
    Item(ExecutionId, Item),
    /// The execution's output is complete.
    Ended(ExecutionId),
    /// The execution's output broke off.
    Interrupted(&'static str),
}

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
    access: Arc<Access>,
    options: LogOptions,
    at_once: usize,
    running: SelectAll<BoxStream<'static, Event>>,
    waiting: VecDeque<(ExecutionId, LogOptions)>,
    resumed: Resumed,
    search: Search,
    commits: watch::Receiver<u64>,
}

/// Where further executions may come from.
enum Search {
    Over,
    /// Executions after this one are new.
    Of {
        job: JobId,
        after: Option<ExecutionPosition>,
        due: Due,
    },
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
    pub(crate) fn of(job: JobId, spec: &JobSpec) -> Self {
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
        access: &Arc<Access>,
        which: Which,
        options: LogOptions,
        resumed: Resumed,
    ) -> Self {
        let due = Due::At(Instant::now());
        let (search, waiting, at_once) = match which {
            Which::One(id) => (Search::Over, VecDeque::from([(id, options)]), 1),
            Which::InTurn(job) => (Search::Of { job, after: None, due }, VecDeque::new(), 1),
            Which::Together(job) => {
                let at_once = if options.follow { MAX_AT_ONCE } else { 1 };
                (Search::Of { job, after: None, due }, VecDeque::new(), at_once)
            }
        };
        let commits = access.view.feed().last_seq();
        let (access, running) = (Arc::clone(access), SelectAll::new());
        Self { access, options, at_once, running, waiting, resumed, search, commits }
    }

    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            while self.running.len() < self.at_once
                && let Some((id, options)) = self.waiting.pop_front()
            {
                let position = self.resumed.get(&id).copied();
                let source = Source::new(&self.access, id, options, position);
                self.running.push(events_of(id, source));
            }
            if self.running.is_empty() && matches!(self.search, Search::Over) {
                return None;
            }
            tokio::select! {
                () = self.access.stopping.cancelled() => {
                    return Some(Event::Interrupted("the service is stopping"));
                }
                event = self.running.next(), if !self.running.is_empty() => {
                    // `None` when the last of them has just ended.
                    if event.is_some() {
                        return event;
                    }
                }
                () = due(&mut self.search, &mut self.commits) => match self.scan().await {
                    Ok(None) => {}
                    Ok(Some(event)) => return Some(event),
                    Err(error) => {
                        tracing::warn!(%error, "cannot read the store for a log reader");
                        return Some(Event::Interrupted("the state database is not available"));
                    }
                },
            }
        }
    }

    /// Finds new executions.
    async fn scan(&mut self) -> Result<Option<Event>, ReadError> {
        let Search::Of { job, after, .. } = self.search else { return Ok(None) };
        let (found, last, job_is_over) = self
            .access
            .reader
            .run(AskedBy::User, move |reads| {
                // Read the job first: a finished job gets no further executions.
                let is_over = reads.job(job)?.is_none_or(|job| job.state.is_terminal());
                let order = ExecutionOrder::CreateTime;
                let (mut found, mut after) = (Vec::new(), after);
                loop {
                    let query = ExecutionQuery { job, order, reverse: false, after, limit: PAGE };
                    let page = reads.executions(&query)?;
                    for stored in &page.items {
                        after = Some(ExecutionPosition {
                            key: order.key(&stored.row),
                            id: stored.row.id,
                        });
                        found.push(stored.row.id);
                    }
                    if !page.more {
                        return Ok::<_, ReadError>((found, after, is_over));
                    }
                }
            })
            .await?;
        // An execution that joins later starts from its beginning.
        let options = match after {
            None => self.options,
            Some(_) => LogOptions { tail: None, ..self.options },
        };
        self.waiting.extend(found.into_iter().map(|id| (id, options)));
        self.search = if job_is_over || !self.options.follow {
            Search::Over
        } else {
            let due = Due::AfterCommit(Instant::now() + SCAN_INTERVAL);
            Search::Of { job, after: last, due }
        };
        Ok(self.overfull())
    }

    fn overfull(&self) -> Option<Event> {
        let free = self.at_once - self.running.len().min(self.at_once);
        let (id, _) = self.waiting.get(free)?;
        (self.at_once == MAX_AT_ONCE).then(|| {
            let others = self.waiting.len() - free - 1;
            let remark = format!(
                "{MAX_AT_ONCE} executions are followed at once: this one and {others} others join \
                 in when one of these is over"
            );
            Event::Item(*id, Item::Remark(remark))
        })
    }
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
        source.next().await.map(|item| (Event::Item(id, item), source))
    })
    .chain(stream::once(async move { Event::Ended(id) }))
    .boxed()
}
