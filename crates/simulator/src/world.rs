//! The world: the event queue and all simulated parts.

mod blame;
mod broken_node;
mod counting;
mod crowd;
mod dependencies;
mod disruptions;
mod epilogue;
mod following;
mod forgotten_node;
mod full_ledger;
mod groups;
mod machines;
mod membership;
mod quotas;
mod reruns;
mod settling;
mod shares;
mod silence;
mod transport;

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use api_types::node::NodeAction;
use api_types::{ExecutionId, NodeId, Timestamp};
use control_plane::batch::NumberedCommit;
use uuid::Uuid;

use self::epilogue::Epilogue;
use super::agent::Agent;
use super::coverage::Coverage;
use super::faults::{self, Faults, HEALED};
use super::idle_quota::IdleQuota;
use super::inspection::Inspection;
use super::network::{Answer, Request, RequestBody, Sender, StreamLine};
use super::orchestrator::{Orchestrator, Stream};
use super::summary::{Sabotage, Summary};
use super::units::IdleUnits;
use super::workload::{self, Again, ClientRequest, ExpectedEnd, RequestState};
use crate::random::Random;

/// Duration of faults and new work.
const FAULT_PERIOD: Duration = Duration::from_secs(50);

/// Time limit for the healed world to settle: the exclusions of a slot that its only node declines
/// take a thousand seconds, and a job may wait for the end of another one with such a slot.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(3000);

/// Time after which the jobs that would run for ever are stopped in the healed world.
const STOP_AFTER: Duration = Duration::from_secs(12);

/// Time after which every machine that stays has joined in the healed world.
const LAST_JOINS: Duration = Duration::from_secs(60);

/// The start of virtual time.
const EPOCH: Timestamp = Timestamp(1_700_000_000_000_000_000);

pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) random: Random,
    pub(super) orchestrator: Orchestrator,
    pub(super) agents: Vec<Agent>,
    pub(super) requests: Vec<ClientRequest>,
    pub(super) expected_ends: BTreeMap<usize, ExpectedEnd>,
    /// Submissions of jobs that depend on earlier ones.
    chained: BTreeSet<usize>,
    /// Submissions of arrays whose slots wait for those of the job of another submission.
    matched: BTreeMap<usize, usize>,
    pub(super) summary: Summary,
    reruns: Vec<Again>,
    inspection: Inspection,
    coverage: Coverage,
    idle_units: IdleUnits,
    idle_quota: IdleQuota,
    /// Where the executions were that were live at the last count.
    last_holders: BTreeMap<ExecutionId, NodeId>,
    faults: Faults,
    epilogue: Epilogue,
    sabotage: Option<Sabotage>,
    ending: bool,
    /// The answers to heartbeats are lost before this moment.
    heartbeats_unanswered_until: Timestamp,
    queue: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
    /// What concerns paused agents, by their process.
    postponed: BTreeMap<(usize, u64), Vec<SimEvent>>,
    /// Streams that lost a line: they deliver nothing more.
    broken: BTreeSet<(usize, u64, u64)>,
    /// Arrival of the last line of each stream: lines keep their order.
    arrivals: BTreeMap<(usize, u64, u64), Timestamp>,
    ids: u128,
}

/// An event in the queue; of those at the same time, the one that was scheduled first happens first.
struct Scheduled {
    at: Timestamp,
    number: u64,
    /// Boxed, since the queue moves its entries about.
    event: Box<SimEvent>,
}

#[derive(Debug)]
enum SimEvent {
    Arrive(Request),
    Turn { process: u64 },
    StartOrchestrator,
    FinishStart,
    PollLead,
    Beat,
    LateCommit(NumberedCommit, u64),
    Answered(Sender, u64, Answer),
    Line(Stream, StreamLine),
    BreakStream(Stream),
    Poll { agent: usize, process: u64 },
    StartAgent { agent: usize },
    Complete { agent: usize, process: u64, id: ExecutionId, completion: Completion },
    ContainersEnd { agent: usize },
    Sweep { agent: usize, process: u64 },
    MendDocker { agent: usize },
    Resume { agent: usize, process: u64 },
    LedgerHasRoom { agent: usize, process: u64 },
    SendRequest { request: usize },
    Count,
    Disruption,
}

/// What completes on the machine of an agent.
#[derive(Debug, Clone)]
enum Completion {
    Prepare,
    Start,
    Stop,
    Exit,
    Deadline,
    Collect,
    Discard,
}

// === impl Scheduled ===

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

// === impl World ===

impl World {
    pub(super) fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        let mut random = Random::new(seed);
        let faults = faults::draw(&mut random);
        let epilogue = Epilogue::draw(&faults, &mut random);
        let mut world = Self {
            now: EPOCH,
            random,
            orchestrator: Orchestrator::new(EPOCH, sabotage),
            agents: Vec::new(),
            requests: Vec::new(),
            expected_ends: BTreeMap::new(),
            summary: Summary::default(),
            reruns: Vec::new(),
            inspection: Inspection::default(),
            coverage: Coverage::default(),
            idle_units: IdleUnits::default(),
            idle_quota: IdleQuota::default(),
            last_holders: BTreeMap::new(),
            faults,
            epilogue,
            sabotage,
            ending: false,
            heartbeats_unanswered_until: Timestamp::ZERO,
            queue: BinaryHeap::new(),
            scheduled: 0,
            postponed: BTreeMap::new(),
            broken: BTreeSet::new(),
            arrivals: BTreeMap::new(),
            chained: BTreeSet::new(),
            matched: BTreeMap::new(),
            ids: 0,
        };
        world.orchestrator.settings.approve_new_nodes = faults.approvals == 0;
        // Without a draw, so that the workload of a seed stays.
        if epilogue == Epilogue::None && seed.is_multiple_of(2) {
            world.orchestrator.put_schedule(EPOCH);
        }
        world.populate(seed);
        world
    }

    fn populate(&mut self, seed: u64) {
        self.at(Duration::ZERO, SimEvent::StartOrchestrator);
        if self.random.chance(self.faults.takeovers) {
            self.orchestrator.share(seed, EPOCH, &mut self.random);
            self.at(Duration::ZERO, SimEvent::PollLead);
        }
        let nodes = self.random.within(1..6);
        for number in 0..usize::try_from(nodes).expect("few nodes") {
            let id = NodeId::from_uuid(self.uuid());
            let record = workload::node_record(&mut self.random, number);
            self.agents.push(Agent::new(id, record));
            // Some agents join late.
            let late = self.random.chance(300);
            let delay = self.random.millis(0..if late { 30_000 } else { 1_000 });
            self.at(delay, SimEvent::StartAgent { agent: number });
        }
        for _ in 0..self.random.within(2..10) {
            let (spec, expected_end) = workload::job(&mut self.random);
            let delay = self.random.millis(0..40_000);
            let request = self.submit(spec, expected_end, delay);
            // Without another draw, so that the rest of a seed's workload stays.
            if expected_end == ExpectedEnd::Ends && request.is_multiple_of(2) {
                self.chained.insert(request);
            }
        }
        let delay = self.random.millis(0..40_000);
        let key = workload::secret(self.sabotage);
        self.add_request(RequestBody::PutSecret { key }, delay);
        self.change_limits();
        self.change_quotas(seed);
        if seed.is_multiple_of(2) {
            self.submit_arrays();
        }
        self.at(Duration::from_secs(1), SimEvent::Disruption);
        self.at(Duration::from_secs(1), SimEvent::Count);
    }

    pub(super) fn simulate(&mut self) -> Result<(), String> {
        self.run_until(EPOCH + FAULT_PERIOD, |_| false);
        self.heal();
        self.settle()?;
        self.epilogue()?;
        self.summary.given_up = self.orchestrator.witness.given_up;
        let replica = &self.orchestrator.disk.replica;
        (self.summary.promotions, self.summary.losses) = (replica.promotions, replica.losses);
        self.summary.slow_commits = self.orchestrator.slow_commits;
        self.summary.jobs = self.orchestrator.disk.store.jobs.len();
        self.summary.executions = self.orchestrator.disk.store.executions.len();
        Ok(())
    }

    /// Waits until nothing is left to do.
    fn settle(&mut self) -> Result<(), String> {
        let end = self.now + SETTLE_TIMEOUT;
        match self.run_until(end, Self::has_settled) {
            true => Ok(()),
            false => Err(self.why_not_settled()),
        }
    }

    /// Dispatches events until `end`, or until `is_done` returns true.
    fn run_until(&mut self, end: Timestamp, is_done: impl Fn(&Self) -> bool) -> bool {
        while let Some(Reverse(next)) = self.queue.peek() {
            if next.at > end {
                self.now = end;
                return false;
            }
            let Some(Reverse(next)) = self.queue.pop() else { break };
            self.now = next.at;
            self.summary.steps += 1;
            self.dispatch(*next.event);
            if self.summary.steps.is_multiple_of(64) && is_done(self) {
                return true;
            }
        }
        is_done(self)
    }

    /// Ends all faults, and stops the jobs that would run forever.
    fn heal(&mut self) {
        self.ending = true;
        let waits_for_approval = self.faults.approvals > 0;
        self.faults = HEALED;
        // Open actions on nodes are abandoned: a repeated cordon could arrive after the final uncordon,
        // and jobs would wait for capacity forever.
        for request in &mut self.requests {
            let is_changeable = matches!(
                request.body,
                RequestBody::Act { .. }
                    | RequestBody::Forget { .. }
                    | RequestBody::PutGroup { .. }
                    | RequestBody::PutQuota { .. }
            );
            if is_changeable && request.state == RequestState::Open {
                request.state = RequestState::Answered { job: None };
            }
        }
        for agent in 0..self.agents.len() {
            let node = self.agents[agent].id;
            self.agents[agent].disconnected_until = self.now;
            // A pause, and a ledger without room, run out: what waits for them keeps its order.
            if self.agents[agent].process.is_none() && !self.agents[agent].gone {
                self.at(Duration::from_secs(1), SimEvent::StartAgent { agent });
            }
            for action in [NodeAction::Approve, NodeAction::Uncordon] {
                self.add_request(RequestBody::Act { node, action }, Duration::from_secs(2));
            }
            if waits_for_approval {
                let approve = RequestBody::Act { node, action: NodeAction::Approve };
                self.add_request(approve, LAST_JOINS);
            }
        }
        self.restore_limits();
        self.remove_quota();
        self.orchestrator.disk.full_until = self.now;
        for process in self.orchestrator.processes() {
            (process.paused_until, process.cut_off_until) = (self.now, self.now);
        }
        if self.orchestrator.process.is_none() {
            self.at(Duration::ZERO, SimEvent::StartOrchestrator);
        }
        let endless: Vec<usize> = self
            .expected_ends
            .iter()
            .filter(|(_, expected_end)| **expected_end == ExpectedEnd::RunsUntilStopped)
            .map(|(request, _)| *request)
            .collect();
        for request in endless {
            if let RequestState::Answered { job: Some(job) } = self.requests[request].state {
                self.add_request(RequestBody::Stop { job }, STOP_AFTER);
            }
        }
    }

    fn dispatch(&mut self, event: SimEvent) {
        match event {
            SimEvent::Arrive(request) => self.arrive(request),
            SimEvent::Turn { process } => self.turn(process),
            SimEvent::StartOrchestrator => self.start_orchestrator(),
            SimEvent::FinishStart => self.finish_start(),
            SimEvent::PollLead => self.poll_lead(),
            SimEvent::Beat => self.beat(),
            SimEvent::LateCommit(commit, promotions) => self.late_commit(&commit, promotions),
            SimEvent::Answered(sender, number, answer) => self.answered(sender, number, answer),
            SimEvent::Line(stream, line) => self.line(stream, line),
            SimEvent::BreakStream(stream) => self.break_stream(stream),
            SimEvent::Poll { agent, process } => self.poll(agent, process),
            SimEvent::StartAgent { agent } => self.start_agent(agent),
            SimEvent::Complete { agent, process, id, completion } => {
                self.complete(agent, process, id, completion)
            }
            SimEvent::ContainersEnd { agent } => self.containers_end(agent),
            SimEvent::Sweep { agent, process } => self.sweep(agent, process),
            SimEvent::MendDocker { agent } => self.agents[agent].docker.is_broken = false,
            SimEvent::Resume { agent, process } => self.resume(agent, process),
            SimEvent::LedgerHasRoom { agent, process } => self.ledger_has_room(agent, process),
            SimEvent::SendRequest { request } => self.send_request(request),
            SimEvent::Disruption => self.disrupt(),
            SimEvent::Count => self.count_daemons(),
        }
    }

    fn at(&mut self, delay: Duration, event: SimEvent) {
        self.scheduled += 1;
        let (at, number, event) = (self.now + delay, self.scheduled, Box::new(event));
        self.queue.push(Reverse(Scheduled { at, number, event }));
    }

    fn uuid(&mut self) -> Uuid {
        self.ids += 1;
        Uuid::from_u128(self.ids)
    }

    fn add_request(&mut self, body: RequestBody, delay: Duration) {
        let request = self.requests.len();
        self.requests.push(ClientRequest { body, state: RequestState::Open });
        self.at(delay, SimEvent::SendRequest { request });
    }
}
