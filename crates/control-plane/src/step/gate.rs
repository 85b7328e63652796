//! The only exit of the step: everything leaves as a [`Release`], and only this module creates one.
//!
//! A message that reports stored state leaves after its commit. Any other message, such as a
//! refusal or the response to a heartbeat, still depends on the current state, so it leaves only
//! while this process is certainly the writer: within the time that its last commit guarantees.

use std::sync::Arc;
use std::time::Duration;

use api_types::node::Node;
use api_types::{NodeId, Timestamp};
use scheduler::Scheduler;
use scheduler::demand::Want;
use scheduler::silence;
use scheduler::time::Moment;

use super::event::Delivery;
use crate::batch::Batch;

/// How often explanations of waiting jobs are brought up to date: often enough for a person, and
/// each scan of a thousand nodes takes well below a millisecond.
const EXPLAIN_EVERY: Duration = Duration::from_millis(250);

/// For how long a process may speak for the store after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// A lock keeps other processes out for as long as this one lives.
    Always,
    /// For this long after a successful commit was sent: no other process takes the store over
    /// sooner.
    AfterCommit(Duration),
}

/// What leaves the step. The runner publishes the nodes and announces the changes before it sends the
/// replies, so that a caller that reads immediately finds what the reply says.
#[non_exhaustive]
pub struct Release<C> {
    /// Nodes whose record changed; `None` for a forgotten one.
    pub nodes: Vec<(NodeId, Option<Node>)>,
    /// The lease that each of these nodes holds: what the answers to its heartbeats say is stored.
    pub leases: Vec<(NodeId, Option<silence::NodeLease>)>,
    /// When each of these nodes was last heard from. Most heartbeats change nothing else.
    pub heard: Vec<(NodeId, Timestamp)>,
    /// Why jobs wait, where that changed; `None` for a demand that no longer waits.
    pub explanations: Vec<(Want, Option<Arc<str>>)>,
    pub batch: Arc<Batch>,
    /// Effects and replies, in the order of release.
    pub held: Vec<Delivery<C>>,
}

/// Opens for what was committed.
pub(super) struct Gate {
    trust: Trust,
    trusted_until: Moment,
    explain_due: Moment,
}

// === impl Gate ===

impl Gate {
    pub(super) fn new(trust: Trust) -> Self {
        let trusted_until = match trust {
            Trust::Always => Moment(u64::MAX),
            Trust::AfterCommit(_) => Moment::ZERO,
        };
        Self { trust, trusted_until, explain_due: Moment::ZERO }
    }

    /// A commit, or the beginning of a term, that was sent at this moment succeeded.
    pub(super) fn renewed(&mut self, sent: Moment) {
        match self.trust {
            Trust::Always => {}
            Trust::AfterCommit(window) => {
                self.trusted_until = sent + window;
            }
        }
    }

    /// Whether what claims nothing stored may leave.
    pub(super) fn is_open(&self, now: Moment) -> bool {
        now < self.trusted_until
    }

    /// Lets out what was committed just now, or what needs no commit while the gate is open.
    pub(super) fn release<C>(
        &mut self,
        scheduler: &mut Scheduler,
        batch: Arc<Batch>,
        held: Vec<Delivery<C>>,
        now: Moment,
    ) -> Release<C> {
        let nodes = scheduler.take_touched_nodes();
        let leases = nodes.iter().map(|(id, _)| (*id, scheduler.held_by(*id))).collect();
        let heard = scheduler.take_heard_nodes();
        let explanations = if now >= self.explain_due {
            self.explain_due = now + EXPLAIN_EVERY;
            scheduler.refresh_explanations()
        } else {
            Vec::new()
        };
        Release { nodes, leases, heard, explanations, batch, held }
    }
}
