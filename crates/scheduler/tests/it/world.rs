//! A small cluster in one thread: a scheduler, its store, and the operations to drive it.

mod steps;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobSpec, JobStateType};
use api_types::node::NodeAction;
use api_types::protocol::{FailureCause, Heartbeat, ProbeOutcome, Report, SessionRequest};
use api_types::quantity::Capacity;
use api_types::{ExecutionId, JobId, NodeId, Timestamp};
use uuid::Uuid;

use control_plane::clock::{Reading, Stamp, UNKNOWN_BOOT};
use control_plane::store::memory::{MemoryStore, spec_json};
use control_plane::store::{Commit, CommitId, Store, Term, Write};
use scheduler::change::{AssignmentChange, Effect, EventSubject, ExecutionRow, Fact};
use scheduler::demand::{Demand, Want};
use scheduler::input::{Answer, Input, Refusal, Submit};
use scheduler::mint::Mint;
use scheduler::time::{Moment, Now};
use scheduler::{Entitlement, Output, Restore, Scheduler, Settings, invariants};

use crate::specs::{node, probed_node, report};

pub(crate) const LEASE: Duration = Duration::from_secs(30);

pub(crate) const SETTINGS: Settings = Settings {
    lease: LEASE,
    approve_new_nodes: true,
    drain_deadline: Duration::from_secs(3600),
    node_retention: Duration::from_hours(1),
    starvation: Some(Duration::from_secs(60)),
};

pub(crate) struct World {
    pub(crate) scheduler: Scheduler,
    pub(crate) store: MemoryStore,
    pub(crate) now: Moment,
    pub(crate) wall: i64,
    pub(crate) effects: Vec<Effect>,
    pub(crate) back_offs: usize,
    /// Whether the invariants are checked after each input, which looks at everything.
    pub(crate) is_checked: bool,
    pub(crate) bound: Option<usize>,
    /// Concurrency groups of the namespace `default`.
    pub(crate) groups: BTreeMap<String, u32>,
    pub(crate) entitled: BTreeMap<String, Entitlement>,
    explanations: BTreeMap<Want, Option<Arc<str>>>,
    sessions: BTreeMap<NodeId, u64>,
    commits: u64,
    restarts: u8,
    last_id: u128,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            scheduler: Scheduler::new(SETTINGS, Mint::from_seed([7; 32])),
            store: MemoryStore::default(),
            now: Moment(1_000_000_000),
            wall: 1_700_000_000_000_000_000,
            effects: Vec::new(),
            back_offs: 0,
            is_checked: true,
            bound: None,
            groups: BTreeMap::new(),
            entitled: BTreeMap::new(),
            explanations: BTreeMap::new(),
            sessions: BTreeMap::new(),
            commits: 0,
            restarts: 0,
            last_id: 0,
        }
    }

    /// A cluster of `count` equal nodes with 4 cores and 4 GB each.
    pub(crate) fn with_nodes(count: usize) -> (Self, Vec<NodeId>) {
        Self::with_nodes_like(count, &node(4.0, 4_000_000_000, &[]))
    }

    /// The same, with agents that can be asked for probes.
    pub(crate) fn with_probed_nodes(count: usize) -> (Self, Vec<NodeId>) {
        Self::with_nodes_like(count, &probed_node())
    }

    fn with_nodes_like(count: usize, record: &SessionRequest) -> (Self, Vec<NodeId>) {
        let mut world = Self::new();
        let nodes = (0..count).map(|_| world.join_node(record)).collect();
        (world, nodes)
    }

    pub(crate) fn handle(&mut self, input: Input) -> Answer {
        let mut out = Output::default();
        let wall = Timestamp(self.wall + self.now.0.cast_signed());
        let now = Now { moment: self.now, wall };
        let answer = self.scheduler.handle(now, input, &mut out);
        if self.is_checked {
            invariants::check(&self.scheduler);
        }
        let written = out.changes.events.len() + out.changes.pending_slots.len();
        if let Some(bound) = self.bound {
            assert!(written <= bound, "one input wrote {written} records");
        }
        if let Answer::Refused(_) = answer {
            assert!(out.changes.is_empty(), "a refused input changed something: {:?}", out.changes);
        }
        self.commits += 1;
        let reading = Reading { boot_id: UNKNOWN_BOOT, boot: self.now.0, wall };
        let stamp = Stamp { reading, moment: self.now };
        let id = CommitId { term: Term::default(), number: self.commits };
        let write =
            Write::Batch { changes: &out.changes, keys: &[], records: &[], audit: &[], loads: &[] };
        self.store.commit(&Commit { id, stamp, write }).expect("commits follow each other");
        self.effects.extend(out.effects);
        self.back_offs += out.facts.iter().filter(|fact| **fact == Fact::BackedOff).count();
        answer
    }

    /// Lets time pass as the driver does, with a tick whenever one is due.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now =
                self.scheduler.next_wake(self.now).max(self.now + Duration::from_nanos(1)).min(end);
            self.handle(Input::Tick);
        }
    }

    pub(crate) fn pass_with(&mut self, time: Duration, alive: &[NodeId]) {
        let end = self.now + time;
        while self.now < end {
            for node in alive {
                self.heartbeat(*node);
            }
            self.pass(Duration::from_secs(5).min(end.since(self.now)));
        }
    }

    /// Crashes the orchestrator and restores it from its store.
    pub(crate) fn restart(&mut self) {
        self.restart_with(SETTINGS);
    }

    pub(crate) fn restart_with(&mut self, settings: Settings) {
        self.restart_before_the_first_tick(settings);
        self.handle(Input::Tick);
    }

    /// What waited for the start is handled before the first tick.
    pub(crate) fn restart_before_the_first_tick(&mut self, settings: Settings) {
        // A process does not repeat the IDs of the one before it.
        self.restarts += 1;
        let mut restore = Restore::new(settings, Mint::from_seed([7 + self.restarts; 32]));
        self.groups.iter().for_each(|(name, limit)| restore.group("default", name, *limit));
        self.entitled.iter().for_each(|(name, to)| restore.entitle(name, *to));
        let live = self.store.clone().load(&mut |job| restore.job(job)).expect("memory answers");
        self.scheduler = restore.finish(live, self.now).expect("stored records are whole");
        self.effects.clear();
    }

    pub(crate) fn id(&mut self) -> Uuid {
        self.last_id += 1;
        Uuid::from_u128(self.last_id << 96)
    }

    pub(crate) fn join_node(&mut self, record: &SessionRequest) -> NodeId {
        let node = NodeId::from_uuid(self.id());
        self.rejoin(node, record);
        node
    }

    pub(crate) fn rejoin(&mut self, node: NodeId, record: &SessionRequest) {
        let answer = self.handle(Input::Join { node, request: Box::new(record.clone()) });
        let Answer::Joined { session, .. } = answer else { panic!("{answer:?}") };
        self.sessions.insert(node, session);
    }

    pub(crate) fn heartbeat(&mut self, node: NodeId) -> Answer {
        self.heartbeat_with(node, None)
    }

    /// A heartbeat that says how a probe ended.
    pub(crate) fn heartbeat_with(&mut self, node: NodeId, probed: Option<ProbeOutcome>) -> Answer {
        let heartbeat = Heartbeat {
            session: self.sessions[&node],
            used_capacity: Capacity::default(),
            running_executions: 0,
            enqueued_executions: 0,
            stalled_millis: 0,
            lease_seconds: 0,
            probed,
        };
        self.handle(Input::Heartbeat { node, heartbeat })
    }

    pub(crate) fn submit(&mut self, spec: &JobSpec) -> JobId {
        let id = JobId::from_uuid(self.id());
        let named = self.store.named_by(spec);
        let submit = Submit { named, ..Submit::new(id, spec.clone().into(), spec_json(spec)) };
        let answer = self.handle(Input::Submit(Box::new(submit)));
        assert!(matches!(answer, Answer::Submitted { .. }), "{answer:?}");
        self.now = self.now + Duration::from_millis(1);
        id
    }

    pub(crate) fn entitle(&mut self, namespace: &str, to: Entitlement) {
        let namespace = namespace.to_owned();
        self.entitled.insert(namespace.clone(), to);
        assert_eq!(self.handle(Input::Entitle { namespace, to }), Answer::Done);
    }

    pub(crate) fn stop(&mut self, job: JobId) -> Answer {
        self.handle(Input::Stop { job, reason: "enough".to_owned() })
    }

    pub(crate) fn act(&mut self, node: NodeId, action: NodeAction) {
        let answer = self.handle(Input::NodeAction { node, action, message: String::new() });
        assert_eq!(answer, Answer::Done);
    }

    /// The desired state that a newly opened stream would start with.
    pub(crate) fn snapshot(&mut self, node: NodeId) -> Vec<AssignmentChange> {
        let session = self.sessions[&node];
        match self.handle(Input::OpenAssignments { node, session }) {
            Answer::Assignments(assignments) => assignments,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn report(&mut self, execution: ExecutionId, state: ComputeState) {
        self.report_as(execution, state, FailureCause::Task, "");
    }

    pub(crate) fn report_as(
        &mut self,
        execution: ExecutionId,
        state: ComputeState,
        cause: FailureCause,
        message: &str,
    ) {
        let node = self.store.executions[&execution].node;
        let answer = self.send_report(node, execution, state, cause, message);
        assert!(matches!(answer, Answer::Acknowledged(_)), "{answer:?}");
    }

    pub(crate) fn send_report(
        &mut self,
        node: NodeId,
        execution: ExecutionId,
        state: ComputeState,
        cause: FailureCause,
        message: &str,
    ) -> Answer {
        let report = Report { message: message.to_owned(), cause, ..report(execution, state) };
        let session = self.sessions[&node];
        self.handle(Input::Reports { node, session, reports: vec![report] })
    }

    /// The execution fails, and a probe of the agent does so as well.
    pub(crate) fn report_defect(&mut self, execution: ExecutionId) {
        let node = self.store.executions[&execution].node;
        let failed = report(execution, ComputeState::Failed);
        let (message, cause) = ("docker: 500".to_owned(), FailureCause::Node);
        let report = Report { message, cause, confirmed: true, ..failed };
        let session = self.sessions[&node];
        self.handle(Input::Reports { node, session, reports: vec![report] });
    }

    /// The process of a started execution ends, and the node publishes its results.
    pub(crate) fn process_ends(&mut self, execution: ExecutionId) {
        let node = self.store.executions[&execution].node;
        let report = Report { process_ended: true, ..report(execution, ComputeState::BidAccepted) };
        let session = self.sessions[&node];
        self.handle(Input::Reports { node, session, reports: vec![report] });
    }

    /// The node's agent gives the execution up that ended it.
    pub(crate) fn ends_its_agent(&mut self, execution: ExecutionId) {
        let node = self.store.executions[&execution].node;
        let report = Report {
            ended_agent: true,
            cause: FailureCause::Node,
            message: "its agent ended".to_owned(),
            ..report(execution, ComputeState::Failed)
        };
        let session = self.sessions[&node];
        self.handle(Input::Reports { node, session, reports: vec![report] });
    }

    /// Makes the node accept and start the execution.
    pub(crate) fn run(&mut self, execution: ExecutionId) {
        self.report(execution, ComputeState::AskForBidAccepted);
        self.report(execution, ComputeState::BidAccepted);
    }

    /// Makes the node accept, start and complete the execution.
    pub(crate) fn complete(&mut self, execution: ExecutionId) {
        self.run(execution);
        self.report(execution, ComputeState::Completed);
    }

    pub(crate) fn fail(&mut self, execution: ExecutionId) {
        self.run(execution);
        self.report_as(execution, ComputeState::Failed, FailureCause::Task, "exit code 1");
    }

    pub(crate) fn state(&self, job: JobId) -> JobStateType {
        self.store.state(job).expect("the job is stored")
    }

    pub(crate) fn message(&self, job: JobId) -> &str {
        &self.store.jobs[&job].message
    }

    /// Why the job waits, as a reader sees it now.
    pub(crate) fn explanation(&mut self, job: JobId) -> String {
        let spec = &self.store.new_jobs[&job].spec_json;
        let spec: JobSpec = serde_json::from_str(spec).expect("a stored specification");
        let demand = Demand::from_spec(&spec).expect("a checked job").into();
        let want = Want { namespace: spec.namespace.into(), demand };
        for _ in 0..100 {
            for (want, text) in self.scheduler.refresh_explanations() {
                self.explanations.insert(want, text);
            }
        }
        let text = self.explanations.get(&want).cloned().flatten();
        text.map_or_else(String::new, |text| text.to_string())
    }

    /// The nodes that are reserved.
    pub(crate) fn reserved(&self) -> Vec<NodeId> {
        self.scheduler.reserved_nodes().collect()
    }

    /// What the history of the job says of the job itself.
    pub(crate) fn comments(&self, job: JobId) -> Vec<String> {
        let events = self.store.events.iter().filter(|event| event.job() == Some(job));
        let of_job = events.filter(|event| matches!(event.subject, EventSubject::Job { .. }));
        of_job.map(|event| event.comment.to_string()).collect()
    }

    pub(crate) fn executions(&self, job: JobId) -> Vec<ExecutionRow> {
        self.store.executions_of(job).into_iter().cloned().collect()
    }

    /// The job's executions that have not ended.
    pub(crate) fn live(&self, job: JobId) -> Vec<ExecutionId> {
        let rows = self.executions(job);
        rows.iter().filter(|row| !row.compute.is_terminal()).map(|row| row.id).collect()
    }

    pub(crate) fn only_live(&self, job: JobId) -> ExecutionId {
        let live = self.live(job);
        assert_eq!(live.len(), 1, "{live:?}");
        live[0]
    }

    pub(crate) fn on_node(&self, node: NodeId) -> usize {
        let rows = self.store.executions.values();
        rows.filter(|row| row.node == node && !row.compute.is_terminal()).count()
    }

    pub(crate) fn row(&self, execution: ExecutionId) -> &ExecutionRow {
        &self.store.executions[&execution]
    }

    pub(crate) fn desired(&self, execution: ExecutionId) -> DesiredState {
        self.row(execution).desired
    }

    pub(crate) fn refusal(&self, answer: Answer) -> Refusal {
        let Answer::Refused(refusal) = answer else { panic!("{answer:?}") };
        refusal
    }
}
