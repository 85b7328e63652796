//! The reserve of the disks that tasks write to: before one is full, the task that grows most ends.
//!
//! A task's limit holds for what can be measured while it runs. What it hides (deleted files that it
//! holds open, very many empty ones) would fill a disk for all tasks. So the agent watches the free
//! space itself, which nothing hides. Below the reserve it stops the task that grows most, one at a
//! time; other tasks, and work that is about to come, keep the space that is left.
//!
//! What a task's processes wrote, and the entries it made, cost the engine much to tell. They are
//! asked for only when space runs low: first at twice the reserve, to know later what was gained.
//!
//! Rejected: to stop every task that can fill a full disk. Tasks would end for their neighbour.

mod culprit;
mod sampling;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agent_core::execution::Failure;
use api_types::ExecutionId;
use api_types::engine::EngineType;
use api_types::protocol::Work;
use api_types::quantity::Bytes;
use tokio::sync::oneshot;
use tracing::{info, warn};

use crate::data::logs::copies::Copies;
use crate::host::device::Device;
use crate::host::disk::{OutputLimit, Space};
use crate::host::settings::{DiskSettings, Settings};
use crate::runtime::registry::Engines;
use culprit::{Evidence, Holding, Short, culprit};

/// Interval of checks while tasks run: a fast disk takes some hundred megabytes in that time.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// Interval at which the agent checks whether tasks run, and where their engines' disks are.
const IDLE_EVERY: Duration = Duration::from_secs(1);

/// How long the numbers from before a shortage are compared with: growth is what a task gained in the
/// last minute, not what it has held for days.
const REMEMBER: Duration = Duration::from_secs(60);

/// The longest wait for a stopped task to end before another one is stopped.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// Delay after such an end, until what the task used is free.
const SETTLE: Duration = Duration::from_secs(2);

/// Interval of warnings about a shortage that no task explains.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// What an entry takes of a disk at least, for a task that makes many.
const ENTRY_BYTES: u64 = 4096;

/// The tasks that run, and the disks that they may fill.
pub(crate) struct Reserve {
    engines: Arc<Engines>,
    copies: Arc<Copies>,
    /// It stands in for the disk of an engine that this machine does not show.
    data_directory: PathBuf,
    settings: DiskSettings,
    /// The limit of a task that requests no disk.
    results_max_bytes: u64,
    tasks: Mutex<HashMap<ExecutionId, Task>>,
}

struct Task {
    engine: EngineType,
    disk_bytes: u64,
    /// None once it is being stopped.
    stop: Option<oneshot::Sender<Failure>>,
}

/// A running task leaves with this value.
pub(crate) struct Watched<'a> {
    reserve: &'a Reserve,
    id: ExecutionId,
}

/// A disk that tasks write to.
struct Disk {
    root: PathBuf,
    device: Device,
    /// Whose tasks write there.
    engines: Vec<EngineType>,
    is_data_directory: bool,
    before: Option<Before>,
    warned_at: Option<Instant>,
}

/// What tasks held when space began to run low.
struct Before {
    taken_at: Instant,
    free_bytes: u64,
    holdings: HashMap<ExecutionId, Holding>,
}

/// How much of a disk is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Enough,
    /// Less than twice the reserve.
    Low,
    /// Less than the reserve.
    Short(Short),
}

// === impl Reserve ===

impl Reserve {
    pub(crate) fn new(
        engines: &Arc<Engines>,
        copies: &Arc<Copies>,
        data_directory: &Path,
        settings: &Settings,
    ) -> Self {
        Self {
            engines: Arc::clone(engines),
            copies: Arc::clone(copies),
            data_directory: data_directory.to_owned(),
            settings: settings.disk,
            results_max_bytes: settings.results.max_bytes,
            tasks: Mutex::default(),
        }
    }

    /// Watches a running task until the value is dropped; the channel gets the reason why it must
    /// end, if it must.
    pub(crate) fn watch(
        &self,
        id: ExecutionId,
        work: &Work,
    ) -> (Watched<'_>, oneshot::Receiver<Failure>) {
        let (stop, stopped) = oneshot::channel();
        let (engine, disk_bytes) = (work.task.engine.engine_type, work.resources.disk);
        self.tasks().insert(id, Task { engine, disk_bytes, stop: Some(stop) });
        (Watched { reserve: self, id }, stopped)
    }

    /// Keeps the reserve of a node, until the agent stops.
    pub(crate) async fn keep(&self) {
        let mut disks = Vec::new();
        let mut found_at = None;
        loop {
            if self.tasks().is_empty() {
                tokio::time::sleep(IDLE_EVERY).await;
                continue;
            }
            if found_at.is_none_or(|at: Instant| at.elapsed() >= REMEMBER) {
                self.find_disks(&mut disks).await;
                found_at = Some(Instant::now());
            }
            for disk in &mut disks {
                if let Ok(space) = Space::measure(&disk.root) {
                    self.check(disk, &space).await;
                }
            }
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }

    async fn check(&self, disk: &mut Disk, space: &Space) {
        match level(space, &self.settings) {
            Level::Enough => disk.before = None,
            Level::Low => {
                let is_due =
                    disk.before.as_ref().is_none_or(|before| before.taken_at.elapsed() >= REMEMBER);
                if is_due {
                    let holdings = self.sample(disk).await;
                    let (taken_at, free_bytes) = (Instant::now(), space.free_bytes);
                    disk.before = Some(Before { taken_at, free_bytes, holdings });
                }
            }
            Level::Short(short) => self.relieve(disk, short, space).await,
        }
    }

    /// Stops the task that grows most, and waits for its end.
    async fn relieve(&self, disk: &mut Disk, short: Short, space: &Space) {
        let holdings = self.sample(disk).await;
        let nothing = HashMap::new();
        let before = disk.before.as_ref().map_or(&nothing, |before| &before.holdings);
        let growth: Vec<_> = holdings
            .iter()
            .map(|(id, now)| (*id, now.since(before.get(id).copied().unwrap_or_default())))
            .collect();
        let gone_bytes = match &disk.before {
            Some(before) => before.free_bytes.saturating_sub(space.free_bytes),
            None => self.settings.task_reserve(space).bytes,
        };
        let Some((id, evidence)) = culprit(short, gone_bytes, &growth) else {
            if disk.warned_at.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
                disk.warned_at = Some(Instant::now());
                warn!(
                    disk = %disk.root.display(),
                    free_bytes = space.free_bytes,
                    free_inodes = space.free_inodes,
                    "the disk of tasks runs low, and no task is seen to grow; free space on it"
                );
            }
            return;
        };
        let held = holdings.get(&id).copied().unwrap_or_default();
        self.stop(id, short, (evidence, held), space);
        let ended = async {
            while self.tasks().contains_key(&id) {
                tokio::time::sleep(CHECK_EVERY).await;
            }
        };
        drop(tokio::time::timeout(ENDS_WITHIN, ended).await);
        tokio::time::sleep(SETTLE).await;
        disk.before = None;
    }

    fn stop(
        &self,
        id: ExecutionId,
        short: Short,
        (evidence, held): (Evidence, Holding),
        space: &Space,
    ) {
        let mut tasks = self.tasks();
        let Some(task) = tasks.get_mut(&id) else { return };
        let Some(stop) = task.stop.take() else { return };
        let limit = OutputLimit::new(task.disk_bytes, 0, self.results_max_bytes);
        let failure = failure(short, evidence, held, &limit, space, &self.settings);
        info!(execution = %id, why = failure.message, "stopping a task to keep the disk's reserve");
        // Fails only if it has just ended.
        drop(stop.send(failure));
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<ExecutionId, Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.reserve.tasks().remove(&self.id);
    }
}

fn level(space: &Space, settings: &DiskSettings) -> Level {
    let reserve = settings.task_reserve(space);
    if space.free_bytes < reserve.bytes {
        Level::Short(Short::Bytes)
    } else if space.free_inodes < reserve.inodes {
        Level::Short(Short::Inodes)
    } else if space.free_bytes < 2 * reserve.bytes || space.free_inodes < 2 * reserve.inodes {
        Level::Low
    } else {
        Level::Enough
    }
}

/// The task's own failure if it took more than its limit, in a way that its limit could not see; its
/// node's otherwise.
fn failure(
    short: Short,
    evidence: Evidence,
    held: Holding,
    limit: &OutputLimit,
    space: &Space,
    settings: &DiskSettings,
) -> Failure {
    let reserve = settings.task_reserve(space);
    let (size, what) = match evidence {
        Evidence::Visible => (held.visible_bytes, "its files and output have"),
        Evidence::Written => {
            (held.written_bytes, "its processes wrote (to files that may be deleted)")
        }
        Evidence::Entries => {
            (held.entries.saturating_mul(ENTRY_BYTES), "its files and directories take at least")
        }
    };
    let entries = match evidence {
        Evidence::Entries => format!(" ({} of them)", held.entries),
        Evidence::Visible | Evidence::Written => String::new(),
    };
    let measured = format!("{what} {}{entries}", Bytes(size));
    let low = match short {
        Short::Bytes => format!(
            "{} are free on the disk of tasks, less than the reserve of {}",
            Bytes(space.free_bytes),
            Bytes(reserve.bytes)
        ),
        Short::Inodes => format!(
            "{} inodes are free on the disk of tasks, less than the reserve of {}",
            space.free_inodes, reserve.inodes
        ),
    };
    if size > limit.left_after(0) {
        let limit = limit.words();
        return Failure::task(format!(
            "{low}, and this task grew most: {measured}, more than {limit}; ask for enough with \
             Resources.Disk, or write less"
        ));
    }
    Failure::node(format!(
        "{low}, and this task grew most: {measured}; free space on the node, or let the task run on \
         another one"
    ))
}

#[cfg(test)]
mod tests;
