//! A follower passes connections on to the leader: bytes, not requests.
//!
//! TLS ends at the leader, so certificates of nodes, tokens, cookies and streams work through any
//! orchestrator, and no header can claim to be a node. A preface tells the leader the client's address.
//!
//! | the follower knows | a connection |
//! |---|---|
//! | a leader that accepts connections | is passed on |
//! | no leader, or one that refuses | waits for [`HOLD`], then it is closed |
//! | a leader with another exposure | is closed: it could reach what is open to one machine only |
//! | that this process has won the lead | is kept, and served once the state is loaded |
//! | that another process leads now | to the former leader is closed |

use std::convert::Infallible;
use std::future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use control_plane::store::Leader;
use daemon::http::preface::{self, Beginning, PassKey};
use daemon::http::{Accepted, Permits};
use tokio::io::{AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::standing::{Route, Standing};
use crate::http::max_connections;

/// How long a connection waits for a leader: longer than a takeover usually takes, and shorter than the
/// patience of most clients.
const HOLD: Duration = Duration::from_secs(5);

/// How long a client may take to send its first bytes, as for a handshake.
const FIRST_BYTES: Duration = Duration::from_secs(10);

/// How long the leader may take to accept a connection. Its name is resolved each time.
const DIAL_TIMEOUT: Duration = Duration::from_millis(500);

/// Interval between the connections that only show whether the leader accepts any.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// The same as long as it accepts none.
const PROBE_AGAIN: Duration = Duration::from_millis(250);

/// Of each direction of a connection. Larger ones would speed up nothing but long bodies.
const BUFFER_BYTES: usize = 4096;

/// Passes connections on until this process has won the lead.
pub(super) struct Passing<'a> {
    listener: &'a TcpListener,
    standing: &'a Arc<Standing>,
    permits: Permits,
    running: JoinSet<Option<Accepted>>,
}

/// A connection that is to be passed on.
struct Passed {
    standing: Arc<Standing>,
}

/// Why a connection was not passed on any longer.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("it sent nothing within {} seconds", FIRST_BYTES.as_secs())]
    Slow,
    #[error("another process had passed it on")]
    PassedTwice,
    #[error("there was no leader for {} seconds", HOLD.as_secs())]
    NoLeader,
    #[error("the leader is exposed in another way than this orchestrator")]
    UnequalExposure,
    #[error("another orchestrator leads now")]
    NewLeader,
    #[error(transparent)]
    Failed(#[from] io::Error),
}

// === impl Passing ===

impl<'a> Passing<'a> {
    pub(super) fn new(listener: &'a TcpListener, standing: &'a Arc<Standing>) -> Self {
        // A connection that is passed on takes two file descriptors.
        let permits = Permits::new((max_connections() / 2).max(1));
        Self { listener, standing, permits, running: JoinSet::new() }
    }

    /// Accepts connections, and checks whether the leader does.
    pub(super) async fn run(&mut self) -> Infallible {
        let standing = Arc::clone(self.standing);
        tokio::join!(probe(&standing), self.accept()).0
    }

    /// After the lead was won: the connections that were waiting for a leader.
    pub(super) async fn hand_over(mut self) -> Vec<(TcpStream, SocketAddr)> {
        let mut held = Vec::new();
        while let Some(ended) = self.running.join_next().await {
            if let Ok(Some(Accepted { stream, peer, .. })) = ended {
                held.push((stream, peer));
            }
        }
        held
    }

    async fn accept(&mut self) -> Infallible {
        loop {
            let accepted = self.permits.accept(self.listener).await;
            while self.running.try_join_next().is_some() {}
            let Some(accepted) = accepted else { continue };
            let passed = Passed { standing: Arc::clone(self.standing) };
            self.running.spawn(passed.run(accepted));
        }
    }
}

/// Dials the leader from time to time, so that an orchestrator that cannot reach it is not ready, and
/// so that the connections that wait for it do not all try themselves.
async fn probe(standing: &Standing) -> Infallible {
    let mut lead = standing.lead();
    loop {
        let seen = lead.borrow_and_update().clone();
        let mut pause = PROBE_EVERY;
        if let Route::To(leader) = standing.route(&seen) {
            let dialed = dial(&leader.address).await;
            standing.dialed(&leader, dialed.is_ok());
            if dialed.is_err() {
                pause = PROBE_AGAIN;
            }
        }
        let changes = lead.wait_for(|lead| (lead.role, &lead.leader) != (seen.role, &seen.leader));
        drop(timeout(pause, changes).await);
    }
}

async fn dial(address: &str) -> io::Result<TcpStream> {
    let slow = |_| io::Error::from(io::ErrorKind::TimedOut);
    let addresses =
        timeout(DIAL_TIMEOUT, tokio::net::lookup_host(address)).await.map_err(slow)??;
    let mut outcome = Err(io::Error::from(io::ErrorKind::AddrNotAvailable));
    for address in addresses {
        outcome = timeout(DIAL_TIMEOUT, TcpStream::connect(address)).await.map_err(slow).flatten();
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

// === impl Passed ===

impl Passed {
    /// Returns the connection if this process has won the lead and the leader has none of it.
    async fn run(self, mut accepted: Accepted) -> Option<Accepted> {
        let peer = accepted.peer;
        match self.pass(&mut accepted).await {
            Ok(Ended::ByItself) => None,
            Ok(Ended::Here) => Some(accepted),
            Err(error) => {
                tracing::debug!(%peer, %error, "a connection is not passed on");
                None
            }
        }
    }

    async fn pass(&self, accepted: &mut Accepted) -> Result<Ended, Closed> {
        let client = &mut accepted.stream;
        let (leader, mut upstream) = tokio::select! {
            biased;
            () = self.until(|route| *route == Route::Here) => return Ok(Ended::Here),
            connected = self.connect(client) => connected?,
        };
        daemon::http::tune(&upstream)?;
        let reached = client.local_addr()?;
        let header = PassKey::new(&leader.pass_key).header(accepted.peer, reached);
        upstream.write_all(&header).await?;
        let _passed = self.standing.metrics().passes();
        failpoint::reach("pass").await;
        let copying =
            copy_bidirectional_with_sizes(client, &mut upstream, BUFFER_BYTES, BUFFER_BYTES);
        tokio::select! {
            copied = copying => copied.map(|_| Ended::ByItself).map_err(Closed::Failed),
            () = self.until(|route| is_replaced(&leader, route)) => Err(Closed::NewLeader),
        }
    }

    /// Waits for a leader that accepts the connection.
    async fn connect(&self, client: &TcpStream) -> Result<(Arc<Leader>, TcpStream), Closed> {
        let begins = timeout(FIRST_BYTES, preface::beginning(client)).await;
        match begins.map_err(|_| Closed::Slow)?? {
            Beginning::Client => {}
            // It could go round in a circle.
            Beginning::Preface => {
                self.standing.metrics().refused_preface();
                return Err(Closed::PassedTwice);
            }
        }
        let deadline = Instant::now() + HOLD;
        let mut lead = self.standing.lead();
        loop {
            let seen = lead.borrow_and_update().clone();
            match self.standing.route(&seen) {
                Route::Nowhere => return Err(Closed::UnequalExposure),
                Route::To(leader) if seen.is_reachable => match dial(&leader.address).await {
                    Ok(upstream) => return Ok((leader, upstream)),
                    Err(_) => self.standing.dialed(&leader, false),
                },
                Route::To(_) | Route::Wait | Route::Here => {
                    let changed = timeout_at(deadline, lead.changed()).await;
                    changed.map_err(|_| Closed::NoLeader).map(drop)?;
                }
            }
            if Instant::now() >= deadline {
                return Err(Closed::NoLeader);
            }
        }
    }

    /// Waits until connections go where they are to go.
    async fn until(&self, is_wanted: impl Fn(&Route) -> bool) {
        let mut lead = self.standing.lead();
        let reached = lead.wait_for(|lead| is_wanted(&self.standing.route(lead)));
        if reached.await.is_err() {
            // Nothing polls any more, and the process ends.
            future::pending::<()>().await;
        }
    }
}

/// A leader that has resigned ends its connections itself, once it has answered.
fn is_replaced(leader: &Arc<Leader>, route: &Route) -> bool {
    match route {
        Route::Here | Route::Nowhere => true,
        Route::To(now) => now != leader,
        Route::Wait => false,
    }
}

/// How a connection ended that was not closed for a reason.
enum Ended {
    ByItself,
    /// The leader has nothing of it, and this process leads next.
    Here,
}
