//! Due times of schedules, between the step that says them and the runner that checks them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use control_plane::step::DueTime;
use tokio::sync::Notify;

/// Due times between the step and the runner. The step bounds how many are on their way.
#[derive(Default)]
pub(crate) struct DueTimes {
    waiting: Mutex<Vec<DueTime>>,
    arrived: Notify,
}

// === impl DueTimes ===

impl DueTimes {
    pub(crate) fn push(&self, due: Vec<DueTime>) {
        self.waiting().extend(due);
        self.arrived.notify_one();
    }

    /// Waits for some.
    pub(crate) async fn take(&self) -> Vec<DueTime> {
        loop {
            let due = std::mem::take(&mut *self.waiting());
            if !due.is_empty() {
                return due;
            }
            self.arrived.notified().await;
        }
    }

    /// A new term says again what is due.
    pub(crate) fn clear(&self) {
        self.waiting().clear();
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<DueTime>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
