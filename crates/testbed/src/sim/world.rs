//! The world: what happens next, and to whom.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_types::{ExecutionId, JobId, NodeId, Timestamp};
use compute_agent::core::Input;
use compute_agent::execution::{Collected, Effect, Event, Exit, Failure as StepFailure};
use uuid::Uuid;

use super::agent::Agent;
use super::faults::{self, Faults, HEALED};
use super::network::{Answer, Asker, Request, RequestBody, StreamLine};
use super::orchestrator::{Death, Orchestrator, Outgoing, Stream};
use super::random::Random;
use super::workload::{self, Prospect, Wish, WishState};
use super::{checks, docker};

/// How long faults and new work last.
const STORM: Duration = Duration::from_secs(100);

/// How long the healed world may take to come to rest.
const REST: Duration = Duration::from_secs(1000);

/// The start of virtual time.
const BEGINNING: Timestamp = Timestamp(1_700_000_000_000_000_000);

/// A promise that was broken, and the seed that shows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}: {what}")]
pub struct Failure {
    pub seed: u64,
    pub what: String,
}

/// What a run went through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    pub steps: u64,
    pub jobs: usize,
    pub executions: usize,
    pub orchestrator_deaths: u64,
    pub agent_deaths: u64,
    pub lost_messages: u64,
}

pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) random: Random,
    pub(super) orchestrator: Orchestrator,
    pub(super) agents: Vec<Agent>,
    pub(super) wishes: Vec<Wish>,
    pub(super) prospects: BTreeMap<usize, Prospect>,
    pub(super) summary: Summary,
    faults: Faults,
    ending: bool,
    queue: BTreeMap<(Timestamp, u64), Happening>,
    scheduled: u64,
    /// Streams on which a line was lost: nothing more comes through.
    broken: BTreeSet<(usize, u64, u64)>,
    /// When the last line of a stream arrives: lines do not overtake each other.
    arrivals: BTreeMap<(usize, u64, u64), Timestamp>,
    /// The one turn of the orchestrator that counts; others that were scheduled came too late.
    next_turn: Option<Timestamp>,
    ids: u128,
}

#[derive(Debug)]
enum Happening {
    Arrive(Request),
    Turn,
    StartOrchestrator,
    Answered(Asker, u64, Answer),
    Line(Stream, StreamLine),
    BreakStream { agent: usize, process: u64, connection: u64 },
    Poll { agent: usize, process: u64 },
    StartAgent { agent: usize },
    Step { agent: usize, process: u64, id: ExecutionId, step: Step },
    ContainersEnd { agent: usize },
    Sweep { agent: usize, process: u64 },
    Ask { wish: usize },
    Mischief,
}

/// A step of an agent that comes to its end.
#[derive(Debug, Clone)]
enum Step {
    Prepare,
    Start,
    Stop,
    Exit,
    Deadline,
    Collect,
    Discard,
}

/// Runs one seed. A panic of an invariant is told with the seed, like a broken promise.
pub fn run(seed: u64) -> Result<Summary, Failure> {
    let outcome = std::panic::catch_unwind(|| {
        let mut world = World::new(seed);
        let verdict = world.play();
        (verdict, world.summary)
    });
    match outcome {
        Ok((Ok(()), summary)) => Ok(summary),
        Ok((Err(what), _)) => Err(Failure { seed, what }),
        Err(panic) => {
            let what = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_else(|| "a panic without a message".to_owned());
            Err(Failure { seed, what })
        }
    }
}

// === impl World ===

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let faults = faults::draw(&mut random);
        let mut world = Self {
            now: BEGINNING,
            random,
            orchestrator: Orchestrator::new(),
            agents: Vec::new(),
            wishes: Vec::new(),
            prospects: BTreeMap::new(),
            summary: Summary::default(),
            faults,
            ending: false,
            queue: BTreeMap::new(),
            scheduled: 0,
            broken: BTreeSet::new(),
            arrivals: BTreeMap::new(),
            next_turn: None,
            ids: 0,
        };
        world.populate();
        world
    }

    fn populate(&mut self) {
        self.at(Duration::ZERO, Happening::StartOrchestrator);
        let nodes = self.random.within(1..6);
        for number in 0..usize::try_from(nodes).expect("few nodes") {
            let id = NodeId::from_uuid(self.uuid());
            let record = workload::node_record(&mut self.random, number);
            self.agents.push(Agent::new(id, record));
            // Some join late.
            let late = self.random.chance(300);
            let delay = self.random.millis(0..if late { 60_000 } else { 1_000 });
            self.at(delay, Happening::StartAgent { agent: number });
        }
        for _ in 0..self.random.within(3..20) {
            let id = JobId::from_uuid(self.uuid());
            let (submit, prospect) = workload::submission(&mut self.random, id);
            let body =
                RequestBody::Submit { key: self.wishes.len().to_string(), submit: Box::new(submit) };
            self.prospects.insert(self.wishes.len(), prospect);
            let delay = self.random.millis(0..80_000);
            self.wish(body, delay);
        }
        self.at(Duration::from_secs(1), Happening::Mischief);
    }

    fn play(&mut self) -> Result<(), String> {
        self.run_until(BEGINNING + STORM, |_| false);
        self.heal();
        let end = self.now + REST;
        let rested = self.run_until(end, checks::is_at_rest);
        if !rested {
            return Err(checks::why_not_at_rest(self));
        }
        checks::promises(self)
    }

    /// Lets things happen until the moment, or until the world is as asked for.
    fn run_until(&mut self, end: Timestamp, is_done: impl Fn(&Self) -> bool) -> bool {
        while let Some(((at, _), happening)) = self.queue.pop_first() {
            if at > end {
                self.queue.insert((at, 0), happening);
                self.now = end;
                return false;
            }
            self.now = at;
            self.summary.steps += 1;
            self.happen(happening);
            if self.summary.steps.is_multiple_of(64) && is_done(self) {
                return true;
            }
        }
        is_done(self)
    }

    /// No more faults; what would go on for ever is stopped.
    fn heal(&mut self) {
        self.ending = true;
        self.faults = HEALED;
        for agent in 0..self.agents.len() {
            let node = self.agents[agent].id;
            self.agents[agent].cut_off_until = self.now;
            if let Some(process) = &mut self.agents[agent].process {
                process.paused_until = self.now;
            } else if !self.agents[agent].gone {
                self.at(Duration::from_secs(1), Happening::StartAgent { agent });
            }
            let action = api_types::node::NodeAction::Uncordon;
            self.wish(RequestBody::Act { node, action }, Duration::from_secs(2));
        }
        match &mut self.orchestrator.process {
            Some(process) => process.paused_until = self.now,
            None => self.at(Duration::ZERO, Happening::StartOrchestrator),
        }
        let lasting: Vec<usize> = self
            .prospects
            .iter()
            .filter(|(_, prospect)| **prospect == Prospect::MustBeStopped)
            .map(|(wish, _)| *wish)
            .collect();
        for wish in lasting {
            if let WishState::Answered { job: Some(job) } = self.wishes[wish].state {
                self.wish(RequestBody::Stop { job }, Duration::from_secs(3));
            }
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive(request) => self.arrive(request),
            Happening::Turn => self.turn(),
            Happening::StartOrchestrator => self.start_orchestrator(),
            Happening::Answered(asker, number, answer) => self.answered(asker, number, answer),
            Happening::Line(stream, line) => self.line(stream, line),
            Happening::BreakStream { agent, process, connection } => {
                if let Some(running) = &mut self.agents[agent].process
                    && running.number == process
                {
                    running.break_stream(connection);
                }
            }
            Happening::Poll { agent, process } => self.poll(agent, process),
            Happening::StartAgent { agent } => self.start_agent(agent),
            Happening::Step { agent, process, id, step } => self.step(agent, process, id, step),
            Happening::ContainersEnd { agent } => self.containers_end(agent),
            Happening::Sweep { agent, process } => self.sweep(agent, process),
            Happening::Ask { wish } => self.ask(wish),
            Happening::Mischief => self.mischief(),
        }
    }

    fn at(&mut self, delay: Duration, happening: Happening) {
        self.scheduled += 1;
        self.queue.insert((self.now + delay, self.scheduled), happening);
    }

    fn uuid(&mut self) -> Uuid {
        self.ids += 1;
        Uuid::from_u128(self.ids)
    }

    fn wish(&mut self, body: RequestBody, delay: Duration) {
        let wish = self.wishes.len();
        self.wishes.push(Wish { body, at: self.now + delay, state: WishState::Open });
        self.at(delay, Happening::Ask { wish });
    }
}

// === impl World: the orchestrator and the network ===

impl World {
    fn start_orchestrator(&mut self) {
        if self.orchestrator.process.is_none() {
            self.orchestrator.start(self.now, &mut self.random);
            self.turn_after(Duration::ZERO);
        }
    }

    fn turn_after(&mut self, delay: Duration) {
        let at = self.now + delay;
        if self.next_turn.is_none_or(|next| at < next) {
            self.next_turn = Some(at);
            self.at(delay, Happening::Turn);
        }
    }

    fn turn(&mut self) {
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
        let death = self.random.chance(self.faults.orchestrator_dies).then(|| {
            self.random.one_of(&[Death::BeforeCommit, Death::AfterCommit])
        });
        let outgoing = self.orchestrator.turn(self.now, most, death);
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

    fn orchestrator_died(&mut self) {
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

    fn send(&mut self, request: Request) {
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

    fn is_cut_off(&self, asker: Asker) -> bool {
        match asker {
            Asker::Agent { agent, .. } => self.agents[agent].cut_off_until > self.now,
            Asker::Client { .. } => false,
        }
    }

    fn arrive(&mut self, request: Request) {
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

    fn send_answer(&mut self, request: &Request, answer: Answer) {
        if self.is_cut_off(request.asker) || self.random.chance(self.faults.weather.unanswered) {
            self.summary.lost_messages += 1;
            return;
        }
        let delay = self.random.millis(0..30);
        self.at(delay, Happening::Answered(request.asker, request.number, answer));
    }

    fn send_line(&mut self, stream: Stream, line: StreamLine) {
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

    fn answered(&mut self, asker: Asker, number: u64, answer: Answer) {
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

    fn client_answered(&mut self, wish: usize, answer: Answer) {
        let state = &mut self.wishes[wish].state;
        match answer {
            Answer::Submitted { job } => *state = WishState::Answered { job: Some(job) },
            Answer::Done | Answer::Refused(_) => *state = WishState::Answered { job: None },
            Answer::Lost
            | Answer::Joined { .. }
            | Answer::Renewed
            | Answer::Opened
            | Answer::Acknowledged(_) => return,
        }
        // A job that was accepted while the world heals is stopped like the others.
        if let (true, WishState::Answered { job: Some(job) }) = (self.ending, self.wishes[wish].state)
            && self.prospects.get(&wish) == Some(&Prospect::MustBeStopped)
        {
            self.wish(RequestBody::Stop { job }, Duration::from_secs(3));
        }
    }

    fn ask(&mut self, wish: usize) {
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

// === impl World: agents and their docker ===

impl World {
    fn start_agent(&mut self, agent: usize) {
        if self.agents[agent].process.is_some() || self.agents[agent].gone {
            return;
        }
        let effects = self.agents[agent].start(self.now);
        let process = self.agents[agent].started;
        self.carry_out(agent, effects);
        self.at(Duration::ZERO, Happening::Poll { agent, process });
        self.at(Duration::from_secs(5), Happening::Sweep { agent, process });
    }

    /// Puts off what happens to a process that is paused; true as well when it is gone.
    fn defer(&mut self, agent: usize, process: u64, happening: Happening) -> bool {
        match &self.agents[agent].process {
            Some(running) if running.number == process => {
                if running.paused_until <= self.now {
                    return false;
                }
                let delay = running.paused_until.since(self.now);
                self.at(delay, happening);
                true
            }
            Some(_) | None => true,
        }
    }

    fn line(&mut self, stream: Stream, line: StreamLine) {
        let Stream { agent, process, connection } = stream;
        if self.defer(agent, process, Happening::Line(stream, line.clone())) {
            return;
        }
        if self.broken.contains(&(agent, process, connection)) {
            return;
        }
        if let Some(input) = self.agents[agent].line(connection, line) {
            self.agent_takes(agent, input);
        }
    }

    /// An agent dies before it has written what an input makes of it, or after, or not.
    fn agent_takes(&mut self, agent: usize, input: Input) {
        if self.random.chance(self.faults.agent_dies) {
            return self.agent_dies(agent);
        }
        let now = self.now;
        let effects = self.agents[agent].take(input, now);
        if self.random.chance(self.faults.agent_dies) {
            return self.agent_dies(agent);
        }
        self.carry_out(agent, effects);
        self.poll_now(agent);
    }

    fn agent_dies(&mut self, agent: usize) {
        self.summary.agent_deaths += 1;
        self.agents[agent].process = None;
        let delay = self.random.millis(10..25_000);
        self.at(delay, Happening::StartAgent { agent });
    }

    fn poll(&mut self, agent: usize, process: u64) {
        if self.defer(agent, process, Happening::Poll { agent, process }) {
            return;
        }
        self.poll_now(agent);
        self.at(Duration::from_secs(1), Happening::Poll { agent, process });
    }

    fn poll_now(&mut self, agent: usize) {
        let now = self.now;
        for request in self.agents[agent].poll(agent, now) {
            self.send(request);
        }
    }

    fn carry_out(&mut self, agent: usize, effects: Vec<(ExecutionId, Effect)>) {
        let Some(process) = self.agents[agent].process.as_ref().map(|p| p.number) else { return };
        for (id, effect) in effects {
            let (step, delay) = match effect {
                Effect::Report(_) | Effect::CancelPrepare => continue,
                Effect::Prepare => (Step::Prepare, self.random.millis(1..800)),
                Effect::Start => (Step::Start, self.random.millis(1..100)),
                Effect::Stop => (Step::Stop, self.random.millis(1..20)),
                Effect::Collect => (Step::Collect, self.random.millis(1..300)),
                Effect::Discard => (Step::Discard, self.random.millis(1..100)),
                Effect::Watch { deadline } => {
                    if let Some(deadline) = deadline {
                        let step = Step::Deadline;
                        let delay = deadline.since(self.now);
                        self.at(delay, Happening::Step { agent, process, id, step });
                    }
                    if let Some(running) = &mut self.agents[agent].process {
                        running.watched.insert(id);
                    }
                    (Step::Exit, Duration::from_millis(1))
                }
            };
            self.at(delay, Happening::Step { agent, process, id, step });
        }
    }

    fn step(&mut self, agent: usize, process: u64, id: ExecutionId, step: Step) {
        let paused = self.agents[agent].process.as_ref().is_some_and(|running| {
            running.number == process && running.paused_until > self.now
        });
        if paused {
            self.defer(agent, process, Happening::Step { agent, process, id, step });
            return;
        }
        let alive = self.agents[agent].process.as_ref().is_some_and(|p| p.number == process);
        // The engine may carry out what a dead agent had asked it for.
        if self.agents[agent].gone || (!alive && self.random.chance(500)) {
            return;
        }
        if let Some(event) = self.docker_does(agent, process, id, step)
            && alive
        {
            self.agent_takes(agent, Input::Event(id, event));
        }
    }

    fn docker_does(
        &mut self,
        agent: usize,
        process: u64,
        id: ExecutionId,
        step: Step,
    ) -> Option<Event> {
        let fails = self.random.chance(self.faults.docker_fails);
        let now = self.now;
        let machine = &mut self.agents[agent];
        match step {
            Step::Prepare if fails => {
                Some(Event::Failed(StepFailure::node("no image by that name".to_owned())))
            }
            Step::Prepare => {
                machine.docker.create(id);
                Some(Event::Prepared)
            }
            // An engine that does not answer is asked again, like one that failed to stop.
            Step::Start | Step::Stop if fails => {
                self.at(Duration::from_secs(1), Happening::Step { agent, process, id, step });
                None
            }
            Step::Start => {
                let (length, code) = workload::run_of_a_process(&mut self.random);
                let started = self.agents[agent].docker.start(id, now + length, code);
                self.at(length, Happening::ContainersEnd { agent });
                Some(match started {
                    true => Event::Started { at: now },
                    false => Event::Failed(StepFailure::node("the container is gone".to_owned())),
                })
            }
            Step::Stop => {
                let grace = self.random.millis(0..3_000);
                self.agents[agent].docker.stop(id, now + grace);
                self.at(grace, Happening::ContainersEnd { agent });
                None
            }
            Step::Exit => {
                let watched = machine.process.as_ref().is_some_and(|p| p.watched.contains(&id));
                match machine.docker.containers.get(&id) {
                    _ if !watched => None,
                    Some(docker::Container::Running { .. }) => None,
                    Some(docker::Container::Created) => Some(exited(0)),
                    Some(docker::Container::Exited { code }) => Some(exited(*code)),
                    None => Some(Event::Failed(StepFailure::node(
                        "the container is gone".to_owned(),
                    ))),
                }
            }
            Step::Deadline => Some(Event::TimedOut),
            Step::Collect => Some(Event::Collected(Collected::default())),
            Step::Discard => {
                if !fails {
                    machine.docker.containers.remove(&id);
                }
                None
            }
        }
    }

    fn containers_end(&mut self, agent: usize) {
        let now = self.now;
        let ended = self.agents[agent].docker.pass(now);
        let Some(process) = self.agents[agent].process.as_ref().map(|p| p.number) else { return };
        for (id, _) in ended {
            let delay = self.random.millis(1..50);
            self.at(delay, Happening::Step { agent, process, id, step: Step::Exit });
        }
    }

    fn sweep(&mut self, agent: usize, process: u64) {
        if self.defer(agent, process, Happening::Sweep { agent, process }) {
            return;
        }
        let machine = &mut self.agents[agent];
        let found: Vec<_> = machine.docker.containers.keys().copied().collect();
        if let Some(running) = &machine.process {
            for id in running.core.leftovers(found) {
                machine.docker.containers.remove(&id);
            }
        }
        self.at(Duration::from_secs(5), Happening::Sweep { agent, process });
    }
}

fn exited(code: i32) -> Event {
    Event::Exited(Exit { code, out_of_memory: false })
}

// === impl World: mischief ===

impl World {
    fn mischief(&mut self) {
        if self.ending {
            return;
        }
        self.at(Duration::from_secs(1), Happening::Mischief);
        if self.random.chance(100) {
            self.stop_some_job();
        }
        if self.random.chance(50) {
            let agent = self.any_agent();
            let node = self.agents[agent].id;
            let action = workload::node_action(&mut self.random);
            self.wish(RequestBody::Act { node, action }, Duration::ZERO);
        }
        if !self.random.chance(self.faults.mischief) {
            return;
        }
        let agent = self.any_agent();
        let length = self.random.millis(100..25_000);
        let until = self.now + length;
        match self.random.within(0..10) {
            0..=2 => self.agents[agent].cut_off_until = until,
            3..=5 => {
                if let Some(process) = &mut self.agents[agent].process {
                    process.paused_until = until;
                }
            }
            6..=8 => {
                if let Some(process) = &mut self.orchestrator.process {
                    process.paused_until = until;
                }
            }
            _ => {
                // One machine at least stays, so that there is somewhere to go.
                let staying = self.agents.iter().filter(|agent| !agent.gone).count();
                if staying > 1 {
                    self.agents[agent].gone = true;
                    self.agents[agent].process = None;
                }
            }
        }
    }

    fn stop_some_job(&mut self) {
        let jobs: Vec<JobId> = self
            .wishes
            .iter()
            .filter_map(|wish| match wish.state {
                WishState::Answered { job } => job,
                WishState::Open => None,
            })
            .collect();
        if !jobs.is_empty() {
            let job = self.random.one_of(&jobs);
            self.wish(RequestBody::Stop { job }, Duration::ZERO);
        }
    }

    fn any_agent(&mut self) -> usize {
        let count = u64::try_from(self.agents.len()).expect("few agents");
        usize::try_from(self.random.within(0..count)).expect("few agents")
    }
}
