//! The decisions of the session with the orchestrator: when to join, to renew, to follow and to
//! report; no I/O and no clock.
//!
//! They are four machines rather than one, because nothing in a session may wait for anything else:
//!
//! | machine | decides | driven by |
//! |---|---|---|
//! | [`Joining`] | when to join, and when to join again | the agent's main task |
//! | [`Pace`] | when to send heartbeats, and for how long to wait for each answer | a separate thread |
//! | [`Follower`] | what the lines of the assignments stream mean, and when to open another stream | the agent's main task |
//! | [`Outbox`] | which reports go out together, what removes them, and when to repeat them | a task that outlives sessions |
//!
//! [`SessionState`] is what they share. The agent drives them with sockets and the time of its
//! machine, the simulator with a simulated network and virtual time. One machine for the whole
//! session was rejected: heartbeats would have to wait for its lock.

mod follower;
mod joining;
mod outbox;
mod pace;
mod retries;
mod state;
mod term;

use api_types::Code;

pub use follower::{Followed, Follower, SILENCE, Violation};
pub use joining::{Joining, SessionEnd};
pub use outbox::{Acknowledged, Outbox};
pub use pace::Pace;
pub use state::SessionState;
pub use term::{LeaderTerm, REPEATS_WITHIN};

/// Whether a refusal with this code means that the session is over and the node has to join again.
pub fn ends_session(code: Code) -> bool {
    matches!(code, Code::StaleSession | Code::NodeNotFound)
}
