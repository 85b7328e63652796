//! Requests that come again and again: refused ones, sign-ins, secrets handed to nodes.
//!
//! The first of a caller and an operation is recorded in the audit log immediately. Those that
//! follow are counted, and are one record a minute for as long as they come, so that no one fills
//! the log by asking. Of callers who are not known there is one line of the service's log for each
//! address.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use api_types::audit::AuditOutcome;
use control_plane::audit::AuditEntry;
use tokio::sync::Notify;

/// The most pairs of a caller and an operation, and the most addresses, that are told apart.
const TOLD_APART: usize = 10_000;

/// Objects that one record lists.
const LISTED: u64 = 32;

/// What is known of the current minute.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    minute: Mutex<Minute>,
    /// Wakes the task that writes the first of each to the log.
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Minute {
    /// Those whose first record is there already, with what came since.
    known: HashMap<Key, Option<AuditEntry>>,
    /// First ones that are to be recorded.
    first: Vec<AuditEntry>,
    /// Requests by address.
    unknown: HashMap<IpAddr, u64>,
}

/// Who asked for what, and whether it was done.
type Key = (String, &'static str, AuditOutcome);

/// What a minute has brought.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Each entry is that of the first request it stands for.
    pub(crate) known: Vec<AuditEntry>,
    /// Requests by address.
    pub(crate) unknown: HashMap<IpAddr, u64>,
}

/// Whether a request that is about to be carried out gets a record.
#[derive(Debug, PartialEq)]
pub(crate) enum Record {
    /// In its own commit.
    Now(AuditEntry),
    /// The same, and those that follow are counted.
    First(AuditEntry),
    /// Counted, once it is done.
    Counted(AuditEntry),
}

// === impl Repeats ===

impl Repeats {
    /// Notes a request that was refused, or one that counts and was carried out.
    pub(crate) fn note(&self, entry: AuditEntry) {
        let mut minute = self.lock();
        if let Some(first) = minute.count(entry) {
            minute.first.push(first);
            drop(minute);
            self.arrived.notify_one();
        }
    }

    pub(crate) fn note_unknown(&self, from: IpAddr) {
        let mut minute = self.lock();
        let is_full = minute.unknown.len() >= TOLD_APART;
        match minute.unknown.entry(from) {
            Entry::Occupied(mut count) => *count.get_mut() += 1,
            Entry::Vacant(_) if is_full => {}
            Entry::Vacant(place) => drop(place.insert(1)),
        }
    }

    /// Whether a request gets a separate record.
    pub(crate) fn record(&self, entry: AuditEntry) -> Record {
        if !entry.is_folded() {
            return Record::Now(entry);
        }
        match self.lock().known.contains_key(&key(&entry)) {
            true => Record::Counted(entry),
            false => Record::First(entry),
        }
    }

    /// Those that follow one whose record is there are counted.
    pub(crate) fn began(&self, entry: &AuditEntry) {
        let mut minute = self.lock();
        if minute.known.len() < TOLD_APART {
            minute.known.entry(key(entry)).or_default();
        }
    }

    /// Waits until there are first ones to be recorded.
    pub(crate) async fn first(&self) -> Vec<AuditEntry> {
        loop {
            let first = std::mem::take(&mut self.lock().first);
            if !first.is_empty() {
                return first;
            }
            self.arrived.notified().await;
        }
    }

    /// Ends a minute. Who has come in it is still known in the next one.
    pub(crate) fn take(&self) -> Collected {
        let mut minute = self.lock();
        let mut known = std::mem::take(&mut minute.first);
        minute.known.retain(|_, since| match since.take() {
            Some(entry) => {
                known.push(entry);
                true
            }
            None => false,
        });
        Collected { known, unknown: std::mem::take(&mut minute.unknown) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Minute> {
        self.minute.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Minute ===

impl Minute {
    /// Returns the entry if it is the first.
    fn count(&mut self, entry: AuditEntry) -> Option<AuditEntry> {
        let is_full = self.known.len() >= TOLD_APART;
        match self.known.entry(key(&entry)) {
            Entry::Occupied(mut since) => match since.get_mut() {
                Some(since) => {
                    // So that one finds out which secrets a node got.
                    if entry.outcome == AuditOutcome::Done && since.count < LISTED {
                        since.object.push(' ');
                        since.object.push_str(&entry.object);
                    }
                    since.count += entry.count;
                }
                none => *none = Some(entry),
            },
            // Beyond the bound, nothing is logged: the flood of names belongs to no known caller.
            Entry::Vacant(_) if is_full => {}
            Entry::Vacant(place) => {
                place.insert(None);
                return Some(entry);
            }
        }
        None
    }
}

fn key(entry: &AuditEntry) -> Key {
    // Who is known by an ID token alone has no token yet, or gets one with each request.
    let has_none = entry.token_id.is_empty() || entry.token_id == entry.object;
    let who = if has_none { &entry.user } else { &entry.token_id };
    (who.clone(), entry.operation, entry.outcome)
}

#[cfg(test)]
mod tests {
    use api_types::Timestamp;
    use api_types::audit::AuditChain;

    use super::*;

    fn entry(token: &str, operation: &'static str, outcome: AuditOutcome) -> AuditEntry {
        AuditEntry {
            chain: AuditChain::Rest,
            time: Timestamp(0),
            user: String::new(),
            token_id: token.to_owned(),
            address: String::new(),
            operation,
            object: String::new(),
            request_id: String::new(),
            outcome,
            count: 1,
        }
    }

    fn denied(token: &str) -> AuditEntry {
        entry(token, "stopJob", AuditOutcome::Denied)
    }

    #[tokio::test]
    async fn the_first_is_recorded_immediately_and_repeats_once_a_minute() {
        let repeats = Repeats::default();
        for _ in 0..4 {
            repeats.note(denied("a"));
        }
        repeats.note(entry("a", "createJob", AuditOutcome::Denied));
        let first = repeats.first().await;
        assert_eq!(
            first.iter().map(|it| it.operation).collect::<Vec<_>>(),
            ["stopJob", "createJob"]
        );
        let counts = |repeats: &Repeats| -> Vec<u64> {
            repeats.take().known.iter().map(|it| it.count).collect()
        };
        assert_eq!(counts(&repeats), [3]);
        // It goes on in the next minute, and has ended when one passes without it.
        repeats.note(denied("a"));
        repeats.note(denied("a"));
        assert_eq!(counts(&repeats), [2]);
        assert!(counts(&repeats).is_empty());
        repeats.note(denied("a"));
        assert_eq!(repeats.first().await.len(), 1);
        // What was not recorded before the service stops is recorded then.
        repeats.note(denied("b"));
        assert_eq!(counts(&repeats), [1]);
    }

    #[tokio::test]
    async fn a_flood_of_sign_ins_is_one_record_and_one_a_minute() {
        let repeats = Repeats::default();
        let mut recorded = 0;
        for _ in 0..1244 {
            match repeats.record(entry("a", "signIn", AuditOutcome::Done)) {
                Record::Now(entry) => panic!("{entry:?}"),
                Record::First(entry) => {
                    repeats.began(&entry);
                    recorded += 1;
                }
                Record::Counted(entry) => repeats.note(entry),
            }
        }
        let counted = repeats.take().known;
        assert_eq!((recorded, counted.len(), counted[0].count), (1, 1, 1243));
        // With an ID token, each sign-in makes another token.
        let exchanged = |id: &str| AuditEntry {
            user: "ada".to_owned(),
            object: id.to_owned(),
            ..entry(id, "exchangeIdToken", AuditOutcome::Done)
        };
        repeats.began(&exchanged("1"));
        for id in ["2", "3"] {
            let Record::Counted(entry) = repeats.record(exchanged(id)) else { panic!("{id}") };
            repeats.note(entry);
        }
        let counted = repeats.take().known;
        assert_eq!((counted[0].count, counted[0].object.as_str()), (2, "2 3"));
        // A denial of the same operation is another matter, and what is rare is never folded.
        repeats.note(entry("a", "signIn", AuditOutcome::Denied));
        assert_eq!(repeats.first().await.len(), 1);
        let rare = AuditEntry {
            chain: AuditChain::Changes,
            ..entry("a", "createToken", AuditOutcome::Done)
        };
        for _ in 0..2 {
            assert_eq!(repeats.record(rare.clone()), Record::Now(rare.clone()));
        }
    }

    #[test]
    fn their_number_is_bounded() {
        let repeats = Repeats::default();
        for number in 0..TOLD_APART + 5 {
            repeats.note(denied(&number.to_string()));
        }
        repeats.note_unknown([127, 0, 0, 1].into());
        repeats.note_unknown([127, 0, 0, 1].into());
        let Collected { known, unknown } = repeats.take();
        assert_eq!(known.len(), TOLD_APART);
        assert_eq!(unknown[&IpAddr::from([127, 0, 0, 1])], 2);
        assert!(repeats.take().known.is_empty());
    }
}
