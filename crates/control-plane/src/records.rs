//! Records other than the scheduler's: tokens, namespaces, keys; each a text under a kind and a
//! key.
//!
//! They are few and read often, so the step keeps all of them in memory and its runner publishes
//! them. What a text means is the business of those who write it.

pub mod schedules;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

/// The longest text of a record.
pub const MAX_RECORD_BYTES: usize = 64 << 10;

/// The most records of one kind. All of them are in memory, and read at every start.
pub const MAX_RECORDS: usize = 100_000;

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// A credential of a person or a program.
    Token,
    /// A browser that signed in with a token.
    Session,
    Namespace,
    /// A credential with which nodes join.
    JoinToken,
    /// What the orchestrator knows of a node's certificate and labels.
    NodeIdentity,
    /// A key of the service itself, encrypted.
    Key,
    /// A secret of a namespace, encrypted.
    Secret,
    /// What jobs of a namespace sign in with elsewhere, encrypted.
    Credential,
    /// A concurrency group of a namespace.
    Group,
    /// A schedule of a namespace, as it was put.
    Schedule,
    /// How far a schedule is, under the same key.
    ScheduleState,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    pub kind: RecordKind,
    pub key: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub key: RecordKey,
    /// The number of the commit that wrote it.
    pub version: u64,
    pub value: Arc<str>,
}

/// A record as a commit leaves it; `None` for one that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRow {
    pub key: RecordKey,
    pub version: u64,
    pub value: Option<Arc<str>>,
}

/// One change of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordWrite {
    pub key: RecordKey,
    pub expected: Expected,
    /// `None` removes it.
    pub value: Option<Arc<str>>,
}

/// What must be there for a change to take place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Anything,
    Nothing,
    Version(u64),
}

/// Why none of the changes of a request took place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordRefusal {
    #[error("{} '{}' was changed by another request", .0.kind.word(), .0.key)]
    Changed(RecordKey),
    #[error("there are {MAX_RECORDS} records of the kind {} already", .0.word())]
    TooMany(RecordKind),
    #[error("{reason}")]
    NoRoom { key: RecordKey, reason: &'static str },
    #[error("{} '{}' has more than {MAX_RECORD_BYTES} bytes", .0.kind.word(), .0.key)]
    TooLarge(RecordKey),
    #[error("{} '{}' is in use; live jobs that name it: {jobs}", .key.kind.word(), .key.key)]
    InUse { key: RecordKey, jobs: usize },
}

/// All records, as of the last turn.
#[derive(Debug, Clone, Default)]
pub struct Records {
    records: BTreeMap<RecordKey, Record>,
}

// === impl RecordKind ===

impl RecordKind {
    pub const ALL: [Self; 11] = [
        Self::Token,
        Self::Session,
        Self::Namespace,
        Self::JoinToken,
        Self::NodeIdentity,
        Self::Key,
        Self::Secret,
        Self::Credential,
        Self::Group,
        Self::Schedule,
        Self::ScheduleState,
    ];

    /// The word for the kind, also in stores.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Session => "session",
            Self::Namespace => "namespace",
            Self::JoinToken => "join token",
            Self::NodeIdentity => "node identity",
            Self::Key => "key",
            Self::Secret => "secret",
            Self::Credential => "credential",
            Self::Group => "group",
            Self::Schedule => "schedule",
            Self::ScheduleState => "schedule state",
        }
    }

    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    pub fn key(self, key: impl Into<String>) -> RecordKey {
        RecordKey { kind: self, key: key.into() }
    }
}

// === impl Record ===

impl Record {
    /// For a change of the record as it was read.
    pub fn unchanged(&self) -> Expected {
        Expected::Version(self.version)
    }

    /// Removes the record unless another request has changed it.
    pub fn removal(self) -> RecordWrite {
        let expected = self.unchanged();
        RecordWrite { key: self.key, expected, value: None }
    }
}

// === impl RecordWrite ===

impl RecordWrite {
    /// Stores a value as JSON, which it must be able to become.
    pub fn json(key: RecordKey, expected: Expected, value: &impl Serialize) -> Self {
        let text = serde_json::to_string(value).expect("the value of a record is plain data");
        Self { key, expected, value: Some(text.into()) }
    }

    /// Removes the record, even if another request has changed or removed it.
    pub fn removal(key: RecordKey) -> Self {
        Self { key, expected: Expected::Anything, value: None }
    }
}

// === impl Expected ===

impl Expected {
    /// For a change or a first version: what was read, or still nothing.
    pub fn as_read(record: Option<&Record>) -> Self {
        record.map_or(Self::Nothing, Record::unchanged)
    }
}

// === impl Records ===

impl Records {
    pub fn new(records: impl IntoIterator<Item = Record>) -> Self {
        let records = records.into_iter().map(|record| (record.key.clone(), record));
        Self { records: records.collect() }
    }

    /// Carries out all of the changes or none; returns the rows to store.
    pub(crate) fn apply(
        &mut self,
        writes: &[RecordWrite],
        version: u64,
    ) -> Result<Vec<RecordRow>, RecordRefusal> {
        for write in writes {
            self.check(write)?;
        }
        let mut rows = Vec::with_capacity(writes.len());
        for RecordWrite { key, expected: _, value } in writes {
            match value {
                Some(value) => {
                    let record = Record { key: key.clone(), version, value: Arc::clone(value) };
                    self.records.insert(key.clone(), record);
                }
                None if self.records.remove(key).is_none() => continue,
                None => {}
            }
            rows.push(RecordRow { key: key.clone(), version, value: value.clone() });
        }
        Ok(rows)
    }

    fn check(&self, write: &RecordWrite) -> Result<(), RecordRefusal> {
        let RecordWrite { key, expected, value } = write;
        let found = self.records.get(key);
        let is_expected = match expected {
            Expected::Anything => true,
            Expected::Nothing => found.is_none(),
            Expected::Version(version) => found.is_some_and(|record| record.version == *version),
        };
        if !is_expected {
            return Err(RecordRefusal::Changed(key.clone()));
        }
        let Some(value) = value else { return Ok(()) };
        if value.len() > MAX_RECORD_BYTES {
            return Err(RecordRefusal::TooLarge(key.clone()));
        }
        if found.is_none() && self.of_kind(key.kind).count() >= MAX_RECORDS {
            return Err(RecordRefusal::TooMany(key.kind));
        }
        if key.kind == RecordKind::Schedule
            && let Some(reason) = schedules::no_room(self, key, value)
        {
            return Err(RecordRefusal::NoRoom { key: key.clone(), reason });
        }
        Ok(())
    }

    pub fn get(&self, key: &RecordKey) -> Option<&Record> {
        self.records.get(key)
    }

    /// The records of one kind, in order of their keys.
    pub fn of_kind(&self, kind: RecordKind) -> impl Iterator<Item = &Record> {
        self.records
            .range(kind.key("")..)
            .map(|(_, record)| record)
            .take_while(move |record| record.key.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(key: &str, expected: Expected, value: Option<&str>) -> RecordWrite {
        RecordWrite { key: RecordKind::Namespace.key(key), expected, value: value.map(Arc::from) }
    }

    #[test]
    fn all_changes_of_a_request_take_place_or_none() {
        let mut records = Records::default();
        let a = write("a", Expected::Nothing, Some("1"));
        assert_eq!(records.apply(std::slice::from_ref(&a), 5).unwrap()[0].version, 5);
        let b = write("b", Expected::Anything, Some("2"));
        let refused = records.apply(&[b.clone(), a.clone()], 6).unwrap_err();
        assert_eq!(refused, RecordRefusal::Changed(a.key.clone()));
        assert_eq!(records.of_kind(RecordKind::Namespace).count(), 1);

        let changed = write("a", Expected::Version(5), Some("3"));
        assert_eq!(records.apply(&[b, changed.clone()], 6).unwrap().len(), 2);
        assert!(records.apply(&[changed], 7).is_err());
        let gone = write("a", Expected::Version(6), None);
        assert_eq!(records.apply(&[gone], 7).unwrap()[0].value, None);
        let again = write("a", Expected::Anything, None);
        assert!(records.apply(&[again], 8).unwrap().is_empty());
        assert_eq!(records.of_kind(RecordKind::Namespace).count(), 1);
        assert_eq!(records.of_kind(RecordKind::Token).count(), 0);
    }

    #[test]
    fn a_record_has_a_bound() {
        let long = "x".repeat(MAX_RECORD_BYTES + 1);
        let refused = Records::default().apply(&[write("a", Expected::Nothing, Some(&long))], 1);
        assert!(matches!(refused, Err(RecordRefusal::TooLarge(_))), "{refused:?}");
    }

    #[test]
    fn every_kind_has_a_word_of_its_own() {
        for kind in RecordKind::ALL {
            assert_eq!(RecordKind::of_word(kind.word()), Some(kind));
        }
    }
}
