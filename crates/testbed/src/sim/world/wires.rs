//! The orchestrator's process, and what travels to and from it.

use std::time::Duration;

use api_types::JobId;

use super::{Happening, World};
use crate::sim::network::{Answer, Asker, Request, RequestBody, StreamLine};
use crate::sim::orchestrator::{Death, Outgoing, Stream};
use crate::sim::workload::{Prospect, WishState};

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
            self.at(delay, Happening::Turn);
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
        let most = usize::try_from(self.random.within(1..20)).expect("small");
        let death = self
            .random
            .chance(self.faults.orchestrator_dies)
            .then(|| self.random.one_of(&[Death::BeforeCommit, Death::AfterCommit]));
        let outgoing = self.orchestrator.turn(self.now, most, death, self.sabotage);
        for outgoing in outgoing {
            match outgoing {
                Outgoing::Answer(request, answer) => self.send_answer(&request, answer),
                Outgoing::Line(stream, line) => self.send_line(stream, line),
            }
        }
        match &self.orchestrator.process {
            Some(process) => {
                let backlog = !process.inbox.is_empty();
                let delay = process.wake.since(self.now);
                let delay = if backlog { Duration::from_millis(1) } else { delay };
                self.turn_after(delay);
            }
            None => self.orchestrator_died(),
        }
    }

    pub(super) fn orchestrator_died(&mut self) {
        self.summary.orchestrator_deaths += 1;
        let delay = self.random.millis(10..20_000);
        self.at(delay, Happening::StartOrchestrator);
        for agent in 0..self.agents.len() {
            let Some(process) = &self.agents[agent].process else { continue };
            let (process, connection) = (process.number, process.connection());
            let delay = self.random.millis(1..2_000);
            self.at(delay, Happening::BreakStream { agent, process, connection });
        }
    }

    pub(super) fn send(&mut self, request: Request) {
        if self.is_cut_off(request.asker) || self.random.chance(self.faults.weather.lost) {
            self.summary.lost_messages += 1;
            return;
        }
        let repeated = self.random.chance(self.faults.weather.repeated);
        for _ in 0..if repeated { 2 } else { 1 } {
            let delay = self.random.millis(0..if repeated { 900 } else { 30 });
            self.at(delay, Happening::Arrive(request.clone()));
        }
    }

    pub(super) fn is_cut_off(&self, asker: Asker) -> bool {
        match asker {
            Asker::Agent { agent, .. } => self.agents[agent].cut_off_until > self.now,
            Asker::Client { .. } => false,
        }
    }

    pub(super) fn arrive(&mut self, request: Request) {
        match &mut self.orchestrator.process {
            Some(process) => {
                process.inbox.push_back(request);
                let delay = self.random.millis(0..15);
                self.turn_after(delay);
            }
            // Nobody listens, and that is known at once.
            None => self.at(
                Duration::from_millis(1),
                Happening::Answered(request.asker, request.number, Answer::Lost),
            ),
        }
    }

    pub(super) fn send_answer(&mut self, request: &Request, answer: Answer) {
        if self.is_cut_off(request.asker) || self.random.chance(self.faults.weather.unanswered) {
            self.summary.lost_messages += 1;
            return;
        }
        let delay = self.random.millis(0..30);
        self.at(delay, Happening::Answered(request.asker, request.number, answer));
    }

    pub(super) fn send_line(&mut self, stream: Stream, line: StreamLine) {
        let Stream { agent, process, connection } = stream;
        let key = (agent, process, connection);
        if self.broken.contains(&key) {
            return;
        }
        if self.agents[agent].cut_off_until > self.now
            || self.random.chance(self.faults.weather.cut)
        {
            self.summary.lost_messages += 1;
            self.broken.insert(key);
            // Silence is noticed after a while.
            let delay = self.random.millis(1..6_000);
            return self.at(delay, Happening::BreakStream { agent, process, connection });
        }
        let arrival = self.now + self.random.millis(0..30);
        let last = self.arrivals.entry(key).or_insert(arrival);
        *last = arrival.max(*last);
        let delay = last.since(self.now);
        self.at(delay, Happening::Line(stream, line));
    }

    pub(super) fn answered(&mut self, asker: Asker, number: u64, answer: Answer) {
        match asker {
            Asker::Client { request } => self.client_answered(request, answer),
            Asker::Agent { agent, process } => {
                if self.defer(agent, process, Happening::Answered(asker, number, answer.clone())) {
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

    pub(super) fn client_answered(&mut self, wish: usize, answer: Answer) {
        let state = &mut self.wishes[wish].state;
        match answer {
            Answer::Submitted { job } => *state = WishState::Answered { job: Some(job) },
            Answer::Done | Answer::Refused => *state = WishState::Answered { job: None },
            Answer::Lost
            | Answer::Joined { .. }
            | Answer::Renewed
            | Answer::Opened
            | Answer::Acknowledged(_) => return,
        }
        // A job that was accepted while the world heals is stopped like the others.
        if let (true, WishState::Answered { job: Some(job) }) =
            (self.ending, self.wishes[wish].state)
            && self.prospects.get(&wish) == Some(&Prospect::MustBeStopped)
        {
            self.wish(RequestBody::Stop { job }, Duration::from_secs(3));
        }
    }

    pub(super) fn ask(&mut self, wish: usize) {
        if self.wishes[wish].state != WishState::Open {
            return;
        }
        let mut body = self.wishes[wish].body.clone();
        if let RequestBody::Submit { submit, .. } = &mut body {
            // The service mints a new ID for each request; the key makes it the same job.
            submit.id = JobId::from_uuid(self.uuid());
        }
        self.send(Request { asker: Asker::Client { request: wish }, number: 0, body });
        let delay = self.random.millis(1_000..3_000);
        self.at(delay, Happening::Ask { wish });
    }
}
