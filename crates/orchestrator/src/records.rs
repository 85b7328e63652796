//! Records as the last commit left them, published for those who serve requests.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use control_plane::records::{Record, RecordKey, RecordKind, RecordRow, Records};
use tokio::sync::watch;

pub(crate) struct Published {
    records: RwLock<BTreeMap<RecordKey, Record>>,
    /// Counts changes.
    changes: watch::Sender<u64>,
}

// === impl Published ===

impl Default for Published {
    fn default() -> Self {
        Self { records: RwLock::default(), changes: watch::Sender::new(0) }
    }
}

impl Published {
    /// As they are stored, before a term has begun.
    pub(crate) fn stored(records: Vec<Record>) -> Self {
        let records = records.into_iter().map(|record| (record.key.clone(), record)).collect();
        Self { records: RwLock::new(records), changes: watch::Sender::new(0) }
    }

    pub(crate) fn get(&self, key: &RecordKey) -> Option<Record> {
        self.read().get(key).cloned()
    }

    /// In order of their keys.
    pub(crate) fn of_kind(&self, kind: RecordKind) -> Vec<Record> {
        let records = self.read();
        let of_kind = records.range(kind.key("")..).take_while(|(key, _)| key.kind == kind);
        of_kind.map(|(_, record)| record.clone()).collect()
    }

    /// Changes with every change of a record.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether a term has begun: before that, it is unknown which records there are.
    pub(crate) fn are_known(&self) -> bool {
        *self.changes.borrow() > 0
    }

    /// A term begins with these.
    pub(crate) fn replace(&self, records: &Records) {
        let all = RecordKind::ALL.into_iter().flat_map(|kind| records.of_kind(kind));
        let all = all.map(|record| (record.key.clone(), record.clone())).collect();
        *self.records.write().unwrap_or_else(PoisonError::into_inner) = all;
        self.changes.send_modify(|count| *count += 1);
    }

    /// What a commit changed.
    pub(crate) fn update(&self, rows: &[RecordRow]) {
        if rows.is_empty() {
            return;
        }
        let mut records = self.records.write().unwrap_or_else(PoisonError::into_inner);
        for RecordRow { key, version, value } in rows {
            match value {
                Some(value) => {
                    let (key, value) = (key.clone(), value.clone());
                    records.insert(key.clone(), Record { key, version: *version, value });
                }
                None => drop(records.remove(key)),
            }
        }
        drop(records);
        self.changes.send_modify(|count| *count += 1);
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<RecordKey, Record>> {
        self.records.read().unwrap_or_else(PoisonError::into_inner)
    }
}
