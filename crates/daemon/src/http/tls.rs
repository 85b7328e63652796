//! TLS on a connection: the certificate that its peer gets to see, and the one that the peer shows.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use api_types::trust::AGENT_PROTOCOL;
use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a peer may take from its connection to the end of the handshake, which takes two
/// exchanges.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The first byte of a TLS connection: a record of the handshake.
const HANDSHAKE_RECORD: u8 = 0x16;

/// What a peer gets that speaks plain HTTP.
const PLAIN: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n\
                     content-length: 55\r\nconnection: close\r\n\r\n\
                     This port speaks HTTPS; use https:// instead of http://";

/// What such a peer still sends is read and dropped, within these bounds: closing a connection with
/// unread bytes would take the response away from the peer.
const LINGER_BYTES: u64 = 1 << 20;
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// The certificate that the peer of a connection has proved to hold, in DER, in the extensions of
/// its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate(pub Arc<[u8]>);

/// What a listener presents.
#[derive(Debug)]
pub struct Tls {
    agents: RwLock<Arc<ServerConfig>>,
    callers: RwLock<Arc<ServerConfig>>,
}

/// Why a connection ended before its first request.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("the peer speaks no TLS")]
    Plain,
    #[error("the handshake took longer than {} seconds", HANDSHAKE_TIMEOUT.as_secs())]
    Slow,
    #[error("the handshake failed: {0}")]
    Failed(#[from] std::io::Error),
}

// === impl Tls ===

impl Tls {
    /// `agents` serves those that offer the agents' protocol, `callers` all others.
    pub fn new(agents: ServerConfig, callers: ServerConfig) -> Self {
        Self { agents: RwLock::new(speaking(agents)), callers: RwLock::new(speaking(callers)) }
    }

    /// Presents another certificate to callers from their next connection on.
    pub fn replace_callers(&self, callers: ServerConfig) {
        *self.callers.write().unwrap_or_else(PoisonError::into_inner) = speaking(callers);
    }

    /// Presents another certificate to agents, and judges theirs anew, from their next connection on.
    pub fn replace_agents(&self, agents: ServerConfig) {
        *self.agents.write().unwrap_or_else(PoisonError::into_inner) = speaking(agents);
    }

    /// Opens TLS on a connection, or answers a peer that speaks plain HTTP.
    pub(super) async fn open(
        &self,
        stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, Option<ClientCertificate>), HandshakeError> {
        let opening = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.handshake(stream));
        opening.await.unwrap_or(Err(HandshakeError::Slow))
    }

    async fn handshake(
        &self,
        mut stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, Option<ClientCertificate>), HandshakeError> {
        let mut first = [0];
        // Nothing at all is left to the handshake to report.
        if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE_RECORD {
            refuse(&mut stream).await?;
            return Err(HandshakeError::Plain);
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
        Ok((stream, shown))
    }
}

fn speaking(mut config: ServerConfig) -> Arc<ServerConfig> {
    config.alpn_protocols = vec![AGENT_PROTOCOL.to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

async fn refuse(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(PLAIN.as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = stream.take(LINGER_BYTES);
    let mut nowhere = tokio::io::sink();
    let dropped = tokio::io::copy(&mut rest, &mut nowhere);
    // The response is sent; whatever comes back changes nothing.
    let _ = tokio::time::timeout(LINGER_TIMEOUT, dropped).await;
    Ok(())
}
