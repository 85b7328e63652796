//! The NVIDIA GPUs of this machine, as `nvidia-smi` or the driver's own files tell.
//!
//! Both count by the place on the bus, and so does the container runtime: the index of a GPU is
//! the same everywhere, for as long as no card is added or removed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::process::Command;
use tracing::{debug, warn};

use crate::settings::GpuSettings;

/// `nvidia-smi` takes a second or two where the driver is not kept loaded.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

const QUERY: [&str; 2] =
    ["--query-gpu=index,name,memory.total,uuid", "--format=csv,noheader,nounits"];

/// Where the driver tells of its GPUs, below the root.
const DRIVER_FILES: &str = "proc/driver/nvidia/gpus";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Gpu {
    model: String,
    /// Only `nvidia-smi` knows, and not of every model.
    memory_mib: Option<u64>,
    uuid: Option<String>,
}

/// The GPUs of this machine by their index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Inventory {
    gpus: Vec<Gpu>,
}

// === impl Inventory ===

impl Inventory {
    /// What `nvidia-smi` tells; without it, what the driver does; nothing is no error.
    pub(crate) async fn detect(settings: &GpuSettings) -> Self {
        match ask(&settings.nvidia_smi).await {
            Ok(gpus) => return Self { gpus },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                warn!(%error, program = settings.nvidia_smi, "it cannot tell of this node's GPUs");
            }
        }
        let gpus = read_driver_files(&settings.driver_root).unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                warn!(%error, "the NVIDIA driver's files cannot be read");
            }
            Vec::new()
        });
        debug!(count = gpus.len(), "looked for GPUs in the driver's files");
        Self { gpus }
    }

    pub(crate) fn count(&self) -> u64 {
        self.gpus.len() as u64
    }

    /// `GPU-<index>` with the model, `GPU-<index>-Memory` in MiB, of those that are offered.
    pub(crate) fn labels(&self, offered: u64) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        let offered = usize::try_from(offered).unwrap_or(usize::MAX);
        for (index, gpu) in self.gpus.iter().enumerate().take(offered) {
            labels.insert(format!("GPU-{index}"), label(&gpu.model));
            if let Some(memory_mib) = gpu.memory_mib {
                labels.insert(format!("GPU-{index}-Memory"), memory_mib.to_string());
            }
        }
        labels
    }

    /// What a container runtime calls these GPUs; of one that was not found, its index.
    pub(crate) fn device_ids(&self, indices: &[u32]) -> Vec<String> {
        indices
            .iter()
            .map(|index| {
                usize::try_from(*index)
                    .ok()
                    .and_then(|at| self.gpus.get(at)?.uuid.clone())
                    .unwrap_or_else(|| index.to_string())
            })
            .collect()
    }
}

async fn ask(program: &str) -> io::Result<Vec<Gpu>> {
    let mut command = Command::new(program);
    command.args(QUERY).kill_on_drop(true);
    let output = tokio::time::timeout(ANSWER_TIMEOUT, command.output())
        .await
        .map_err(|_| io::Error::other(format!("no answer in {ANSWER_TIMEOUT:?}")))??;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        return Err(io::Error::other(format!("{}: {}", output.status, said.trim())));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    parse_answer(&text)
        .ok_or_else(|| io::Error::other(format!("its answer is not understood: {}", text.trim())))
}

/// Lines of `index, name, memory in MiB, uuid`; none when one is something else.
fn parse_answer(text: &str) -> Option<Vec<Gpu>> {
    let mut gpus = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut fields = line.split(',').map(str::trim);
        let index: usize = fields.next()?.parse().ok()?;
        let model = fields.next().filter(|model| !model.is_empty())?.to_owned();
        let memory_mib = fields.next()?.parse().ok();
        let uuid = fields.next().filter(|uuid| uuid.starts_with("GPU-"))?.to_owned();
        gpus.insert(index, Gpu { model, memory_mib, uuid: Some(uuid) });
    }
    let is_gapless = gpus.keys().enumerate().all(|(at, index)| at == *index);
    is_gapless.then(|| gpus.into_values().collect())
}

/// A directory per GPU, named after its place on the bus.
fn read_driver_files(root: &Path) -> io::Result<Vec<Gpu>> {
    let mut places: Vec<_> = std::fs::read_dir(root.join(DRIVER_FILES))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    places.sort();
    let mut gpus = Vec::with_capacity(places.len());
    for place in places {
        let text = std::fs::read_to_string(place.join("information"))?;
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map(|value| value.trim().to_owned())
        };
        // Without its device file a GPU can be used by nobody; counting on would shift the others.
        let minor = field("Device Minor").unwrap_or_default();
        if !root.join(format!("dev/nvidia{minor}")).exists() {
            return Err(io::Error::other(format!("/dev/nvidia{minor} is missing")));
        }
        let uuid = field("GPU UUID").filter(|uuid| uuid.starts_with("GPU-") && !uuid.contains('?'));
        let model = field("Model").unwrap_or_else(|| "unknown".to_owned());
        gpus.push(Gpu { model, memory_mib: None, uuid });
    }
    Ok(gpus)
}

/// A model as the value of a label, which selectors can name without quotes.
fn label(model: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    model.chars().map(plain).collect()
}

#[cfg(test)]
mod tests;
