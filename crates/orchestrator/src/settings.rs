//! Settings: defaults, then a TOML file, then `ORCHESTRATOR_…` from the environment.

pub(crate) mod equal;
mod oidc;
mod store;
mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use telemetry::log::LogFormat;
use telemetry::traces::OtlpSettings;

use control_plane::store::Retention;

pub use oidc::{ClaimValue, OidcSettings, RuleSettings};
pub use store::{DatabaseError, PostgresSettings, StoreKind};
pub use tls::{Exposure, TlsSettings};

/// The prefix of this daemon's environment variables; `__` nests.
pub const ENV_PREFIX: &str = "ORCHESTRATOR_";

/// The shortest lease: below it one slow commit would lose a node.
const MIN_NODE_TTL_SECONDS: u64 = 2;

/// The longest lease: a dead node keeps its executions that long.
const MAX_NODE_TTL_SECONDS: u64 = 86_400;

/// The longest of the other times; a longer one would behave like no limit.
const MAX_SECONDS: u64 = 100 * 365 * 86_400;

const DAY_SECONDS: u64 = 86_400;

/// The longest name of the domain name system.
const MAX_HOST_NAME_BYTES: usize = 253;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The address on which the API is served; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Holds the database and the orchestrator's identity; one orchestrator at a time uses it.
    pub data_dir: PathBuf,
    /// Where the state is.
    pub store: StoreKind,
    /// The `host:port` that the other orchestrators of a shared store dial; `listen` without one.
    pub advertise: String,
    /// Where this process alone reports its health and metrics, leading or not; nowhere without one.
    pub status_listen: Option<SocketAddr>,
    /// Whose requests are answered.
    pub auth: Auth,
    /// Seconds after which a node that has not renewed its lease is lost.
    pub node_ttl: u64,
    /// Whether new nodes take part without an operator's approval.
    pub approve_new_nodes: bool,
    /// Seconds for which a draining node waits for its batch and ops executions to end.
    pub drain_deadline: u64,
    /// Seconds that work waits for room before a node is reserved for it; 0 for never.
    pub starvation_seconds: u64,
    /// Seconds after which a disconnected node is forgotten; 0 for never.
    pub node_retention: u64,
    /// Seconds for which a finished job is kept; 0 for ever.
    pub job_retention: u64,
    /// How many finished jobs are kept, beyond which the namespace with the most loses its oldest; 0
    /// for all of them.
    pub job_retention_count: u64,
    /// Whether the web pages are served.
    pub ui: bool,
    /// Host names under which the service may be addressed, in addition to those it knows.
    #[serde(deserialize_with = "comma_list")]
    pub allowed_hosts: Vec<String>,
    /// Serve other machines over plain HTTP, and without asking who they are.
    pub insecure: bool,
    /// The key that encrypts the cluster's keys; `cluster.key` in the data directory without one.
    pub cluster_key_file: PathBuf,
    /// A file in which a join token is left for agents on this machine; none when it is empty.
    pub join_token_file: PathBuf,
    pub tls: TlsSettings,
    /// The database of a shared store.
    pub postgres: PostgresSettings,
    /// The trusted ID-token issuer, if configured.
    pub oidc: OidcSettings,
    /// Log lines for people, or JSON for machines.
    pub log_format: LogFormat,
    /// Where traces are sent, if anywhere.
    pub otlp: OtlpSettings,
}

/// Which callers need credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// No one on loopback.
    Auto,
    /// Everybody.
    Required,
}

/// Settings that the daemon refuses to start with.
#[derive(Debug, thiserror::Error)]
pub enum InvalidSettings {
    #[error("cannot read the settings file {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{}", unknown_settings(names))]
    Unknown { names: Vec<String> },
    #[error(transparent)]
    Value(Box<figment::Error>),
    #[error("{key}: {reason}")]
    Refused { key: &'static str, reason: String },
}

fn unknown_settings(names: &[String]) -> String {
    format!(
        "unknown settings: {}; known: listen, data_dir, store, advertise, status_listen, auth, node_ttl, \
         approve_new_nodes, drain_deadline, starvation_seconds, node_retention, job_retention, job_retention_count, ui, \
         allowed_hosts, insecure, cluster_key_file, join_token_file, tls, postgres, oidc, \
         log_format, otlp",
        names.join(", ")
    )
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 1234)),
            data_dir: PathBuf::from("/var/lib/orchestrator"),
            store: StoreKind::Sqlite,
            advertise: String::new(),
            status_listen: None,
            auth: Auth::Auto,
            node_ttl: 10,
            approve_new_nodes: true,
            drain_deadline: 3600,
            starvation_seconds: 60,
            node_retention: 30 * DAY_SECONDS,
            job_retention: 30 * DAY_SECONDS,
            job_retention_count: 1_000_000,
            ui: true,
            allowed_hosts: Vec::new(),
            insecure: false,
            cluster_key_file: PathBuf::new(),
            join_token_file: PathBuf::new(),
            tls: TlsSettings::default(),
            postgres: PostgresSettings::default(),
            oidc: OidcSettings::default(),
            log_format: LogFormat::Text,
            otlp: OtlpSettings::default(),
        }
    }
}

// === impl Settings ===

impl Settings {
    /// Defaults, then `file`, then the environment of this process.
    pub fn load(file: Option<&Path>) -> Result<Self, InvalidSettings> {
        let mut figment = Figment::from(Serialized::defaults(Self::default()));
        if let Some(path) = file {
            // figment treats a missing file as empty.
            let text = std::fs::read_to_string(path)
                .map_err(|source| InvalidSettings::File { path: path.to_owned(), source })?;
            figment = figment.merge(Toml::string(&text));
        }
        Self::extract(&figment.merge(Env::prefixed(ENV_PREFIX).split("__")))
    }

    /// Reports all unknown keys together, each with its source.
    fn extract(figment: &Figment) -> Result<Self, InvalidSettings> {
        let invalid = |error| InvalidSettings::Value(Box::new(error));
        let table: Map<String, Value> = figment.extract().map_err(invalid)?;
        let known: Map<String, Value> =
            Figment::from(Serialized::defaults(Self::default())).extract().map_err(invalid)?;
        let names: Vec<String> = table
            .keys()
            .filter(|key| !known.contains_key(*key))
            .map(|key| match figment.find_metadata(key) {
                Some(metadata) => format!("'{key}' (from {})", metadata.name),
                None => format!("'{key}'"),
            })
            .collect();
        if !names.is_empty() {
            return Err(InvalidSettings::Unknown { names });
        }
        let settings: Self = figment.extract().map_err(invalid)?;
        settings.checked()
    }

    fn checked(self) -> Result<Self, InvalidSettings> {
        if !(MIN_NODE_TTL_SECONDS..=MAX_NODE_TTL_SECONDS).contains(&self.node_ttl) {
            let reason = format!(
                "must be between {MIN_NODE_TTL_SECONDS} and {MAX_NODE_TTL_SECONDS} seconds, got {}",
                self.node_ttl
            );
            return Err(InvalidSettings::Refused { key: "node_ttl", reason });
        }
        for (key, seconds) in [
            ("drain_deadline", self.drain_deadline),
            ("starvation_seconds", self.starvation_seconds),
            ("node_retention", self.node_retention),
            ("job_retention", self.job_retention),
        ] {
            if seconds > MAX_SECONDS {
                let reason = format!("must be at most {MAX_SECONDS} seconds, got {seconds}");
                return Err(InvalidSettings::Refused { key, reason });
            }
        }
        if self.data_dir.as_os_str().is_empty() {
            let reason = "must name a directory".to_owned();
            return Err(InvalidSettings::Refused { key: "data_dir", reason });
        }
        if let Some(host) = self.allowed_hosts.iter().find(|host| !is_host_name(host)) {
            let reason = format!("'{host}' is not a host name; name it without scheme and port");
            return Err(InvalidSettings::Refused { key: "allowed_hosts", reason });
        }
        self.check_status_listen()?;
        self.postgres
            .check(self.store, &self.advertise, self.listen)
            .map_err(|(key, reason)| InvalidSettings::Refused { key, reason })?;
        self.check_tls()?;
        self.check_oidc()?;
        self.otlp.check().map_err(|(key, reason)| InvalidSettings::Refused { key, reason })?;
        Ok(self)
    }

    fn check_status_listen(&self) -> Result<(), InvalidSettings> {
        let is_same = |status: SocketAddr| status == self.listen && status.port() != 0;
        if self.status_listen.is_some_and(is_same) {
            let reason = format!("{} is the address of listen; name another port", self.listen);
            return Err(InvalidSettings::Refused { key: "status_listen", reason });
        }
        Ok(())
    }

    fn check_oidc(&self) -> Result<(), InvalidSettings> {
        let refused = |key, reason: String| Err(InvalidSettings::Refused { key, reason });
        let oidc = &self.oidc;
        if oidc.issuer.is_empty() {
            return match oidc.set_in_vain() {
                Some(key) => refused(key, "is not used without oidc.issuer".to_owned()),
                None => Ok(()),
            };
        }
        if let Err(reason) = ::oidc::check_issuer(&oidc.issuer) {
            return refused("oidc.issuer", reason.to_owned());
        }
        if !self.asks_for_credentials() {
            let reason = format!(
                "has no effect: {} requires no credentials; set auth = \"required\"",
                self.listen
            );
            return refused("oidc.issuer", reason);
        }
        oidc.check().map_err(|(key, reason)| InvalidSettings::Refused { key, reason })
    }

    /// The part of the settings that the scheduler uses.
    pub(crate) fn scheduler(&self) -> scheduler::Settings {
        scheduler::Settings {
            lease: Duration::from_secs(self.node_ttl),
            approve_new_nodes: self.approve_new_nodes,
            drain_deadline: Duration::from_secs(self.drain_deadline),
            // Such a time never comes.
            node_retention: unlimited(self.node_retention)
                .map_or(Duration::MAX, Duration::from_secs),
            starvation: unlimited(self.starvation_seconds).map(Duration::from_secs),
        }
    }

    /// Which finished jobs are kept.
    pub(crate) fn retention(&self) -> Retention {
        Retention {
            age: unlimited(self.job_retention).map(Duration::from_secs),
            count: unlimited(self.job_retention_count),
        }
    }
}

/// A list, or one string with commas, as environment variables have it.
fn comma_list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Texts {
        One(String),
        Many(Vec<String>),
    }
    let texts = match Texts::deserialize(from)? {
        Texts::One(text) => text.split(',').map(|part| part.trim().to_owned()).collect(),
        Texts::Many(texts) => texts,
    };
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

pub(crate) fn is_host_name(text: &str) -> bool {
    text.len() <= MAX_HOST_NAME_BYTES
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// The bound of a setting in which 0 means none.
fn unlimited(value: u64) -> Option<u64> {
    (value > 0).then_some(value)
}

#[cfg(test)]
mod tests;
