//! Finds the disks that tasks write to, and measures what tasks hold there.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use api_types::ExecutionId;
use api_types::engine::EngineType;
use futures_util::stream::{self, StreamExt};
use tracing::debug;

use super::culprit::Holding;
use super::{Disk, Reserve};
use crate::host::device::Device;
use crate::runtime::Hidden;

/// Tasks measured at the same time.
const MEASURED_AT_ONCE: usize = 4;

/// How long the measurement of one task may take; without it, the task has no such evidence.
const MEASURED_WITHIN: Duration = Duration::from_secs(60);

// === impl Reserve: measuring ===

impl Reserve {
    /// Finds the disks again: an engine that was unreachable may tell now where its tasks write.
    pub(super) async fn find_disks(&self, disks: &mut Vec<Disk>) {
        let mut found: Vec<Disk> = Vec::new();
        let data_directory = Device::containing(&self.data_directory);
        for (engine, executor) in self.engines.all() {
            let root = executor.task_directory().await;
            let of_root = root.and_then(|root| Some((Device::containing(&root).ok()?, root)));
            let (device, root) = match (of_root, &data_directory) {
                (Some(found), _) => found,
                (None, Ok(device)) => (device.clone(), self.data_directory.clone()),
                (None, Err(error)) => {
                    debug!(%error, "cannot find the disk of the data directory");
                    continue;
                }
            };
            match found.iter_mut().find(|disk| disk.device.is_same(&device)) {
                Some(disk) => disk.engines.push(engine),
                None => found.push(Disk::new(root, device, vec![engine])),
            }
        }
        if let Ok(device) = data_directory {
            let own = match found.iter().position(|disk| disk.device.is_same(&device)) {
                Some(own) => own,
                // Copies of output, and directories of the node that tasks write to.
                None => {
                    found.push(Disk::new(self.data_directory.clone(), device, Vec::new()));
                    found.len() - 1
                }
            };
            found[own].is_data_directory = true;
        }
        for disk in &mut found {
            let known = disks.iter_mut().find(|known| known.device.is_same(&disk.device));
            if let Some(known) = known {
                (disk.before, disk.warned_at) = (known.before.take(), known.warned_at);
            }
        }
        *disks = found;
    }

    /// What every task that is not being stopped has on the disk.
    pub(super) async fn sample(&self, disk: &Disk) -> HashMap<ExecutionId, Holding> {
        let tasks: Vec<_> = self
            .tasks()
            .iter()
            .filter(|(_, task)| task.stop.is_some())
            .map(|(id, task)| (*id, task.engine))
            .collect();
        let sampling = stream::iter(tasks)
            .map(|(id, engine)| async move { (id, self.measure(disk, id, engine).await) });
        sampling.buffer_unordered(MEASURED_AT_ONCE).collect().await
    }

    async fn measure(&self, disk: &Disk, id: ExecutionId, engine: EngineType) -> Holding {
        let Some(executor) = self.engines.get(engine) else { return Holding::default() };
        let mut holding = Holding::default();
        let measuring = async {
            if disk.is_data_directory {
                holding.visible_bytes = self.copies.bytes(id);
            }
            let Hidden { written_bytes, entries } = executor.hidden(id, &disk.device).await;
            holding.written_bytes = written_bytes;
            // Its files and what it made are on the disk of its engine.
            if disk.engines.contains(&engine) {
                holding.entries = entries;
                match executor.written_bytes(id).await {
                    Ok(bytes) => {
                        holding.visible_bytes =
                            holding.visible_bytes.saturating_add(bytes.unwrap_or_default())
                    }
                    Err(error) => debug!(execution = %id, %error, "cannot measure a task"),
                }
            }
        };
        if tokio::time::timeout(MEASURED_WITHIN, measuring).await.is_err() {
            debug!(execution = %id, "a task takes long to measure");
        }
        holding
    }
}

// === impl Disk ===

impl Disk {
    pub(super) fn new(root: PathBuf, device: Device, engines: Vec<EngineType>) -> Self {
        Self { root, device, engines, is_data_directory: false, before: None, warned_at: None }
    }
}
