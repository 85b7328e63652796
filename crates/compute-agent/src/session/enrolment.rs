//! How this node proves to the orchestrator who it is.
//!
//! Over http it does not: it states its ID. Over https it has a key, and a certificate for it that
//! the orchestrator gave for a join token. The token names the CA of the orchestrator, so the first
//! connection is already to the right one, and the token is sent to no one else.

pub(crate) mod renewal;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_client::{Client, ClientError, Credentials, InvalidBaseUrl, Options, ProxyUse, Trust};
use api_types::NodeId;
use api_types::joining::{EnrolRequest, InvalidJoinToken, JoinToken};
use daemon::service_manager;
use tracing::{debug, info, warn};

use crate::host::backoff::Backoff;
use crate::host::data_dir::DataDir;
use crate::host::identity::{IdentityError, NodeIdentity};
use crate::host::settings::Settings;

/// Delays between attempts to reach the orchestrator for the first time.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// How long a refused token's file is read again: another token may be on its way into it.
const FILE_PATIENCE: Duration = Duration::from_secs(10);

/// Who this node is to the orchestrator.
#[derive(Debug, Clone)]
pub(crate) enum Enrolment {
    /// It states its ID.
    Stated,
    /// It has a certificate.
    Certified(Arc<Mutex<NodeIdentity>>),
}

/// Why the node cannot join.
#[derive(Debug, thiserror::Error)]
pub enum EnrolError {
    #[error(
        "this node has no certificate yet; set join_token or join_token_file to what `jobctl node \
         token` prints on the orchestrator's side"
    )]
    NoToken,
    #[error("cannot read the join token from {}: {source}", path.display())]
    TokenFile { path: PathBuf, source: std::io::Error },
    #[error("{} {source}", path.display())]
    NotAToken { path: PathBuf, source: InvalidJoinToken },
    #[error("orchestrator: {0}")]
    Address(#[from] InvalidBaseUrl),
    /// Before the token was sent.
    #[error(
        "{0}; the join token names another CA than this orchestrator's: check orchestrator, or get \
         a token of this one"
    )]
    OtherCa(#[source] ClientError),
    #[error("the orchestrator refuses the join token: {0}")]
    Refused(#[source] ClientError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

// === impl Enrolment ===

impl Enrolment {
    /// Reads the node's certificate, or gets one; waits while the orchestrator cannot be reached.
    /// `bound` is the ID that the node cannot give up, because executions have it.
    pub(crate) async fn obtain(
        settings: &Settings,
        data_dir: &DataDir,
        bound: Option<NodeId>,
    ) -> Result<Self, EnrolError> {
        if !settings.orchestrator.starts_with("https://") {
            return Ok(Self::Stated);
        }
        let mut identity = NodeIdentity::load_or_make(&data_dir.identity())?;
        if identity.certified.is_none() {
            join(settings, &mut identity, bound).await?;
        }
        Ok(Self::Certified(Arc::new(Mutex::new(identity))))
    }

    /// The ID in the certificate.
    pub(crate) fn node_id(&self) -> Option<NodeId> {
        match self {
            Self::Stated => None,
            Self::Certified(identity) => {
                lock(identity).certified.as_ref().map(|certified| certified.node_id)
            }
        }
    }

    /// A client with a token instead of the node's certificate.
    pub(crate) fn client_of(
        &self,
        orchestrator: &str,
        proxy: ProxyUse,
        token: &str,
    ) -> Result<Client, InvalidBaseUrl> {
        let trust = match self {
            Self::Stated => Trust::System,
            Self::Certified(identity) => {
                let ca = lock(identity).certified.as_ref().map(|certified| certified.ca.clone());
                Trust::Authority(ca.unwrap_or_default())
            }
        };
        let credentials = Credentials::Bearer(token.to_owned());
        Client::with(Options { base_url: orchestrator.to_owned(), trust, credentials, proxy })
    }

    /// A client with separate connections.
    pub(crate) fn client(
        &self,
        orchestrator: &str,
        proxy: ProxyUse,
    ) -> Result<Client, InvalidBaseUrl> {
        let base_url = orchestrator.to_owned();
        match self {
            Self::Stated => Client::with(Options { base_url, proxy, ..Options::default() }),
            Self::Certified(identity) => {
                let identity = lock(identity);
                let ca = identity.certified.as_ref().map(|certified| certified.ca.clone());
                Client::with(Options {
                    base_url,
                    trust: Trust::Authority(ca.unwrap_or_default()),
                    credentials: Credentials::Agent(identity.presented()),
                    proxy,
                })
            }
        }
    }
}

fn lock(identity: &Mutex<NodeIdentity>) -> std::sync::MutexGuard<'_, NodeIdentity> {
    identity.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Trades a join token for a certificate.
async fn join(
    settings: &Settings,
    identity: &mut NodeIdentity,
    bound: Option<NodeId>,
) -> Result<(), EnrolError> {
    let csr = identity.request()?;
    service_manager::status(&format!("joining the orchestrator at {}", settings.orchestrator));
    let mut token = read(settings)?;
    loop {
        let request = EnrolRequest { token: token.to_string(), csr: csr.clone(), node_id: bound };
        let client = Client::with(Options {
            base_url: settings.orchestrator.clone(),
            trust: Trust::AuthorityKey(token.ca),
            credentials: Credentials::Agent(None),
            proxy: settings.proxy(),
        })?;
        match until_answered(&client, &request).await {
            Ok(answer) => {
                info!(node_id = %answer.node_id, "the orchestrator certified this node");
                return Ok(identity.accept(answer)?);
            }
            Err(error @ ClientError::Untrusted { .. }) => return Err(EnrolError::OtherCa(error)),
            Err(error) => match another(settings, &token).await {
                Some(other) => token = other,
                None => return Err(EnrolError::Refused(error)),
            },
        }
    }
}

/// Repeats the request until it is answered; the answer may be a refusal.
async fn until_answered(
    client: &Client,
    request: &EnrolRequest,
) -> Result<api_types::joining::NodeCertificate, ClientError> {
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
    let mut warned = String::new();
    loop {
        let error = match client.enrol(request).await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_transient() => error.to_string(),
            Err(error) => return Err(error),
        };
        // Warn once per reason: the orchestrator may be unreachable for hours.
        if error == warned {
            debug!(error, "cannot join the orchestrator");
        } else {
            warn!(error, "cannot join the orchestrator; trying again");
            warned = error;
        }
        backoff.wait().await;
    }
}

fn read(settings: &Settings) -> Result<JoinToken, EnrolError> {
    let (token, path) = (settings.join_token.reveal(), &settings.join_token_file);
    if !token.is_empty() {
        let path = PathBuf::from("join_token");
        return token.parse().map_err(|source| EnrolError::NotAToken { path, source });
    }
    if path.as_os_str().is_empty() {
        return Err(EnrolError::NoToken);
    }
    let text = std::fs::read_to_string(path)
        .map_err(|source| EnrolError::TokenFile { path: path.clone(), source })?;
    text.parse().map_err(|source| EnrolError::NotAToken { path: path.clone(), source })
}

/// Another token that is in the file now, or soon: several nodes may read a file that holds a token
/// for one of them, and the orchestrator then writes the next.
async fn another(settings: &Settings, refused: &JoinToken) -> Option<JoinToken> {
    if settings.join_token_file.as_os_str().is_empty() {
        return None;
    }
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
    let waiting = async {
        loop {
            match read(settings) {
                Ok(token) if token != *refused => return token,
                Ok(_) | Err(_) => backoff.wait().await,
            }
        }
    };
    tokio::time::timeout(FILE_PATIENCE, waiting).await.ok()
}
