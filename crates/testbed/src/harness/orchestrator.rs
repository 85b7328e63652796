//! The orchestrator of a test cluster.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::Path;

use super::binaries::binary;
use super::daemon::Daemon;

/// A running (or killed) orchestrator; derefs to its [`Daemon`].
#[derive(Debug)]
pub struct OrchestratorProcess {
    daemon: Daemon,
}

// === impl OrchestratorProcess ===

impl OrchestratorProcess {
    pub(crate) async fn start(directory: &Path, settings: &BTreeMap<String, String>) -> Self {
        let mut environment = settings.clone();
        let data = directory.join("orchestrator");
        environment.insert("ORCHESTRATOR_DATA_DIR".to_owned(), data.display().to_string());
        let daemon = Daemon::start(
            "orchestrator",
            binary("orchestrator").to_owned(),
            "ORCHESTRATOR_LISTEN",
            environment,
            directory.join("orchestrator.log"),
        )
        .await;
        Self { daemon }
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
