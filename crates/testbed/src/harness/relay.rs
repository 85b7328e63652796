//! A port that passes connections on, and what a test does to them.
//!
//! A cut relay accepts nothing and moves no byte in either direction, as a network that drops every
//! packet: no connection is refused or reset, and all of them continue when it is healed.
//! Relays have threads of their own, so that they go on while a test blocks.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(super) static NETWORK: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    let network = builder.worker_threads(2).thread_name("network").enable_all().build();
    network.unwrap_or_else(|error| panic!("cannot start the relays: {error}"))
});

/// What a relay moves in one piece.
const PIECE_BYTES: usize = 16 << 10;

/// Where connections go.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// Nowhere: they are closed.
    Closed,
    Unix(PathBuf),
    /// To any of these that accepts, each in turn first, as a load balancer does it.
    Any(Vec<SocketAddr>),
}

/// Dropping it closes its port and its connections.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    state: watch::Sender<State>,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Clone)]
struct State {
    upstream: Upstream,
    is_cut: bool,
    delay: Duration,
    /// Connections that are older than the last one are gone.
    resets: u64,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl Stream for TcpStream {}
impl Stream for UnixStream {}

// === impl Relay ===

impl Relay {
    pub fn open(upstream: Upstream) -> Self {
        let state = State { upstream, is_cut: false, delay: Duration::ZERO, resets: 0 };
        let (state, watched) = watch::channel(state);
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.unwrap_or_else(|error| panic!("cannot open a relay: {error}"));
        let address = listener.local_addr().unwrap_or_else(|error| panic!("a relay: {error}"));
        let connections = Arc::<AtomicUsize>::default();
        let made = Arc::clone(&connections);
        let accepting = NETWORK.spawn(async move {
            if let Err(error) = accept(listener, watched, made).await {
                eprintln!("the relay at {address} ended: {error}");
            }
        });
        Self { address, state, connections, accepting }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    /// Where the next connections go; those that exist stay.
    pub fn lead_to(&self, upstream: Upstream) {
        self.state.send_modify(|state| state.upstream = upstream);
    }

    /// Nothing passes from now on.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.is_cut = true);
    }

    pub fn heal(&self) {
        self.state.send_modify(|state| state.is_cut = false);
    }

    /// Ends every connection at both sides.
    pub fn reset(&self) {
        self.state.send_modify(|state| state.resets += 1);
    }

    /// Every piece takes this long in each direction.
    pub fn delay(&self, delay: Duration) {
        self.state.send_modify(|state| state.delay = delay);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The connections notice that the state has no sender any more.
        self.accepting.abort();
    }
}

async fn accept(
    listener: std::net::TcpListener,
    watched: watch::Receiver<State>,
    made: Arc<AtomicUsize>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let mut gate = watched.clone();
    loop {
        let (client, _) = listener.accept().await?;
        if gate.wait_for(|state| !state.is_cut).await.is_err() {
            return Ok(());
        }
        tokio::spawn(connect(client, watched.clone(), Arc::clone(&made)));
    }
}

/// Ends with either side, with a reset, and with the relay.
async fn connect(
    mut client: TcpStream,
    mut watched: watch::Receiver<State>,
    made: Arc<AtomicUsize>,
) {
    let State { upstream, resets, .. } = watched.borrow().clone();
    let Some(server) = dial(&upstream).await else { return };
    made.fetch_add(1, Ordering::AcqRel);
    let _ = client.set_nodelay(true);
    let ended = {
        let (from_server, to_server) = tokio::io::split(server);
        let (from_client, to_client) = client.split();
        let requests = pass(from_client, to_server, watched.clone());
        let answers = pass(from_server, to_client, watched.clone());
        tokio::select! {
            // A reset of one side is one of the other: what waits on the connection learns of it.
            ended = async { tokio::try_join!(requests, answers) } => ended.map(drop),
            _ = watched.wait_for(|state| state.resets > resets) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    };
    if ended.is_err() {
        let _ = client.set_zero_linger();
    }
}

async fn dial(upstream: &Upstream) -> Option<Box<dyn Stream>> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    match upstream {
        Upstream::Closed => None,
        Upstream::Unix(path) => Some(Box::new(UnixStream::connect(path).await.ok()?)),
        Upstream::Any(addresses) => {
            let first = NEXT.fetch_add(1, Ordering::Relaxed);
            for step in 0..addresses.len() {
                let address = addresses[(first + step) % addresses.len()];
                if let Ok(server) = TcpStream::connect(address).await {
                    let _ = server.set_nodelay(true);
                    return Some(Box::new(server));
                }
            }
            None
        }
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut watched: watch::Receiver<State>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = from.read(&mut piece).await?;
        let delay = watched.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if watched.wait_for(|state| !state.is_cut).await.is_err() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&piece[..length]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = client.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn exchange(client: &mut TcpStream) -> io::Result<u8> {
        client.write_all(&[7]).await?;
        client.read_u8().await
    }

    #[tokio::test]
    async fn a_cut_relay_holds_what_it_passes_on_when_it_is_healed() {
        let relay = Relay::open(Upstream::Any(vec![echo().await]));
        let mut client = TcpStream::connect(relay.address()).await.unwrap();
        assert_eq!(exchange(&mut client).await.unwrap(), 7);
        relay.cut();
        client.write_all(&[8]).await.unwrap();
        let held = tokio::time::timeout(Duration::from_millis(100), client.read_u8()).await;
        assert!(held.is_err(), "{held:?}");
        relay.heal();
        assert_eq!(client.read_u8().await.unwrap(), 8);
    }

    #[tokio::test]
    async fn a_reset_ends_connections_and_another_one_goes_to_a_server_that_accepts() {
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let gone = closed.local_addr().unwrap();
        drop(closed);
        let relay = Relay::open(Upstream::Any(vec![gone, echo().await]));
        let mut client = TcpStream::connect(relay.address()).await.unwrap();
        assert_eq!(exchange(&mut client).await.unwrap(), 7);
        relay.reset();
        assert!(client.read_u8().await.is_err());
        let mut client = TcpStream::connect(relay.address()).await.unwrap();
        assert_eq!(exchange(&mut client).await.unwrap(), 7);
        relay.lead_to(Upstream::Closed);
        let mut client = TcpStream::connect(relay.address()).await.unwrap();
        assert!(exchange(&mut client).await.is_err());
    }
}
