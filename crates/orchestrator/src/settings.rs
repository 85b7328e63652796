//! Settings: defaults, then a TOML file, then `ORCHESTRATOR_…` from the environment.

mod oidc;
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
        "unknown settings: {}; known: listen, data_dir, auth, node_ttl, approve_new_nodes, \
         drain_deadline, starvation_seconds, node_retention, job_retention, job_retention_count, ui, \
         allowed_hosts, insecure, cluster_key_file, join_token_file, tls, oidc, \
         log_format, otlp",
        names.join(", ")
    )
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 1234)),
            data_dir: PathBuf::from("/var/lib/orchestrator"),
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
        self.check_tls()?;
        self.check_oidc()?;
        self.otlp.check().map_err(|(key, reason)| InvalidSettings::Refused { key, reason })?;
        Ok(self)
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
mod tests {
    use super::*;

    fn extract(toml: &str) -> Result<Settings, String> {
        let figment = Figment::from(Serialized::defaults(Settings::default()));
        Settings::extract(&figment.merge(Toml::string(toml))).map_err(|error| error.to_string())
    }

    #[test]
    fn unset_settings_have_their_defaults() {
        let settings = extract("node_ttl = 5").unwrap();
        assert_eq!(settings, Settings { node_ttl: 5, ..Settings::default() });
        assert_eq!(settings.listen.to_string(), "127.0.0.1:1234");
    }

    #[test]
    fn the_defaults_are_those_of_the_scheduler() {
        let scheduler = Settings::default().scheduler();
        let expected = scheduler::Settings::default();
        assert_eq!(format!("{scheduler:?}"), format!("{expected:?}"));
        let month = Duration::from_secs(30 * DAY_SECONDS);
        let expected = Retention { age: Some(month), count: Some(1_000_000) };
        assert_eq!(Settings::default().retention(), expected);
    }

    #[test]
    fn zero_times_and_counts_mean_no_limit() {
        let text = "drain_deadline = 7\nnode_retention = 8\njob_retention = 9\n\
                    job_retention_count = 10";
        let settings = extract(text).unwrap();
        let scheduler = settings.scheduler();
        let seconds = Duration::from_secs;
        assert_eq!((scheduler.drain_deadline, scheduler.node_retention), (seconds(7), seconds(8)));
        let expected = Retention { age: Some(seconds(9)), count: Some(10) };
        assert_eq!(settings.retention(), expected);

        let text = "drain_deadline = 0\nstarvation_seconds = 0\nnode_retention = 0\njob_retention = 0\n\
                    job_retention_count = 0";
        let settings = extract(text).unwrap();
        assert_eq!(settings.scheduler().drain_deadline, Duration::ZERO);
        assert_eq!(settings.scheduler().node_retention, Duration::MAX);
        assert_eq!(settings.scheduler().starvation, None);
        assert_eq!(settings.retention(), Retention::default());
    }

    #[test]
    fn allowed_hosts_are_a_list_or_a_text_with_commas() {
        for toml in ["allowed_hosts = ['a', 'b.example']", "allowed_hosts = 'a, b.example,'"] {
            assert_eq!(extract(toml).unwrap().allowed_hosts, ["a", "b.example"], "{toml}");
        }
        assert!(extract("allowed_hosts = ''").unwrap().allowed_hosts.is_empty());
    }

    #[test]
    fn every_unknown_key_is_named() {
        let error =
            extract("listen = 1\ndatadir = 'x'\nnode_tll = 2\n[store]\nkind = 'x'").unwrap_err();
        for key in ["'datadir' (from TOML source string)", "'node_tll'", "'store'"] {
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_named() {
        for (toml, word) in [
            ("listen = 'nowhere'", "listen"),
            ("node_ttl = 'long'", "node_ttl"),
            ("node_ttl = 1", "node_ttl: must be between 2 and 86400"),
            ("drain_deadline = -1", "drain_deadline"),
            ("node_retention = 9000000000", "node_retention: must be at most 3153600000 seconds"),
            ("job_retention = 9000000000", "job_retention: must be at most"),
            ("job_retention_count = 'all'", "job_retention_count"),
            ("ui = 'yes'", "ui"),
            ("allowed_hosts = [1]", "allowed_hosts"),
            ("allowed_hosts = 'a.example, http://b'", "allowed_hosts: 'http://b' is not a host"),
            ("allowed_hosts = ['a.example:1234']", "allowed_hosts: 'a.example:1234' is not"),
            ("log_format = 'xml'", "log_format"),
            ("otlp.endpoint = 'collector'", "otlp.endpoint: is not an http or https URL"),
            ("otlp.sampling_ratio = 2", "otlp.sampling_ratio: must be between 0 and 1"),
            ("otlp.headers = 'x'", "headers must have the form name=value"),
            ("otlp.endpont = 'x'", "endpont"),
            ("insecure = 1", "insecure"),
            ("join_token_file = 'a'", "join_token_file: is not used: 127.0.0.1:1234 is served"),
            ("tls.cert = 'a'", "tls.key: tls.cert and tls.key are set together"),
            ("tls = { cert = 'a', key = 'b' }", "tls.cert: is not used: 127.0.0.1:1234 is served"),
            ("tls.names = 'a b'", "tls.names: 'a b' is neither a host name nor an address"),
            ("tls.node_lifetime = 1", "tls.node_lifetime: must be between 3 and"),
            ("tls.crt = 'x'", "crt"),
            ("data_dir = ''", "data_dir: must name a directory"),
        ] {
            let error = extract(toml).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_named_file_that_is_missing_is_an_error() {
        let error = Settings::load(Some(Path::new("/nonexistent/settings.toml"))).unwrap_err();
        assert_eq!(error.to_string(), "cannot read the settings file /nonexistent/settings.toml");
    }
}
