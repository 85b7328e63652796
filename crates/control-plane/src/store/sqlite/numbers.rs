//! The numbers of the jobs that a commit is about.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use api_types::JobId;
use rusqlite::Transaction;

use super::jobs;
use super::row::bad_record;
use crate::store::StoreError;

/// Each job is looked up once per commit.
#[derive(Default)]
pub(super) struct JobNumbers(HashMap<JobId, i64>);

// === impl JobNumbers ===

impl JobNumbers {
    pub(super) fn knows(&self, id: JobId) -> bool {
        self.0.contains_key(&id)
    }

    pub(super) fn note(&mut self, id: JobId, number: i64) {
        self.0.insert(id, number);
    }

    pub(super) fn get(
        &mut self,
        transaction: &Transaction<'_>,
        id: JobId,
    ) -> Result<i64, StoreError> {
        match self.0.entry(id) {
            Entry::Occupied(entry) => Ok(*entry.get()),
            Entry::Vacant(entry) => {
                let number = jobs::number(transaction, id)?
                    .ok_or_else(|| bad_record(format!("a change of {id}, which is not stored")))?;
                Ok(*entry.insert(number))
            }
        }
    }
}
