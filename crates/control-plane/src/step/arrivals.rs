//! Heartbeats between their arrival and the turn that hands them to the scheduler.

use std::collections::BTreeMap;
use std::time::Duration;

use api_types::NodeId;
use scheduler::Scheduler;
use scheduler::input::Input;
use scheduler::silence::HeartbeatArrival;
use scheduler::time::Now;

use super::commit_builder::CommitBuilder;

/// Heartbeats that the scheduler was not handed yet: the latest of each node.
#[derive(Default)]
pub(super) struct Arrivals {
    gap: Duration,
    heard: BTreeMap<NodeId, HeartbeatArrival>,
}

// === impl Arrivals ===

impl Arrivals {
    pub(super) fn note(&mut self, gap: Duration, arrivals: Vec<HeartbeatArrival>) {
        self.gap += gap;
        self.heard.extend(arrivals.into_iter().map(|heard| (heard.node, heard)));
    }

    pub(super) fn hand_over<C>(
        &mut self,
        builder: &mut CommitBuilder<C>,
        scheduler: &mut Scheduler,
        now: Now,
    ) {
        let Self { gap, heard } = std::mem::take(self);
        if !gap.is_zero() {
            builder.handle(scheduler, now, Input::MissedHeartbeats(gap));
        }
        if !heard.is_empty() {
            builder.handle(scheduler, now, Input::Heard(heard.into_values().collect()));
        }
    }
}
