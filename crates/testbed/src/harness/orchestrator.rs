//! The orchestrator of a test cluster.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::ops::{Deref, DerefMut};
use std::path::Path;

use programs::binary;

use super::daemon::{Daemon, Start, Started};

/// What an orchestrator logs that follows another one, or leads.
const FOLLOWS_OR_LEADS: &[&str] = &["another orchestrator leads; following it", "serving address="];

const AUTH: &str = "ORCHESTRATOR_AUTH";
const CLUSTER_KEY: &str = "cluster.key";
const STORE: &str = "ORCHESTRATOR_STORE";
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
        Self::start_as("orchestrator", directory, host, settings, None).await
    }

    /// Another one on the store of the `first`, which leads: it has the same cluster key.
    pub(crate) async fn start_sharing(
        name: &str,
        directory: &Path,
        host: Ipv4Addr,
        settings: &BTreeMap<String, String>,
        first: &Self,
    ) -> Self {
        let data = directory.join(name);
        fs::create_dir_all(&data).unwrap_or_else(|error| panic!("{name}: {error}"));
        let key = first.data_dir().join(CLUSTER_KEY);
        // An open cluster has none before it keeps a secret.
        if key.exists() {
            fs::copy(&key, data.join(CLUSTER_KEY))
                .unwrap_or_else(|error| panic!("cannot copy {}: {error}", key.display()));
        }
        Self::start_as(name, directory, host, settings, Some(first)).await
    }

    async fn start_as(
        name: &str,
        directory: &Path,
        host: Ipv4Addr,
        settings: &BTreeMap<String, String>,
        first: Option<&Self>,
    ) -> Self {
        let mut environment = settings.clone();
        let data = directory.join(name).display().to_string();
        let data = environment.entry("ORCHESTRATOR_DATA_DIR".to_owned()).or_insert(data).clone();
        let is =
            |variable: &str, value: &str| environment.get(variable).is_some_and(|it| it == value);
        let is_protected = is(AUTH, "required") && !is(INSECURE, "true");
        let started = match is(STORE, "postgres") {
            true => Started::Logs(FOLLOWS_OR_LEADS),
            false => Started::Responds,
        };
        if !host.is_loopback() && !is_protected {
            // The tests of links are about the network; those of TLS ask for it.
            environment.entry(INSECURE.to_owned()).or_insert("true".to_owned());
        }
        let start = Start {
            name: name.to_owned(),
            program: binary("orchestrator").to_owned(),
            host,
            listen_variable: "ORCHESTRATOR_LISTEN",
            environment,
            namespace: None,
            directory: directory.to_owned(),
            protected: is_protected.then(|| match first {
                Some(first) => first.data_dir().to_owned(),
                None => data.into(),
            }),
            token_file: None,
            started,
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
