//! How a client connects: where to, whom it trusts, and who it is.

use std::fmt;

use api_types::KeyDigest;

/// Everything that distinguishes one client from another.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Like `https://orchestrator:1234`.
    pub base_url: String,
    pub trust: Trust,
    pub credentials: Credentials,
    pub proxy: ProxyUse,
}

/// Whether requests go through a proxy. A loopback address is reached directly in any case: a proxy
/// would look for it on its own machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProxyUse {
    /// The one that the environment names for the URL: `http_proxy`, `https_proxy` and `all_proxy`,
    /// except for what is in `no_proxy`.
    #[default]
    OfEnvironment,
    Never,
}

/// Whose certificates a client accepts. The name in the URL is checked in any case.
#[derive(Debug, Clone, Default)]
pub enum Trust {
    /// Those of the CAs that this machine trusts.
    #[default]
    System,
    /// Those of these CAs alone, in PEM.
    Authority(String),
    /// Those of the one CA with this key, which the server sends along with its own certificate.
    AuthorityKey(KeyDigest),
}

/// Who the client is.
#[derive(Clone, Default)]
pub enum Credentials {
    #[default]
    None,
    /// Sent as `Authorization: Bearer` with each request.
    Bearer(String),
    /// An agent; without an identity it can only join.
    Agent(Option<Identity>),
}

/// A certificate and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate and those that lead to its CA, in PEM.
    pub certificate: String,
    /// In PEM.
    pub key: String,
}

// === impl Credentials ===

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Bearer(_) => "Bearer",
            Self::Agent(None) => "Agent",
            Self::Agent(Some(_)) => "Agent with an identity",
        })
    }
}

// === impl Identity ===

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}
