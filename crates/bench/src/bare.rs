//! The scheduler alone, with nodes and without a store.

use api_types::execution::ComputeState;
use api_types::protocol::Report;
use api_types::{ExecutionId, JobId, NodeId};
use scheduler::change::Effect;
use scheduler::input::{Answer, Input, Submit};
use scheduler::mint::Mint;
use scheduler::time::{Moment, Now};
use scheduler::{Output, Scheduler, Settings};
use testbed::fleet;
use uuid::Uuid;

use super::seed;

/// The session number of a node that has joined once.
const SESSION: u64 = 1;

/// Capacity of each node; never exhausted.
const CPU_PER_NODE: f64 = 5e5;

/// More than the capacity of a node, and the most that a job may request.
const OVERSIZED_CPU: &str = "1000000";

/// A scheduler with nodes. Its time stands still, so that no lease expires.
pub struct Bare {
    scheduler: Scheduler,
    now: Now,
    jobs: u64,
}

// === impl Bare ===

impl Bare {
    pub fn new(nodes: u32) -> Self {
        let scheduler = Scheduler::new(Settings::default(), Mint::from_seed([1; 32]));
        let now = Now { moment: Moment(1_000_000_000), wall: orchestrator::clock::now() };
        let mut bare = Self { scheduler, now, jobs: 0 };
        for number in 0..nodes {
            let node = NodeId::from_uuid(Uuid::from_u128(u128::from(number) + 1));
            let request = Box::new(fleet::record(CPU_PER_NODE));
            let joined = bare.handle(Input::Join { node, request }).0;
            assert!(matches!(joined, Answer::Joined { session: SESSION, .. }), "{joined:?}");
        }
        bare
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
        output.effects.into_iter().find_map(|effect| match effect {
            Effect::Assign { node, change } => Some((node, change.execution)),
            Effect::CloseStream { .. } => None,
        })
    }

    /// Submits a job and returns the report that accepts its execution.
    pub fn acceptance(&mut self) -> (NodeId, Report) {
        let job = self.placeable();
        let (node, execution) = self.submit(job).expect("the job fits a node");
        (node, Report::new(execution, 1, ComputeState::AskForBidAccepted))
    }

    pub fn report(&mut self, (node, report): (NodeId, Report)) {
        let input = Input::Reports { node, session: SESSION, reports: vec![report] };
        let answer = self.handle(input).0;
        assert!(matches!(answer, Answer::Acknowledged(_)), "{answer:?}");
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
        Submit { id, spec: spec.into(), spec_json }
    }
}
