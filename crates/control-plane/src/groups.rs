//! Concurrency groups as records: their limits, which the scheduler has to know.

use api_types::Timestamp;
use scheduler::{Restore, Scheduler};
use serde::{Deserialize, Serialize};

use crate::records::{Record, RecordKey, RecordKind, RecordRefusal, RecordWrite, Records};

/// A group as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct StoredGroup {
    pub limit: u32,
    pub create_time: Timestamp,
    pub modify_time: Timestamp,
}

/// A change of a group, for the scheduler; a group without a limit is removed.
pub(crate) struct Change {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) limit: Option<u32>,
}

pub fn key(namespace: &str, name: &str) -> RecordKey {
    RecordKind::Group.key(format!("{namespace}/{name}"))
}

/// Namespace and name, which has no '/'.
pub fn place(key: &RecordKey) -> (&str, &str) {
    key.key.rsplit_once('/').unwrap_or_default()
}

/// The changes of groups among these.
pub(crate) fn changes(writes: &[RecordWrite]) -> Vec<Change> {
    let of_groups = writes.iter().filter(|write| write.key.kind == RecordKind::Group);
    let change = |write: &RecordWrite| {
        let (namespace, name) = place(&write.key);
        let limit = write.value.as_deref().map(|value| read(value).limit);
        Change { namespace: namespace.to_owned(), name: name.to_owned(), limit }
    };
    of_groups.map(change).collect()
}

/// Refuses to remove a group that live jobs name.
pub(crate) fn check(scheduler: &Scheduler, writes: &[RecordWrite]) -> Result<(), RecordRefusal> {
    for Change { namespace, name, limit } in changes(writes) {
        let jobs = scheduler.jobs_of_group(&namespace, &name);
        if limit.is_none() && jobs > 0 {
            return Err(RecordRefusal::InUse { key: key(&namespace, &name), jobs });
        }
    }
    Ok(())
}

/// Hands all groups to a scheduler that is restored.
pub(crate) fn restore(restore: &mut Restore, records: &Records) {
    for record in records.of_kind(RecordKind::Group) {
        let (namespace, name) = place(&record.key);
        restore.group(namespace, name, StoredGroup::from_record(record).limit);
    }
}

/// A record that is damaged is a group that is paused.
fn read(value: &str) -> StoredGroup {
    serde_json::from_str(value).unwrap_or_default()
}

// === impl StoredGroup ===

impl StoredGroup {
    pub fn from_record(record: &Record) -> Self {
        read(&record.value)
    }
}
