//! The state of a job and its message.
//!
//! The message names failures being retried, silent nodes, and why the job waits for room, in this
//! order.

use alloc::format;

use api_types::job::{JobStateType, JobType};
use api_types::{JobId, NodeId};

use crate::job::LiveJob;
use crate::text::Text;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// A job's executions on a silent node.
pub(crate) struct SilentNode {
    pub(crate) executions: u32,
    /// Since when the node has been silent, and what follows.
    pub(crate) text: Text,
}

/// The start of a job's message, before the reason why it waits for room; empty texts when there is
/// nothing to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) retry: Text,
    pub(crate) silence: Text,
}

// === impl Notice ===

impl Notice {
    /// Nothing to report.
    pub(crate) const NONE: Self = Self { retry: Text::Constant(""), silence: Text::Constant("") };
}

// === impl LiveJob: what it says ===

impl LiveJob {
    /// The current notice: failures and silent nodes.
    pub(crate) fn notice(&self) -> Notice {
        let retry = self.extras.retry.clone().filter(|_| self.is_retrying());
        let silence = self.extras.silent.values().next().map(|silent| silent.text.clone());
        Notice {
            retry: retry.unwrap_or(Text::Constant("")),
            silence: silence.unwrap_or(Text::Constant("")),
        }
    }

    /// An execution on a silent node has ended.
    pub(crate) fn silent_execution_ended(&mut self, node: NodeId) {
        let Some(extra) = self.extras.existing() else { return };
        if let Some(silent) = extra.silent.get_mut(&node) {
            silent.executions -= 1;
            if silent.executions == 0 {
                extra.silent.remove(&node);
            }
        }
    }
}

// === impl Scheduler: where a job stands ===

impl Scheduler {
    /// Derives the job's state from its slots, and records it when it changed.
    pub(crate) fn refresh_job(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        if job.is_terminal() {
            return;
        }
        let finite = job.plan.job_type.is_finite();
        let slots = job.row.slots.len();
        if finite && slots > 0 && job.row.completed == slots {
            let message = match slots {
                1 => Text::Constant("its execution completed"),
                slots => Text::from(format!("all {slots} executions completed")),
            };
            self.end_job(turn, id, JobStateType::Completed, message);
            return;
        }
        let waits = self.is_blocked(job);
        let busy = !job.executions.is_empty() || job.is_delayed();
        let state = match (busy, waits, job.row.start_time.is_some()) {
            (false, true, _) => JobStateType::Queued,
            (true, _, true) | (false, false, true) => JobStateType::Running,
            (true, _, false) | (false, false, false) => JobStateType::Pending,
        };
        let notice = job.notice();
        let silence_changed = notice.silence.is_empty() != job.extras.shown.silence.is_empty();
        let is_event =
            state != job.row.state || waits != job.row.waiting_since.is_some() || silence_changed;
        if !is_event && notice == job.extras.shown {
            return;
        }
        self.note_waiting(turn, id, waits);
        let message = match (&notice.retry, &notice.silence) {
            (retry, _) if !retry.is_empty() => retry.clone(),
            (_, silence) if !silence.is_empty() => silence.clone(),
            _ if waits => self.explain_job(id),
            _ => Text::Constant(""),
        };
        let comment = match state {
            _ if silence_changed && !notice.silence.is_empty() => notice.silence.clone(),
            _ if silence_changed => Text::Constant("none of its nodes is silent any more"),
            _ if waits && notice.retry.is_empty() => {
                Text::from(format!("waits for room: {message}"))
            }
            _ if waits => Text::from(format!("waits: {message}")),
            JobStateType::Running => Text::Constant("an execution runs"),
            _ => Text::Constant("placed"),
        };
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.row.message = message;
        if notice != job.extras.shown {
            job.extras.to_mut().shown = notice;
        }
        if is_event {
            self.note_job(turn, id, state, comment);
        } else {
            // The history already has the failures of the executions.
            turn.out.changes.jobs.insert(id, job.row.clone());
        }
    }

    /// Whether slots wait for which no node has room.
    fn is_blocked(&self, job: &LiveJob) -> bool {
        let daemon_without_node = job.plan.job_type == JobType::Daemon && job.row.slots.is_empty();
        let has_waited = job.row.waiting_since.is_some();
        let anywhere = job.classes().into_iter().any(|id| {
            let class = self.queue.class(id);
            job.has_ready_slot(id) && (class.blocked || (class.restored && has_waited))
        });
        job.extras.pending.has_pinned() || anywhere || daemon_without_node
    }

    fn note_waiting(&mut self, turn: &mut Turn<'_>, id: JobId, waits: bool) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        match (waits, job.row.waiting_since) {
            (true, None) => {
                job.row.waiting_since = Some(turn.now);
                if let Some(bound) = job.plan.queue_timeout() {
                    self.timers.set(turn.now + bound, Timer::QueueTimeout(id));
                }
            }
            (false, Some(_)) => {
                job.row.waiting_since = None;
                self.timers.cancel(Timer::QueueTimeout(id));
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
}
