//! A load generator with keep-alive connections and minimal work per request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A server, and how to speak TLS to it if it does.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    pub(super) tls: Option<Arc<rustls::ClientConfig>>,
}

/// A connection with one request at a time.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
}

/// When a load ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    Elapsed(Duration),
    Requests(u64),
}

/// The result of a load.
pub(super) struct Load {
    pub(super) requests: u64,
    pub(super) elapsed: Duration,
    pub(super) latencies: Vec<Duration>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for T {}

// === impl Peer ===

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }
}

// === impl Connection ===

impl Connection {
    pub(super) async fn open(peer: impl Into<Peer>) -> anyhow::Result<Self> {
        let Peer { address, tls } = peer.into();
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(stream),
            Some(config) => {
                let name = ServerName::IpAddress(address.ip().into());
                Box::new(TlsConnector::from(config).connect(name, stream).await?)
            }
        };
        Ok(Self { stream, buffer: Vec::with_capacity(64 << 10) })
    }

    /// Sends a raw request and returns status and body.
    pub(super) async fn send(&mut self, request: &[u8]) -> anyhow::Result<(u16, &[u8])> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        self.buffer.clear();
        let head = loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection");
            }
            if let Some(end) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let text = std::str::from_utf8(&self.buffer[..head])?;
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.context("no status in the response")?;
        let length = text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .and_then(|(_, length)| length.trim().parse::<usize>().ok())
            .context("no length in the response")?;
        while self.buffer.len() < head + length {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection within a response");
            }
        }
        Ok((status, &self.buffer[head..head + length]))
    }

    pub(super) async fn get(&mut self, path: &str) -> anyhow::Result<(u16, &[u8])> {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await
    }
}

/// A raw PUT request with a JSON body.
pub(super) fn put(path: &str, body: &str) -> Vec<u8> {
    put_as("", path, body)
}

/// The same with a token, unless that is empty.
pub(super) fn put_as(token: &str, path: &str, body: &str) -> Vec<u8> {
    let authorization = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    format!(
        "PUT {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Repeats a request on several connections; any status other than 200 is an error.
pub(super) async fn run(
    peer: impl Into<Peer>,
    connections: u32,
    until: Until,
    request: Vec<u8>,
) -> anyhow::Result<Load> {
    let (peer, request) = (peer.into(), Arc::<[u8]>::from(request));
    let left = Arc::new(AtomicU64::new(match until {
        Until::Elapsed(_) => u64::MAX / 2,
        Until::Requests(count) => count,
    }));
    let begin = Instant::now();
    let end = match until {
        Until::Elapsed(time) => Some(begin + time),
        Until::Requests(_) => None,
    };
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let (peer, request, left) = (peer.clone(), Arc::clone(&request), Arc::clone(&left));
        tasks.spawn(async move {
            let mut connection = Connection::open(peer).await?;
            let mut latencies = Vec::new();
            while end.is_none_or(|end| Instant::now() < end)
                && left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                    .is_ok()
            {
                let sent = Instant::now();
                let (status, body) = connection.send(&request).await?;
                if status != 200 {
                    bail!("{status}: {}", String::from_utf8_lossy(body));
                }
                latencies.push(sent.elapsed());
            }
            Ok(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(done) = tasks.join_next().await {
        latencies.extend(done??);
    }
    let requests = latencies.len() as u64;
    Ok(Load { requests, elapsed: begin.elapsed(), latencies })
}
