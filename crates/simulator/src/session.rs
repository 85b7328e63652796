//! The session of a simulated agent: the agent's own machines over a simulated network.
//!
//! Nothing is decided here. The agent's tasks are replaced by the moments at which something is due,
//! its sockets by requests of which each kind has at most one in flight.

use std::time::Duration;

use agent_core::node_state::Input;
use agent_core::session::{
    Followed, Follower, Joining, Outbox, Pace, SessionEnd, SessionState, ends_session,
};
use api_types::protocol::{AssignmentLine, Heartbeat, ProbeOutcome, Report, SessionRequest};
use api_types::quantity::Capacity;
use api_types::{NodeId, Timestamp};

use super::docker::Answers;
use super::network::{Answer, RequestBody};
use crate::random::Random;

/// Time limit of a request, except for heartbeats.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest time that a probe takes.
const PROBE_MILLIS: u64 = 20_000;

/// Most reports per request; small, so that batches are split often.
const REPORTS: usize = 8;

pub(super) struct Session {
    pub(super) outbox: Outbox,
    state: SessionState,
    joining: Joining,
    /// When to join, without a session.
    join_at: Timestamp,
    beats: Option<Beats>,
    follower: Follower,
    stream: Stream,
    /// Counts streams.
    connection: u64,
    /// When to send reports, if there are some.
    report_at: Timestamp,
    in_flight: [Option<InFlight>; KINDS.len()],
    probe: Probe,
    /// Counts requests.
    requests: u64,
}

/// What the agent says of itself.
#[derive(Clone, Copy)]
pub(super) struct Speaker<'a> {
    pub(super) id: NodeId,
    pub(super) record: &'a SessionRequest,
    /// For how long it has not finished what it does.
    pub(super) stalled: Duration,
    pub(super) answers: Answers,
    /// What a probe of its node finds now.
    pub(super) finds: Option<&'static str>,
}

/// What its agent was asked for.
enum Probe {
    None,
    Asked { number: u64, ready_at: Timestamp },
    Answered(ProbeOutcome),
}

/// The heartbeats of the current session.
#[derive(Clone, Copy)]
struct Beats {
    pace: Pace,
    due: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Closed {
        open_at: Timestamp,
    },
    /// Requested at least.
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Join,
    Heartbeat,
    Open,
    Reports,
}

const KINDS: [Kind; 4] = [Kind::Join, Kind::Heartbeat, Kind::Open, Kind::Reports];

struct InFlight {
    number: u64,
    until: Timestamp,
    /// The session under which it was sent; 0 for a request to join.
    session: u64,
    reports: Vec<Report>,
}

// === impl Session ===

impl Session {
    /// The session of a process that starts now.
    pub(super) fn new(now: Timestamp, outbox: Outbox) -> Self {
        Self {
            outbox,
            state: SessionState::default(),
            joining: Joining::default(),
            join_at: now,
            beats: None,
            follower: Follower::default(),
            stream: Stream::Closed { open_at: now },
            connection: 0,
            report_at: now,
            in_flight: [const { None }; KINDS.len()],
            probe: Probe::None,
            requests: 0,
        }
    }

    pub(super) fn connection(&self) -> u64 {
        self.connection
    }

    /// When it next has something to send or to give up.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        let due = KINDS.into_iter().filter_map(|kind| match &self.in_flight[kind as usize] {
            Some(request) => Some(request.until),
            None => self.due(kind),
        });
        due.min()
    }

    /// When the next request of this kind is to be sent.
    fn due(&self, kind: Kind) -> Option<Timestamp> {
        let has_session = self.state.session().is_some();
        match kind {
            Kind::Join => (!has_session).then_some(self.join_at),
            Kind::Heartbeat => self.beats.map(|beats| beats.due),
            Kind::Open => match self.stream {
                Stream::Closed { open_at } if has_session => Some(open_at),
                Stream::Closed { .. } | Stream::Open => None,
            },
            Kind::Reports => (has_session && !self.outbox.is_empty()).then_some(self.report_at),
        }
    }

    /// The requests to send now, each with its number.
    pub(super) fn poll(
        &mut self,
        speaker: Speaker<'_>,
        now: Timestamp,
        random: &mut Random,
    ) -> Vec<(u64, RequestBody)> {
        let mut requests = Vec::new();
        for kind in KINDS {
            let late = self.in_flight[kind as usize].take_if(|request| request.until <= now);
            if let Some(request) = late {
                self.failed(kind, &request, &Answer::Lost, now, random);
            }
            let is_due = self.due(kind).is_some_and(|due| due <= now);
            if is_due && self.in_flight[kind as usize].is_none() {
                requests.push(self.request(kind, speaker, now));
            }
        }
        requests
    }

    fn request(&mut self, kind: Kind, speaker: Speaker<'_>, now: Timestamp) -> (u64, RequestBody) {
        let Speaker { id: node, record, stalled, .. } = speaker;
        self.requests += 1;
        let session = self.state.session().unwrap_or(0);
        let (mut limit, mut reports) = (REQUEST_TIMEOUT, Vec::new());
        let body = match kind {
            Kind::Join => RequestBody::Join { node, record: Box::new(record.clone()) },
            Kind::Heartbeat => {
                let pace = self.beats.map(|beats| beats.pace);
                limit = pace.map_or(limit, |pace| pace.time_limit());
                let lease = pace.map_or(Duration::ZERO, |pace| pace.lease());
                let probed = self.probe.outcome(speaker, now);
                let heartbeat = heartbeat(session, lease, stalled, probed);
                RequestBody::Heartbeat { node, heartbeat }
            }
            Kind::Open => {
                self.connection += 1;
                self.stream = Stream::Open;
                self.follower.asks(now);
                RequestBody::Open { node, session, connection: self.connection }
            }
            Kind::Reports => {
                reports = self.outbox.batch(REPORTS);
                RequestBody::Reports { node, session, reports: reports.clone() }
            }
        };
        let number = self.requests;
        let request = InFlight { number, until: now + limit, session, reports };
        self.in_flight[kind as usize] = Some(request);
        (number, body)
    }

    /// Handles an answer; returns an input for the core when reports are acknowledged.
    pub(super) fn answered(
        &mut self,
        number: u64,
        answer: Answer,
        now: Timestamp,
        random: &mut Random,
    ) -> Option<Input> {
        let is_this = |kind: &Kind| {
            self.in_flight[*kind as usize].as_ref().is_some_and(|request| request.number == number)
        };
        let kind = KINDS.into_iter().find(is_this)?;
        let request = self.in_flight[kind as usize].take()?;
        match (kind, answer) {
            (Kind::Join, Answer::Joined(answer)) => {
                self.joining.joined(now);
                self.state.joined(&answer, now);
                let pace = Pace::new(&answer);
                self.beats = Some(Beats { pace, due: now + pace.delay() });
                self.follower = Follower::default();
                self.stream = Stream::Closed { open_at: now };
                None
            }
            (Kind::Heartbeat, Answer::Renewed(answer)) => {
                let takes = random.millis(0..PROBE_MILLIS);
                self.probe.asked(answer.probe, now + takes);
                if let Some(Beats { pace, due }) = &mut self.beats {
                    pace.answered(&answer);
                    *due = now + pace.delay();
                    self.state.renewed(pace.lease(), now);
                }
                None
            }
            (Kind::Reports, Answer::Acknowledged(acknowledged)) => {
                let fraction = random.fraction();
                let answered = self.outbox.answered(&request.reports, acknowledged, fraction);
                self.report_at = now + answered.delay;
                Some(Input::Acknowledged(answered.acknowledged))
            }
            (_, answer) => {
                self.failed(kind, &request, &answer, now, random);
                None
            }
        }
    }

    fn failed(
        &mut self,
        kind: Kind,
        request: &InFlight,
        answer: &Answer,
        now: Timestamp,
        random: &mut Random,
    ) {
        let fraction = random.fraction();
        let is_over = matches!(answer, Answer::Refused(code) if ends_session(*code));
        match kind {
            Kind::Join => self.join_at = now + self.joining.failed(fraction),
            Kind::Heartbeat => {
                if let Some(Beats { pace, due }) = &mut self.beats {
                    pace.missed();
                    *due = now + pace.delay();
                }
            }
            Kind::Open => self.close(now, fraction),
            Kind::Reports => self.report_at = now + self.outbox.failed(fraction),
        }
        if is_over && self.state.session() == Some(request.session) {
            self.end(SessionEnd::Refused, now, random);
        }
    }

    /// What belongs to a session ends with it; reports go on in the next.
    pub(super) fn end(&mut self, end: SessionEnd, now: Timestamp, random: &mut Random) {
        if self.state.session().is_none() {
            return;
        }
        self.state.ended();
        self.join_at = now + self.joining.ended(end, now, random.fraction());
        self.beats = None;
        self.stream = Stream::Closed { open_at: now };
        for kind in [Kind::Heartbeat, Kind::Open] {
            self.in_flight[kind as usize] = None;
        }
    }

    /// The inputs that follow from lines of a stream.
    pub(super) fn lines(&mut self, connection: u64, lines: Vec<AssignmentLine>) -> Vec<Input> {
        if connection != self.connection || self.stream != Stream::Open {
            return Vec::new();
        }
        self.in_flight[Kind::Open as usize] = None;
        let followed = lines.into_iter().map(|line| match self.follower.line(line) {
            Ok(Followed::Input(input)) => Some(input),
            Ok(Followed::Nothing) => None,
            other => panic!("the orchestrator sends nothing of this: {other:?}"),
        });
        followed.flatten().collect()
    }

    /// The stream has ended, or the agent believes so.
    pub(super) fn break_stream(&mut self, connection: u64, now: Timestamp, random: &mut Random) {
        if connection == self.connection && self.stream == Stream::Open {
            self.in_flight[Kind::Open as usize] = None;
            self.close(now, random.fraction());
        }
    }

    fn close(&mut self, now: Timestamp, fraction: f64) {
        self.stream = Stream::Closed { open_at: now + self.follower.broke_off(fraction) };
    }

    /// Sabotage: treats sent reports as acknowledged. Returns whether some were.
    pub(super) fn forget_reports(&mut self) -> bool {
        let are_sent = self.in_flight[Kind::Reports as usize].is_some();
        if are_sent {
            self.outbox = Outbox::default();
        }
        are_sent
    }

    /// Description for the message of a run that does not settle.
    pub(super) fn describe(&self) -> String {
        let Self { state, connection, stream, .. } = self;
        format!("{state:?}, stream {connection} {stream:?}")
    }
}

// === impl Probe ===

impl Probe {
    /// An answer asks for this probe, which takes until then.
    fn asked(&mut self, probe: Option<u64>, ready_at: Timestamp) {
        let known = match self {
            Self::None => None,
            Self::Asked { number, .. } => Some(*number),
            Self::Answered(outcome) => Some(outcome.probe),
        };
        if known != probe {
            *self = probe.map_or(Self::None, |number| Self::Asked { number, ready_at });
        }
    }

    /// What a heartbeat says of it.
    fn outcome(&mut self, speaker: Speaker<'_>, now: Timestamp) -> Option<ProbeOutcome> {
        if let Self::Asked { number: probe, ready_at } = *self
            && now >= ready_at
            && speaker.answers != Answers::Never
        {
            let finds = speaker.finds.filter(|_| speaker.answers == Answers::Truly);
            let failure = finds.map(ToOwned::to_owned);
            *self = Self::Answered(ProbeOutcome { probe, failure });
        }
        match self {
            Self::Answered(outcome) => Some(outcome.clone()),
            Self::None | Self::Asked { .. } => None,
        }
    }
}

fn heartbeat(
    session: u64,
    lease: Duration,
    stalled: Duration,
    probed: Option<ProbeOutcome>,
) -> Heartbeat {
    Heartbeat {
        session,
        used_capacity: Capacity::default(),
        running_executions: 0,
        enqueued_executions: 0,
        stalled_millis: u64::try_from(stalled.as_millis()).unwrap_or(u64::MAX),
        lease_seconds: lease.as_secs(),
        probed,
    }
}
