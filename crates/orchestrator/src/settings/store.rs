//! Settings of the store: the data directory's own, or one that several orchestrators share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fmt, io};

use control_plane::store::postgres::{Database, InvalidDatabase};
use serde::{Deserialize, Serialize};

/// Where the state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// In the data directory.
    Sqlite,
    /// In a database of PostgreSQL, which several orchestrators share; one of them leads.
    Postgres,
}

#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PostgresSettings {
    /// Names the database; it may hold a password.
    pub url: String,
    /// The CA of the server, in PEM. With it, all connections use TLS.
    pub ca_file: PathBuf,
}

/// Why these settings name no database.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    #[error("use the database that postgres.url names")]
    Invalid(#[from] InvalidDatabase),
    #[error("read postgres.ca_file {}", .path.display())]
    Ca { path: PathBuf, source: io::Error },
}

// === impl PostgresSettings ===

impl PostgresSettings {
    /// Returns the key of what is refused, and why.
    pub(super) fn check(
        &self,
        store: StoreKind,
        advertise: &str,
        listen: SocketAddr,
    ) -> Result<(), (&'static str, String)> {
        let refused = |key, reason: &str| Err((key, reason.to_owned()));
        let Self { url, ca_file } = self;
        match store {
            StoreKind::Sqlite => {
                let given = [
                    ("postgres.url", url.is_empty()),
                    ("postgres.ca_file", ca_file.as_os_str().is_empty()),
                    ("advertise", advertise.is_empty()),
                ];
                match given.into_iter().find(|(_, is_empty)| !is_empty) {
                    Some((key, _)) => refused(key, "is not used without store = \"postgres\""),
                    None => Ok(()),
                }
            }
            StoreKind::Postgres if url.is_empty() => {
                refused("postgres.url", "must name a database, such as postgres://jobs@db/jobs")
            }
            StoreKind::Postgres if advertise.is_empty() && listen.ip().is_unspecified() => refused(
                "advertise",
                "must be the host:port that the other orchestrators dial, because listen names no \
                 address",
            ),
            StoreKind::Postgres if !advertise.is_empty() && !is_host_and_port(advertise) => {
                refused("advertise", "must be host:port, such as a.internal:1234")
            }
            StoreKind::Postgres => Ok(()),
        }
    }

    /// Connects to nothing.
    pub(crate) fn database(&self) -> Result<Database, DatabaseError> {
        let Self { url, ca_file } = self;
        let failed = |source| DatabaseError::Ca { path: ca_file.clone(), source };
        let ca = match ca_file.as_os_str().is_empty() {
            true => None,
            false => Some(std::fs::read_to_string(ca_file).map_err(failed)?),
        };
        Ok(Database::new(url, ca.as_deref())?)
    }
}

impl fmt::Debug for PostgresSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresSettings").field("ca_file", &self.ca_file).finish_non_exhaustive()
    }
}

fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

#[cfg(test)]
mod tests {
    use figment::Figment;
    use figment::providers::{Format, Serialized, Toml};

    use super::*;
    use crate::settings::Settings;

    fn extract(toml: &str) -> Result<Settings, String> {
        let figment = Figment::from(Serialized::defaults(Settings::default()));
        Settings::extract(&figment.merge(Toml::string(toml))).map_err(|error| error.to_string())
    }

    #[test]
    fn a_shared_store_needs_a_database_and_an_address_that_others_dial() {
        let shared = |more: &str| {
            extract(&format!("store = 'postgres'\n{more}\n[postgres]\nurl = 'postgres://db/jobs'"))
        };
        let settings = shared("").unwrap();
        assert_eq!(settings.store, StoreKind::Postgres);
        assert!(!format!("{settings:?}").contains("db/jobs"), "it may hold a password");
        assert!(shared("listen = '0.0.0.0:1'").unwrap_err().starts_with("advertise:"));
        shared("listen = '0.0.0.0:1'\nadvertise = 'a.internal:1'").unwrap();
        shared("advertise = '[::1]:1'").unwrap();
        for wrong in ["a.internal", ":1", "a:0", "a:b"] {
            let refused = shared(&format!("advertise = '{wrong}'")).unwrap_err();
            assert!(refused.starts_with("advertise:"), "{refused}");
        }
        assert!(extract("store = 'postgres'").unwrap_err().starts_with("postgres.url:"));
    }

    #[test]
    fn what_only_a_shared_store_uses_is_refused_without_it() {
        for (toml, key) in [
            ("advertise = 'a:1'", "advertise"),
            ("[postgres]\nurl = 'postgres://db'", "postgres.url"),
            ("[postgres]\nca_file = 'ca.pem'", "postgres.ca_file"),
        ] {
            let refused = extract(toml).unwrap_err();
            assert!(refused.starts_with(&format!("{key}: is not used")), "{refused}");
        }
    }
}
