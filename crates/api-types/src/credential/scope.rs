//! The servers that credentials are for.

use std::net::IpAddr;

use super::kind::CredentialType;
use super::named::Server;
use crate::image::canonical_registry;

/// The endpoint of buckets for which a job names no other.
const AMAZON_S3: &str = "s3.amazonaws.com";

const HTTPS_PORT: u16 = 443;

/// Why credentials are not for a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFor {
    #[error("credentials '{name}' are of type {found}, and {wanted} is needed")]
    Type { name: String, found: CredentialType, wanted: CredentialType },
    #[error("credentials '{name}' are not for {host}: their Hosts are {hosts}")]
    Host { name: String, host: String, hosts: String },
    #[error("credentials '{name}' are for a registry, and the Image names none")]
    Registry { name: String },
    #[error("credentials '{name}' are not for bucket '{bucket}': their Buckets are {buckets}")]
    Bucket { name: String, bucket: String, buckets: String },
    #[error("credentials are sent over https, or over http within the machine, and not to {host}")]
    Plain { host: String },
}

/// Where and for what a login may be used.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub name: &'a str,
    pub credential_type: CredentialType,
    pub hosts: &'a [String],
    pub buckets: &'a [String],
}

// === impl Scope ===

impl Scope<'_> {
    /// Whether a task may use the credentials for what it names them for.
    pub fn check(&self, wanted: CredentialType, server: &Server<'_>) -> Result<(), NotFor> {
        let name = || self.name.to_owned();
        if self.credential_type != wanted {
            return Err(NotFor::Type { name: name(), found: self.credential_type, wanted });
        }
        match server {
            Server::Url(url) => self.check_url(url),
            Server::Registry(None) => Err(NotFor::Registry { name: name() }),
            Server::Registry(Some(registry)) => {
                let (host, port) = host_and_port(registry);
                // The Engine asks registries over https, except those on the machine itself.
                self.check_host(host, port.unwrap_or(HTTPS_PORT))
            }
            Server::Bucket { endpoint, bucket } => {
                match *endpoint {
                    "" => self.check_host(AMAZON_S3, HTTPS_PORT)?,
                    endpoint => self.check_url(endpoint)?,
                }
                match self.buckets.is_empty() || self.buckets.iter().any(|known| known == bucket) {
                    true => Ok(()),
                    false => Err(NotFor::Bucket {
                        name: name(),
                        bucket: (*bucket).to_owned(),
                        buckets: self.buckets.join(", "),
                    }),
                }
            }
        }
    }

    /// Whether the login may be sent to this URL.
    pub fn check_url(&self, url: &str) -> Result<(), NotFor> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = host_and_port(authority);
        let default_port = match scheme.eq_ignore_ascii_case("https") {
            true => HTTPS_PORT,
            false if is_this_machine(host) => 80,
            false => return Err(NotFor::Plain { host: host.to_owned() }),
        };
        self.check_host(host, port.unwrap_or(default_port))
    }

    fn check_host(&self, host: &str, port: u16) -> Result<(), NotFor> {
        match self.hosts.iter().any(|pattern| covers(pattern, host, port)) {
            true => Ok(()),
            false => Err(NotFor::Host {
                name: self.name.to_owned(),
                host: match port {
                    HTTPS_PORT => host.to_owned(),
                    port => format!("{host}:{port}"),
                },
                hosts: self.hosts.join(", "),
            }),
        }
    }
}

/// Why a text cannot stand in `Hosts`.
pub fn check_host_pattern(text: &str) -> Result<(), &'static str> {
    /// The longest name of the domain name system, and a port.
    const MAX_BYTES: usize = 253 + 6;
    const RULE: &str = "must be a host, like 'ghcr.io', 'git.example.com:8443' or '*.example.com'";
    let (host, port) = host_and_port(text);
    let has_port = text.len() > host.len();
    let name = host.strip_prefix("*.").unwrap_or(host);
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let is_name = !name.is_empty()
        && name.split('.').all(|label| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        });
    if text.len() > MAX_BYTES || (has_port && port.is_none()) || !(is_name || is_address) {
        return Err(RULE);
    }
    match host.starts_with("*.") && !name.contains('.') {
        true => Err("must not stand for a whole top-level domain"),
        false => Ok(()),
    }
}

/// Whether a pattern of `Hosts` stands for the host; without a port for that of https.
fn covers(pattern: &str, host: &str, port: u16) -> bool {
    let (wanted, wanted_port) = host_and_port(pattern);
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let wanted = wanted.to_ascii_lowercase();
    let is_host = match wanted.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|below| below.ends_with('.')),
        None => canonical_registry(&wanted) == canonical_registry(&host),
    };
    is_host && wanted_port.unwrap_or(HTTPS_PORT) == port
}

/// A host, and its port if it has a valid one.
fn host_and_port(authority: &str) -> (&str, Option<u16>) {
    // An address of version 6 stands in brackets.
    let after_address = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    match authority[after_address..].rfind(':') {
        Some(colon) => {
            let (host, port) = authority.split_at(after_address + colon);
            (host, port[1..].parse().ok())
        }
        None => (authority, None),
    }
}

/// Whether requests to the host stay on the machine that makes them.
fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host
            .trim_matches(['[', ']'])
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}
