//! Messages between clients, agents and the orchestrator, and the faults of the network.

use api_types::protocol::{
    Acknowledgement, AssignmentLine, Heartbeat, HeartbeatAnswer, Report, SessionAnswer,
    SessionRequest,
};
use api_types::{Code, JobId, NodeId};
use control_plane::records::RecordKey;
use scheduler::input::Submit;

use api_types::node::NodeAction;

/// The connection of a stream that no agent reads: theirs are numbered from 1.
const UNREAD: u64 = 0;

/// The sender of a request: an agent with its process number, or a client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    Agent {
        agent: usize,
        process: u64,
    },
    Client {
        request: usize,
    },
    /// What checks the due times of schedules, next to the step.
    Runner,
}

/// One HTTP request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) sender: Sender,
    /// The number by which the sender matches the response.
    pub(super) number: u64,
    pub(super) body: RequestBody,
}

/// Who waits for the answer to a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller {
    pub(super) sender: Sender,
    pub(super) number: u64,
    /// Of a request for a stream: the node, and the connection on which the lines leave.
    pub(super) stream: Option<(NodeId, u64)>,
}

#[derive(Debug, Clone)]
pub(super) enum RequestBody {
    Join {
        node: NodeId,
        record: Box<SessionRequest>,
    },
    Heartbeat {
        node: NodeId,
        heartbeat: Heartbeat,
    },
    Open {
        node: NodeId,
        session: u64,
        connection: u64,
    },
    Reports {
        node: NodeId,
        session: u64,
        reports: Vec<Report>,
    },
    Submit {
        key: String,
        submit: Box<Submit>,
    },
    Stop {
        job: JobId,
    },
    Act {
        node: NodeId,
        action: NodeAction,
    },
    Forget {
        node: NodeId,
        now: bool,
    },
    /// Changes the limit of a concurrency group; one that is not stored is sabotage.
    PutGroup {
        name: String,
        limit: u32,
        is_stored: bool,
    },
    /// Changes the quota of the namespace, which is `None` for no bound.
    PutQuota {
        cpu_millis: Option<u64>,
        executions: Option<u32>,
        is_stored: bool,
    },
    /// Changes the weight of a namespace; `None`, which is sabotage, is so heavy that its share is 0.
    PutWeight {
        namespace: String,
        weight: Option<u32>,
    },
    /// Sets the secret that some jobs name.
    PutSecret {
        key: RecordKey,
    },
}

/// The response to a request.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Joined(SessionAnswer),
    Renewed(HeartbeatAnswer),
    Acknowledged(Vec<Acknowledgement>),
    Submitted {
        job: JobId,
    },
    Done,
    Refused(Code),
    /// The connection was refused, or the request timed out.
    Lost,
}

/// An item of an assignments stream.
#[derive(Debug, Clone)]
pub(super) enum StreamLine {
    Lines(Vec<AssignmentLine>),
    /// The stream ended, and the agent notices.
    Closed,
}

// === impl Request ===

impl Request {
    pub(super) fn caller(&self) -> Caller {
        let stream = match self.body {
            RequestBody::Open { node, connection, .. } => Some((node, connection)),
            _ => None,
        };
        Caller { sender: self.sender, number: self.number, stream }
    }

    /// The same request once more, on a separate connection.
    pub(super) fn repeated(&self) -> Self {
        let mut repeated = self.clone();
        if let RequestBody::Open { connection, .. } = &mut repeated.body {
            *connection = UNREAD;
        }
        repeated
    }
}

/// Probabilities of network faults in thousandths.
#[derive(Debug, Clone, Copy)]
pub(super) struct NetworkFaults {
    /// A request never arrives.
    pub(super) lost: u64,
    /// A request arrives, but its response does not.
    pub(super) unanswered: u64,
    /// A request arrives twice.
    pub(super) repeated: u64,
    /// A stream breaks at a line.
    pub(super) cut: u64,
}

pub(super) const NO_FAULTS: NetworkFaults =
    NetworkFaults { lost: 0, unanswered: 0, repeated: 0, cut: 0 };
