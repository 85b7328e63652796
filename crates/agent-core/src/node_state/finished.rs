//! The finished executions that the node still knows, and how long it does.
//!
//! Their number and the bytes of their output are bounded. Beyond a bound the namespace that holds
//! the most loses its oldest execution, so that no namespace decides how long another one's output
//! is kept. Within a namespace, results that exist nowhere else go last.

use alloc::collections::BTreeMap;
use alloc::string::String;

use api_types::{ExecutionId, Timestamp};

use super::limits::Limits;
use super::slot::Slot;
use crate::execution::{Phase, Remains};

/// Finished executions that the node remembers with their directories.
const MAX_FINISHED: usize = 1000;

/// The same for those whose results could not be published: the node alone has their results, so
/// that it keeps as many as it has memory for.
const MAX_UNPUBLISHED: usize = 10_000;

/// Done, with every report acknowledged; the oldest first.
type ByEnd = BTreeMap<(Timestamp, ExecutionId), u64>;

#[derive(Default)]
pub(super) struct Finished {
    /// All of them, by the time of their end.
    by_end: BTreeMap<(Timestamp, ExecutionId), String>,
    by_namespace: BTreeMap<String, Share>,
    plain_count: usize,
    unpublished_count: usize,
    bytes: u64,
}

/// What one namespace holds, with the bytes of each.
#[derive(Default)]
struct Share {
    plain: ByEnd,
    unpublished: ByEnd,
    bytes: u64,
}

/// The kinds that are counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Unpublished,
}

// === impl Finished ===

impl Finished {
    /// Enters the execution if it is finished.
    pub(super) fn enter(&mut self, slot: &mut Slot) {
        let Some(key) = slot.finish() else { return };
        let (kind, kept_bytes) = kept(&slot.execution.phase);
        let namespace = &slot.execution.work.namespace;
        if self.by_end.insert(key, namespace.clone()).is_some() {
            return;
        }
        let share = self.by_namespace.entry(namespace.clone()).or_default();
        share.by_end_mut(kind).insert(key, kept_bytes);
        share.bytes = share.bytes.saturating_add(kept_bytes);
        self.bytes = self.bytes.saturating_add(kept_bytes);
        *self.count(kind) += 1;
    }

    /// It has something to report again.
    pub(super) fn leave(&mut self, slot: &Slot) {
        self.remove(slot.finished_key());
    }

    /// Takes out one that exceeds the retention time, the number or the bytes.
    pub(super) fn take_expired(&mut self, now: Timestamp, limits: &Limits) -> Option<ExecutionId> {
        let key = self.expired(now, limits)?;
        self.remove(key);
        Some(key.1)
    }

    fn expired(&self, now: Timestamp, limits: &Limits) -> Option<(Timestamp, ExecutionId)> {
        if let Some((key, _)) = self.by_end.first_key_value()
            && now.since(key.0) >= limits.retain
        {
            return Some(*key);
        }
        if self.plain_count > MAX_FINISHED {
            return self.oldest_of_most(|share| share.plain.len(), |share| first(&share.plain));
        }
        if self.unpublished_count > MAX_UNPUBLISHED {
            return self.oldest_of_most(
                |share| share.unpublished.len(),
                |share| first(&share.unpublished),
            );
        }
        if self.bytes > limits.retain_bytes {
            return self.oldest_of_most(
                |share| share.bytes,
                |share| {
                    let of_some = |list: &ByEnd| {
                        list.iter().find(|(_, bytes)| **bytes > 0).map(|(key, _)| *key)
                    };
                    of_some(&share.plain).or_else(|| of_some(&share.unpublished))
                },
            );
        }
        None
    }

    /// Of the namespace that holds the most, its oldest.
    fn oldest_of_most<Amount: Ord>(
        &self,
        amount: impl Fn(&Share) -> Amount,
        oldest: impl Fn(&Share) -> Option<(Timestamp, ExecutionId)>,
    ) -> Option<(Timestamp, ExecutionId)> {
        self.by_namespace.values().max_by_key(|share| amount(share)).and_then(oldest)
    }

    fn remove(&mut self, key: (Timestamp, ExecutionId)) {
        let Some(namespace) = self.by_end.remove(&key) else { return };
        let Some(share) = self.by_namespace.get_mut(&namespace) else { return };
        let (kind, kept_bytes) = match share.plain.remove(&key) {
            Some(bytes) => (Kind::Plain, bytes),
            None => (Kind::Unpublished, share.unpublished.remove(&key).unwrap_or_default()),
        };
        share.bytes = share.bytes.saturating_sub(kept_bytes);
        if share.plain.is_empty() && share.unpublished.is_empty() {
            self.by_namespace.remove(&namespace);
        }
        self.bytes = self.bytes.saturating_sub(kept_bytes);
        *self.count(kind) -= 1;
    }

    fn count(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Plain => &mut self.plain_count,
            Kind::Unpublished => &mut self.unpublished_count,
        }
    }
}

// === impl Share ===

impl Share {
    fn by_end_mut(&mut self, kind: Kind) -> &mut ByEnd {
        match kind {
            Kind::Plain => &mut self.plain,
            Kind::Unpublished => &mut self.unpublished,
        }
    }
}

fn first(list: &ByEnd) -> Option<(Timestamp, ExecutionId)> {
    list.first_key_value().map(|(key, _)| *key)
}

/// What a finished execution still has on the node.
fn kept(phase: &Phase) -> (Kind, u64) {
    match phase.remains() {
        Some(Remains { unpublished: true, kept_bytes, .. }) => (Kind::Unpublished, kept_bytes),
        Some(Remains { unpublished: false, kept_bytes, .. }) => (Kind::Plain, kept_bytes),
        None => (Kind::Plain, 0),
    }
}

#[cfg(test)]
mod tests;
