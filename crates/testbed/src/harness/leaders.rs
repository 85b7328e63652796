//! Which orchestrator of a cluster leads.

use super::cluster::Cluster;
use super::orchestrator::OrchestratorProcess;
use super::relay::Relay;
use super::shared_store::{Lead, SharedStore, StoreLink};
use super::sharing::Shared;
use super::wait::eventually;

// === impl Cluster: leaders ===

impl Cluster {
    /// The store that the orchestrators share.
    pub fn store(&self) -> &SharedStore {
        &self.sharing().store
    }

    pub fn store_mut(&mut self) -> &mut SharedStore {
        &mut self.shared.as_mut().expect("the cluster shares a store").store
    }

    /// What passes connections on to any orchestrator that accepts them.
    pub fn entrance(&self) -> &Relay {
        &self.sharing().entrance
    }

    /// The way of an orchestrator to the database.
    pub fn relay(&self, orchestrator: usize) -> &StoreLink {
        self.store().link(orchestrator)
    }

    /// How many orchestrators there are.
    pub fn orchestrators(&self) -> usize {
        1 + self.shared.as_ref().map_or(0, |shared| shared.others.len())
    }

    pub fn orchestrator_at(&self, number: usize) -> &OrchestratorProcess {
        match number {
            0 => &self.orchestrator,
            number => &self.sharing().others[number - 1],
        }
    }

    pub fn orchestrator_at_mut(&mut self, number: usize) -> &mut OrchestratorProcess {
        match (number, &mut self.shared) {
            (0, _) => &mut self.orchestrator,
            (number, Some(shared)) => &mut shared.others[number - 1],
            (number, None) => panic!("there is no orchestrator {number}"),
        }
    }

    /// The orchestrator that has the lead, by the row of the database.
    pub async fn leader(&self) -> usize {
        eventually("an orchestrator leads", async || {
            let lead = self.store().direct().lead().await?;
            self.number_of(&lead).ok_or_else(|| format!("{lead:?}"))
        })
        .await
    }

    pub async fn followers(&self) -> Vec<usize> {
        let leader = self.leader().await;
        (0..self.orchestrators()).filter(|number| *number != leader).collect()
    }

    /// Waits until another orchestrator has the lead than this one.
    pub async fn next_leader(&self, former: usize) -> usize {
        eventually(&format!("an orchestrator leads other than {former}"), async || {
            let lead = self.store().direct().lead().await?;
            let leader = self.number_of(&lead).filter(|leader| *leader != former);
            leader.ok_or_else(|| format!("{lead:?}"))
        })
        .await
    }

    fn number_of(&self, lead: &Lead) -> Option<usize> {
        let address = lead.address?;
        (0..self.orchestrators()).find(|number| self.orchestrator_at(*number).address() == address)
    }

    fn sharing(&self) -> &Shared {
        self.shared.as_ref().expect("the cluster shares a store")
    }
}
