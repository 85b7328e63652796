//! What speaks against a node that still takes work.
//!
//! A run that goes well answers what no probe has confirmed. It does not answer a confirmed failure:
//! a node whose network alone is broken runs every task without one, and would fail all others for
//! as long as such tasks come in between.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use core::time::Duration;

use super::Trouble;
use crate::text::Text;
use crate::time::{Moment, Now};

/// Namespaces that must agree where no probe can tell.
const NAMESPACES: usize = 2;

/// A confirmed failure counts until none has followed it for this long.
const CONFIRMED_FOR: Duration = Duration::from_secs(600);

/// A failure that seems to be the node's.
#[derive(Debug)]
pub(crate) struct Blame<'a> {
    /// Of the job.
    pub(crate) namespace: &'a Arc<str>,
    /// A probe of the agent failed as well.
    pub(crate) confirmed: bool,
    /// No other namespace has live work.
    pub(crate) is_alone: bool,
    /// The failure, as a message.
    pub(crate) reason: &'a Text,
}

/// Failures that nothing has answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failures {
    confirmed: u32,
    /// The time of the latest confirmed one.
    confirmed_at: Moment,
    unconfirmed: u32,
    /// The time of the first one.
    began: Option<Now>,
    /// Whose executions failed without a probe that tells why, up to [`NAMESPACES`].
    namespaces: BTreeSet<Arc<str>>,
}

// === impl Failures ===

impl Failures {
    pub(super) fn note(&mut self, blame: &Blame<'_>, now: Now) {
        if now.moment.since(self.confirmed_at) > CONFIRMED_FOR {
            self.confirmed = 0;
            if self.unconfirmed == 0 {
                self.began = None;
            }
        }
        self.began.get_or_insert(now);
        if blame.confirmed {
            self.confirmed = self.confirmed.saturating_add(1);
            self.confirmed_at = now.moment;
            return;
        }
        self.unconfirmed = self.unconfirmed.saturating_add(1);
        if self.namespaces.len() < NAMESPACES && !self.namespaces.contains(blame.namespace) {
            self.namespaces.insert(Arc::clone(blame.namespace));
        }
    }

    /// A run went well.
    pub(super) fn answer(&mut self) {
        let answered = core::mem::take(self);
        if answered.confirmed > 0 {
            let Self { confirmed, confirmed_at, began, .. } = answered;
            *self = Self { confirmed, confirmed_at, began, ..Self::default() };
        }
    }

    /// How many of them count, after this one.
    pub(super) fn counted(&self, latest: &Blame<'_>) -> u32 {
        let agree = self.namespaces.len() >= NAMESPACES || latest.is_alone;
        self.confirmed.saturating_add(if agree { self.unconfirmed } else { 0 })
    }

    /// When the first one happened.
    pub(super) fn began(&self) -> Option<Moment> {
        self.began.map(|began| began.moment)
    }

    /// What becomes known of the node, after the failure that was one too many.
    pub(super) fn into_trouble(self, latest: &Blame<'_>, now: Now) -> Trouble {
        let began = self.began.unwrap_or(now);
        let is_doubtful = self.confirmed == 0 && self.namespaces.len() < NAMESPACES;
        Trouble {
            began: began.moment,
            since: began.wall,
            reason: latest.reason.clone(),
            accuser: is_doubtful.then(|| Arc::clone(latest.namespace)),
        }
    }
}
