//! How many finished jobs each namespace has, for retention.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::StoreError;

/// The finished jobs of each namespace. They are counted when there are too many for the first time,
/// and again after a commit has failed; other commits keep the numbers up to date.
#[derive(Default, Clone)]
pub(super) struct EndedJobs(Option<HashMap<String, u64>>);

// === impl EndedJobs ===

impl EndedJobs {
    /// The namespace with the most finished jobs; `count` counts those of each.
    pub(super) fn largest(
        &mut self,
        count: impl FnOnce() -> Result<Vec<(String, i64)>, StoreError>,
    ) -> Result<Option<&str>, StoreError> {
        let by_namespace = match self.0.take() {
            Some(by_namespace) => by_namespace,
            None => count()?.into_iter().map(|(name, jobs)| (name, jobs.cast_unsigned())).collect(),
        };
        let by_namespace = self.0.insert(by_namespace);
        let largest = by_namespace.iter().max_by_key(|(name, jobs)| (**jobs, Reverse(*name)));
        Ok(largest.map(|(name, _)| name.as_str()))
    }

    /// Whether changes must be noted.
    pub(super) fn are_counted(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn add(&mut self, namespace: &str, jobs: i64) {
        let Some(by_namespace) = &mut self.0 else { return };
        let before = by_namespace.get(namespace).copied().unwrap_or(0);
        match before.saturating_add_signed(jobs) {
            0 => drop(by_namespace.remove(namespace)),
            after => drop(by_namespace.insert(namespace.to_owned(), after)),
        }
    }
}
