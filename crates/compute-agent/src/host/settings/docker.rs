//! `[docker]`: the Engine's address, the pull policy, registry credentials, and image retention.

use std::collections::BTreeMap;
use std::path::PathBuf;

use api_types::engine::PullPolicy;
use serde::{Deserialize, Deserializer};

use super::{InvalidSettings, Secret, values};

/// The default address of a Docker Engine.
const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";

/// As many as the Engine creates containers in parallel; more would sit idle.
const DEFAULT_SANDBOX_POOL: u16 = 8;

/// A few tasks that start together; such tasks are rarer, and each slot has an address of the bridge.
const DEFAULT_NETWORK_POOL: u16 = 2;

/// Capabilities that tasks may have: those with which an entrypoint that begins as root gives files to
/// another user and becomes that user. They reach no further than the files and processes of the
/// container.
///
/// Rejected: the Engine's own set. NET_RAW forges packets, MKNOD makes devices, SETPCAP and SETFCAP
/// hand capabilities to others; and of what the Engine leaves out, NET_ADMIN would undo the rules of
/// a network, and DAC_READ_SEARCH opens files of the node by their handles.
const CAPABILITIES: [&str; 6] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "KILL"];

/// Each slot is a running container, with a process of the Engine for it.
const MAX_SANDBOX_POOL: u16 = 256;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DockerSettings {
    /// `unix://…` or `tcp://…`; `DOCKER_HOST` applies when this is not set.
    pub host: String,
    /// When images are pulled. A task may override it, except for `never`: then the operator
    /// decides which images exist.
    #[serde(deserialize_with = "values::word")]
    pub pull_policy: PullPolicy,
    /// By registry, like `registry.example.com:5000` or `docker.io`.
    #[serde(deserialize_with = "credentials")]
    pub credentials: BTreeMap<String, RegistryCredentials>,
    /// Registries that images may be pulled from; `*` stands for all that are not on a private
    /// address. One that is named here may be on any.
    #[serde(deserialize_with = "values::list")]
    pub registries: Vec<String>,
    /// What root in a task's container has; empty for nothing.
    #[serde(deserialize_with = "values::list")]
    pub capabilities: Vec<String>,
    /// The configuration of docker's command line, for registries that `credentials` does not
    /// list; none is read when it is empty.
    pub config_file: PathBuf,
    /// The percentage of the Engine's file system in use above which images that the agent pulled
    /// are removed; 100 for no limit.
    pub images_max_percent: u8,
    /// The size limit of the images that the agent pulled; 0 for no limit.
    #[serde(deserialize_with = "values::size")]
    pub images_max_bytes: u64,
    /// Idle network sandboxes for tasks without network; 0 for none.
    pub sandbox_pool: u16,
    /// The same for tasks with a network, while there are such tasks.
    pub network_pool: u16,
}

/// The agent's credentials for one registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RegistryCredentials {
    pub username: String,
    pub password: Option<Secret>,
    /// A file with the password; read at every pull, so that it can change while the agent runs.
    pub password_file: Option<PathBuf>,
    /// A token that the registry issued in place of a password.
    pub identity_token: Option<Secret>,
}

// === impl DockerSettings ===

impl DockerSettings {
    pub(super) fn check(&self) -> Result<(), InvalidSettings> {
        let host = &self.host;
        if !["unix://", "tcp://", "http://"].iter().any(|scheme| host.starts_with(scheme)) {
            let reason = format!("'{host}' begins with none of unix://, tcp://, http://");
            return Err(InvalidSettings::Refused { key: "docker.host (or DOCKER_HOST)", reason });
        }
        if !(1..=100).contains(&self.images_max_percent) {
            let reason = format!("{} is not a percentage from 1 to 100", self.images_max_percent);
            return Err(InvalidSettings::Refused { key: "docker.images_max_percent", reason });
        }
        for (key, slots) in
            [("docker.sandbox_pool", self.sandbox_pool), ("docker.network_pool", self.network_pool)]
        {
            if slots > MAX_SANDBOX_POOL {
                let reason = format!("at most {MAX_SANDBOX_POOL} sandboxes are kept ready");
                return Err(InvalidSettings::Refused { key, reason });
            }
        }
        if let Some(unknown) =
            self.capabilities.iter().find(|name| !CAPABILITIES.contains(&name.as_str()))
        {
            let reason = format!(
                "'{unknown}' is none of those that tasks may have: {}",
                CAPABILITIES.join(", ")
            );
            return Err(InvalidSettings::Refused { key: "docker.capabilities", reason });
        }
        let key = "docker.credentials";
        for (registry, credentials) in &self.credentials {
            if registry.trim().is_empty() {
                let reason = "a registry needs a name".to_owned();
                return Err(InvalidSettings::Refused { key, reason });
            }
            credentials.check().map_err(|reason| InvalidSettings::Refused {
                key,
                reason: format!("'{registry}': {reason}"),
            })?;
        }
        Ok(())
    }
}

impl Default for DockerSettings {
    fn default() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let host = variable("DOCKER_HOST").and_then(|host| host.into_string().ok());
        let directory = variable("DOCKER_CONFIG")
            .map(PathBuf::from)
            .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".docker")));
        Self {
            host: host.unwrap_or_else(|| DEFAULT_HOST.to_owned()),
            pull_policy: PullPolicy::Missing,
            credentials: BTreeMap::new(),
            registries: vec!["*".to_owned()],
            capabilities: CAPABILITIES.map(str::to_owned).into(),
            images_max_percent: 85,
            images_max_bytes: 0,
            config_file: directory.map(|path| path.join("config.json")).unwrap_or_default(),
            sandbox_pool: DEFAULT_SANDBOX_POOL,
            network_pool: DEFAULT_NETWORK_POOL,
        }
    }
}

// === impl RegistryCredentials ===

impl RegistryCredentials {
    fn check(&self) -> Result<(), &'static str> {
        let secrets =
            [self.password.is_some(), self.password_file.is_some(), self.identity_token.is_some()];
        if secrets.iter().filter(|given| **given).count() != 1 {
            return Err("give one of password, password_file and identity_token");
        }
        if self.identity_token.is_none() && self.username.is_empty() {
            return Err("a password needs a username");
        }
        Ok(())
    }
}

fn credentials<'de, D>(from: D) -> Result<BTreeMap<String, RegistryCredentials>, D::Error>
where
    D: Deserializer<'de>,
{
    use serde::de::Error;
    // A refused value may be a secret in the wrong place, so the error does not repeat it.
    let table = |value: serde_json::Value, what: &str| match value {
        serde_json::Value::Object(table) => Ok(table),
        _ => Err(D::Error::custom(format!("{what} is a table"))),
    };
    let registries = table(serde_json::Value::deserialize(from)?, "credentials by registry")?;
    let mut credentials = BTreeMap::new();
    for (key, value) in registries {
        let value = table(value, &format!("'{key}'"))?;
        let read = serde_json::from_value(value.into())
            .map_err(|error| D::Error::custom(format!("'{key}': {error}")))?;
        credentials.insert(key, read);
    }
    Ok(credentials)
}
