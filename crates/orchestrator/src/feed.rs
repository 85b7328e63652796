//! Notifies waiting reads of commits.
//!
//! A waiter costs one map entry. A commit wakes all event streams, and only those waiters whose job
//! it changed. Nothing is queued here: a woken waiter reads the store, so a slow reader delays no
//! other and misses nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api_types::JobId;
use tokio::sync::watch;

use scheduler::change::Changes;

pub struct Feed {
    last_seq: watch::Sender<u64>,
    jobs: Arc<Mutex<Jobs>>,
}

type Jobs = HashMap<JobId, watch::Sender<u64>>;

/// Waits for changes of one job's record.
pub struct JobWatch {
    job: JobId,
    revision: watch::Receiver<u64>,
    jobs: Arc<Mutex<Jobs>>,
}

// === impl Feed ===

impl Default for Feed {
    fn default() -> Self {
        Self { last_seq: watch::Sender::new(0), jobs: Arc::default() }
    }
}

impl Feed {
    /// The sequence number of the last committed event; changes with every commit that has events.
    pub fn last_seq(&self) -> watch::Receiver<u64> {
        self.last_seq.subscribe()
    }

    /// Starts watching a job. Any commit after this call wakes the watch, so read the record
    /// afterwards.
    pub fn watch(&self, job: JobId) -> JobWatch {
        let revision =
            lock(&self.jobs).entry(job).or_insert_with(|| watch::Sender::new(0)).subscribe();
        JobWatch { job, revision, jobs: Arc::clone(&self.jobs) }
    }

    /// Wakes every waiter: what has been committed since is unknown here.
    pub(crate) fn wake_all(&self) {
        self.last_seq.send_modify(|_| {});
        for job in lock(&self.jobs).values() {
            job.send_modify(|_| {});
        }
    }

    /// Announces a commit.
    pub(crate) fn announce(&self, changes: &Changes) {
        if let Some(last) = changes.events.last() {
            self.last_seq.send_replace(last.seq);
        }
        let jobs = lock(&self.jobs);
        if jobs.is_empty() {
            return;
        }
        for (id, row) in &changes.jobs {
            if let Some(job) = jobs.get(id) {
                job.send_replace(row.revision);
            }
        }
    }
}

// === impl JobWatch ===

impl JobWatch {
    /// Returns when the record has changed since the watch began or since the last return.
    pub async fn changed(&mut self) {
        // The sender lives as long as its watches, so this cannot fail.
        drop(self.revision.changed().await);
    }
}

impl Drop for JobWatch {
    fn drop(&mut self) {
        let mut jobs = lock(&self.jobs);
        // The receiver of this watch is still counted.
        if jobs.get(&self.job).is_some_and(|job| job.receiver_count() <= 1) {
            jobs.remove(&self.job);
        }
    }
}

fn lock(jobs: &Mutex<Jobs>) -> MutexGuard<'_, Jobs> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api_types::job::JobStateType;
    use api_types::{EvaluationId, Timestamp};
    use scheduler::change::{EventRow, EventSubject, JobRow};
    use scheduler::slots::Slots;
    use scheduler::text::Text;
    use uuid::Uuid;

    fn changes(job: JobId, revision: u64) -> Changes {
        let mut changes = Changes::default();
        let row = JobRow {
            id: job,
            state: JobStateType::Running,
            message: Text::Constant(""),
            version: 1,
            revision,
            modify_time: Timestamp(1),
            last_event_time: Timestamp(1),
            waiting_since: None,
            ended_at: None,
            start_time: None,
            running: 0,
            failed: 0,
            slots: Slots::below(1),
            fresh: 1,
            completed: 0,
            failed_slots: 0,
            evaluation: EvaluationId::from_uuid(Uuid::nil()),
            live: true,
        };
        changes.jobs.insert(job, row);
        let (previous, new) = (JobStateType::Pending, JobStateType::Running);
        changes.events.push(EventRow {
            seq: revision * 10,
            time: Timestamp(1),
            revision,
            comment: Text::Constant("runs"),
            subject: EventSubject::Job { job, previous, new },
        });
        changes
    }

    #[tokio::test]
    async fn a_watch_wakes_only_for_its_own_job() {
        let feed = Feed::default();
        let (mine, other) = (JobId::from_uuid(Uuid::from_u128(1)), JobId::from_uuid(Uuid::nil()));
        let mut watch = feed.watch(mine);
        feed.announce(&changes(other, 1));
        tokio::select! {
            biased;
            () = watch.changed() => panic!("it woke for another job"),
            () = std::future::ready(()) => {}
        }
        feed.announce(&changes(mine, 2));
        watch.changed().await;
        assert_eq!(*feed.last_seq().borrow(), 20);
    }

    #[tokio::test]
    async fn a_new_term_wakes_everybody() {
        let feed = Feed::default();
        let mut watch = feed.watch(JobId::from_uuid(Uuid::nil()));
        let mut last_seq = feed.last_seq();
        feed.wake_all();
        watch.changed().await;
        last_seq.changed().await.unwrap();
    }

    #[test]
    fn the_last_watch_of_a_job_removes_its_entry() {
        let feed = Feed::default();
        let job = JobId::from_uuid(Uuid::nil());
        let (first, second) = (feed.watch(job), feed.watch(job));
        drop(first);
        assert_eq!(lock(&feed.jobs).len(), 1);
        drop(second);
        assert!(lock(&feed.jobs).is_empty());
    }
}
