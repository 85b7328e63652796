//! A scheduler that is handed inputs, and the longest that one of them took.

use std::time::Duration;

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::JobSpec;
use api_types::protocol::Report;
use api_types::{ExecutionId, JobId, NodeId};
use rustix::time::{ClockId, clock_gettime};
use scheduler::change::Effect;
use scheduler::input::{Answer, Input, Submit};
use scheduler::mint::Mint;
use scheduler::time::{Moment, Now};
use scheduler::{Output, Scheduler, Settings};
use testbed::fleet;
use uuid::Uuid;

use crate::measure::{Measure, Target, millis};

/// No input may hold the driver for longer, in milliseconds.
const LONGEST: f64 = 10.0;

const MEMORY_PER_NODE: u64 = 1 << 60;

/// As many as an agent sends together.
const REPORTS: usize = 1000;

/// A label that each node has.
pub(super) const LABEL: &str = "hostname";

/// A scheduler that is handed inputs, and the longest that one of them took.
pub(super) struct Driven {
    pub(super) scheduler: Scheduler,
    now: Moment,
    pub(super) longest: Duration,
    last_id: u128,
    pub(super) offers: Vec<(NodeId, ExecutionId)>,
}

pub(super) fn row(what: String, longest: Duration, context: String) -> Measure {
    Measure::new(what, (millis(longest), "ms"), Target::AtMost(LONGEST), context)
}

pub(super) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

// === impl Driven ===

impl Driven {
    pub(super) fn new() -> Self {
        Self {
            scheduler: Scheduler::new(Settings::default(), Mint::from_seed([1; 32])),
            now: Moment(1_000_000_000),
            longest: Duration::ZERO,
            last_id: 0,
            offers: Vec::new(),
        }
    }

    pub(super) fn join(&mut self, cpu: f64) -> NodeId {
        self.last_id += 1;
        let node = NodeId::from_uuid(Uuid::from_u128(self.last_id));
        let mut record = fleet::record(cpu);
        record.compute_node_info.max_capacity.memory = MEMORY_PER_NODE;
        record.labels.insert(LABEL.to_owned(), format!("host-{:06}", self.last_id));
        let answer = self.handle(Input::Join { node, request: Box::new(record) });
        assert!(matches!(answer, Answer::Joined { .. }), "{answer:?}");
        node
    }

    pub(super) fn submit(&mut self, spec: &JobSpec) -> JobId {
        let submit = self.submission(spec);
        let id = submit.id;
        let answer = self.handle(Input::Submit(Box::new(submit)));
        assert!(matches!(answer, Answer::Submitted { .. }), "{answer:?}");
        id
    }

    pub(super) fn submission(&mut self, spec: &JobSpec) -> Submit {
        self.last_id += 1;
        let id = JobId::from_uuid(Uuid::from_u128(self.last_id));
        let spec_json = serde_json::to_string(spec).expect("a job is plain data").into();
        Submit::new(id, spec.clone().into(), spec_json)
    }

    /// Each offered execution is accepted and ends in the state for its number. Returns how many
    /// there were.
    pub(super) fn end_offered(&mut self, ended: impl Fn(usize) -> ComputeState) -> usize {
        let offers = std::mem::take(&mut self.offers);
        for batch in offers.chunk_by(|(a, _), (b, _)| a == b).flat_map(|of| of.chunks(REPORTS)) {
            let reports = |state: &dyn Fn(usize) -> ComputeState| {
                let all = batch.iter().enumerate();
                all.map(|(at, (_, id))| Report::new(*id, 1, state(at))).collect()
            };
            let accepted = reports(&|_| ComputeState::AskForBidAccepted);
            self.reports(batch[0].0, accepted);
            self.reports(batch[0].0, reports(&ended));
        }
        offers.len()
    }

    pub(super) fn report(&mut self, node: NodeId, execution: ExecutionId, state: ComputeState) {
        self.reports(node, vec![Report::new(execution, 1, state)]);
    }

    fn reports(&mut self, node: NodeId, reports: Vec<Report>) {
        let answer = self.handle(Input::Reports { node, session: 1, reports });
        assert!(matches!(answer, Answer::Acknowledged(_)), "{answer:?}");
    }

    /// Lets time pass, and hands over the time as long as something is due; answers how many turns
    /// that took.
    pub(super) fn wake(&mut self, time: Duration) -> u64 {
        let end = self.now + time;
        let mut turns = 0;
        loop {
            let wake = self.scheduler.next_wake(self.now);
            if wake > self.now && self.now >= end {
                return turns;
            }
            self.now = wake.max(self.now).min(end.max(self.now));
            self.handle(Input::Tick);
            turns += 1;
        }
    }

    pub(super) fn handle(&mut self, input: Input) -> Answer {
        let mut output = Output::default();
        let now = Now { moment: self.now, wall: api_types::Timestamp(0) };
        let begin = thread_time();
        let answer = self.scheduler.handle(now, input, &mut output);
        self.longest = self.longest.max(thread_time().saturating_sub(begin));
        self.offers.extend(output.effects.iter().filter_map(|effect| match effect {
            Effect::Assign { node, change } if change.desired == DesiredState::Pending => {
                Some((*node, change.execution))
            }
            Effect::Assign { .. } | Effect::CloseStream { .. } => None,
        }));
        answer
    }
}
