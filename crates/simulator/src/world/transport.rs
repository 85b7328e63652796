//! The orchestrator's process, and its messages.

use std::time::Duration;

use api_types::JobId;

use super::{SimEvent, World};
use crate::network::{Answer, Request, RequestBody, Sender, StreamLine};
use crate::orchestrator::{CrashPoint, Outgoing, Stream};
use crate::workload::{ExpectedEnd, RequestState};

// === impl World: the orchestrator and the network ===

impl World {
    pub(super) fn start_orchestrator(&mut self) {
        if self.orchestrator.process.is_none() {
            self.orchestrator.start(self.now, &mut self.random);
            self.turn_after(Duration::ZERO);
        }
    }

    pub(super) fn turn_after(&mut self, delay: Duration) {
        let at = self.now + delay;
        if self.next_turn.is_none_or(|next| at < next) {
            self.next_turn = Some(at);
            self.at(delay, SimEvent::Turn);
        }
    }

    pub(super) fn turn(&mut self) {
        if self.next_turn != Some(self.now) {
            return;
        }
        self.next_turn = None;
        let Some(process) = &self.orchestrator.process else { return };
        if process.paused_until > self.now {
            let delay = process.paused_until.since(self.now);
            return self.turn_after(delay);
        }
        let max_requests = usize::try_from(self.random.within(1..20)).expect("small");
        let crash = self
            .random
            .chance(self.faults.orchestrator_crash)
            .then(|| self.random.one_of(&[CrashPoint::BeforeCommit, CrashPoint::AfterCommit]));
        let outgoing = self.orchestrator.turn(self.now, max_requests, crash);
        for outgoing in outgoing {
            match outgoing {
                Outgoing::Answer(request, answer) => self.send_answer(&request, answer),
                Outgoing::Line(stream, line) => self.send_line(stream, line),
            }
        }
        match &self.orchestrator.process {
            Some(process) => {
                let backlog = !process.inbox.is_empty();
                let delay = if backlog { Duration::from_millis(1) } else { process.sleep };
                self.turn_after(delay);
            }
            None => self.orchestrator_crashed(),
        }
    }

    pub(super) fn orchestrator_crashed(&mut self) {
        self.summary.orchestrator_crashes += 1;
        if self.random.chance(self.faults.machine_restarts) {
            self.summary.machine_restarts += 1;
            self.orchestrator.reboot(self.now, &mut self.random);
        } else if self.random.chance(self.faults.clock_steps) {
            self.step_wall_clock();
        }
        let delay = self.random.millis(10..20_000);
        self.at(delay, SimEvent::StartOrchestrator);
        for agent in 0..self.agents.len() {
            let Some(process) = &self.agents[agent].process else { continue };
            let (process, connection) = (process.number, process.connection());
            let delay = self.random.millis(1..2_000);
            self.at(delay, SimEvent::BreakStream { agent, process, connection });
        }
    }

    pub(super) fn send(&mut self, request: Request) {
        if self.is_disconnected(request.sender) || self.random.chance(self.faults.network.lost) {
            self.summary.lost_messages += 1;
            return;
        }
        let repeated = self.random.chance(self.faults.network.repeated);
        for _ in 0..if repeated { 2 } else { 1 } {
            let delay = self.random.millis(0..if repeated { 900 } else { 30 });
            self.at(delay, SimEvent::Arrive(request.clone()));
        }
    }

    pub(super) fn is_disconnected(&self, sender: Sender) -> bool {
        match sender {
            Sender::Agent { agent, .. } => self.agents[agent].disconnected_until > self.now,
            Sender::Client { .. } => false,
        }
    }

    pub(super) fn arrive(&mut self, request: Request) {
        match &mut self.orchestrator.process {
            Some(process) => {
                process.inbox.push_back(request);
                let delay = self.random.millis(0..15);
                self.turn_after(delay);
            }
            // The connection is refused at once.
            None => self.at(
                Duration::from_millis(1),
                SimEvent::Answered(request.sender, request.number, Answer::Lost),
            ),
        }
    }

    pub(super) fn send_answer(&mut self, request: &Request, answer: Answer) {
        if self.is_disconnected(request.sender)
            || self.random.chance(self.faults.network.unanswered)
        {
            self.summary.lost_messages += 1;
            return;
        }
        let delay = self.random.millis(0..30);
        self.at(delay, SimEvent::Answered(request.sender, request.number, answer));
    }

    pub(super) fn send_line(&mut self, stream: Stream, line: StreamLine) {
        let Stream { agent, process, connection } = stream;
        let key = (agent, process, connection);
        if self.broken.contains(&key) {
            return;
        }
        if self.agents[agent].disconnected_until > self.now
            || self.random.chance(self.faults.network.cut)
        {
            self.summary.lost_messages += 1;
            self.broken.insert(key);
            // The agent notices the silence after a while.
            let delay = self.random.millis(1..6_000);
            return self.at(delay, SimEvent::BreakStream { agent, process, connection });
        }
        let arrival = self.now + self.random.millis(0..30);
        let last = self.arrivals.entry(key).or_insert(arrival);
        *last = arrival.max(*last);
        let delay = last.since(self.now);
        self.at(delay, SimEvent::Line(stream, line));
    }

    pub(super) fn answered(&mut self, sender: Sender, number: u64, answer: Answer) {
        match sender {
            Sender::Client { request } => self.client_answered(request, answer),
            Sender::Agent { agent, process } => {
                if self.defer(agent, process, SimEvent::Answered(sender, number, answer.clone())) {
                    return;
                }
                let now = self.now;
                let acknowledges = matches!(answer, Answer::Acknowledged(_));
                let input = self.agents[agent].answered(number, answer, now);
                if let Some(input) = input {
                    self.agent_takes(agent, input);
                }
                if acknowledges || self.agents[agent].process.is_some() {
                    self.poll_now(agent);
                }
            }
        }
    }

    pub(super) fn client_answered(&mut self, request: usize, answer: Answer) {
        let state = &mut self.requests[request].state;
        match answer {
            Answer::Submitted { job } => *state = RequestState::Answered { job: Some(job) },
            Answer::Done | Answer::Refused => *state = RequestState::Answered { job: None },
            Answer::Lost
            | Answer::Joined { .. }
            | Answer::Renewed
            | Answer::Opened
            | Answer::Acknowledged(_) => return,
        }
        // A job that is accepted after healing must be stopped too.
        if let (true, RequestState::Answered { job: Some(job) }) =
            (self.ending, self.requests[request].state)
            && self.expected_ends.get(&request) == Some(&ExpectedEnd::RunsUntilStopped)
        {
            self.add_request(RequestBody::Stop { job }, Duration::from_secs(3));
        }
    }

    pub(super) fn send_request(&mut self, request: usize) {
        if self.requests[request].state != RequestState::Open {
            return;
        }
        let mut body = self.requests[request].body.clone();
        if let RequestBody::Submit { submit, .. } = &mut body {
            // The service assigns a new ID to each request; the key identifies the job.
            submit.id = JobId::from_uuid(self.uuid());
        }
        self.send(Request { sender: Sender::Client { request }, number: 0, body });
        let delay = self.random.millis(1_000..3_000);
        self.at(delay, SimEvent::SendRequest { request });
    }
}
