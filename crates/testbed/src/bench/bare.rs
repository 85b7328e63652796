//! The engine by itself, with nodes and no store: what its inputs cost.

use api_types::execution::ComputeState;
use api_types::protocol::Report;
use api_types::{ExecutionId, JobId, NodeId, Timestamp};
use orchestrator::engine::change::Effect;
use orchestrator::engine::input::{Answer, Input, Submit};
use orchestrator::engine::mint::Mint;
use orchestrator::engine::{Engine, Output, Settings};
use uuid::Uuid;

use super::{fleet, seed};

/// The session of a node that has joined once.
const SESSION: u64 = 1;

/// Room on every node for all that is ever placed there.
const CPU_OF_A_NODE: f64 = 5e5;

/// More than a node has, and as much as a job may ask for.
const TOO_MUCH_CPU: &str = "1000000";

/// An engine with so many nodes. Its time stands still, so that no lease runs out.
pub struct Bare {
    engine: Engine,
    now: Timestamp,
    jobs: u64,
}

// === impl Bare ===

impl Bare {
    pub fn new(nodes: u32) -> Self {
        let engine = Engine::new(Settings::default(), Mint::from_seed([1; 32]));
        let mut bare = Self { engine, now: orchestrator::clock::now(), jobs: 0 };
        for number in 0..nodes {
            let node = NodeId::from_uuid(Uuid::from_u128(u128::from(number) + 1));
            let request = Box::new(fleet::record(CPU_OF_A_NODE));
            let joined = bare.handle(Input::Join { node, request }).0;
            assert!(matches!(joined, Answer::Joined { session: SESSION, .. }), "{joined:?}");
        }
        bare
    }

    /// A job that finds a node.
    pub fn placeable(&mut self) -> Submit {
        self.job("")
    }

    /// A job that no node has room for.
    pub fn waiting(&mut self) -> Submit {
        self.job(TOO_MUCH_CPU)
    }

    /// Hands the job in; tells which node was offered which execution of it.
    pub fn submit(&mut self, job: Submit) -> Option<(NodeId, ExecutionId)> {
        let (answer, output) = self.handle(Input::Submit(Box::new(job)));
        assert!(matches!(answer, Answer::Submitted { .. }), "{answer:?}");
        output.effects.into_iter().find_map(|effect| match effect {
            Effect::Assign { node, change } => Some((node, change.execution)),
            Effect::CloseStream { .. } => None,
        })
    }

    /// The first report of an execution that was just offered.
    pub fn acceptance(&mut self) -> (NodeId, Report) {
        let job = self.placeable();
        let (node, execution) = self.submit(job).expect("there is room for it");
        (node, fleet::report(execution, 1, ComputeState::AskForBidAccepted))
    }

    pub fn report(&mut self, (node, report): (NodeId, Report)) {
        let input = Input::Reports { node, session: SESSION, reports: vec![report] };
        let answer = self.handle(input).0;
        assert!(matches!(answer, Answer::Acknowledged(_)), "{answer:?}");
    }

    fn handle(&mut self, input: Input) -> (Answer, Output) {
        let mut output = Output::default();
        (self.engine.handle(self.now, input, &mut output), output)
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
