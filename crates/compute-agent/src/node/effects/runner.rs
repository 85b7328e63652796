//! What the effects of executions share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api_types::protocol::Work;
use api_types::{ExecutionId, NodeId};
use tokio::sync::Semaphore;

use crate::data::inputs::Sources;
use crate::data::inputs::cache::boots;
use crate::data::logs::copies::Copies;
use crate::data::results::publisher::Publishers;
use crate::data::secrets::Secrets;
use crate::host::clock;
use crate::host::data_dir::{DataDir, ExecutionDirs};
use crate::host::disk::Disk;
use crate::host::gpu::Inventory;
use crate::host::settings::Settings;
use crate::node::mailbox::Mailbox;
use crate::node::probe::Probes;
use crate::node::reserve::Reserve;
use crate::node::tasks::Tasks;
use crate::node::usage::Meters;
use crate::observer::Observer;
use crate::runtime::registry::Engines;

/// Executes effects; this is what all of them share.
pub(crate) struct EffectRunner {
    pub(crate) node_id: NodeId,
    pub(crate) engines: Arc<Engines>,
    pub(crate) gpus: Inventory,
    pub(crate) observer: Arc<Observer>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) reserve: Reserve,
    pub(crate) stop_grace: Duration,
    pub(crate) tasks: Tasks,
    pub(crate) files: Files,
    pub(crate) probes: Arc<Probes>,
}

/// The inputs, secrets, outputs and disk limits of this node.
pub(crate) struct Files {
    pub(crate) sources: Sources,
    pub(crate) publishers: Publishers,
    pub(crate) secrets: Secrets,
    pub(crate) dirs: ExecutionDirs,
    /// Output that is copied while tasks run.
    pub(crate) copies: Arc<Copies>,
    pub(super) disk: Disk,
    /// The write limit of a task that requests no disk.
    pub(super) results_max_bytes: u64,
    /// Serialises measurements of what tasks wrote, since each is expensive for the engine.
    pub(super) measuring: Semaphore,
}

/// One execution, and the channel for its events.
#[derive(Clone)]
pub(crate) struct ExecutionHandle {
    pub(crate) id: ExecutionId,
    pub(crate) work: Arc<Work>,
    /// By index.
    pub(crate) gpus: Vec<u32>,
    pub(crate) mailbox: Mailbox,
}

// === impl Files ===

impl Files {
    pub(crate) fn new(
        settings: &Settings,
        data_dir: &DataDir,
        listen: SocketAddr,
        secrets: Secrets,
    ) -> Self {
        let cache = boots::of_this_boot(&data_dir.cache(), &clock::boot_id());
        Self {
            sources: Sources::new(settings, cache),
            publishers: Publishers::new(settings, data_dir.published(), listen),
            secrets,
            dirs: data_dir.executions(),
            copies: Arc::default(),
            disk: Disk::new(data_dir.root(), settings.disk.reserve_bytes),
            results_max_bytes: settings.results.max_bytes,
            measuring: Semaphore::new(1),
        }
    }
}
