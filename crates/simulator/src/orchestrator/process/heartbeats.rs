//! Heartbeats, which a process takes and answers at any time.

use std::collections::VecDeque;
use std::time::Duration;

use api_types::protocol::HeartbeatAnswer;
use control_plane::clock::Stamp;
use control_plane::step::Event;
use scheduler::silence::{self, HeartbeatArrival};
use scheduler::time::Moment;

use super::{Process, Surroundings};
use crate::network::{Answer, Request, RequestBody};
use crate::orchestrator::outgoing::Outgoing;
use crate::orchestrator::requests::mishear;
use crate::summary::Sabotage;

// === impl Process: heartbeats ===

impl Process {
    /// Tells the witness of the heartbeats that the scheduler took.
    pub(super) fn testify(&mut self, around: &mut Surroundings<'_>) {
        let (Some(scheduler), false) = (self.step.scheduler(), self.step.is_committing()) else {
            return;
        };
        for heard in self.noted.drain(..) {
            if let Some(witness) = &mut around.witness
                && scheduler.held_by(heard.node).is_some_and(|held| held.session == heard.session)
            {
                witness.hears(&heard);
            }
        }
    }

    /// Notes heartbeats, which bypass the queue; returns those that only the scheduler can answer.
    pub(super) fn hear(
        &mut self,
        stamp: Stamp,
        around: &mut Surroundings<'_>,
        outgoing: &mut Vec<Outgoing>,
    ) -> VecDeque<Request> {
        let mut arrivals = Vec::new();
        let mut unknown = VecDeque::new();
        for request in std::mem::take(&mut self.inbox) {
            match &request.body {
                RequestBody::Heartbeat { node, heartbeat } => {
                    let (node, session) = (*node, heartbeat.session);
                    let held = self.leases.get(&node).filter(|held| held.session == session);
                    let Some(silence::NodeLease { lease: granted, probe, .. }) = held.copied()
                    else {
                        unknown.push_back(request);
                        continue;
                    };
                    let (at, kept) = (stamp.moment, heartbeat.lease());
                    let stalled = Duration::from_millis(heartbeat.stalled_millis);
                    let probed = mishear(heartbeat.probed.clone(), around.sabotage);
                    arrivals.push(HeartbeatArrival {
                        node,
                        session,
                        at,
                        stalled,
                        granted,
                        kept,
                        probed,
                    });
                    let renewed = HeartbeatAnswer { probe, ..HeartbeatAnswer::granting(granted) };
                    let answer = match self.may_answer(stamp.moment, around) {
                        true => Answer::Renewed(renewed),
                        false => Answer::Lost,
                    };
                    outgoing.push(Outgoing::Answer(request.caller(), answer));
                }
                RequestBody::Join { .. }
                | RequestBody::Open { .. }
                | RequestBody::Reports { .. }
                | RequestBody::Submit { .. }
                | RequestBody::Stop { .. }
                | RequestBody::PutSecret { .. }
                | RequestBody::PutGroup { .. }
                | RequestBody::PutQuota { .. }
                | RequestBody::PutWeight { .. }
                | RequestBody::Forget { .. }
                | RequestBody::Act { .. } => self.inbox.push_back(request),
            }
        }
        self.noted.extend(arrivals.iter().cloned());
        for heard in &mut arrivals {
            if let Some(witness) = &mut around.witness {
                witness.goes_on(heard);
            }
            if around.sabotage == Some(Sabotage::OverlookStalls) {
                heard.stalled = Duration::ZERO;
            }
        }
        let gap = std::mem::take(&mut self.gap);
        let actions = self.step.on(Event::Heard { gap, arrivals }, stamp);
        assert!(actions.is_empty(), "arrivals are only noted");
        unknown
    }

    /// Whether a heartbeat may be answered, which bypasses the step.
    fn may_answer(&self, now: Moment, around: &mut Surroundings<'_>) -> bool {
        if !self.is_certain(now) && around.sabotage != Some(Sabotage::BypassGate) {
            return false;
        }
        // At worst an old answer: what no clock counted, no process can notice.
        let is_leading = around.disk.is_led_by(self.term);
        assert!(
            is_leading || around.machine.has_stood_still(),
            "a process that has lost the lead answers a heartbeat"
        );
        true
    }
}
