//! TLS of this orchestrator: its CA, its own certificate, and the operator's.

mod addresses;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use api_types::{KeyDigest, NodeId};
use daemon::http::Tls;
use pki::server::{self, ServerError};
use pki::{AuthorityError, Issued};

use crate::keys::authorities::{Authorities, certificate_file};
use crate::settings::{Settings, is_host_name};

/// Where the service is reached through a tunnel or a published port.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What a protected listener needs.
#[derive(Debug)]
pub struct Protection {
    authorities: RwLock<Arc<Authorities>>,
    tls: Arc<Tls>,
    id: NodeId,
    /// Names and addresses of this machine.
    own_names: BTreeSet<String>,
    /// Those of the service; locked while a certificate is made with them.
    names: Mutex<BTreeSet<String>>,
    /// The operator's certificate and key.
    files: Option<(PathBuf, PathBuf)>,
    ca_file: PathBuf,
    node_lifetime: Duration,
    renewable_for: Duration,
}

/// Why a listener cannot be protected.
#[derive(Debug, thiserror::Error)]
pub enum ProtectionError {
    #[error("make a server certificate")]
    Issue(#[from] AuthorityError),
    #[error("serve with the cluster's own certificate")]
    Own(#[source] ServerError),
    #[error("cannot read {setting} at {}", path.display())]
    Read { setting: &'static str, path: PathBuf, source: io::Error },
    #[error("tls.cert at {} and tls.key at {} cannot serve", cert.display(), key.display())]
    Operator { cert: PathBuf, key: PathBuf, source: ServerError },
}

// === impl ProtectionError ===

impl ProtectionError {
    /// Whether the operator's settings, or a file that they name, are at fault.
    pub fn is_of_settings(&self) -> bool {
        match self {
            Self::Read { .. } | Self::Operator { .. } => true,
            Self::Issue(_) | Self::Own(_) => false,
        }
    }
}

// === impl Protection ===

impl Protection {
    /// For a listener that is reached under these names and addresses.
    pub(crate) fn open(
        settings: &Settings,
        authorities: Authorities,
        id: NodeId,
        names: BTreeSet<String>,
    ) -> Result<Self, ProtectionError> {
        // A new one at each start: names and addresses may have changed.
        let own = authorities.signing.issue_server(id, &listed(&names))?;
        let agents = server::for_agents(authorities.trusted(), &own);
        let agents = agents.map_err(ProtectionError::Own)?;
        let files = (!settings.tls.cert.as_os_str().is_empty())
            .then(|| (settings.tls.cert.clone(), settings.tls.key.clone()));
        let callers = match &files {
            Some((cert, key)) => of_operator(cert, key)?,
            None => server::for_callers(&own).map_err(ProtectionError::Own)?,
        };
        let tls = Arc::new(Tls::new(agents, callers));
        Ok(Self {
            authorities: RwLock::new(Arc::new(authorities)),
            tls,
            id,
            own_names: names.clone(),
            names: Mutex::new(names),
            files,
            ca_file: certificate_file(&settings.data_dir),
            node_lifetime: Duration::from_secs(settings.tls.node_lifetime),
            renewable_for: settings.scheduler().node_retention,
        })
    }

    /// Signs and serves with these CAs from now on; connections that are open stay.
    pub(crate) fn adopt(&self, authorities: Authorities) -> Result<(), ProtectionError> {
        let names = self.names();
        self.serve_with(&authorities, &names)?;
        *self.authorities.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(authorities);
        Ok(())
    }

    /// Serves under these names from now on, in addition to its own; returns whether they changed.
    pub(crate) fn adopt_names(&self, others: &BTreeSet<String>) -> Result<bool, ProtectionError> {
        let mut names = self.names();
        let all: BTreeSet<String> = self.own_names.union(others).cloned().collect();
        if *names == all {
            return Ok(false);
        }
        self.serve_with(&self.authorities(), &all)?;
        *names = all;
        Ok(true)
    }

    /// Of these names of hosts, those for which the operator's certificate is not valid.
    pub(crate) fn missing(&self, names: &BTreeSet<String>) -> BTreeSet<String> {
        let Some((cert, _)) = &self.files else { return BTreeSet::new() };
        let Ok(pem) = fs::read_to_string(cert) else { return BTreeSet::new() };
        let is_host = |name: &&String| name.parse::<IpAddr>().is_err() && name.contains('.');
        let hosts = names.iter().filter(is_host);
        hosts.filter(|name| !server::is_valid_for(&pem, name)).cloned().collect()
    }

    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve_with(
        &self,
        authorities: &Authorities,
        names: &BTreeSet<String>,
    ) -> Result<(), ProtectionError> {
        let own = authorities.signing.issue_server(self.id, &listed(names))?;
        let agents = server::for_agents(authorities.trusted(), &own);
        let agents = agents.map_err(ProtectionError::Own)?;
        if self.files.is_none() {
            let callers = server::for_callers(&own).map_err(ProtectionError::Own)?;
            self.tls.replace_callers(callers);
        }
        self.tls.replace_agents(agents);
        Ok(())
    }

    pub(crate) fn tls(&self) -> Arc<Tls> {
        Arc::clone(&self.tls)
    }

    /// Sign the certificates of nodes, or have signed them.
    pub(crate) fn authorities(&self) -> Arc<Authorities> {
        Arc::clone(&self.authorities.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// For how long a node's certificate is valid.
    pub(crate) fn node_lifetime(&self) -> Duration {
        self.node_lifetime
    }

    /// For how long a certificate that has expired may still be renewed.
    pub(crate) fn renewable_for(&self) -> Duration {
        self.renewable_for
    }

    /// What clients and nodes pin.
    pub fn ca(&self) -> KeyDigest {
        self.authorities().signing.key()
    }

    /// The file with the certificates of the CAs.
    pub fn ca_file(&self) -> &Path {
        &self.ca_file
    }

    /// Reads the operator's certificate again; returns its file, or `None` when there is none. On
    /// an error the old one stays in use.
    pub fn reload(&self) -> Result<Option<&Path>, ProtectionError> {
        let Some((cert, key)) = &self.files else { return Ok(None) };
        self.tls.replace_callers(of_operator(cert, key)?);
        Ok(Some(cert))
    }
}

fn of_operator(cert: &Path, key: &Path) -> Result<rustls::ServerConfig, ProtectionError> {
    let read = |setting, path: &Path| {
        fs::read_to_string(path).map_err(|source| ProtectionError::Read {
            setting,
            path: path.to_owned(),
            source,
        })
    };
    let issued = Issued { certificate: read("tls.cert", cert)?, key: read("tls.key", key)? };
    server::for_callers(&issued).map_err(|source| ProtectionError::Operator {
        cert: cert.to_owned(),
        key: key.to_owned(),
        source,
    })
}

/// The name of this machine.
pub(crate) fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn listed(names: &BTreeSet<String>) -> Vec<String> {
    names.iter().cloned().collect()
}

/// The names and addresses of the machine `machine` for a listener on this address, those that the
/// operator adds, and the host that other orchestrators dial.
pub(crate) fn names(
    listens_on: IpAddr,
    machine: &str,
    further: &[String],
    advertise: &str,
) -> BTreeSet<String> {
    let label = machine.split('.').next().unwrap_or_default();
    let addresses = match listens_on.is_unspecified() {
        true => addresses::of_this_machine(),
        false => vec![listens_on],
    };
    let dialed = advertise.rsplit_once(':').map_or("", |(host, _)| host);
    let dialed = dialed.trim_start_matches('[').trim_end_matches(']');
    LOOPBACK
        .into_iter()
        .chain([machine, label, dialed])
        .map(str::to_ascii_lowercase)
        .filter(|name| name.contains(':') || (!name.is_empty() && is_host_name(name)))
        .chain(addresses.iter().map(IpAddr::to_string))
        .chain(further.iter().map(|name| name.to_ascii_lowercase()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_names_the_machine_and_what_the_operator_adds() {
        let further = ["Jobs.example".to_owned()];
        let found = names("10.1.2.3".parse().unwrap(), "Build-1.lan", &further, "A.internal:1");
        let expected = [
            "10.1.2.3",
            "127.0.0.1",
            "::1",
            "a.internal",
            "build-1",
            "build-1.lan",
            "jobs.example",
            "localhost",
        ];
        assert_eq!(listed(&found), expected);
        let dialed = names("10.1.2.3".parse().unwrap(), "", &[], "[fd00::1]:1");
        assert!(dialed.contains("fd00::1"), "{dialed:?}");
        let everywhere = names("0.0.0.0".parse().unwrap(), "(none)", &[], "");
        assert!(everywhere.iter().all(|name| !name.contains('(')), "{everywhere:?}");
    }

    #[test]
    fn an_operators_certificate_that_cannot_serve_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        let error = of_operator(&cert, &key).unwrap_err();
        assert!(error.is_of_settings());
        assert!(error.to_string().starts_with("cannot read tls.cert at "), "{error}");
        fs::write(&cert, "x").unwrap();
        fs::write(&key, "x").unwrap();
        let error = of_operator(&cert, &key).unwrap_err();
        assert!(error.is_of_settings());
        assert!(error.to_string().contains("cert.pem"), "{error}");
    }
}
