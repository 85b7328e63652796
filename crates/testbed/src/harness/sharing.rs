//! The orchestrators of a cluster that share a store, and the entrance to them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use api_client::Client;

use super::orchestrator::OrchestratorProcess;
use super::relay::{NETWORK, Relay, Upstream};
use super::shared_store::{Direct, Lead, SharedStore};

/// How long the entrance may lead to an orchestrator that has lost the lead.
const STEER_EVERY: Duration = Duration::from_millis(50);

/// What a cluster is to share.
pub(super) struct Sharing {
    pub(super) store: SharedStore,
    pub(super) orchestrators: usize,
}

/// What a cluster that shares a store has in addition to its first orchestrator.
pub(super) struct Shared {
    pub(super) store: SharedStore,
    pub(super) others: Vec<OrchestratorProcess>,
    pub(super) entrance: Arc<Relay>,
    client: Client,
}

// === impl Sharing ===

impl Sharing {
    /// Starts the first one, which leads, and then the others, which follow it.
    pub(super) async fn start(
        self,
        directory: &Path,
        host: Ipv4Addr,
        settings: &BTreeMap<String, String>,
    ) -> (OrchestratorProcess, Shared) {
        let Self { store, orchestrators } = self;
        let with_store = |number| {
            let mut all = settings.clone();
            all.extend(store.settings(number));
            all
        };
        let first = OrchestratorProcess::start(directory, host, &with_store(0)).await;
        let mut others = Vec::new();
        for number in 1..orchestrators {
            let (name, settings) = (format!("orchestrator-{number}"), with_store(number));
            let host = apart(host, number);
            others.push(
                OrchestratorProcess::start_sharing(&name, directory, host, &settings, &first).await,
            );
        }
        let entrance = Arc::new(Relay::open(Upstream::Any(vec![first.address()])));
        NETWORK.spawn(steer(Arc::downgrade(&entrance), store.direct().clone()));
        let client = first.client_at(entrance.address());
        (first, Shared { store, others, entrance, client })
    }
}

// === impl Shared ===

impl Shared {
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn kill(&mut self) {
        self.others.iter_mut().for_each(|one| one.kill());
    }

    pub(super) async fn restart_crashed(&mut self) -> usize {
        let mut restarted = 0;
        for one in &mut self.others {
            restarted += usize::from(one.restart_if_crashed().await);
        }
        restarted
    }
}

/// Another address of this machine for each, as if they were different ones.
fn apart(host: Ipv4Addr, number: usize) -> Ipv4Addr {
    match host.is_loopback() {
        true => Ipv4Addr::from_bits(host.to_bits() + u32::try_from(number).unwrap_or(0)),
        false => host,
    }
}

/// Lets the entrance lead to the orchestrator that leads.
async fn steer(entrance: Weak<Relay>, direct: Direct) {
    while let Some(entrance) = entrance.upgrade() {
        if let Ok(Lead { address: Some(address), .. }) = direct.lead().await {
            entrance.lead_to(Upstream::Any(vec![address]));
        }
        drop(entrance);
        tokio::time::sleep(STEER_EVERY).await;
    }
}
