//! TLS on a connection: the certificate that its peer gets to see, and the one that the peer shows.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use api_types::trust::AGENT_PROTOCOL;
use http::{HeaderMap, Uri};
use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a peer may take from its connection to the end of the handshake, which takes two
/// exchanges.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The first byte of a TLS connection: a record of the handshake.
const HANDSHAKE_RECORD: u8 = 0x16;

/// The certificate that the peer of a connection has proved to hold, in DER, in the extensions of
/// its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate(pub Arc<[u8]>);

/// What a listener presents.
pub struct Tls {
    agents: RwLock<Arc<ServerConfig>>,
    callers: RwLock<Arc<ServerConfig>>,
    own_hosts: OnceLock<OwnHosts>,
}

/// Whether a request names a host that the service answers for.
type OwnHosts = Box<dyn Fn(&Uri, &HeaderMap) -> bool + Send + Sync>;

/// An open connection.
pub(super) enum OpenConnection {
    Secured(Box<TlsStream<TcpStream>>, Option<ClientCertificate>),
    /// Its peer speaks no TLS.
    Plain(TcpStream),
}

/// Why a connection ended before its first request.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("the handshake took longer than {} seconds", HANDSHAKE_TIMEOUT.as_secs())]
    Slow,
    #[error("the handshake failed: {0}")]
    Failed(#[from] std::io::Error),
}

// === impl Tls ===

impl Tls {
    /// `agents` serves those that offer the agents' protocol, `callers` all others.
    pub fn new(agents: ServerConfig, callers: ServerConfig) -> Self {
        Self {
            agents: RwLock::new(speaking(agents)),
            callers: RwLock::new(speaking(callers)),
            own_hosts: OnceLock::new(),
        }
    }

    /// Sends browsers that come without TLS to these hosts; to none before.
    pub fn redirect_to(&self, own: impl Fn(&Uri, &HeaderMap) -> bool + Send + Sync + 'static) {
        self.own_hosts.get_or_init(|| Box::new(own));
    }

    pub(super) fn answers_for(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        self.own_hosts.get().is_some_and(|own| own(uri, headers))
    }

    /// Presents another certificate to callers from their next connection on.
    pub fn replace_callers(&self, callers: ServerConfig) {
        *self.callers.write().unwrap_or_else(PoisonError::into_inner) = speaking(callers);
    }

    /// Presents another certificate to agents, and judges theirs anew, from their next connection on.
    pub fn replace_agents(&self, agents: ServerConfig) {
        *self.agents.write().unwrap_or_else(PoisonError::into_inner) = speaking(agents);
    }

    /// Opens TLS on a connection, unless its peer speaks none.
    pub(super) async fn open(&self, stream: TcpStream) -> Result<OpenConnection, HandshakeError> {
        let opening = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.handshake(stream));
        opening.await.unwrap_or(Err(HandshakeError::Slow))
    }

    async fn handshake(&self, stream: TcpStream) -> Result<OpenConnection, HandshakeError> {
        let mut first = [0];
        // Nothing at all is left to the handshake to report.
        if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE_RECORD {
            return Ok(OpenConnection::Plain(stream));
        }
        let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let is_agent = start
            .client_hello()
            .alpn()
            .is_some_and(|mut offered| offered.any(|protocol| protocol == AGENT_PROTOCOL));
        let config = if is_agent { &self.agents } else { &self.callers };
        let config = Arc::clone(&config.read().unwrap_or_else(PoisonError::into_inner));
        let stream = start.into_stream(config).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let shown = shown.map(|certificate| ClientCertificate(Arc::from(certificate.as_ref())));
        Ok(OpenConnection::Secured(Box::new(stream), shown))
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

fn speaking(mut config: ServerConfig) -> Arc<ServerConfig> {
    config.alpn_protocols = vec![AGENT_PROTOCOL.to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}
