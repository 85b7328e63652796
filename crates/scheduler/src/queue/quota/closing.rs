//! Quotas that are to hold more entries than one turn has time for.
//!
//! An entry that did not fit and is not held yet was passed over by searches for work. If it fits
//! again before it is held, nobody offers it the room that it was passed over for. So all entries are
//! held first, and those that fit are then opened in their order.

use crate::demand::Need;
use crate::queue::group::Entry;
use crate::queue::quota::{Account, Change, Quotas};

// === impl Quotas: closing ===

impl Quotas {
    /// If an open entry does not fit, no time is left to hold it now.
    pub(crate) fn begin_closing(&mut self, namespace: &str) {
        if let Some(Change::Hold(_)) = self.next_change(namespace)
            && let Some(account) = self.accounts.get_mut(namespace)
        {
            account.is_closing = true;
        }
    }

    /// Whether all entries of the namespace are to be held before anything is placed.
    pub(crate) fn is_closing(&self, namespace: &str) -> bool {
        self.accounts.get(namespace).is_some_and(|account| account.is_closing)
    }
}

// === impl Account: closing ===

impl Account {
    pub(super) fn close(&mut self, entry: Entry, need: &Need) {
        self.open.remove(entry, need);
        self.is_closing &= !self.open.all.is_empty();
    }
}
