//! The only exit of the step: everything leaves as a [`Release`], and only this module creates one.
//!
//! A message that reports stored state leaves after its commit. Any other message, such as a
//! refusal or the response to a heartbeat, still depends on the current state, so it leaves only
//! while this process is certainly the writer: within the time that its last commit guarantees. No
//! clock counts the pause of a virtual machine, so what can stop a task, or has an agent forget what it
//! reported, always leaves after a commit that began later than the decision.

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

/// For how long a process speaks for the store after it sent a successful commit. Followers wait
/// longer ([`crate::follow::FREE_AFTER`]) before they take over. A constant: settings that differ between
/// processes would break the rule.
pub const TRUSTED_FOR: Duration = Duration::from_millis(2500);

/// A process that has sent nothing for this long commits an empty batch: two of these may fail
/// before trust ends.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// Why a process may speak for the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// A lock keeps other processes out for as long as this one lives.
    Always,
    /// For [`TRUSTED_FOR`] after a successful commit was sent, no other process takes the store
    /// over.
    AfterCommit,
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
    /// When the last successful commit, or the beginning of the term, was sent.
    sent: Moment,
    explain_due: Moment,
}

// === impl Gate ===

impl Gate {
    pub(super) fn new(trust: Trust) -> Self {
        Self { trust, sent: Moment::ZERO, explain_due: Moment::ZERO }
    }

    pub(super) fn trust(&self) -> Trust {
        self.trust
    }

    /// A commit, or the beginning of a term, that was sent at this moment succeeded.
    pub(super) fn renewed(&mut self, sent: Moment) {
        self.sent = sent;
    }

    /// When an empty commit is due, if none was sent before.
    pub(super) fn renewal_due(&self) -> Option<Moment> {
        match self.trust {
            Trust::Always => None,
            Trust::AfterCommit => Some(self.sent + RENEW_EVERY),
        }
    }

    /// What claims nothing stored and is not acted upon may leave before this moment; none if always.
    pub(super) fn trusted_until(&self) -> Option<Moment> {
        match self.trust {
            Trust::Always => None,
            Trust::AfterCommit => Some(self.sent + TRUSTED_FOR),
        }
    }

    /// Whether all of this may leave without a commit. Renewals are due before trust ends.
    pub(super) fn lets_out<C>(&self, held: &[Delivery<C>], now: Moment) -> bool {
        match self.trust {
            Trust::Always => true,
            Trust::AfterCommit => {
                let is_renewed = now < self.sent + RENEW_EVERY;
                is_renewed && !held.iter().any(Delivery::is_acted_upon)
            }
        }
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
