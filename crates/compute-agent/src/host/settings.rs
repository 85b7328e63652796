//! Settings: defaults, then a TOML file, then `COMPUTE_AGENT_…` from the environment.

mod addresses;
mod disk;
mod docker;
mod resources;
mod s3;
mod secret;
mod values;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use api_client::ProxyUse;
use api_types::engine::EngineType;
use api_types::joining::JoinToken;
use api_types::node::check_node_name;
use api_types::text::unparsed_url;
use figment::Figment;
use figment::providers::{Env, Format, Toml};
use serde::Deserialize;
use telemetry::log::LogFormat;
use telemetry::traces::OtlpSettings;

pub use addresses::{AddressRange, DeniedAddresses};
pub use disk::DiskSettings;
pub use docker::{DockerSettings, RegistryCredentials};
pub use resources::{DefaultResources, GpuSettings};
pub use s3::{AwsVariables, S3Settings};
pub use secret::Secret;

/// The prefix of this daemon's environment variables; `__` nests.
pub const ENV_PREFIX: &str = "COMPUTE_AGENT_";

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The address of the agent's own HTTP API.
    pub listen: SocketAddr,
    /// Holds the ledger and the executions' files; one agent at a time may use it.
    pub data_dir: PathBuf,
    /// Base URL of the orchestrator.
    pub orchestrator: String,
    /// Whether the agent reaches the orchestrator through the proxy that its environment names.
    pub use_proxy: bool,
    /// What a new node joins a protected orchestrator with, unless it is empty.
    pub join_token: Secret,
    /// A file with the join token, unless it is empty; read when the node joins for the first time.
    pub join_token_file: PathBuf,
    /// The name of the node, for people; the host's name when it is empty.
    pub name: String,
    /// Extends and overrides the labels that the agent detects.
    #[serde(deserialize_with = "values::labels")]
    pub labels: BTreeMap<String, String>,
    pub capacity: CapacitySettings,
    /// Engines to offer, where they are available.
    #[serde(deserialize_with = "values::engines")]
    pub engines: Vec<EngineType>,
    /// The resources of a task that requests none.
    pub default_resources: DefaultResources,
    /// Between SIGTERM and SIGKILL.
    pub stop_grace_seconds: u64,
    /// Whether a clean stop waits until no task runs here; otherwise tasks continue, and the next
    /// agent adopts them.
    pub drain_on_stop: bool,
    /// The longest wait of a drain.
    pub drain_deadline_seconds: u64,
    /// How long the output and results of a finished execution stay on the node.
    pub retain_finished_seconds: u64,
    /// Total bytes of output and results of finished executions to keep; beyond it the namespace
    /// that holds the most loses its oldest.
    #[serde(deserialize_with = "values::size")]
    pub retain_finished_bytes: u64,
    pub docker: DockerSettings,
    pub wasm: WasmSettings,
    pub gpu: GpuSettings,
    /// Host paths that may contain `localdirectory` inputs.
    #[serde(deserialize_with = "values::list")]
    pub allow_local_paths: Vec<String>,
    /// Whether jobs may use URLs that lead to loopback, private and link-local addresses.
    pub allow_private_addresses: bool,
    /// Whether tasks may have a network (`Network: Full`).
    pub allow_network: bool,
    /// What tasks with a network do not reach.
    #[serde(deserialize_with = "addresses::list")]
    pub denied_addresses: Vec<DeniedAddresses>,
    /// Exceptions to it.
    #[serde(deserialize_with = "addresses::list")]
    pub allow_addresses: Vec<AddressRange>,
    /// A directory in memory for the secrets of tasks; one of the agent's own when it is empty.
    pub secrets_dir: PathBuf,
    /// Whether fetching and compiling go on where the kernel cannot confine them.
    pub allow_unconfined: bool,
    pub inputs: InputSettings,
    pub results: ResultSettings,
    pub disk: DiskSettings,
    pub ipfs: IpfsSettings,
    pub s3: S3Settings,
    /// Text for people, or JSON for machines.
    pub log_format: LogFormat,
    /// The destination of traces, if any.
    pub otlp: OtlpSettings,
    /// The process's own `AWS_…` variables: credentials, region and endpoint for S3. They have the
    /// same names as in every other program, and no settings file contains them.
    #[serde(skip)]
    pub aws: AwsVariables,
    /// The program that fetches inputs, as `fetch`: the agent's own. Without one this process
    /// fetches them.
    #[serde(skip)]
    pub program: Option<PathBuf>,
}

/// The IPFS node of inputs and results.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IpfsSettings {
    /// Base URL of a Kubo RPC API, like `http://127.0.0.1:5001`; no node when it is empty.
    pub api: String,
}

/// Limits of results, and how the `local` publisher serves archives.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResultSettings {
    /// The base URL of this agent for others; the listen address when it is empty.
    pub base_url: String,
    /// How long an archive is kept.
    pub retain_seconds: u64,
    /// Bytes that a task may write and print in total when it requests no `Disk`.
    #[serde(deserialize_with = "values::size")]
    pub max_bytes: u64,
    /// Total bytes of archives to keep; beyond it the namespace that holds the most loses its
    /// oldest.
    #[serde(deserialize_with = "values::size")]
    pub published_max_bytes: u64,
}

/// Limits of inputs on the node's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InputSettings {
    /// Total bytes of the inputs of a task that requests no `Disk`.
    #[serde(deserialize_with = "values::size")]
    pub max_bytes: u64,
    /// Bytes of inputs that the cache keeps for later tasks; 0 disables it.
    #[serde(deserialize_with = "values::size")]
    pub cache_bytes: u64,
}

/// Each value replaces the detected one.
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

/// The runner of WebAssembly programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WasmSettings {
    /// Path of the program `wasm-runner`; when it is empty, the one next to the agent's program,
    /// then the one on `PATH`.
    pub runner: String,
}

/// Errors in the settings that prevent a start.
#[derive(Debug, thiserror::Error)]
pub enum InvalidSettings {
    #[error("cannot read the settings file {}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    #[error("{0}")]
    Value(Box<figment::Error>),
    #[error("{key}: {reason}")]
    Refused { key: &'static str, reason: String },
}

// === impl Settings ===

impl Settings {
    /// Through which proxy the agent reaches the orchestrator.
    pub(crate) fn proxy(&self) -> ProxyUse {
        if self.use_proxy { ProxyUse::OfEnvironment } else { ProxyUse::Never }
    }

    /// Defaults, then `file`, then the environment.
    pub fn load(file: Option<&Path>) -> Result<Self, InvalidSettings> {
        let mut figment = Figment::new();
        if let Some(path) = file {
            // figment treats a missing file as an empty one.
            let text = std::fs::read_to_string(path).map_err(|error| InvalidSettings::File {
                path: path.to_owned(),
                reason: error.to_string(),
            })?;
            figment = figment.merge(Toml::string(&text));
        }
        let settings: Self = figment
            .merge(Env::prefixed(ENV_PREFIX).split("__"))
            .extract()
            .map_err(|error| InvalidSettings::Value(Box::new(secret::without_source(error))))?;
        settings.checked()
    }

    fn checked(self) -> Result<Self, InvalidSettings> {
        if let Err(reason) = check_node_name(&self.name)
            && !self.name.is_empty()
        {
            return Err(InvalidSettings::Refused { key: "name", reason });
        }
        if let Some(key) = self.labels.keys().find(|key| key.is_empty()) {
            let reason = format!("a label needs a key, '{key}={}' came", self.labels[key]);
            return Err(InvalidSettings::Refused { key: "labels", reason });
        }
        if self.engines.is_empty() {
            let reason = "an agent without any engine can run nothing".to_owned();
            return Err(InvalidSettings::Refused { key: "engines", reason });
        }
        self.check_joining()?;
        self.docker.check()?;
        for (key, url) in
            [("ipfs.api", &self.ipfs.api), ("results.base_url", &self.results.base_url)]
        {
            let is_url = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme))
                && reqwest::Url::parse(url).is_ok();
            if !url.is_empty() && !is_url {
                let reason = format!("{} is not an http or https URL", unparsed_url(url));
                return Err(InvalidSettings::Refused { key, reason });
            }
        }
        self.otlp.check().map_err(|(key, reason)| InvalidSettings::Refused { key, reason })?;
        Ok(self)
    }

    /// A join token is sent over https alone; a node without one has to have joined before.
    fn check_joining(&self) -> Result<(), InvalidSettings> {
        let refused = |key, reason: String| Err(InvalidSettings::Refused { key, reason });
        let (token, file) = (self.join_token.reveal(), self.join_token_file.as_os_str());
        let given = [("join_token", !token.is_empty()), ("join_token_file", !file.is_empty())];
        let given: Vec<_> = given.iter().filter(|(_, is_given)| *is_given).collect();
        if let [(key, _), ..] = given[..]
            && !self.orchestrator.starts_with("https://")
        {
            let reason =
                format!("is sent over https alone, and orchestrator is '{}'", self.orchestrator);
            return refused(key, reason);
        }
        if given.len() > 1 {
            return refused("join_token_file", "join_token is set as well; set one".to_owned());
        }
        match token.parse::<JoinToken>() {
            Err(error) if !token.is_empty() => refused("join_token", error.to_string()),
            Err(_) | Ok(_) => Ok(()),
        }
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
            use_proxy: false,
            join_token: Secret::new(""),
            join_token_file: PathBuf::new(),
            name: String::new(),
            labels: BTreeMap::new(),
            capacity: CapacitySettings::default(),
            engines: vec![EngineType::Docker, EngineType::Wasm],
            default_resources: DefaultResources::default(),
            stop_grace_seconds: 10,
            drain_on_stop: false,
            drain_deadline_seconds: 600,
            retain_finished_seconds: 3600,
            retain_finished_bytes: 20_000_000_000,
            docker: DockerSettings::default(),
            wasm: WasmSettings::default(),
            gpu: GpuSettings::default(),
            allow_local_paths: Vec::new(),
            allow_private_addresses: false,
            allow_network: true,
            denied_addresses: vec![DeniedAddresses::Private, DeniedAddresses::Host],
            allow_addresses: Vec::new(),
            secrets_dir: PathBuf::new(),
            allow_unconfined: false,
            inputs: InputSettings::default(),
            results: ResultSettings::default(),
            disk: DiskSettings::default(),
            ipfs: IpfsSettings::default(),
            s3: S3Settings::default(),
            log_format: LogFormat::Text,
            otlp: OtlpSettings::default(),
            aws: AwsVariables::of_this_process(),
            program: None,
        }
    }
}

// === impl GpuSettings ===

// === impl InputSettings ===

impl Default for InputSettings {
    /// Enough for the inputs of ordinary jobs; a job with more requests it with its `Disk`.
    fn default() -> Self {
        Self { max_bytes: 10_000_000_000, cache_bytes: 10_000_000_000 }
    }
}

// === impl ResultSettings ===

impl ResultSettings {
    pub fn retain(&self) -> Duration {
        Duration::from_secs(self.retain_seconds)
    }
}

impl Default for ResultSettings {
    fn default() -> Self {
        Self {
            base_url: String::new(),
            retain_seconds: 86_400,
            max_bytes: 10_000_000_000,
            published_max_bytes: 20_000_000_000,
        }
    }
}

#[cfg(test)]
mod tests;
