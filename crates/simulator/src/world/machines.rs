//! Agents, their steps, and their Docker Engines.

use std::time::Duration;

use agent_core::execution::{Collected, Effect, Event, Exit, Failure, Publishing};
use agent_core::node_state::Input;
use api_types::ExecutionId;
use api_types::protocol::{FailureCause, Work};

use super::{Completion, SimEvent, World};
use crate::docker::{Container, NO_IMAGE, NO_REGISTRY, REFUSED};
use crate::network::StreamLine;
use crate::orchestrator::Stream;
use crate::summary::Sabotage;
use crate::workload::{self, Kind};

/// Whether a process can handle what concerns it.
pub(super) enum Readiness {
    Ready,
    /// It is paused for so long.
    After(Duration),
    /// It has ended, and with it what it was to handle.
    Ended,
}

// === impl World: agents and their docker ===

impl World {
    pub(super) fn start_agent(&mut self, agent: usize) {
        if self.agents[agent].process.is_some() || self.agents[agent].gone {
            return;
        }
        self.forget_ledger(agent);
        let effects = self.agents[agent].start(self.now);
        let process = self.agents[agent].started;
        self.carry_out(agent, effects);
        self.poll_now(agent);
        self.at(Duration::from_secs(5), SimEvent::Sweep { agent, process });
    }

    pub(super) fn readiness(&self, agent: usize, process: u64) -> Readiness {
        match &self.agents[agent].process {
            Some(running) if running.number == process => match running.paused_until {
                until if until <= self.now => Readiness::Ready,
                until => Readiness::After(until.since(self.now)),
            },
            Some(_) | None => Readiness::Ended,
        }
    }

    /// What concerns a paused agent waits for its end, in order.
    pub(super) fn postpone(&mut self, agent: usize, event: SimEvent) {
        let Some(running) = &self.agents[agent].process else { return };
        let (process, delay) = (running.number, running.paused_until.since(self.now));
        let postponed = self.postponed.entry((agent, process)).or_default();
        postponed.push(event);
        if postponed.len() == 1 {
            self.at(delay, SimEvent::Resume { agent, process });
        }
    }

    /// The pause of an agent is over, or its process has ended.
    pub(super) fn resume(&mut self, agent: usize, process: u64) {
        if let Readiness::After(delay) = self.readiness(agent, process) {
            return self.at(delay, SimEvent::Resume { agent, process });
        }
        for event in self.postponed.remove(&(agent, process)).unwrap_or_default() {
            self.dispatch(event);
        }
    }

    pub(super) fn line(&mut self, stream: Stream, line: StreamLine) {
        let Stream { agent, process, connection } = stream;
        match self.readiness(agent, process) {
            Readiness::Ready => {}
            Readiness::After(_) => return self.postpone(agent, SimEvent::Line(stream, line)),
            Readiness::Ended => return,
        }
        let StreamLine::Lines(lines) = line else {
            return self.break_stream(stream);
        };
        let Some(running) = &mut self.agents[agent].process else { return };
        for input in running.session.lines(connection, lines) {
            self.agent_takes(agent, input);
            if self.agents[agent].process.is_none() {
                return;
            }
        }
    }

    /// Hands an input to an agent. Without room in the ledger it waits, and every later one behind it;
    /// nothing else does.
    pub(super) fn agent_takes(&mut self, agent: usize, input: Input) {
        let now = self.now;
        let Some(running) = &mut self.agents[agent].process else { return };
        let is_first = running.waiting.is_empty();
        if is_first && running.ledger_full_until <= now {
            return self.agent_commits(agent, input);
        }
        running.waiting.push_back(input);
        if is_first {
            running.waits_since = Some(now);
            let (process, delay) = (running.number, running.ledger_full_until.since(now));
            self.at(delay, SimEvent::LedgerHasRoom { agent, process });
        }
    }

    /// Hands the inputs that had to wait to the process that they are meant for.
    pub(super) fn ledger_has_room(&mut self, agent: usize, process: u64) {
        let delay = match self.readiness(agent, process) {
            Readiness::Ready => Duration::ZERO,
            Readiness::After(delay) => delay,
            Readiness::Ended => return,
        };
        let Some(running) = &mut self.agents[agent].process else { return };
        let delay = delay.max(running.ledger_full_until.since(self.now));
        if !delay.is_zero() {
            return self.at(delay, SimEvent::LedgerHasRoom { agent, process });
        }
        running.waits_since = None;
        for input in std::mem::take(&mut running.waiting) {
            self.agent_commits(agent, input);
        }
    }

    /// The agent acts on an input, and may crash before or after the commit.
    fn agent_commits(&mut self, agent: usize, input: Input) {
        if self.agents[agent].process.is_none() {
            return;
        }
        if self.random.chance(self.faults.agent_crash) {
            return self.agent_crash(agent);
        }
        let now = self.now;
        let effects = self.agents[agent].take(input, now);
        if self.random.chance(self.faults.agent_crash) {
            return self.agent_crash(agent);
        }
        self.carry_out(agent, effects);
        self.poll_now(agent);
    }

    pub(super) fn agent_crash(&mut self, agent: usize) {
        self.summary.agent_crashes += 1;
        self.agents[agent].process = None;
        if self.random.chance(self.faults.agent_reboots) {
            self.reboot(agent);
        }
        let delay = self.random.millis(10..25_000);
        self.agents[agent].trouble.is_away(self.now + delay);
        self.at(delay, SimEvent::StartAgent { agent });
    }

    fn reboot(&mut self, agent: usize) {
        self.summary.agent_reboots += 1;
        self.agents[agent].reboot();
        self.agents[agent].trouble.fails();
        if self.sabotage == Some(Sabotage::ForgetBoot) {
            self.agents[agent].forget_boot();
        }
    }

    pub(super) fn break_stream(&mut self, stream: Stream) {
        let Stream { agent, process, connection } = stream;
        match self.readiness(agent, process) {
            Readiness::Ready => {}
            Readiness::After(_) => return self.postpone(agent, SimEvent::BreakStream(stream)),
            Readiness::Ended => return,
        }
        if let Some(running) = &mut self.agents[agent].process {
            running.session.break_stream(connection, self.now, &mut self.random);
            self.poll_now(agent);
        }
    }

    pub(super) fn poll(&mut self, agent: usize, process: u64) {
        let readiness = self.readiness(agent, process);
        let Some(running) = &mut self.agents[agent].process else { return };
        if running.next_poll != Some(self.now) {
            return;
        }
        match readiness {
            Readiness::Ready => self.poll_now(agent),
            Readiness::After(delay) => {
                running.next_poll = Some(self.now + delay);
                self.at(delay, SimEvent::Poll { agent, process });
            }
            Readiness::Ended => {}
        }
    }

    /// Sends what is due, and comes back when something will be.
    pub(super) fn poll_now(&mut self, agent: usize) {
        let now = self.now;
        if self.sabotage == Some(Sabotage::HeartbeatsWait)
            && let Some(running) = &mut self.agents[agent].process
            && running.ledger_full_until > now
        {
            let (process, until) = (running.number, running.ledger_full_until);
            running.next_poll = Some(until);
            return self.at(until.since(now), SimEvent::Poll { agent, process });
        }
        for request in self.agents[agent].poll(agent, now, &mut self.random) {
            self.send(request);
        }
        if let Some(running) = &mut self.agents[agent].process
            && let Some(wake) = running.session.wake()
            && running.next_poll.is_none_or(|next| next <= now || wake < next)
        {
            running.next_poll = Some(wake);
            let process = running.number;
            self.at(wake.since(now), SimEvent::Poll { agent, process });
        }
        if self.sabotage == Some(Sabotage::ForgetReports) {
            self.agents[agent].drop_reports();
        }
    }

    pub(super) fn carry_out(&mut self, agent: usize, effects: Vec<(ExecutionId, Effect)>) {
        let Some(process) = self.agents[agent].process.as_ref().map(|p| p.number) else { return };
        for (id, effect) in effects {
            let (completion, delay) = match effect {
                Effect::Report(_) | Effect::Cancel => continue,
                Effect::Prepare => (Completion::Prepare, self.random.millis(1..800)),
                Effect::Start => (Completion::Start, self.random.millis(1..100)),
                Effect::Stop => (Completion::Stop, self.random.millis(1..20)),
                Effect::Collect { .. } => (Completion::Collect, self.random.millis(1..3_000)),
                Effect::Discard => (Completion::Discard, self.random.millis(1..100)),
                Effect::Watch { deadline } => {
                    if let Some(deadline) = deadline {
                        let completion = Completion::Deadline;
                        let delay = deadline.since(self.now);
                        self.at(delay, SimEvent::Complete { agent, process, id, completion });
                    }
                    if let Some(running) = &mut self.agents[agent].process {
                        running.watched.insert(id);
                    }
                    (Completion::Exit, Duration::from_millis(1))
                }
            };
            self.at(delay, SimEvent::Complete { agent, process, id, completion });
        }
    }

    pub(super) fn complete(
        &mut self,
        agent: usize,
        process: u64,
        id: ExecutionId,
        completion: Completion,
    ) {
        let alive = match self.readiness(agent, process) {
            Readiness::Ready => true,
            Readiness::After(_) => {
                return self.postpone(agent, SimEvent::Complete { agent, process, id, completion });
            }
            Readiness::Ended => false,
        };
        // The Docker Engine may complete requests of a crashed agent.
        if self.agents[agent].gone || (!alive && self.random.chance(500)) {
            return;
        }
        if let Some(event) = self.docker_does(agent, process, id, completion)
            && alive
        {
            self.agent_takes(agent, Input::Event(id, event));
        }
    }

    /// Whether the task names the secret, and the service does not have it yet.
    fn lacks_its_secret(&self, agent: usize, id: ExecutionId) -> bool {
        let is_there = self.orchestrator.disk.store.has_record(&workload::secret(self.sabotage));
        !is_there && self.agents[agent].work(id).is_some_and(|work| !work.task.secrets.is_empty())
    }

    /// Everything that comes before the start.
    fn prepares(&mut self, agent: usize, id: ExecutionId, fails: bool) -> Event {
        let lacks_secret = self.lacks_its_secret(agent, id);
        let machine = &mut self.agents[agent];
        let kind = machine.work(id).map_or(Kind::Plain, |work| workload::kind_of(&work.job_name));
        if fails || machine.docker.is_broken {
            machine.trouble.fails();
            return Event::Failed(Failure::node(NO_IMAGE));
        }
        if let Some(failure) = machine.docker.obstacle(kind) {
            if failure.cause == FailureCause::Node {
                machine.trouble.fails();
            }
            return Event::Failed(failure);
        }
        if machine.docker.has_no_registry {
            return Event::Failed(Failure::fetch(NO_REGISTRY));
        }
        if lacks_secret {
            self.summary.missing_secrets += 1;
            return Event::Failed(Failure::missing("secret 'db' does not exist".to_owned()));
        }
        machine.docker.create(id);
        Event::Prepared
    }

    pub(super) fn docker_does(
        &mut self,
        agent: usize,
        process: u64,
        id: ExecutionId,
        completion: Completion,
    ) -> Option<Event> {
        let fails = self.random.chance(self.faults.docker_failure);
        let now = self.now;
        let machine = &mut self.agents[agent];
        match completion {
            Completion::Prepare => Some(self.prepares(agent, id, fails)),
            Completion::Start if fails && machine.is_overtaken(id) => Some(Event::StartGivenUp),
            // A failed start or stop is retried.
            Completion::Start | Completion::Stop if fails => {
                self.at(
                    Duration::from_secs(1),
                    SimEvent::Complete { agent, process, id, completion },
                );
                None
            }
            Completion::Start => {
                let name = machine.work(id).map_or("", |work| &work.job_name);
                let (length, code) = workload::process_run(&mut self.random, name);
                let started = self.agents[agent].docker.start(id, now + length, code);
                self.at(length, SimEvent::ContainersEnd { agent });
                Some(match started {
                    true => Event::Started { at: now, remark: None },
                    false => Event::Failed(Failure::node("the container is gone".to_owned())),
                })
            }
            Completion::Stop => {
                let grace = self.random.millis(0..3_000);
                self.agents[agent].docker.stop(id, now + grace);
                self.at(grace, SimEvent::ContainersEnd { agent });
                None
            }
            Completion::Exit => {
                let watched = machine.process.as_ref().is_some_and(|p| p.watched.contains(&id));
                match machine.docker.containers.get(&id) {
                    _ if !watched => None,
                    Some(Container::Running { .. }) => None,
                    Some(Container::Created) => Some(exited(0)),
                    Some(Container::Exited { code }) => Some(exited(*code)),
                    None => Some(Event::Failed(Failure::node("the container is gone".to_owned()))),
                }
            }
            Completion::Deadline => Some(Event::TimedOut),
            Completion::Collect if fails && machine.work(id).is_some_and(publishes) => {
                self.summary.unpublished += 1;
                let refused = Failure::new(FailureCause::Publish, REFUSED);
                let publishing = Publishing::Failed(refused);
                Some(Event::Collected(Box::new(Collected { publishing, ..Collected::default() })))
            }
            Completion::Collect => Some(Event::Collected(Box::default())),
            Completion::Discard => {
                if !fails {
                    machine.docker.containers.remove(&id);
                }
                None
            }
        }
    }

    pub(super) fn containers_end(&mut self, agent: usize) {
        let now = self.now;
        let ended = self.agents[agent].docker.pass(now);
        let Some(process) = self.agents[agent].process.as_ref().map(|p| p.number) else { return };
        for (id, _) in ended {
            let delay = self.random.millis(1..50);
            self.at(delay, SimEvent::Complete { agent, process, id, completion: Completion::Exit });
        }
    }

    pub(super) fn sweep(&mut self, agent: usize, process: u64) {
        match self.readiness(agent, process) {
            Readiness::Ready => {}
            Readiness::After(_) => return self.postpone(agent, SimEvent::Sweep { agent, process }),
            Readiness::Ended => return,
        }
        let machine = &mut self.agents[agent];
        let found: Vec<_> = machine.docker.containers.keys().copied().collect();
        if let Some(running) = &machine.process {
            for id in running.core.leftovers(found) {
                machine.docker.containers.remove(&id);
            }
        }
        self.at(Duration::from_secs(5), SimEvent::Sweep { agent, process });
    }
}

/// A task that leaves results may have somewhere to publish them.
fn publishes(work: &Work) -> bool {
    !work.task.result_paths.is_empty()
}

fn exited(code: i32) -> Event {
    Event::Exited(Exit { code, ..Exit::default() })
}
