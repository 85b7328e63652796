//! Two agents with the identity of one node, as after a copy of a data directory.
//!
//! A process that joins takes over from the one before it, because that is what a restarted agent
//! does. Only if the earlier one shows afterwards that it is alive, in a session that it joined
//! after the later one had joined, are there two. Then the later one is refused for as long as the
//! node is connected.
//!
//! Until then, the later one could report the work of the earlier one as lost, since it is not on
//! its machine. So while the earlier one may still be alive, reports from another machine or
//! another boot wait: the process is on trial. One that follows on the same machine, as after an
//! upgrade, is not.
//!
//! Rejected: to refuse the later one until the lease of the earlier one ends. The node would be
//! silent after each quick restart of its machine, and its services would move.
//!
//! Nothing of this is stored: after a restart of the orchestrator, two agents are recognised anew.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::node::RefusedAgent;
use api_types::protocol::AgentProcess;

use crate::time::Moment;
use crate::turn::Turn;

/// Processes that a node remembers; with more, the oldest is forgotten.
const MAX_PROCESSES: usize = 4;

/// After this long, a process that took over is the node's: if the earlier one returns from the
/// dead, such as a suspended virtual machine, it counts as the later one.
const SUCCESSION: Duration = Duration::from_mins(10);

/// A refused agent that has not tried to join for this long is gone. It ends when it is refused, but
/// a service manager may start it again.
const GONE: Duration = Duration::from_mins(10);

/// The processes that have joined as one node, in the order of their first join.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    known: Vec<AgentRecord>,
    /// Which of them holds the session.
    current: usize,
    /// Since when.
    held_since: Moment,
}

#[derive(Debug)]
struct AgentRecord {
    process: AgentProcess,
    refused: Option<Refusal>,
    /// Until then its reports wait.
    trial_until: Moment,
}

#[derive(Debug)]
struct Refusal {
    shown: RefusedAgent,
    tried_at: Moment,
}

// === impl Agents ===

impl Agents {
    /// The process joins, and is on trial for this long if it is new and on another machine than the
    /// one before it. Older agents do not say who they are, and are taken for one.
    pub(crate) fn joined(&mut self, process: Option<&AgentProcess>, now: Moment, trial: Duration) {
        let Some(process) = process else { return *self = Self::default() };
        let earlier = self.known.get(self.current).map(|known| &known.process);
        let has_moved = earlier.is_some_and(|earlier| !is_same_machine(earlier, process));
        let trial_until = if has_moved { now + trial } else { Moment::ZERO };
        let has_succeeded = now.since(self.held_since) >= SUCCESSION;
        let mut at = self.known.iter().position(|known| known.process == *process);
        if let Some(earlier) = at.filter(|at| *at < self.current && has_succeeded) {
            self.known.remove(earlier);
            self.current -= 1;
            at = None;
        }
        let at = at.unwrap_or_else(|| {
            if self.known.len() == MAX_PROCESSES {
                self.known.remove(0);
            }
            self.known.push(AgentRecord { process: process.clone(), refused: None, trial_until });
            self.known.len() - 1
        });
        self.known[at].refused = None;
        if at != self.current || self.known.len() == 1 {
            self.held_since = now;
        }
        self.current = at;
    }

    /// Whether the earlier process may still show that it is alive.
    pub(crate) fn is_on_trial(&self, now: Moment) -> bool {
        self.known.get(self.current).is_some_and(|known| known.trial_until > now)
    }

    /// The process that holds the session shows that it is alive. Returns the machines of those that
    /// joined after it and are refused from now on.
    pub(crate) fn is_alive(&mut self, turn: &Turn<'_>) -> Vec<String> {
        let later = self.known.iter_mut().skip(self.current + 1);
        let later = later.filter(|known| known.refused.is_none());
        later
            .map(|known| {
                let machine = known.process.machine.clone();
                let since = turn.wall.rfc3339();
                let shown = RefusedAgent { machine: machine.clone(), since };
                known.refused = Some(Refusal { shown, tried_at: turn.now });
                machine
            })
            .collect()
    }

    /// The machine of the agent that holds the session, if this process is refused for it, or one
    /// before it on the same machine was.
    pub(crate) fn refuses(
        &mut self,
        process: Option<&AgentProcess>,
        now: Moment,
    ) -> Option<String> {
        let (process, holder) = (process?, self.known.get(self.current)?.process.clone());
        let is_apart = !is_same_machine(&holder, process);
        let mut known = self.known.iter_mut().filter(|known| known.refused.is_some());
        let known = known.find(|known| {
            known.process == *process || (is_apart && is_same_machine(&known.process, process))
        })?;
        known.refused.as_mut()?.tried_at = now;
        Some(holder.machine)
    }

    /// The agent that is refused.
    pub(crate) fn refused(&self) -> Option<&RefusedAgent> {
        let mut refused = self.known.iter().filter_map(|known| known.refused.as_ref());
        refused.next().map(|refusal| &refusal.shown)
    }

    /// Forgets a refused agent that no longer tries; returns whether there was one.
    pub(crate) fn forget_gone(&mut self, now: Moment) -> bool {
        let is_gone = |known: &AgentRecord| {
            known.refused.as_ref().is_some_and(|refusal| now.since(refusal.tried_at) >= GONE)
        };
        let Some(gone) = self.known.iter().position(is_gone) else { return false };
        self.known.remove(gone);
        if gone < self.current {
            self.current -= 1;
        }
        true
    }
}

fn is_same_machine(one: &AgentProcess, other: &AgentProcess) -> bool {
    (&one.machine, &one.boot) == (&other.machine, &other.boot)
}
