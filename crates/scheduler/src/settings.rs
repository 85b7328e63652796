//! What an operator sets of the scheduler.

use core::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// A node that is silent for this long loses its lease; see [`Scheduler::lease`](crate::Scheduler::lease).
    pub lease: Duration,
    /// New nodes join without an operator's approval.
    pub approve_new_nodes: bool,
    /// How long a drain waits for batch and ops work before it stops and moves that work.
    pub drain_deadline: Duration,
    /// A node that has been disconnected for this long is forgotten.
    pub node_retention: Duration,
    /// A node is reserved for work that has waited for room for this long; none for never.
    pub starvation: Option<Duration>,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            approve_new_nodes: true,
            drain_deadline: Duration::from_secs(3600),
            node_retention: Duration::from_secs(30 * 24 * 3600),
            starvation: Some(Duration::from_secs(60)),
        }
    }
}
