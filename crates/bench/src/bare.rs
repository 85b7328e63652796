//! The scheduler alone, with nodes and without a store.

use api_types::execution::ComputeState;
use api_types::protocol::{Heartbeat, Report};
use api_types::{ExecutionId, JobId, NodeId};
use scheduler::change::{Effect, Live, NodeRow};
use scheduler::input::{Answer, Input, Submit};
use scheduler::mint::Mint;
use scheduler::time::{Moment, Now};
use scheduler::{Output, Restore, Scheduler, Settings};
use serde_json::json;
use testbed::fleet;
use uuid::Uuid;

use super::seed;

/// The session number of a node that has joined once.
const SESSION: u64 = 1;

/// Jobs that wait for room while ends are measured.
const WAITING: usize = 1000;

/// Capacity of each node; never exhausted.
const CPU_PER_NODE: f64 = 5e5;

/// More than the capacity of a node, and the most that a job may request.
const OVERSIZED_CPU: &str = "1000000";

/// A scheduler with nodes. Its time stands still, so that no lease expires.
pub struct Bare {
    scheduler: Scheduler,
    now: Now,
    nodes: u32,
    jobs: u64,
    /// The node that the next join or heartbeat comes from.
    next_node: u32,
    /// Offers of jobs that fill their node.
    running: Vec<(NodeId, ExecutionId)>,
}

// === impl Bare ===

impl Bare {
    pub fn new(nodes: u32) -> Self {
        Self::with_rows(nodes).0
    }

    /// The same, with what is stored of the nodes.
    fn with_rows(nodes: u32) -> (Self, Vec<NodeRow>) {
        let scheduler = Scheduler::new(Settings::default(), Mint::from_seed([1; 32]));
        let now = Now { moment: Moment(1_000_000_000), wall: orchestrator::clock::now() };
        let running = Vec::new();
        let mut bare = Self { scheduler, now, nodes, jobs: 0, next_node: 0, running };
        let mut rows = Vec::new();
        for _ in 0..nodes {
            let joining = bare.joining();
            let (answer, output) = bare.handle(joining);
            assert!(matches!(answer, Answer::Joined { session: SESSION, .. }), "{answer:?}");
            rows.extend(output.changes.nodes.into_values().flatten());
        }
        (bare, rows)
    }

    /// Right after a restart, before the first tick: each node is in the backlog.
    pub fn with_backlog(nodes: u32) -> Self {
        let (mut bare, nodes) = Self::with_rows(nodes);
        let restore = Restore::new(Settings::default(), Mint::from_seed([2; 32]));
        let live = Live { nodes, ..Live::default() };
        bare.scheduler = restore.finish(live, bare.now.moment).expect("no execution is stored");
        bare
    }

    /// Each node runs one job that fills it, and more such jobs wait.
    pub fn full(nodes: u32) -> Self {
        let mut bare = Self::new(nodes);
        for _ in 0..nodes {
            let job = bare.filling();
            let offer = bare.submit(job).expect("the node is empty");
            bare.running.push(offer);
        }
        for _ in 0..WAITING {
            let job = bare.filling();
            assert!(bare.submit(job).is_none(), "no node has room");
        }
        bare
    }

    fn filling(&mut self) -> Submit {
        self.job(&CPU_PER_NODE.to_string())
    }

    /// A job that fits a node.
    pub fn placeable(&mut self) -> Submit {
        self.job("")
    }

    /// A job that fits no node.
    pub fn waiting(&mut self) -> Submit {
        self.job(OVERSIZED_CPU)
    }

    /// Submits the job; returns the node and the execution that was offered to it.
    pub fn submit(&mut self, job: Submit) -> Option<(NodeId, ExecutionId)> {
        let (answer, output) = self.handle(Input::Submit(Box::new(job)));
        assert!(matches!(answer, Answer::Submitted { .. }), "{answer:?}");
        offers(&output).next()
    }

    /// Submits a job and returns the report that accepts its execution.
    pub fn acceptance(&mut self) -> (NodeId, Report) {
        let job = self.placeable();
        let (node, execution) = self.submit(job).expect("the job fits a node");
        (node, Report::new(execution, 1, ComputeState::AskForBidAccepted))
    }

    /// Starts an execution next to which a node has room, and returns the report of its end.
    pub fn completion(&mut self) -> (NodeId, Report) {
        let (node, accepted) = self.acceptance();
        self.started(node, accepted.execution_id)
    }

    /// Starts an execution that fills its node, and returns the report of its end; one more job
    /// waits, so that their number stays.
    pub fn freeing(&mut self) -> (NodeId, Report) {
        let job = self.filling();
        assert!(self.submit(job).is_none(), "no node has room");
        let (node, execution) = self.running.pop().expect("each end starts another one");
        self.started(node, execution)
    }

    fn started(&mut self, node: NodeId, execution: ExecutionId) -> (NodeId, Report) {
        self.report((node, Report::new(execution, 1, ComputeState::AskForBidAccepted)));
        self.report((node, Report::new(execution, 2, ComputeState::BidAccepted)));
        (node, Report::new(execution, 3, ComputeState::Completed))
    }

    /// A node that is known joins again.
    pub fn joining(&mut self) -> Input {
        let (node, request) = (self.node(), Box::new(fleet::record(CPU_PER_NODE)));
        Input::Join { node, request }
    }

    pub fn beating(&mut self) -> Input {
        let node = self.node();
        let heartbeat: Heartbeat = serde_json::from_value(json!({
            "Session": SESSION,
            "UsedCapacity": {},
            "RunningExecutions": 0,
            "EnqueuedExecutions": 0,
        }))
        .expect("a heartbeat");
        Input::Heartbeat { node, heartbeat }
    }

    /// The next node, in rotation.
    fn node(&mut self) -> NodeId {
        let number = self.next_node % self.nodes;
        self.next_node = number + 1;
        NodeId::from_uuid(Uuid::from_u128(u128::from(number) + 1))
    }

    pub fn report(&mut self, (node, report): (NodeId, Report)) {
        let input = Input::Reports { node, session: SESSION, reports: vec![report] };
        let (answer, output) = self.handle(input);
        assert!(matches!(answer, Answer::Acknowledged(_)), "{answer:?}");
        self.running.extend(offers(&output));
    }

    pub fn take(&mut self, input: Input) {
        let (answer, output) = self.handle(input);
        assert!(!matches!(answer, Answer::Refused(_)), "{answer:?}");
        drop(output);
    }

    fn handle(&mut self, input: Input) -> (Answer, Output) {
        let mut output = Output::default();
        (self.scheduler.handle(self.now, input, &mut output), output)
    }

    fn job(&mut self, cpu: &str) -> Submit {
        self.jobs += 1;
        let mut spec = seed::spec(self.jobs, 1);
        cpu.clone_into(&mut spec.tasks[0].resources.cpu);
        let spec_json = serde_json::to_string(&spec).expect("a job is plain data").into();
        let id = JobId::from_uuid(Uuid::from_u128(u128::from(self.jobs)));
        Submit::new(id, spec.into(), spec_json)
    }
}

/// The executions that the output offers, with their nodes.
fn offers(output: &Output) -> impl Iterator<Item = (NodeId, ExecutionId)> {
    output.effects.iter().filter_map(|effect| match effect {
        Effect::Assign { node, change } if change.work.is_some() => Some((*node, change.execution)),
        Effect::Assign { .. } | Effect::CloseStream { .. } => None,
    })
}
