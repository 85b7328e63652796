//! Settings: defaults, then a TOML file, then `COMPUTE_AGENT_…` from the environment.

mod values;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use api_types::engine::EngineType;
use api_types::quantity::Resources;
use figment::Figment;
use figment::providers::{Env, Format, Toml};
use serde::Deserialize;

/// What every environment variable of this daemon begins with; `__` nests.
pub const ENV_PREFIX: &str = "COMPUTE_AGENT_";

/// Where a Docker Engine listens when nobody says otherwise.
const DEFAULT_DOCKER_HOST: &str = "unix:///var/run/docker.sock";

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where the agent's own HTTP operations are served.
    pub listen: SocketAddr,
    /// Holds the ledger and the executions' files; belongs to one agent at a time.
    pub data_dir: PathBuf,
    /// Base URL of the orchestrator.
    pub orchestrator: String,
    /// Added to, and winning over, the labels that the agent finds out itself.
    #[serde(deserialize_with = "values::labels")]
    pub labels: BTreeMap<String, String>,
    pub capacity: CapacitySettings,
    /// Engines to offer, where they are available.
    #[serde(deserialize_with = "values::engines")]
    pub engines: Vec<EngineType>,
    /// What a task that asks for nothing gets.
    pub default_resources: DefaultResources,
    /// Between SIGTERM and SIGKILL.
    pub stop_grace_seconds: u64,
    /// Whether a clean stop waits until nothing runs here any more; otherwise what runs keeps
    /// running, and the next agent takes it up.
    pub drain_on_stop: bool,
    /// How long it waits at most.
    pub drain_deadline_seconds: u64,
    /// How long the output and results of a finished execution stay on the node.
    pub retain_finished_seconds: u64,
    pub docker: DockerSettings,
    /// Host paths that `localdirectory` inputs may lie below.
    #[serde(deserialize_with = "values::list")]
    pub allow_local_paths: Vec<String>,
    /// Whether `urldownload` inputs may come from loopback and private addresses.
    pub allow_private_addresses: bool,
}

/// Replaces what is detected, each on its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CapacitySettings {
    /// Millicores; written as cores (`0.5`) or millicores (`500m`).
    #[serde(deserialize_with = "values::cpu_millis")]
    pub cpu: Option<u64>,
    /// Bytes; written with an optional unit (`512MB`, `1Gi`).
    #[serde(deserialize_with = "values::bytes")]
    pub memory: Option<u64>,
    #[serde(deserialize_with = "values::bytes")]
    pub disk: Option<u64>,
    #[serde(deserialize_with = "values::gpus")]
    pub gpu: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DefaultResources {
    #[serde(deserialize_with = "values::cpu_millis")]
    pub cpu: Option<u64>,
    #[serde(deserialize_with = "values::bytes")]
    pub memory: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DockerSettings {
    /// `unix://…` or `tcp://…`; `DOCKER_HOST` when it is set and this is not.
    pub host: String,
}

/// Settings that the daemon refuses to start with.
#[derive(Debug, thiserror::Error)]
pub enum InvalidSettings {
    #[error("the settings file {} cannot be read: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    #[error("{0}")]
    Value(Box<figment::Error>),
    #[error("unknown argument '{argument}'; usage: compute-agent [--config FILE]")]
    Argument { argument: String },
    #[error("{key}: {reason}")]
    Refused { key: &'static str, reason: String },
}

// === impl Settings ===

impl Settings {
    /// Reads the settings as the daemon does, `arguments` being what follows its name.
    pub fn from_arguments(
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Self, InvalidSettings> {
        let mut arguments = arguments.into_iter();
        let mut config = None;
        while let Some(argument) = arguments.next() {
            match (argument.as_str(), argument.strip_prefix("--config=")) {
                (_, Some(path)) => config = Some(PathBuf::from(path)),
                ("--config", None) => match arguments.next() {
                    Some(path) => config = Some(PathBuf::from(path)),
                    None => return Err(InvalidSettings::Argument { argument }),
                },
                _ => return Err(InvalidSettings::Argument { argument }),
            }
        }
        Self::load(config.as_deref())
    }

    /// Defaults, then `file`, then the environment.
    pub fn load(file: Option<&Path>) -> Result<Self, InvalidSettings> {
        let mut figment = Figment::new();
        if let Some(path) = file {
            // figment takes a missing file for an empty one.
            let text = std::fs::read_to_string(path).map_err(|error| InvalidSettings::File {
                path: path.to_owned(),
                reason: error.to_string(),
            })?;
            figment = figment.merge(Toml::string(&text));
        }
        let settings: Self = figment
            .merge(Env::prefixed(ENV_PREFIX).split("__"))
            .extract()
            .map_err(|error| InvalidSettings::Value(Box::new(error)))?;
        settings.checked()
    }

    fn checked(self) -> Result<Self, InvalidSettings> {
        if let Some(key) = self.labels.keys().find(|key| key.is_empty()) {
            let reason = format!("a label needs a key, '{key}={}' came", self.labels[key]);
            return Err(InvalidSettings::Refused { key: "labels", reason });
        }
        if self.engines.is_empty() {
            let reason = "an agent without any engine can run nothing".to_owned();
            return Err(InvalidSettings::Refused { key: "engines", reason });
        }
        let host = &self.docker.host;
        if !["unix://", "tcp://", "http://"].iter().any(|scheme| host.starts_with(scheme)) {
            let reason = format!("'{host}' begins with none of unix://, tcp://, http://");
            return Err(InvalidSettings::Refused { key: "docker.host (or DOCKER_HOST)", reason });
        }
        Ok(self)
    }

    pub fn stop_grace(&self) -> Duration {
        Duration::from_secs(self.stop_grace_seconds)
    }

    pub fn drain_deadline(&self) -> Duration {
        Duration::from_secs(self.drain_deadline_seconds)
    }

    pub fn retain_finished(&self) -> Duration {
        Duration::from_secs(self.retain_finished_seconds)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 1234)),
            data_dir: PathBuf::from("/var/lib/compute-agent"),
            orchestrator: "http://127.0.0.1:1234".to_owned(),
            labels: BTreeMap::new(),
            capacity: CapacitySettings::default(),
            engines: vec![EngineType::Docker, EngineType::Wasm],
            default_resources: DefaultResources::default(),
            stop_grace_seconds: 10,
            drain_on_stop: false,
            drain_deadline_seconds: 600,
            retain_finished_seconds: 3600,
            docker: DockerSettings::default(),
            allow_local_paths: Vec::new(),
            allow_private_addresses: false,
        }
    }
}

// === impl DefaultResources ===

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

// === impl DockerSettings ===

impl Default for DockerSettings {
    fn default() -> Self {
        let host = std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
        Self { host: host.unwrap_or_else(|| DEFAULT_DOCKER_HOST.to_owned()) }
    }
}

#[cfg(test)]
mod tests;
