//! Probes that the orchestrator requests, in answers to heartbeats.
//!
//! Each has a number and is made once. Its outcome is in all heartbeats until an answer does not
//! request that number any more. While one is made, another is not begun: the orchestrator repeats
//! its request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api_types::engine::{EngineType, NetworkType};
use api_types::protocol::{ProbeOutcome, cut_message};
use futures_util::future::join_all;
use tracing::{info, warn};

use super::rounds::Outcome;
use super::{Probes, Subject};
use crate::runtime::twin::Likeness;

/// The latest request.
#[derive(Debug, Default)]
pub(super) struct Requests {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    /// One is being made.
    Making,
    Made(ProbeOutcome),
}

// === impl Requests ===

impl Requests {
    /// Whether the probe with this number is to be begun.
    fn take(&self, wanted: Option<u64>) -> Option<u64> {
        let mut state = self.state();
        let begun = match (&*state, wanted) {
            (State::Making, _) => return None,
            (State::Made(outcome), Some(wanted)) if outcome.probe == wanted => return None,
            (State::Idle | State::Made(_), wanted) => wanted,
        };
        *state = if begun.is_some() { State::Making } else { State::Idle };
        begun
    }

    fn made(&self, outcome: ProbeOutcome) {
        *self.state() = State::Made(outcome);
    }

    fn outcome(&self) -> Option<ProbeOutcome> {
        match &*self.state() {
            State::Idle | State::Making => None,
            State::Made(outcome) => Some(outcome.clone()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Probes: requests ===

impl Probes {
    /// An answer to a heartbeat requests this probe, or none. Returns immediately.
    pub(crate) fn requested(self: &Arc<Self>, wanted: Option<u64>) {
        let Some(probe) = self.requests.take(wanted) else { return };
        let probes = Arc::clone(self);
        self.tasks.spawn(async move {
            info!(probe, "the orchestrator requests a probe of this node");
            let mut failure = probes.probe_node().await;
            match &mut failure {
                None => info!(probe, "this node works"),
                Some(reason) => {
                    cut_message(reason);
                    warn!(probe, reason, "this node does not work");
                }
            }
            probes.requests.made(ProbeOutcome { probe, failure });
        });
    }

    /// What the next heartbeat carries.
    pub(crate) fn outcome(&self) -> Option<ProbeOutcome> {
        self.requests.outcome()
    }

    /// What does not work of all that the node offers now.
    async fn probe_node(&self) -> Option<String> {
        // Also on a node whose engines are all away.
        let written = self.subjects.data.write().await;
        let offered = self.subjects.engines.available().borrow().clone();
        let twins = offered.into_iter().flat_map(|engine| {
            self.likenesses(engine).into_iter().map(move |likeness| Subject { engine, likeness })
        });
        let probes = twins.map(|subject| async {
            let (engine, network) = (subject.engine, subject.likeness.network);
            match self.probe(subject).await {
                Outcome::Works => None,
                Outcome::Fails(reason) | Outcome::Unknown(reason) => match network {
                    NetworkType::None => Some(format!("{engine}: {reason}")),
                    NetworkType::Full | NetworkType::Http => {
                        Some(format!("{engine}, with a network: {reason}"))
                    }
                },
            }
        });
        let failures: Vec<_> = match written {
            // Each of the others fails for the same reason.
            Err(reason) => vec![reason],
            Ok(_) => join_all(probes).await.into_iter().flatten().collect(),
        };
        (!failures.is_empty()).then(|| failures.join("; "))
    }

    /// The kinds of tasks that the engine runs on this node.
    fn likenesses(&self, engine: EngineType) -> Vec<Likeness> {
        let secrets = self.subjects.secrets.is_some();
        let like = |network| Likeness { secrets, ..Likeness::with_network(network) };
        match engine {
            EngineType::Docker if self.subjects.allow_network => {
                vec![like(NetworkType::None), like(NetworkType::Full)]
            }
            EngineType::Docker | EngineType::Wasm | EngineType::Noop => {
                vec![like(NetworkType::None)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_begun_once_and_its_outcome_stays_until_it_is_not_requested() {
        let requests = Requests::default();
        let good = |probe| ProbeOutcome { probe, failure: None };
        assert_eq!(requests.take(None), None);
        assert_eq!(requests.take(Some(7)), Some(7));
        for wanted in [Some(7), Some(8), None] {
            assert_eq!(requests.take(wanted), None, "one is being made");
        }
        assert_eq!(requests.outcome(), None);
        requests.made(good(7));
        assert_eq!((requests.take(Some(7)), requests.outcome()), (None, Some(good(7))));
        assert_eq!((requests.take(Some(8)), requests.outcome()), (Some(8), None));
        requests.made(good(8));
        assert_eq!((requests.take(None), requests.outcome()), (None, None));
        // A later orchestrator may count from the start.
        assert_eq!(requests.take(Some(7)), Some(7));
    }
}
