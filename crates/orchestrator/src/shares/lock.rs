//! Locks of counts, which are whole even if a thread has panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
