//! Accepts connections, as many as there are permits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::set_tcp_user_timeout;
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// File descriptors for other purposes: databases, their logs, the listener.
const OTHER_FILES: u64 = 256;

/// A peer that reads nothing for this long is disconnected: it would hold its connection forever.
/// It can reconnect and resume.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause after a failed accept, which mostly means that no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The connection limit, at most `most`: never more than there are file descriptors, because a
/// connection that is not accepted waits, while one that cannot be opened fails.
pub fn connections_within(most: usize) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
    connections.clamp(1, most)
}

/// The permits for concurrent connections. Above them, new connections wait in the system's backlog
/// until another ends.
#[derive(Clone)]
pub struct Permits(Arc<Semaphore>);

/// An open connection, with the permit that it holds.
pub struct Accepted {
    pub stream: TcpStream,
    pub peer: SocketAddr,
    pub permit: OwnedSemaphorePermit,
}

// === impl Permits ===

impl Permits {
    pub fn new(connections: usize) -> Self {
        Self(Arc::new(Semaphore::new(connections)))
    }

    /// The next connection; none if it ended early or could not be accepted.
    pub async fn accept(&self, listener: &TcpListener) -> Option<Accepted> {
        let permit = Arc::clone(&self.0).acquire_owned().await.ok()?;
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                return None;
            }
        };
        match tune(&stream) {
            Ok(()) => Some(Accepted { stream, peer, permit }),
            Err(error) => {
                tracing::debug!(%error, "connection ended before its first request");
                None
            }
        }
    }

    /// A permit for a connection that was accepted under others.
    pub(super) async fn admit(&self, stream: TcpStream, peer: SocketAddr) -> Option<Accepted> {
        let permit = Arc::clone(&self.0).acquire_owned().await.ok()?;
        Some(Accepted { stream, peer, permit })
    }
}

/// What holds for every connection of a daemon. Messages are small: waiting to fill a packet would only
/// delay them. A peer that stalls is cut off.
pub fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    cut_off(stream, STALL_TIMEOUT)
}

/// Makes the system end the connection when its peer reads nothing for this long.
fn cut_off(stream: &TcpStream, after: Duration) -> std::io::Result<()> {
    let millis = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
    Ok(set_tcp_user_timeout(stream, millis)?)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_disconnected() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stalled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (stalled, mut stream) = (stalled.unwrap(), accepted.unwrap().0);
        cut_off(&stream, Duration::from_secs(1)).unwrap();
        let writing = async {
            let megabyte = vec![0; 1 << 20];
            loop {
                stream.write_all(&megabyte).await?;
            }
        };
        let ended: std::io::Result<()> =
            tokio::time::timeout(Duration::from_secs(60), writing).await.expect("it is cut off");
        assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
        drop(stalled);
    }
}
