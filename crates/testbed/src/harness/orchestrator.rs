//! The orchestrator of a test cluster.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::{Deref, DerefMut};
use std::path::Path;

use programs::binary;

use super::daemon::{Daemon, Start};

const AUTH: &str = "ORCHESTRATOR_AUTH";
const INSECURE: &str = "ORCHESTRATOR_INSECURE";

/// A running or killed orchestrator; derefs to its [`Daemon`].
#[derive(Debug)]
pub struct OrchestratorProcess {
    daemon: Daemon,
}

// === impl OrchestratorProcess ===

impl OrchestratorProcess {
    pub(crate) async fn start(
        directory: &Path,
        host: Ipv4Addr,
        settings: &BTreeMap<String, String>,
    ) -> Self {
        let mut environment = settings.clone();
        let data = directory.join("orchestrator").display().to_string();
        let data = environment.entry("ORCHESTRATOR_DATA_DIR".to_owned()).or_insert(data).clone();
        let is =
            |variable: &str, value: &str| environment.get(variable).is_some_and(|it| it == value);
        let is_protected = is(AUTH, "required") && !is(INSECURE, "true");
        if !host.is_loopback() && !is_protected {
            // The tests of links are about the network; those of TLS ask for it.
            environment.entry(INSECURE.to_owned()).or_insert("true".to_owned());
        }
        let start = Start {
            name: "orchestrator".to_owned(),
            program: binary("orchestrator").to_owned(),
            host,
            listen_variable: "ORCHESTRATOR_LISTEN",
            environment,
            namespace: None,
            directory: directory.to_owned(),
            protected: is_protected.then(|| data.into()),
            token_file: None,
        };
        Self { daemon: Daemon::start(start).await }
    }

    /// Whether the machine let it stand still for so long that it counts no silence of that time:
    /// nothing is said of how soon it moves work then.
    pub fn missed_heartbeats(&self) -> bool {
        self.log().contains("no heartbeat could be received")
    }
}

impl Deref for OrchestratorProcess {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        &self.daemon
    }
}

impl DerefMut for OrchestratorProcess {
    fn deref_mut(&mut self) -> &mut Daemon {
        &mut self.daemon
    }
}
