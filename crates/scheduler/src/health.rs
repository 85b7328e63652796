//! Node health: a node that keeps failing backs off, and is then probed.
//!
//! Blame follows evidence. A failure counts against its node if a probe of the agent failed as
//! well. Where no probe can tell (an unanswered offer, a run that vanished, an agent of an older
//! release), a failure may be the doing of the user who submitted the job: it counts once jobs of
//! another namespace fail too, or while no other namespace has work. So no namespace decides for
//! another whether a node takes work.
//!
//! After three such failures the node takes no new work for a while; a run that goes well in between
//! answers those that no probe confirmed. Then its agent is
//! asked whether the node can run tasks, in the answer to a heartbeat, and the outcome decides. An
//! agent of an older release is not asked: it gets one execution at a time, and how that ends
//! decides. Rejected: executions as probes for all agents. A node would stay unused until a job
//! waits, and the user who submits at the highest priority would decide what becomes of it.

pub(crate) mod failures;
#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use core::time::Duration;

use api_types::protocol::ProbeOutcome;
use api_types::{ExecutionId, Timestamp};

pub(crate) use self::failures::{Blame, Failures};
use crate::text::Text;
use crate::time::{Moment, Now};

/// Failures after which a node backs off.
const FAILURES: u32 = 3;

/// How long a node takes no new work; each failed probe doubles it.
const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);

/// A back-off that returns within this time of the last one continues to double.
const RELAPSE: Duration = Duration::from_secs(600);

/// How long an agent has for a probe. It needs up to a minute where everything takes as long as it
/// may, and heartbeats carry the request and the outcome.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_secs(120);

/// An execution that serves as a probe and runs for this long shows that the node is healthy again.
pub(crate) const GOOD_PROBE: Duration = Duration::from_secs(10);

/// What a node says whose agent did not answer a probe.
const UNANSWERED: Text = Text::Constant("its agent did not answer a probe for 120 s");

/// Stored with the node, so that a restart does not send a backlog to a broken one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Health {
    #[default]
    Well,
    /// The node takes work again after a back-off of this length.
    Recovered { at: Moment, length: Duration },
    /// No new work before `until`, and not before the node was probed.
    BackingOff { until: Moment, length: Duration, trouble: Trouble },
    /// The agent is asked for the probe with this number, and has until then to answer. The node
    /// takes no new work.
    Asked { probe: u64, until: Moment, length: Duration, trouble: Trouble },
    /// For an agent that cannot be asked: the node runs one execution at a time, and the outcome
    /// decides.
    Probing {
        probe: Option<ExecutionId>,
        avoids: Option<Avoided>,
        length: Duration,
        trouble: Trouble,
    },
}

/// What is wrong with a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The time of the first failure.
    pub began: Moment,
    /// The same as wall time, for display.
    pub since: Timestamp,
    /// The latest failure, as a message.
    pub reason: Text,
    /// The only namespace whose executions failed, where no probe has confirmed any failure. Such a
    /// back-off ends as soon as another namespace has work.
    pub accuser: Option<Arc<str>>,
}

/// A namespace whose execution failed as a probe, which alone proves nothing: until then, the next
/// probe is one of another namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Avoided {
    pub namespace: Arc<str>,
    pub until: Moment,
}

/// The effect of an event on a node's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Unchanged,
    /// The node takes no new work, and its health is due at this moment.
    Waits(Moment),
    /// The node takes work again.
    Well,
    /// The next execution on the node is its probe.
    ProbeAgain,
    /// The same, and for some time not one of the namespace that failed last.
    ProbeOther(Moment),
}

// === impl Health ===

impl Health {
    pub fn is_well(&self) -> bool {
        match self {
            Self::Well | Self::Recovered { .. } => true,
            Self::BackingOff { .. } | Self::Asked { .. } | Self::Probing { .. } => false,
        }
    }

    /// Why the node takes no new work now.
    pub(crate) fn obstacle(&self) -> Option<&'static str> {
        match self {
            Self::Well | Self::Recovered { .. } | Self::Probing { probe: None, .. } => None,
            Self::BackingOff { .. } => Some("backing off after repeated failures"),
            Self::Asked { .. } | Self::Probing { probe: Some(_), .. } => {
                Some("being probed after repeated failures")
            }
        }
    }

    /// Whether the next probe is to be one of another namespace.
    pub(crate) fn avoids(&self, namespace: &str, now: Moment) -> bool {
        let avoided = self.avoided();
        avoided.is_some_and(|avoided| *avoided.namespace == *namespace && now < avoided.until)
    }

    /// The namespace of the last execution that failed as a probe and decided nothing.
    pub(crate) fn avoided(&self) -> Option<&Avoided> {
        match self {
            Self::Probing { avoids, .. } => avoids.as_ref(),
            Self::Well | Self::Recovered { .. } | Self::BackingOff { .. } | Self::Asked { .. } => {
                None
            }
        }
    }

    pub(crate) fn is_probe(&self, execution: ExecutionId) -> bool {
        matches!(self, Self::Probing { probe: Some(probe), .. } if *probe == execution)
    }

    /// The number of the probe that the agent is asked for.
    pub(crate) fn request(&self) -> Option<u64> {
        match self {
            Self::Asked { probe, .. } => Some(*probe),
            Self::Well
            | Self::Recovered { .. }
            | Self::BackingOff { .. }
            | Self::Probing { .. } => None,
        }
    }

    pub fn trouble(&self) -> Option<&Trouble> {
        match self {
            Self::Well | Self::Recovered { .. } => None,
            Self::BackingOff { trouble, .. }
            | Self::Asked { trouble, .. }
            | Self::Probing { trouble, .. } => Some(trouble),
        }
    }

    /// The only namespace that speaks against the node.
    pub(crate) fn accuser(&self) -> Option<&Arc<str>> {
        self.trouble()?.accuser.as_ref()
    }

    /// Records a placement: the first execution placed on a probed node is the probe.
    pub(crate) fn placed(&mut self, execution: ExecutionId) {
        if let Self::Probing { probe: probe @ None, .. } = self {
            *probe = Some(execution);
        }
    }

    /// An execution failed because of the node, or so it seems.
    ///
    /// Well, Recovered => BackingOff; Probing => BackingOff.
    pub(crate) fn failed(
        &mut self,
        failures: &mut Failures,
        execution: ExecutionId,
        blame: &Blame<'_>,
        now: Now,
    ) -> Verdict {
        match self {
            Self::Well | Self::Recovered { .. } => {
                failures.note(blame, now);
                if failures.counted(blame) < FAILURES {
                    return Verdict::Unchanged;
                }
                let trouble = core::mem::take(failures).into_trouble(blame, now);
                let length = self.next_length(now.moment);
                self.back_off(length, trouble, now.moment)
            }
            // Placed before the node backed off, so it is no new evidence of how long.
            Self::BackingOff { trouble, .. } | Self::Asked { trouble, .. } => {
                trouble.note(blame);
                Verdict::Unchanged
            }
            Self::Probing { probe, avoids, length, trouble } => {
                trouble.note(blame);
                if *probe != Some(execution) {
                    return Verdict::Unchanged;
                }
                let is_other = |avoided: &Avoided| avoided.namespace != *blame.namespace;
                let is_second = avoids.as_ref().is_some_and(is_other);
                if blame.confirmed || blame.is_alone || is_second {
                    let (length, trouble) = (*length, trouble.clone());
                    return self.back_off((length * 2).min(LONGEST), trouble, now.moment);
                }
                let until = now.moment + FIRST;
                *probe = None;
                *avoids = Some(Avoided { namespace: Arc::clone(blame.namespace), until });
                Verdict::ProbeOther(until)
            }
        }
    }

    /// An execution ended by itself or ran long enough to show that the node can run tasks.
    ///
    /// Where the agent can be asked, only that ends a back-off.
    pub(crate) fn ran(
        &mut self,
        failures: &mut Failures,
        offered_at: Moment,
        now: Moment,
        can_be_asked: bool,
    ) -> Verdict {
        match self {
            Self::Well | Self::Recovered { .. } => {
                // One that was placed before the first failure: the node may have broken since.
                if failures.began().is_none_or(|began| offered_at > began) {
                    failures.answer();
                }
                Verdict::Unchanged
            }
            Self::BackingOff { length, trouble, .. } | Self::Probing { length, trouble, .. }
                if !can_be_asked && offered_at > trouble.began =>
            {
                *self = Self::Recovered { at: now, length: *length };
                Verdict::Well
            }
            Self::BackingOff { .. } | Self::Probing { .. } | Self::Asked { .. } => {
                Verdict::Unchanged
            }
        }
    }

    /// An execution ended in a way that says nothing about its node.
    pub(crate) fn ended(&mut self, execution: ExecutionId) -> Verdict {
        match self {
            Self::Probing { probe, .. } if *probe == Some(execution) => {
                *probe = None;
                Verdict::ProbeAgain
            }
            Self::Well
            | Self::Recovered { .. }
            | Self::BackingOff { .. }
            | Self::Asked { .. }
            | Self::Probing { .. } => Verdict::Unchanged,
        }
    }

    /// The time that its state waits for has come.
    ///
    /// BackingOff => Asked or Probing; Asked => BackingOff, because no answer came.
    pub(crate) fn due(&mut self, now: Now, can_be_asked: bool) -> Verdict {
        match self {
            Self::BackingOff { until, length, trouble } if *until <= now.moment => {
                let (length, trouble) = (*length, trouble.clone());
                if can_be_asked {
                    return self.ask(length, trouble, now.moment);
                }
                *self = Self::Probing { probe: None, avoids: None, length, trouble };
                Verdict::ProbeAgain
            }
            Self::Asked { until, length, trouble, .. } if *until <= now.moment => {
                let length = (*length * 2).min(LONGEST);
                let trouble = Trouble { reason: UNANSWERED, accuser: None, ..trouble.clone() };
                self.back_off(length, trouble, now.moment)
            }
            // The namespace that was avoided may be tried again.
            Self::Probing { probe: None, .. } => Verdict::ProbeAgain,
            Self::Well
            | Self::Recovered { .. }
            | Self::BackingOff { .. }
            | Self::Asked { .. }
            | Self::Probing { .. } => Verdict::Unchanged,
        }
    }

    /// The agent answered. Only the answer to the latest request counts.
    ///
    /// Asked => Recovered or BackingOff.
    pub(crate) fn answered(&mut self, outcome: &ProbeOutcome, now: Moment) -> Verdict {
        match self {
            Self::Asked { probe, length, trouble, .. } if *probe == outcome.probe => {
                let (length, trouble) = (*length, trouble.clone());
                let Some(failure) = &outcome.failure else {
                    *self = Self::Recovered { at: now, length };
                    return Verdict::Well;
                };
                let trouble = Trouble { reason: failure.clone().into(), accuser: None, ..trouble };
                self.back_off((length * 2).min(LONGEST), trouble, now)
            }
            Self::Well
            | Self::Recovered { .. }
            | Self::BackingOff { .. }
            | Self::Asked { .. }
            | Self::Probing { .. } => Verdict::Unchanged,
        }
    }

    /// The node joined again, maybe with an agent of another release.
    ///
    /// Probing => Asked; Asked => Probing. A back-off is due when it ends, or now.
    pub(crate) fn joined(&mut self, now: Now, can_be_asked: bool) -> Verdict {
        match self {
            Self::Asked { length, trouble, .. } if !can_be_asked => {
                let (length, trouble) = (*length, trouble.clone());
                *self = Self::Probing { probe: None, avoids: None, length, trouble };
                Verdict::ProbeAgain
            }
            Self::Probing { length, trouble, .. } if can_be_asked => {
                let (length, trouble) = (*length, trouble.clone());
                self.ask(length, trouble, now.moment)
            }
            Self::BackingOff { until, .. } | Self::Asked { until, .. } => {
                Verdict::Waits((*until).max(now.moment))
            }
            Self::Well | Self::Recovered { .. } | Self::Probing { .. } => Verdict::Unchanged,
        }
    }

    /// The node is silent, so it was not the agent that failed to answer.
    ///
    /// Asked => BackingOff, until the node is back.
    pub(crate) fn fell_silent(&mut self, now: Moment) {
        if let Self::Asked { length, trouble, .. } = self {
            let (length, trouble) = (*length, trouble.clone());
            *self = Self::BackingOff { until: now, length, trouble };
        }
    }

    /// The back-off ends now. Returns whether there was one left.
    pub(crate) fn end_early(&mut self, now: Moment) -> bool {
        match self {
            Self::BackingOff { until, .. } if *until > now => {
                *until = now;
                true
            }
            _ => false,
        }
    }

    fn ask(&mut self, length: Duration, trouble: Trouble, now: Moment) -> Verdict {
        // The service's clock never goes back, and a node is asked seldom: no two requests to it
        // have the same number.
        let probe = now.0 / 1_000_000;
        let until = now + PROBE_TIMEOUT;
        *self = Self::Asked { probe, until, length, trouble };
        Verdict::Waits(until)
    }

    /// The length of a back-off that begins now.
    fn next_length(&self, now: Moment) -> Duration {
        match self {
            Self::Recovered { at, length } if now.since(*at) < RELAPSE => {
                (*length * 2).min(LONGEST)
            }
            _ => FIRST,
        }
    }

    fn back_off(&mut self, length: Duration, trouble: Trouble, now: Moment) -> Verdict {
        let until = now + length;
        *self = Self::BackingOff { until, length, trouble };
        Verdict::Waits(until)
    }
}

// === impl Trouble ===

impl Trouble {
    /// Another failure.
    fn note(&mut self, blame: &Blame<'_>) {
        self.reason = blame.reason.clone();
        let is_same = self.accuser.as_ref().is_some_and(|accuser| accuser == blame.namespace);
        if blame.confirmed || !is_same {
            self.accuser = None;
        }
    }
}
