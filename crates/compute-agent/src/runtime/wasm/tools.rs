//! What it takes to start programs: the runner, and the code that it has compiled.

use std::path::PathBuf;
use std::sync::Arc;

use super::runner::Runner;
use super::store::Store;
use crate::host::data_dir::DataDir;
use crate::host::settings::Settings;

/// Where the tools are, whether they can be used or not.
#[derive(Debug, Clone)]
pub(super) struct Location {
    /// As in the settings.
    runner: String,
    allow_unconfined: bool,
    store: PathBuf,
}

pub(super) struct Tools {
    pub(super) runner: Arc<Runner>,
    pub(super) store: Arc<Store>,
}

// === impl Location ===

impl Location {
    pub(super) fn new(settings: &Settings, data_dir: &DataDir) -> Self {
        Self {
            runner: settings.wasm.runner.clone(),
            allow_unconfined: settings.allow_unconfined,
            store: data_dir.wasm_cache(),
        }
    }
}

// === impl Tools ===

impl Tools {
    /// Returns the reason if this machine lacks them.
    pub(super) fn open(location: &Location) -> Result<Self, String> {
        let runner = Arc::new(Runner::find(&location.runner, location.allow_unconfined)?);
        let store = Store::open(&location.store, Arc::clone(&runner))
            .map_err(|error| format!("cannot store compiled modules: {error}"))?;
        Ok(Self { runner, store: Arc::new(store) })
    }

    /// Whether the runner is still there; returns its path.
    pub(super) fn check(&self) -> Result<String, String> {
        let path = self.runner.path();
        match path.is_file() {
            true => Ok(path.display().to_string()),
            false => Err(format!("{} is gone; install it again", path.display())),
        }
    }
}
