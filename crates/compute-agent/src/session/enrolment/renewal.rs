//! Renews the node's certificate before it expires.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_client::Client;
use api_types::joining::RenewRequest;
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use super::{Enrolment, lock};
use crate::host::backoff::Backoff;
use crate::host::clock;
use crate::host::identity::NodeIdentity;

/// Delays between attempts; the longest is a part of the certificate's life, and at most a minute.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_LONGEST: Duration = Duration::from_secs(60);
const RETRIES_PER_LIFE: u32 = 30;

/// Keeps the certificate of this node valid.
#[derive(Debug)]
pub(crate) struct Renewal {
    identity: Arc<Mutex<NodeIdentity>>,
    /// All that present the certificate.
    clients: Vec<Client>,
    expired: Arc<Notify>,
}

// === impl Renewal ===

impl Renewal {
    /// For these clients; none where there is no certificate. `expired` is notified when the
    /// orchestrator considers the certificate expired, whatever the clock of this machine shows.
    pub(crate) fn for_clients(
        enrolment: &Enrolment,
        clients: Vec<Client>,
        expired: Arc<Notify>,
    ) -> Option<Self> {
        match enrolment {
            Enrolment::Stated => None,
            Enrolment::Certified(identity) => {
                Some(Self { identity: Arc::clone(identity), clients, expired })
            }
        }
    }

    /// Never returns.
    pub(crate) async fn keep(self) {
        loop {
            let certified = lock(&self.identity).certified.clone();
            let Some(certified) = certified else { return };
            tokio::select! {
                () = clock::reach(certified.renew_at()) => {}
                () = self.expired.notified() => {}
            }
            let longest =
                (certified.lifetime() / RETRIES_PER_LIFE).clamp(RETRY_FIRST, RETRY_LONGEST);
            let mut backoff = Backoff::new(RETRY_FIRST, longest);
            let mut warned = String::new();
            while let Err(error) = self.renew().await {
                if error == warned {
                    debug!(error, "cannot renew the certificate of this node");
                } else {
                    warn!(error, "cannot renew the certificate of this node; trying again");
                    warned = error;
                }
                backoff.wait().await;
            }
        }
    }

    /// The error is for the log.
    async fn renew(&self) -> Result<(), String> {
        let (request, node_id) = {
            let identity = lock(&self.identity);
            let csr = identity.request().map_err(|error| error.to_string())?;
            let certified = identity.certified.as_ref().map(|certified| certified.node_id);
            (RenewRequest { csr }, certified.ok_or("it has none")?)
        };
        let client = self.clients.first().ok_or("there is no client")?;
        let answer =
            client.renew_certificate(node_id, &request).await.map_err(|error| error.to_string())?;
        // The orchestrator may have another CA by now.
        let ca = answer.ca.clone();
        let presented = {
            let mut identity = lock(&self.identity);
            identity.accept(answer).map_err(|error| error.to_string())?;
            identity.presented()
        };
        for client in &self.clients {
            let identity = presented.clone().ok_or("it has none")?;
            client.replace_identity(identity, ca.clone()).map_err(|error| error.to_string())?;
        }
        info!("the certificate of this node is renewed");
        Ok(())
    }
}
