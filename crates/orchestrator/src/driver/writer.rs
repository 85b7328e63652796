//! The writer's half of the store, and how this process holds it.

use control_plane::step::Trust;
use control_plane::store::{Hold, Store};

pub struct Writer {
    pub store: Box<dyn Store>,
    pub hold: Hold,
}

// === impl Writer ===

impl Writer {
    /// Of a store that a lock keeps other processes out of.
    pub fn alone(store: Box<dyn Store>) -> Self {
        Self { store, hold: Hold::Lock }
    }

    pub(super) fn trust(&self) -> Trust {
        match self.hold {
            Hold::Lock => Trust::Always,
            Hold::Lease(_) => Trust::AfterCommit,
        }
    }
}
