//! The orchestrator's process, and its messages.

use std::time::Duration;

use agent_core::session::SILENCE;
use api_types::JobId;
use api_types::protocol::KEEP_ALIVE_SECONDS;
use control_plane::batch::NumberedCommit;
use control_plane::store::memory::spec_json;

use super::machines::Readiness;
use super::{SimEvent, World};
use crate::network::{Answer, Caller, Request, RequestBody, Sender, StreamLine};
use crate::orchestrator::{After, CrashPoint, Outgoing, Plan, Stream};
use crate::workload::{ExpectedEnd, RequestState};

/// How often a process tries again that cannot start because the disk is full.
const RETRY: Duration = Duration::from_secs(1);

/// How many requests of agents arrive at a process that was deposed, in thousandths.
const ASTRAY: u64 = 500;

// === impl World: the orchestrator and the network ===

impl World {
    pub(super) fn start_orchestrator(&mut self) {
        if self.orchestrator.process.is_none() {
            self.begin_orchestrator();
        }
    }

    fn begin_orchestrator(&mut self) {
        if self.orchestrator.begin(self.now, &mut self.random) {
            self.load();
        } else {
            self.at(RETRY, SimEvent::StartOrchestrator);
        }
    }

    pub(super) fn finish_start(&mut self) {
        if self.orchestrator.finish(self.now, &mut self.random) {
            self.turn_after(self.orchestrator.started, Duration::ZERO);
        } else {
            self.at(RETRY, SimEvent::FinishStart);
        }
    }

    pub(super) fn turn_after(&mut self, process: u64, delay: Duration) {
        let at = self.now + delay;
        let Some(running) = self.orchestrator.running(process) else { return };
        if running.next_turn.is_none_or(|next| at < next) {
            running.next_turn = Some(at);
            self.at(delay, SimEvent::Turn { process });
        }
    }

    pub(super) fn turn(&mut self, process: u64) {
        let Some(running) = self.orchestrator.running(process) else { return };
        if running.next_turn != Some(self.now) {
            return;
        }
        running.next_turn = None;
        if running.paused_until > self.now {
            let delay = running.paused_until.since(self.now);
            return self.turn_after(process, delay);
        }
        let most = usize::try_from(self.random.within(1..20)).expect("small");
        let crash = self
            .random
            .chance(self.faults.orchestrator_crash)
            .then(|| self.random.one_of(&[CrashPoint::BeforeCommit, CrashPoint::AfterCommit]));
        let unknown = self.faults.unknown_commits;
        let slow = self.faults.slow_commits;
        let mut plan = Plan { random: &mut self.random, most, crash, unknown, slow };
        let is_current =
            self.orchestrator.process.as_ref().is_some_and(|current| current.number == process);
        let (outgoing, after) = self.orchestrator.turn(process, self.now, &mut plan);
        self.inspection.inspect(&self.orchestrator.disk, &mut self.agents, self.now);
        self.orchestrator.disk.limits.inspected();
        for outgoing in outgoing {
            match outgoing {
                Outgoing::Answer(caller, answer) => self.send_answer(caller, answer),
                Outgoing::Line(stream, line) => self.send_line(stream, line),
                Outgoing::Late(commit) => {
                    let delay = self.random.millis(0..5_000);
                    let promotions = self.orchestrator.disk.replica.promotions;
                    self.at(delay, SimEvent::LateCommit(commit, promotions));
                }
            }
        }
        match after {
            After::Sleep(sleep) => {
                let running = self.orchestrator.running(process);
                let backlog = running.is_some_and(|running| running.has_backlog());
                self.turn_after(process, if backlog { Duration::from_millis(1) } else { sleep });
            }
            After::Crashed if is_current => self.orchestrator_crashed(),
            After::Crashed => {}
            After::Deposed => self.summary.deposed += 1,
        }
    }

    /// A commit reaches the disk, unless it was lost when the machine restarted, or another server has
    /// been promoted. No one waits for the outcome.
    pub(super) fn late_commit(&mut self, commit: &NumberedCommit, promotions: u64) {
        if promotions == self.orchestrator.disk.replica.promotions
            && self.orchestrator.knows_boot(commit.stamp.reading.boot_id, self.now)
        {
            self.summary.late_commits += 1;
            self.orchestrator.disk.commit_unseen(commit, self.now);
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
        self.break_streams();
    }

    /// Every agent notices after a while that its stream ended.
    pub(super) fn break_streams(&mut self) {
        for agent in 0..self.agents.len() {
            let Some(process) = &self.agents[agent].process else { continue };
            let (process, connection) = (process.number, process.session.connection());
            let delay = self.random.millis(1..2_000);
            self.at(delay, SimEvent::BreakStream(Stream { agent, process, connection }));
        }
    }

    pub(super) fn send(&mut self, request: Request) {
        if self.is_disconnected(request.sender) || self.random.chance(self.faults.network.lost) {
            self.lose_message(request.sender);
            return;
        }
        let repeated = self.random.chance(self.faults.network.repeated);
        if repeated {
            let delay = self.random.millis(0..900);
            self.at(delay, SimEvent::Arrive(request.repeated()));
        }
        let delay = self.random.millis(0..if repeated { 900 } else { 30 });
        self.at(delay, SimEvent::Arrive(request));
    }

    fn lose_message(&mut self, sender: Sender) {
        self.summary.lost_messages += 1;
        if let Sender::Agent { agent, .. } = sender {
            self.agents[agent].trouble.is_away(self.now);
        }
    }

    pub(super) fn is_disconnected(&self, sender: Sender) -> bool {
        match sender {
            Sender::Agent { agent, .. } => self.agents[agent].disconnected_until > self.now,
            Sender::Client { .. } | Sender::Runner => false,
        }
    }

    /// Agents dial any of the processes, and one that was deposed may not know it yet.
    fn arrives_at_deposed(&mut self, request: &Request) -> bool {
        self.orchestrator.deposed.is_some()
            && matches!(request.sender, Sender::Agent { .. })
            && self.random.chance(ASTRAY)
    }

    pub(super) fn arrive(&mut self, request: Request) {
        if self.arrives_at_deposed(&request) {
            // It is answered or not, as if the network had lost it.
            self.lose_message(request.sender);
            self.orchestrator.deposed.iter_mut().for_each(|it| it.inbox.push_back(request.clone()));
            return;
        }
        match &mut self.orchestrator.process {
            Some(process) => {
                process.inbox.push_back(request);
                let number = process.number;
                let delay = self.random.millis(0..15);
                self.turn_after(number, delay);
            }
            // The connection is refused.
            None => self.at(
                Duration::from_millis(1),
                SimEvent::Answered(request.sender, request.number, Answer::Lost),
            ),
        }
    }

    pub(super) fn send_answer(&mut self, caller: Caller, answer: Answer) {
        let is_heartbeat = matches!(answer, Answer::Renewed(_));
        let is_lost = is_heartbeat && self.heartbeats_unanswered_until > self.now;
        if is_lost
            || self.is_disconnected(caller.sender)
            || self.random.chance(self.faults.network.unanswered)
        {
            self.lose_message(caller.sender);
            return;
        }
        let delay = self.random.millis(0..30);
        self.at(delay, SimEvent::Answered(caller.sender, caller.number, answer));
    }

    pub(super) fn send_line(&mut self, stream: Stream, mut line: StreamLine) {
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
            // The connection is reset, or the agent hears no line that keeps the stream alive.
            let delay = match self.random.chance(700) {
                true => self.random.millis(1..6_000),
                false => SILENCE - self.random.millis(0..KEEP_ALIVE_SECONDS * 1_000),
            };
            self.agents[agent].trouble.is_away(self.now + delay);
            self.at(delay, SimEvent::BreakStream(stream));
            // Some lines may have arrived before.
            let StreamLine::Lines(lines) = &mut line else { return };
            let kept = self.random.within(0..lines.len() as u64);
            lines.truncate(usize::try_from(kept).expect("a few lines"));
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
            Sender::Runner => {}
            Sender::Agent { agent, process } => {
                match self.readiness(agent, process) {
                    Readiness::Ready => {}
                    Readiness::After(_) => {
                        return self.postpone(agent, SimEvent::Answered(sender, number, answer));
                    }
                    Readiness::Ended => return,
                }
                let Some(running) = &mut self.agents[agent].process else { return };
                let random = &mut self.random;
                match running.session.answered(number, answer, self.now, random) {
                    Some(input) => self.agent_takes(agent, input),
                    None => self.poll_now(agent),
                }
            }
        }
    }

    pub(super) fn client_answered(&mut self, request: usize, answer: Answer) {
        let state = &mut self.requests[request].state;
        match answer {
            Answer::Submitted { job } => *state = RequestState::Answered { job: Some(job) },
            Answer::Done | Answer::Refused(_) => *state = RequestState::Answered { job: None },
            Answer::Lost | Answer::Joined(_) | Answer::Renewed(_) | Answer::Acknowledged(_) => {
                return;
            }
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
        let waits = self.matched.get(&request).is_some_and(|other| self.job_of(*other).is_none());
        if waits {
            // The job that it depends on has no ID yet.
            let delay = self.random.millis(1_000..3_000);
            return self.at(delay, SimEvent::SendRequest { request });
        }
        let mut body = self.requests[request].body.clone();
        if let RequestBody::Submit { submit, .. } = &mut body {
            // The service assigns a new ID to each request; the key identifies the job.
            submit.id = JobId::from_uuid(self.uuid());
            let mut spec = (*submit.spec).clone();
            self.add_dependencies(request, &mut spec);
            (submit.spec_json, submit.spec) = (spec_json(&spec), spec.into());
        }
        self.send(Request { sender: Sender::Client { request }, number: 0, body });
        let delay = self.random.millis(1_000..3_000);
        self.at(delay, SimEvent::SendRequest { request });
    }
}
