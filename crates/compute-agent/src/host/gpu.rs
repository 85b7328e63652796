//! The NVIDIA GPUs of this machine, from `nvidia-smi` or the driver's own files.
//!
//! Both number GPUs by bus position, and so does the container runtime: the index of a GPU is the
//! same everywhere, until a card is added or removed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::process::Command;
use tracing::{debug, warn};

use crate::host::settings::GpuSettings;

/// `nvidia-smi` takes a second or two when the driver is not kept loaded.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

const QUERY: [&str; 2] =
    ["--query-gpu=index,name,memory.total,uuid", "--format=csv,noheader,nounits"];

/// The driver's directory of its GPUs, below the root.
const DRIVER_FILES: &str = "proc/driver/nvidia/gpus";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Gpu {
    model: String,
    /// Only `nvidia-smi` reports it, and not for every model.
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
    /// Asks `nvidia-smi`, or else reads the driver's files; finding no GPU is not an error.
    pub(crate) async fn detect(settings: &GpuSettings) -> Self {
        match ask(&settings.nvidia_smi).await {
            Ok(gpus) => return Self { gpus },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                warn!(%error, program = settings.nvidia_smi, "cannot query this node's GPUs");
            }
        }
        let gpus = read_driver_files(&settings.driver_root).unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                warn!(%error, "cannot read the NVIDIA driver's files");
            }
            Vec::new()
        });
        debug!(count = gpus.len(), "detected GPUs from the driver's files");
        Self { gpus }
    }

    pub(crate) fn count(&self) -> u64 {
        self.gpus.len() as u64
    }

    /// `GPU-<index>` with the model and `GPU-<index>-Memory` in MiB, for the GPUs on offer.
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

    /// The container runtime's names of these GPUs; the index for one that was not found.
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
        .ok_or_else(|| io::Error::other(format!("cannot parse its output: {}", text.trim())))
}

/// Parses lines of `index, name, memory in MiB, uuid`; none when any line differs.
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

/// One directory per GPU, named after its bus position.
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
        // A GPU without its device file is unusable, and skipping it would shift the other
        // indexes.
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

/// A model as a label value that selectors can use without quotes.
fn label(model: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    model.chars().map(plain).collect()
}

#[cfg(test)]
mod tests;
