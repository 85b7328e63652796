//! What travels between clients, agents and the orchestrator, and how it may go wrong.

use api_types::protocol::{Acknowledgement, Assignment, Heartbeat, Report, SessionRequest};
use api_types::{JobId, NodeId};
use orchestrator::engine::input::Submit;

use api_types::node::NodeAction;

/// Who asks: the number of an agent and of its process, or of a client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    Agent { agent: usize, process: u64 },
    Client { request: usize },
}

/// One HTTP request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) asker: Asker,
    /// What the asker knows the answer by.
    pub(super) number: u64,
    pub(super) body: RequestBody,
}

#[derive(Debug, Clone)]
pub(super) enum RequestBody {
    Join { node: NodeId, record: Box<SessionRequest> },
    Heartbeat { node: NodeId, heartbeat: Heartbeat },
    Open { node: NodeId, session: u64, connection: u64 },
    Reports { node: NodeId, session: u64, reports: Vec<Report> },
    Submit { key: String, submit: Box<Submit> },
    Stop { job: JobId },
    Act { node: NodeId, action: NodeAction },
}

/// What comes back, if anything does.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Joined {
        session: u64,
    },
    Renewed,
    Opened,
    Acknowledged(Vec<Acknowledgement>),
    Submitted {
        job: JobId,
    },
    Done,
    Refused,
    /// Nobody listens, or the answer did not come in time.
    Lost,
}

/// What an assignments stream carries.
#[derive(Debug, Clone)]
pub(super) enum StreamLine {
    Snapshot(Vec<Assignment>),
    Change(Box<Assignment>),
    /// The stream ended; the agent notices now.
    Closed,
}

/// How bad the network is, in thousandths.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weather {
    /// Requests that never arrive.
    pub(super) lost: u64,
    /// Answers that never arrive, although the request did.
    pub(super) unanswered: u64,
    /// Requests that arrive twice.
    pub(super) repeated: u64,
    /// Stream lines with which the stream breaks.
    pub(super) cut: u64,
}

pub(super) const CALM: Weather = Weather { lost: 0, unanswered: 0, repeated: 0, cut: 0 };
