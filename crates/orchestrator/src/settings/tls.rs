//! Settings of TLS, and when it is used.

use std::path::PathBuf;

pub use control_plane::store::Exposure;
use serde::{Deserialize, Serialize};

use super::{Auth, DAY_SECONDS, InvalidSettings, MAX_SECONDS, Settings, comma_list, is_host_name};

/// The shortest lifetime of a node's certificate: its agent renews it at two thirds, and needs some
/// tries for that.
const MIN_NODE_LIFETIME_SECONDS: u64 = 3;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSettings {
    /// A certificate for users, with its chain, in PEM; the cluster's own without one.
    pub cert: PathBuf,
    /// The key of that certificate, in PEM.
    pub key: PathBuf,
    /// Names and addresses by which the service is reached, in addition to those it knows.
    #[serde(deserialize_with = "comma_list")]
    pub names: Vec<String>,
    /// Seconds for which a node's certificate is valid.
    pub node_lifetime: u64,
}

// === impl Settings ===

impl Settings {
    /// The one switch between open and protected.
    pub fn exposure(&self) -> Exposure {
        let is_open = self.listen.ip().is_loopback() && self.auth == Auth::Auto;
        match (is_open, self.insecure) {
            (true, _) => Exposure::OpenLoopback,
            (false, true) => Exposure::Insecure,
            (false, false) => Exposure::Protected,
        }
    }

    /// Whether a caller without credentials is refused.
    pub(crate) fn asks_for_credentials(&self) -> bool {
        match self.exposure() {
            Exposure::OpenLoopback => false,
            // With required, something in front of the listener adds TLS.
            Exposure::Insecure => self.auth == Auth::Required,
            Exposure::Protected => true,
        }
    }

    pub(super) fn check_tls(&self) -> Result<(), InvalidSettings> {
        let refused = |key, reason: String| Err(InvalidSettings::Refused { key, reason });
        let TlsSettings { cert, key, names, node_lifetime } = &self.tls;
        let is_set = |path: &PathBuf| !path.as_os_str().is_empty();
        if is_set(cert) != is_set(key) {
            let missing = if is_set(cert) { "tls.key" } else { "tls.cert" };
            return refused(missing, "tls.cert and tls.key are set together".to_owned());
        }
        if self.exposure() != Exposure::Protected {
            let given = [("tls.cert", cert), ("join_token_file", &self.join_token_file)];
            if let Some((key, _)) = given.into_iter().find(|(_, path)| is_set(path)) {
                let reason = format!(
                    "is not used: {} is served over plain HTTP{}",
                    self.listen,
                    if self.insecure {
                        ", because insecure is set"
                    } else {
                        "; set listen or auth"
                    }
                );
                return refused(key, reason);
            }
        }
        let is_address = |name: &str| name.parse::<std::net::IpAddr>().is_ok();
        if let Some(name) = names.iter().find(|name| !is_address(name) && !is_host_name(name)) {
            let reason = format!("'{name}' is neither a host name nor an address");
            return refused("tls.names", reason);
        }
        if !(MIN_NODE_LIFETIME_SECONDS..=MAX_SECONDS).contains(node_lifetime) {
            let reason = format!(
                "must be between {MIN_NODE_LIFETIME_SECONDS} and {MAX_SECONDS} seconds, got \
                 {node_lifetime}"
            );
            return refused("tls.node_lifetime", reason);
        }
        Ok(())
    }
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            cert: PathBuf::new(),
            key: PathBuf::new(),
            names: Vec::new(),
            node_lifetime: 30 * DAY_SECONDS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_beyond_loopback_is_protected_unless_the_operator_says_otherwise() {
        for (listen, insecure, exposure) in [
            ("127.0.0.1:1", false, Exposure::OpenLoopback),
            ("127.8.9.1:1", false, Exposure::OpenLoopback),
            ("[::1]:1", true, Exposure::OpenLoopback),
            ("0.0.0.0:1", false, Exposure::Protected),
            ("[::]:1", false, Exposure::Protected),
            ("10.0.0.1:1", false, Exposure::Protected),
            ("[::ffff:127.0.0.1]:1", false, Exposure::Protected),
            ("0.0.0.0:1", true, Exposure::Insecure),
        ] {
            let listen = listen.parse().unwrap();
            let settings = Settings { listen, insecure, ..Settings::default() };
            assert_eq!(settings.exposure(), exposure, "{listen} {insecure}");
            assert_eq!(settings.asks_for_credentials(), exposure == Exposure::Protected);
        }
    }

    #[test]
    fn credentials_may_be_required_on_any_listener() {
        for (listen, insecure, exposure) in [
            ("127.0.0.1:1", false, Exposure::Protected),
            ("127.0.0.1:1", true, Exposure::Insecure),
            ("0.0.0.0:1", false, Exposure::Protected),
            ("0.0.0.0:1", true, Exposure::Insecure),
        ] {
            let (listen, auth) = (listen.parse().unwrap(), Auth::Required);
            let settings = Settings { listen, insecure, auth, ..Settings::default() };
            assert_eq!(settings.exposure(), exposure, "{listen} {insecure}");
            assert!(settings.asks_for_credentials());
        }
    }
}
