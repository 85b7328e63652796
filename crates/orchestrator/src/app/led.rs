//! What a leader does with what it knows of the members: it answers to all their names, and says in
//! which settings they differ.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::NodeId;
use tokio_util::sync::CancellationToken;

use crate::http::Guard;
use crate::members::{Known, Members};
use crate::protection::Protection;

/// Where the leader answers to names.
pub(super) struct Led {
    members: Arc<Members>,
    guard: Arc<Guard>,
    protection: Option<Arc<Protection>>,
    log: Log,
}

/// What was said already.
#[derive(Default)]
struct Log {
    differing: BTreeMap<NodeId, Vec<String>>,
    missing: BTreeSet<String>,
}

// === impl Led ===

impl Led {
    /// Before anything is served, so that no name that is known is refused.
    pub(super) fn new(
        members: Arc<Members>,
        guard: Arc<Guard>,
        protection: Option<Arc<Protection>>,
    ) -> Self {
        let known = members.known();
        let mut led = Self { members, guard, protection, log: Log::default() };
        led.follow(&known);
        led
    }

    /// Follows the members until the service stops.
    pub(super) async fn run(mut self, stopping: CancellationToken) {
        let mut changes = self.members.changes();
        loop {
            let known = Arc::clone(&changes.borrow_and_update());
            self.follow(&known);
            match stopping.run_until_cancelled(changes.changed()).await {
                Some(Ok(())) => {}
                Some(Err(_)) | None => return,
            }
        }
    }

    fn follow(&mut self, known: &Known) {
        let names = known.names();
        self.guard.also(names.iter());
        if let Some(protection) = &self.protection {
            match protection.adopt_names(&names) {
                Ok(false) => {}
                Ok(true) => tracing::info!(
                    names = list(&names),
                    "the server certificate has the names of all orchestrators"
                ),
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(
                        error,
                        "cannot make a certificate with the names of all orchestrators; trying again"
                    );
                }
            }
            if self.members.are_several() {
                self.log.missing(protection.missing(&names));
            }
        }
        self.log.differing(known);
    }
}

// === impl Log ===

impl Log {
    fn missing(&mut self, missing: BTreeSet<String>) {
        if missing != self.missing && !missing.is_empty() {
            tracing::warn!(
                names = list(&missing),
                "tls.cert lacks names of orchestrators: clients that dial them refuse this certificate"
            );
        }
        self.missing = missing;
    }

    fn differing(&mut self, known: &Known) {
        for seen in known.others().filter(|seen| known.is_alive(seen)) {
            let member = &seen.member;
            let differing = known.differing(member);
            let said = self.differing.entry(member.id).or_default();
            if *said != differing && !differing.is_empty() {
                tracing::warn!(
                    leader = %known.own,
                    member = %member.id,
                    address = member.record.address,
                    settings = differing.join(", "),
                    "settings of these two orchestrators differ: a takeover changes them; make them equal"
                );
            }
            *said = differing;
        }
    }
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}
