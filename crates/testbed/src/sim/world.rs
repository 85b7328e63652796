//! The world: what happens next, and to whom.

mod machines;
mod mischief;
mod wires;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_types::{ExecutionId, JobId, NodeId, Timestamp};
use uuid::Uuid;

use super::agent::Agent;
use super::checks;
use super::faults::{self, Faults, HEALED};
use super::network::{Answer, Asker, Request, RequestBody, StreamLine};
use super::orchestrator::{Orchestrator, Stream};
use super::summary::{Failure, Sabotage, Summary};
use super::workload::{self, Prospect, Wish, WishState};
use crate::random::Random;

/// How long faults and new work last.
const STORM: Duration = Duration::from_secs(100);

/// How long the healed world may take to come to rest.
const REST: Duration = Duration::from_secs(1000);

/// The start of virtual time.
const BEGINNING: Timestamp = Timestamp(1_700_000_000_000_000_000);

pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) random: Random,
    pub(super) orchestrator: Orchestrator,
    pub(super) agents: Vec<Agent>,
    pub(super) wishes: Vec<Wish>,
    pub(super) prospects: BTreeMap<usize, Prospect>,
    pub(super) summary: Summary,
    faults: Faults,
    sabotage: Option<Sabotage>,
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

/// Runs one seed of the service as it is.
pub fn run(seed: u64) -> Result<Summary, Failure> {
    run_with(seed, None)
}

/// Runs one seed. A panic of an invariant is told with the seed, like a broken promise.
pub fn run_with(seed: u64, sabotage: Option<Sabotage>) -> Result<Summary, Failure> {
    let outcome = std::panic::catch_unwind(|| {
        let mut world = World::new(seed, sabotage);
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
    fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
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
            sabotage,
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
            let body = RequestBody::Submit {
                key: self.wishes.len().to_string(),
                submit: Box::new(submit),
            };
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
        self.summary.jobs = self.orchestrator.store.jobs.len();
        self.summary.executions = self.orchestrator.store.executions.len();
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
        // An operator who was not answered yet gives up: asked again, a cordon could come after the
        // end of all cordons, and the world would wait for room for ever.
        for wish in &mut self.wishes {
            if matches!(wish.body, RequestBody::Act { .. }) && wish.state == WishState::Open {
                wish.state = WishState::Answered { job: None };
            }
        }
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
        self.wishes.push(Wish { body, state: WishState::Open });
        self.at(delay, Happening::Ask { wish });
    }
}
