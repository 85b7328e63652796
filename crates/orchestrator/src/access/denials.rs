//! Requests that were refused because of their sender, collected for a minute.
//!
//! One record of the audit log stands for all denials of a caller and an operation in that time, so
//! that nobody fills the log by asking. Of callers who are not known there is one line of the
//! service's log for each address.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use control_plane::audit::AuditEntry;

/// The most pairs of a caller and an operation, and the most addresses, that are told apart.
const TOLD_APART: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Denials(Mutex<Collected>);

#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// By caller and operation; each entry is that of the first request.
    pub(crate) known: HashMap<(String, &'static str), AuditEntry>,
    /// Requests by address.
    pub(crate) unknown: HashMap<IpAddr, u64>,
}

// === impl Denials ===

impl Denials {
    pub(crate) fn note(&self, entry: AuditEntry) {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = collected.known.len() >= TOLD_APART;
        // Who is known by an ID token alone has no token.
        let who = if entry.token_id.is_empty() { &entry.user } else { &entry.token_id };
        match collected.known.entry((who.clone(), entry.operation)) {
            Entry::Occupied(mut first) => first.get_mut().count += entry.count,
            Entry::Vacant(_) if is_full => {}
            Entry::Vacant(place) => drop(place.insert(entry)),
        }
    }

    pub(crate) fn note_unknown(&self, from: IpAddr) {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = collected.unknown.len() >= TOLD_APART;
        match collected.unknown.entry(from) {
            Entry::Occupied(mut count) => *count.get_mut() += 1,
            Entry::Vacant(_) if is_full => {}
            Entry::Vacant(place) => drop(place.insert(1)),
        }
    }

    pub(super) fn take(&self) -> Collected {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use api_types::Timestamp;
    use api_types::audit::AuditOutcome;

    use super::*;

    #[test]
    fn repeats_are_counted_and_their_number_is_bounded() {
        let denials = Denials::default();
        let entry = |token: &str, operation| AuditEntry {
            time: Timestamp(0),
            user: String::new(),
            token_id: token.to_owned(),
            address: String::new(),
            operation,
            object: String::new(),
            request_id: String::new(),
            outcome: AuditOutcome::Denied,
            count: 1,
        };
        for _ in 0..3 {
            denials.note(entry("a", "stopJob"));
        }
        denials.note(entry("a", "createJob"));
        for number in 0..TOLD_APART + 5 {
            denials.note(entry(&number.to_string(), "stopJob"));
        }
        denials.note_unknown([127, 0, 0, 1].into());
        denials.note_unknown([127, 0, 0, 1].into());
        let Collected { known, unknown } = denials.take();
        assert_eq!(known.len(), TOLD_APART);
        assert_eq!(known[&("a".to_owned(), "stopJob")].count, 3);
        assert_eq!(unknown[&IpAddr::from([127, 0, 0, 1])], 2);
        assert!(denials.take().known.is_empty());
    }
}
