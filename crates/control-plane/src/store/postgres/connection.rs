//! The server of the database: how sessions reach it, and what all of them have in common.
//!
//! A session is read-only unless a transaction says otherwise: if only the BEGIN of a commit is
//! cancelled, its other statements fail instead of being stored one by one. It is set after the
//! connection is made, because the client asks the same parameter whether the server accepts writes.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postgres::config::Host;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::error::Severity;
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault::{classify, describe};
use crate::store::StoreError;

/// How long one address may take to accept a connection: less than a follower's patience.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The oldest server that the statements are tried on.
const OLDEST_SERVER: i32 = 140_000;

/// When a peer is silent for this long, each side asks it whether it is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Answers that may be missing. The session of a dead machine ends within 25 s.
const KEEPALIVE_RETRIES: u32 = 3;

/// For every session. PostgreSQL has no hints: without the other plans, each statement walks the
/// index that it is written for. JIT and parallel workers only delay statements as short as these.
const SETTINGS: &str = "
    SET default_transaction_read_only = on;
    SET search_path = jobs;
    SET jit = off;
    SET enable_seqscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET max_parallel_workers_per_gather = 0;
    SET idle_session_timeout = 0;
    SET tcp_keepalives_idle = 10;
    SET tcp_keepalives_interval = 5;
    SET tcp_keepalives_count = 3;
    SET tcp_user_timeout = '25s';
";

/// For what a session is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    /// Commits. A writer that stops in the middle of one frees the row `progress` after a second.
    Writer,
    Reader,
}

/// A database on a server.
#[derive(Clone)]
pub struct Database {
    config: Config,
    tls: MakeRustlsConnect,
    name: String,
    /// Why the last attempt to connect failed, so that the log says it once.
    failure: Arc<Mutex<Option<String>>>,
}

/// Why a database cannot be used with these settings.
#[derive(Debug, thiserror::Error)]
pub enum InvalidDatabase {
    #[error("postgres.url is not a URL of PostgreSQL, such as postgres://jobs@db.internal/jobs")]
    Url(#[source] tokio_postgres::Error),
    #[error("the CA is not usable")]
    Authority(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("postgres.ca_file contains no certificate; it is a PEM file")]
    NoAuthority,
    #[error("postgres.url requires TLS; set postgres.ca_file to the CA of the server")]
    NoCa,
}

// === impl Session ===

impl Session {
    const fn settings(self) -> &'static str {
        match self {
            Self::Writer => {
                "SET synchronous_commit = on;
                SET statement_timeout = 0;
                SET lock_timeout = 0;
                SET idle_in_transaction_session_timeout = '1s';
                SET plan_cache_mode = force_generic_plan;"
            }
            Self::Reader => {
                "SET statement_timeout = '3s';
                SET idle_in_transaction_session_timeout = '10s';"
            }
        }
    }
}

// === impl Database ===

impl Database {
    /// With the CA that signed the server's certificate, all connections use TLS; without one, none
    /// do, because nothing would tell the server from another one.
    pub fn new(url: &str, ca_pem: Option<&str>) -> Result<Self, InvalidDatabase> {
        let mut config: Config = url.parse().map_err(InvalidDatabase::Url)?;
        let roots = match ca_pem {
            Some(pem) => {
                config.ssl_mode(SslMode::Require);
                authorities(pem)?
            }
            None if config.get_ssl_mode() == SslMode::Require => return Err(InvalidDatabase::NoCa),
            None => {
                config.ssl_mode(SslMode::Disable);
                RootCertStore::empty()
            }
        };
        config
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .application_name("orchestrator")
            .connect_timeout(CONNECT_TIMEOUT)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_RETRIES)
            .tcp_user_timeout(KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_RETRIES);
        let name = name(&config);
        let crypto = rustls::crypto::ring::default_provider().into();
        let tls = ClientConfig::builder_with_provider(crypto)
            .with_safe_default_protocol_versions()
            .map_err(|error| InvalidDatabase::Authority(error.into()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tls = MakeRustlsConnect::new(tls);
        Ok(Self { config, tls, name, failure: Arc::default() })
    }

    /// What messages call it; without credentials.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens a session on the server that accepts writes, which ends with its client, and notes
    /// warnings of the server.
    pub(super) async fn connect_watched(
        &self,
        session: Session,
    ) -> Result<(Client, Arc<AtomicBool>), StoreError> {
        let connected = self.config.connect(self.tls.clone()).await;
        let (client, connection) = self.noted(connected)?;
        let warned = Arc::<AtomicBool>::default();
        tokio::spawn(watch(connection, Arc::clone(&warned)));
        let set = format!("{SETTINGS}{}", session.settings());
        client.batch_execute(&set).await.map_err(|error| self.classify(error))?;
        Ok((client, warned))
    }

    /// The same for blocking callers.
    pub(super) fn connect_blocking(
        &self,
        session: Session,
    ) -> Result<postgres::Client, StoreError> {
        let connect = || {
            let mut client =
                postgres::Config::from(self.config.clone()).connect(self.tls.clone())?;
            client.batch_execute(&format!("{SETTINGS}{}", session.settings()))?;
            Ok(client)
        };
        self.noted(connect())
    }

    /// Logs why there is no connection, once.
    fn noted<T>(&self, connected: Result<T, tokio_postgres::Error>) -> Result<T, StoreError> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match connected {
            Ok(connected) => {
                *failure = None;
                Ok(connected)
            }
            Err(error) => {
                let reason = describe(&error);
                if failure.as_ref() != Some(&reason) {
                    tracing::warn!(reason, "cannot connect to {}; trying again", self.name);
                    *failure = Some(reason);
                }
                Err(self.classify(error))
            }
        }
    }

    pub(super) fn classify(&self, error: tokio_postgres::Error) -> StoreError {
        classify(&self.name, error)
    }
}

/// Carries out what the client asks for. Whatever ends it, the client's calls fail.
async fn watch(
    mut connection: Connection<Socket, impl TlsStream + Unpin>,
    warned: Arc<AtomicBool>,
) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message
            && notice.parsed_severity() == Some(Severity::Warning)
        {
            tracing::warn!(message = notice.message(), "PostgreSQL warns");
            warned.store(true, Ordering::Release);
        }
    }
}

/// Refuses a server that is too old, and a database in which a search could not read every text.
pub(super) async fn check_server(client: &Client, name: &str) -> Result<(), StoreError> {
    const SERVER: &str = "
        SELECT current_setting('server_version_num')::int, current_setting('server_encoding')";
    let row = client.query_one(SERVER, &[]).await.map_err(|error| classify(name, error))?;
    let (version, encoding): (i32, &str) = (row.get(0), row.get(1));
    let detail = match (version, encoding) {
        (..OLDEST_SERVER, _) => {
            format!("it is PostgreSQL {}; 14 or later is needed", version / 10_000)
        }
        (_, "UTF8") => return Ok(()),
        (_, encoding) => format!("its encoding is {encoding}; create it with ENCODING 'UTF8'"),
    };
    Err(StoreError::Unusable { database: name.to_owned(), detail })
}

fn authorities(pem: &str) -> Result<RootCertStore, InvalidDatabase> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate =
            certificate.map_err(|error| InvalidDatabase::Authority(error.to_string().into()))?;
        roots.add(certificate).map_err(|error| InvalidDatabase::Authority(error.into()))?;
    }
    if roots.is_empty() { Err(InvalidDatabase::NoAuthority) } else { Ok(roots) }
}

fn name(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(at, host)| {
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            Host::Unix(path) => path.display().to_string(),
        }
    });
    let hosts: Vec<_> = hosts.collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or("its default");
    format!("the database {database} of PostgreSQL at {}", hosts.join(", "))
}
