//! The output of all executions of a job that are asked for, as one sequence.
//!
//! Who follows several gets their output as it comes, and executions that appear meanwhile join
//! in. Otherwise it is one execution after the other, in the order of their creation.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use api_types::{ExecutionId, JobId};
use futures_util::stream::{self, BoxStream, SelectAll, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::source::{Asked, Said, Source};
use crate::http::Api;
use crate::http::error::Failure;
use crate::store::{ExecutionOrder, ExecutionPosition, ExecutionQuery};

/// Executions that one reader follows at once; each may hold a connection from its node. Beyond
/// it an execution waits until another is over, which the reader is told.
const MAX_AT_ONCE: usize = 64;

/// Executions read from the store at once.
const PAGE: u32 = 1000;

/// Between two looks for executions that are new.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// What the reader is told, and of which execution.
pub(super) enum Told {
    Said(ExecutionId, Said),
    /// Nothing more comes of this execution.
    Ended(ExecutionId),
    /// Nothing more comes, although it is not all.
    Interrupted(&'static str),
}

/// Which executions.
#[derive(Clone, Copy)]
pub(super) enum Which {
    One(ExecutionId),
    /// Those of a job with one slot: each comes after the one before has ended.
    InTurn(JobId),
    /// Those of a job with several.
    Together(JobId),
}

pub(super) struct Merge {
    api: Arc<Api>,
    asked: Asked,
    at_once: usize,
    running: SelectAll<BoxStream<'static, Told>>,
    waiting: VecDeque<(ExecutionId, Asked)>,
    search: Search,
    commits: watch::Receiver<u64>,
}

/// Where further executions may come from.
enum Search {
    Over,
    /// Those after this one were not seen yet.
    Of {
        job: JobId,
        after: Option<ExecutionPosition>,
        due: Due,
    },
}

/// When the store is looked at.
enum Due {
    At(Instant),
    /// After the next commit, and not before this.
    AfterCommit(Instant),
}

// === impl Merge ===

impl Merge {
    pub(super) fn new(api: &Arc<Api>, which: Which, asked: Asked) -> Self {
        let due = Due::At(Instant::now());
        let (search, waiting, at_once) = match which {
            Which::One(id) => (Search::Over, VecDeque::from([(id, asked)]), 1),
            Which::InTurn(job) => (Search::Of { job, after: None, due }, VecDeque::new(), 1),
            Which::Together(job) => {
                let at_once = if asked.follow { MAX_AT_ONCE } else { 1 };
                (Search::Of { job, after: None, due }, VecDeque::new(), at_once)
            }
        };
        let commits = api.view.feed().last_seq();
        let (api, running) = (Arc::clone(api), SelectAll::new());
        Self { api, asked, at_once, running, waiting, search, commits }
    }

    pub(super) async fn next(&mut self) -> Option<Told> {
        loop {
            while self.running.len() < self.at_once
                && let Some((id, asked)) = self.waiting.pop_front()
            {
                let source = Source::new(&self.api, id, asked);
                self.running.push(told(id, source));
            }
            if self.running.is_empty() && matches!(self.search, Search::Over) {
                return None;
            }
            tokio::select! {
                () = self.api.stopping.cancelled() => {
                    return Some(Told::Interrupted("the service is stopping"));
                }
                told = self.running.next(), if !self.running.is_empty() => {
                    // None when the last of them has just gone.
                    if told.is_some() {
                        return told;
                    }
                }
                () = due(&mut self.search, &mut self.commits) => match self.look().await {
                    Ok(None) => {}
                    Ok(Some(told)) => return Some(told),
                    Err(failure) => {
                        tracing::warn!(?failure, "a log reader cannot read the store");
                        return Some(Told::Interrupted("the state database is not available"));
                    }
                },
            }
        }
    }

    /// Finds executions that are new.
    async fn look(&mut self) -> Result<Option<Told>, Failure> {
        let Search::Of { job, after, .. } = self.search else { return Ok(None) };
        let (found, last, job_is_over) = self
            .api
            .reader
            .run(move |reads| {
                // The job first: one that is over gets no further executions.
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
                        return Ok((found, after, is_over));
                    }
                }
            })
            .await?;
        // What joins in later is told from its beginning.
        let asked = match after {
            None => self.asked,
            Some(_) => Asked { tail: None, ..self.asked },
        };
        self.waiting.extend(found.into_iter().map(|id| (id, asked)));
        self.search = if job_is_over || !self.asked.follow {
            Search::Over
        } else {
            let due = Due::AfterCommit(Instant::now() + LOOK_PAUSE);
            Search::Of { job, after: last, due }
        };
        Ok(self.overfull())
    }

    fn overfull(&self) -> Option<Told> {
        let room = self.at_once - self.running.len().min(self.at_once);
        let (id, _) = self.waiting.get(room)?;
        (self.at_once == MAX_AT_ONCE).then(|| {
            let others = self.waiting.len() - room - 1;
            let remark = format!(
                "{MAX_AT_ONCE} executions are followed at once: this one and {others} others join \
                 in when one of these is over"
            );
            Told::Said(*id, Said::Remark(remark))
        })
    }
}

/// Returns when the store is to be looked at. It may be dropped and called again.
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

fn told(id: ExecutionId, source: Source) -> BoxStream<'static, Told> {
    stream::unfold(source, move |mut source| async move {
        source.next().await.map(|said| (Told::Said(id, said), source))
    })
    .chain(stream::once(async move { Told::Ended(id) }))
    .boxed()
}
