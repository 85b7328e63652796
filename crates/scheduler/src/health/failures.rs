//! What speaks against a node that still takes work.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use super::Trouble;
use crate::text::Text;
use crate::time::{Moment, Now};

/// Namespaces that must agree where no probe can tell.
const NAMESPACES: usize = 2;

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

/// Failures in a row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failures {
    confirmed: u32,
    unconfirmed: u32,
    /// The time of the first one.
    began: Option<Now>,
    /// Whose executions failed without a probe that tells why, up to [`NAMESPACES`].
    namespaces: BTreeSet<Arc<str>>,
}

// === impl Failures ===

impl Failures {
    pub(super) fn note(&mut self, blame: &Blame<'_>, now: Now) {
        self.began.get_or_insert(now);
        if blame.confirmed {
            self.confirmed = self.confirmed.saturating_add(1);
            return;
        }
        self.unconfirmed = self.unconfirmed.saturating_add(1);
        if self.namespaces.len() < NAMESPACES && !self.namespaces.contains(blame.namespace) {
            self.namespaces.insert(Arc::clone(blame.namespace));
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
