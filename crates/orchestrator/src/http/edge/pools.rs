//! The pools that callers share, each with a [`Shares`] that says who gets how much of it.
//!
//! Requests that stay open hold a connection each. They must not take all of them, or agents could
//! not reach the service; and no caller may keep others from starting.

use daemon::http::connections_within;

use super::arriving::LargeBodies;
use crate::access::Caller;
use crate::creating::Creating;
use crate::shares::pace::Pace;
use crate::shares::permit_queue::PermitQueue;
use crate::shares::{Owner, Pool, Refusals, Shares};

/// The connection limit: enough for all inputs that may wait for the driver, all waiting reads, all
/// event streams, and as many again for agents and other reads.
const MAX_CONNECTIONS: usize = 24_576;

/// The limit of concurrent connections.
pub(crate) fn max_connections() -> usize {
    connections_within(MAX_CONNECTIONS)
}

/// Concurrent waiting reads, and never more than a quarter of the connections. Beyond it the
/// response is 429.
const WAITING_READS: usize = 4096;

/// Concurrent event streams. Each reads the store after commits, at intervals; this many add no
/// noticeable load. Beyond it the response is 429.
const EVENT_STREAMS: usize = 512;

/// Concurrent log requests, each of which may hold one connection from a node per execution it
/// follows. Beyond it the response is 429.
const LOG_READERS: usize = 512;

/// Concurrent downloads of results, each with a connection from a node. Beyond it the response is
/// 429.
const DOWNLOADS: usize = 64;

/// Archives on their way from one node to another, as inputs. Beyond it the response is 429, and the
/// node asks again.
const RELAYED_INPUTS: usize = 128;

/// Long bodies, YAML and regular expressions that are read at the same time. Each takes a thread and
/// up to a second; the others wait, in turn.
const PARSING_TURNS: usize = 2;

/// Requests that wait for this. Each has a connection, and a body whose memory is accounted for.
const PARSING_PLACES: usize = 4096;

/// Explanations and dry runs that the scheduler answers at the same time; the others wait, in turn.
const SURVEY_TURNS: usize = 1;

/// Requests that wait for this.
const SURVEY_PLACES: usize = 1024;

/// Everything of which one caller must not take what others need.
pub(crate) struct Pools {
    /// For reads that wait for a job to change.
    pub(crate) waiting: Shares,
    /// For streams of events and of changes.
    pub(crate) streams: Shares,
    /// For requests that read logs.
    pub(crate) log_readers: Shares,
    /// For requests that read published archives.
    pub(crate) downloads: Shares,
    /// For archives that nodes fetch from other nodes.
    pub(crate) relayed_inputs: Shares,
    /// Memory for large request bodies.
    pub(crate) large_bodies: LargeBodies,
    /// For changes that the audit log keeps for a year.
    pub(crate) changes: Pace,
    /// Bounds of a namespace hold for records that are being created, too.
    pub(crate) creating: Creating,
    /// For what takes long to read.
    pub(crate) parsing: PermitQueue,
    /// For what the scheduler looks at every node for.
    pub(crate) surveys: PermitQueue,
    /// Whether callers are told apart.
    tells_apart: bool,
}

const fn pool(name: &'static str, what: &'static str) -> Pool {
    Pool { name, what, serves_nodes: false, open_has_all: true }
}

// === impl Pools ===

impl Pools {
    /// `tells_apart` where callers are asked for credentials.
    pub(crate) fn new(tells_apart: bool, refusals: &Refusals) -> Self {
        let shares = |pool: Pool, total: usize| {
            Shares::new(pool, total.min(max_connections() / 4), refusals)
        };
        // On an open listener too, one caller leaves a core to others.
        let parsing =
            Pool { open_has_all: false, ..pool("parsing", "places for reading long bodies") };
        let relayed_inputs = pool("relayed_input", "archives relayed between nodes");
        let relayed_inputs = Pool { serves_nodes: true, ..relayed_inputs };
        let surveys = pool("survey", "places for explanations, dry runs and demand");
        Self {
            waiting: shares(pool("waiting_read", "waiting reads"), WAITING_READS),
            streams: shares(pool("event_stream", "event streams"), EVENT_STREAMS),
            log_readers: shares(pool("log_reader", "log requests"), LOG_READERS),
            downloads: shares(pool("download", "downloads of results"), DOWNLOADS),
            relayed_inputs: shares(relayed_inputs, RELAYED_INPUTS),
            large_bodies: LargeBodies::new(refusals),
            changes: Pace::new(refusals),
            creating: Creating::default(),
            parsing: PermitQueue::new(parsing, PARSING_TURNS, PARSING_PLACES, refusals),
            surveys: PermitQueue::new(surveys, SURVEY_TURNS, SURVEY_PLACES, refusals),
            tells_apart,
        }
    }

    /// Whom the permits of a caller are charged to.
    pub(crate) fn owner(&self, caller: &Caller) -> Owner {
        if self.tells_apart { Owner::for_caller(caller) } else { Owner::everyone() }
    }

    /// The name of each pool, what is in use of it, and the whole; with `queue`, which belongs to the
    /// scheduler.
    pub(crate) fn usage(&self, queue: &Shares) -> Vec<(&'static str, usize, usize)> {
        let of = |shares: &Shares| (shares.name(), shares.used(), shares.total());
        let (bodies, parsing) = (self.large_bodies.pieces(), self.parsing.permits());
        let surveys = self.surveys.permits();
        let downloads = [&self.downloads, &self.relayed_inputs];
        let open = [&self.waiting, &self.streams, &self.log_readers];
        let [waiting, streams, log_readers] = open.map(of);
        let [downloads, relayed_inputs] = downloads.map(of);
        vec![
            waiting,
            streams,
            log_readers,
            downloads,
            relayed_inputs,
            of(bodies),
            of(parsing),
            of(surveys),
            of(queue),
        ]
    }
}
