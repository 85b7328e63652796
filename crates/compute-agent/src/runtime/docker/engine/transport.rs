//! One connection for one request.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bollard::errors::Error;
use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::Executor;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Bytes of an answer's head, and of what is read ahead of a stream.
const MAX_HEAD_BYTES: usize = 256 << 10;

/// Where the Engine listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Unix(PathBuf),
    /// A host and its port, without encryption.
    Tcp(String),
}

// === impl Address ===

impl Address {
    pub(super) fn parse(host: &str) -> Self {
        let tcp = host.strip_prefix("tcp://").or_else(|| host.strip_prefix("http://"));
        match tcp {
            Some(authority) => Self::Tcp(authority.trim_end_matches('/').to_owned()),
            None => Self::Unix(host.strip_prefix("unix://").unwrap_or(host).into()),
        }
    }

    /// The response, as soon as its head is there. An Engine that takes longer for it than the
    /// timeout counts as unreachable.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        timeout: Duration,
    ) -> Result<Response<Incoming>, Error> {
        let answered = tokio::time::timeout(timeout, async {
            match self {
                Self::Unix(path) => {
                    let stream = UnixStream::connect(path).await;
                    let shown = || path.display().to_string();
                    self.exchange(stream.map_err(|error| named(&shown(), &error))?, request).await
                }
                Self::Tcp(authority) => {
                    let stream = TcpStream::connect(authority).await;
                    self.exchange(stream.map_err(|error| named(authority, &error))?, request).await
                }
            }
        });
        answered.await.unwrap_or(Err(Error::RequestTimeoutError))
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Error> {
        let host = match self {
            Self::Unix(_) => HeaderValue::from_static("docker"),
            Self::Tcp(authority) => HeaderValue::from_str(authority).map_err(http::Error::from)?,
        };
        request.headers_mut().insert(HOST, host);
        let mut client = http1::Builder::new();
        client.max_buf_size(MAX_HEAD_BYTES);
        let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await?;
        // It ends with the response: this is the connection's only request. The agent's own tasks
        // end before the agent removes its idle sandboxes, so this is none of them.
        TokioExecutor::new().execute(async move {
            // The reader of the response learns of an error.
            drop(connection.with_upgrades().await);
        });
        Ok(sender.send_request(request).await?)
    }
}

/// The error with the address, which the library does not name.
fn named(address: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot connect to {address}: {error}"))
}
