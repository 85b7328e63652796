//! How the rest of the process learns that the driver lives, and why it ended.

use daemon::Pulse;
use tokio::sync::mpsc;

use super::error::DriverError;

/// The driver's thread, the one that watches its loads, and what watches for another process with the
/// same identity each report an end once.
const ENDS: usize = 3;

/// The driver, as those see it who wait for it.
pub struct Driver {
    ended: mpsc::Receiver<Result<(), DriverError>>,
    pulse: Pulse,
}

/// The other half, of the threads that do the driver's work.
#[derive(Clone)]
pub struct Vitals {
    ended: mpsc::Sender<Result<(), DriverError>>,
    pulse: Pulse,
}

// === impl Driver ===

impl Driver {
    pub fn new() -> (Self, Vitals) {
        let (sender, ended) = mpsc::channel(ENDS);
        let pulse = Pulse::default();
        (Self { ended, pulse: pulse.clone() }, Vitals { ended: sender, pulse })
    }

    /// Waits for the driver to end: after the last handle is dropped, when it has resigned, or when
    /// it cannot go on.
    pub async fn ended(&mut self) -> Result<(), DriverError> {
        self.ended.recv().await.unwrap_or(Err(DriverError::Vanished))
    }

    /// Beats in each turn, and while the driver loads or waits for disk space.
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }
}

// === impl Vitals ===

impl Vitals {
    pub(crate) fn end(&self, outcome: Result<(), DriverError>) {
        // The end may have no waiter any more.
        drop(self.ended.try_send(outcome));
    }

    pub(super) fn pulse(&self) -> &Pulse {
        &self.pulse
    }
}
