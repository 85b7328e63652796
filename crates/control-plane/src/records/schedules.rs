//! The keys of the records of schedules, and how much room these have.

use super::{RecordKey, RecordKind, Records};

/// Schedules of one namespace: each may be due every minute.
pub const MAX_SCHEDULES: usize = 1000;

/// Bytes of all definitions: all of them are in memory.
pub const MAX_SCHEDULES_BYTES: usize = 64 << 20;

/// Bytes of the definitions of one namespace, so that none takes all the room: an eighth of it.
pub const MAX_NAMESPACE_SCHEDULES_BYTES: usize = MAX_SCHEDULES_BYTES / 8;

/// Bytes of a definition: a record holds a little more.
pub const MAX_SCHEDULE_BYTES: usize = 60 << 10;

/// The key of a schedule's records; neither name has a '/'.
pub fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The namespace and the name in a key.
pub fn names(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// Why there is no room for this definition.
pub(super) fn no_room(records: &Records, key: &RecordKey, value: &str) -> Option<&'static str> {
    if value.len() > MAX_SCHEDULE_BYTES {
        return Some("a schedule with its job must have at most 60 KiB; make its job smaller");
    }
    let namespace = names(&key.key).0;
    let (mut count, mut own_bytes, mut bytes) = (0, value.len(), value.len());
    let others = records.of_kind(RecordKind::Schedule).filter(|record| record.key != *key);
    for record in others {
        bytes += record.value.len();
        if names(&record.key.key).0 == namespace {
            own_bytes += record.value.len();
            count += 1;
        }
    }
    if count >= MAX_SCHEDULES {
        return Some("the namespace has 1000 schedules already; delete one first");
    }
    if own_bytes > MAX_NAMESPACE_SCHEDULES_BYTES {
        return Some("the schedules of the namespace have 8 MiB already; delete one first");
    }
    let is_full = bytes > MAX_SCHEDULES_BYTES;
    is_full.then_some("all schedules together have 64 MiB already; delete one first")
}
