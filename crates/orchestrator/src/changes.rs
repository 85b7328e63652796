//! Which records changed, published to all watchers at most once a second.
//!
//! The driver notes the records of each commit in one set, which is bounded: a thousand changes are
//! written down, more are one flag. A second later the set becomes one message, rendered once for
//! all readers, so that a full load of changes and hundreds of readers cost the driver nothing but
//! the notes. The last messages are kept for readers that reconnect.
//!
//! Rejected: a filter for each reader, which would make the cost of a change grow with them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_types::cluster::ChangeNotice;
use api_types::{JobId, NodeId};
use scheduler::change::Changes;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The shortest time between two messages.
const PERIOD: Duration = Duration::from_secs(1);

/// Jobs and nodes that a message lists; with more of either, any record may have changed.
const LISTED: usize = 1000;

/// Messages kept for readers that reconnect or fall behind: a minute of them.
const KEPT: usize = 60;

pub(crate) struct ChangeFeed {
    open: Mutex<Open>,
    /// Something was noted in an empty set.
    noted: Notify,
    sealed: Mutex<VecDeque<Message>>,
    /// The number of the last message; 0 before the first.
    last: watch::Sender<u64>,
}

/// What changed since the last message.
#[derive(Debug, Default)]
struct Open {
    /// Stays when the rest is taken.
    through: u64,
    jobs: BTreeSet<JobId>,
    nodes: BTreeSet<NodeId>,
    more: bool,
    cluster: bool,
}

/// A message, numbered from 1 without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) number: u64,
    pub(crate) notice: std::sync::Arc<ChangeNotice>,
}

/// What follows a position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Message(Message),
    /// Messages in between are gone; the reader continues after this one.
    Missed(u64),
    /// Nothing yet.
    Nothing,
}

// === impl ChangeFeed ===

impl Default for ChangeFeed {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            noted: Notify::new(),
            sealed: Mutex::default(),
            last: watch::Sender::new(0),
        }
    }
}

impl ChangeFeed {
    /// Notes what a commit changed, and the nodes that changed with or without one.
    pub(crate) fn note(&self, changes: &Changes, nodes: &[NodeId], reasons_changed: bool) {
        let changes_jobs = !changes.jobs.is_empty() || !changes.executions.is_empty();
        if !changes_jobs && nodes.is_empty() && !reasons_changed {
            return;
        }
        let mut open = lock(&self.open);
        if let Some(event) = changes.events.last() {
            open.through = event.seq;
        }
        open.cluster = true;
        let of_executions = changes.executions.values().map(|execution| execution.job);
        for job in changes.jobs.keys().copied().chain(of_executions) {
            if open.more {
                break;
            }
            if open.jobs.len() < LISTED || open.jobs.contains(&job) {
                open.jobs.insert(job);
            } else {
                open.more = true;
            }
        }
        open.nodes.extend(nodes);
        open.more |= open.nodes.len() > LISTED;
        drop(open);
        self.noted.notify_one();
    }

    /// Anything may have changed, up to this event.
    pub(crate) fn note_everything(&self) {
        let mut open = lock(&self.open);
        (open.more, open.cluster) = (true, true);
        drop(open);
        self.noted.notify_one();
    }

    /// Makes messages of what is noted, until the service stops.
    pub(crate) async fn run(&self, stopping: CancellationToken) {
        let mut earliest = Instant::now();
        loop {
            let due = async {
                self.noted.notified().await;
                tokio::time::sleep_until(earliest).await;
            };
            if stopping.run_until_cancelled(due).await.is_none() {
                return;
            }
            earliest = Instant::now() + PERIOD;
            self.seal();
        }
    }

    fn seal(&self) {
        let Open { through, jobs, nodes, more, cluster } = {
            let mut open = lock(&self.open);
            let through = open.through;
            std::mem::replace(&mut *open, Open { through, ..Open::default() })
        };
        if jobs.is_empty() && nodes.is_empty() && !more && !cluster {
            return;
        }
        let notice = ChangeNotice {
            through,
            jobs: jobs.into_iter().collect(),
            more,
            nodes: nodes.into_iter().take(LISTED).collect(),
            cluster,
        };
        let mut sealed = lock(&self.sealed);
        let number = *self.last.borrow() + 1;
        if sealed.len() == KEPT {
            sealed.pop_front();
        }
        sealed.push_back(Message { number, notice: notice.into() });
        drop(sealed);
        self.last.send_replace(number);
    }

    /// Changes with every message.
    pub(crate) fn last(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// The last event that was noted.
    pub(crate) fn through(&self) -> u64 {
        lock(&self.open).through
    }

    /// The message after this number.
    pub(crate) fn next(&self, after: u64) -> Next {
        let sealed = lock(&self.sealed);
        let last = sealed.back().map_or(0, |message| message.number);
        if after >= last {
            return Next::Nothing;
        }
        match sealed.iter().find(|message| message.number == after + 1) {
            Some(message) => Next::Message(message.clone()),
            None => Next::Missed(last),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
