//! What a task gets that asks for nothing, and which GPUs are offered.

use std::path::PathBuf;

use api_types::quantity::Resources;
use serde::Deserialize;

use super::values;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DefaultResources {
    #[serde(deserialize_with = "values::cpu_millis")]
    pub cpu: Option<u64>,
    #[serde(deserialize_with = "values::bytes")]
    pub memory: Option<u64>,
}

/// Where the agent detects NVIDIA GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GpuSettings {
    /// The program, as a path or a name on `PATH`.
    pub nvidia_smi: String,
    /// The root of the driver's files: `/`, or the mount point of the host's files in a container.
    pub driver_root: PathBuf,
}

impl DefaultResources {
    const CPU_MILLIS: u64 = 500;
    const MEMORY_BYTES: u64 = 512_000_000;

    pub fn resources(&self) -> Resources {
        Resources {
            cpu_millis: self.cpu.unwrap_or(Self::CPU_MILLIS),
            memory_bytes: self.memory.unwrap_or(Self::MEMORY_BYTES),
            ..Resources::ZERO
        }
    }
}

impl Default for DefaultResources {
    fn default() -> Self {
        Self { cpu: Some(Self::CPU_MILLIS), memory: Some(Self::MEMORY_BYTES) }
    }
}

impl Default for GpuSettings {
    fn default() -> Self {
        Self { nvidia_smi: "nvidia-smi".to_owned(), driver_root: PathBuf::from("/") }
    }
}
