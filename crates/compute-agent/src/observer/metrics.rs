//! The agent's counters, and the gauges that each scrape reads.

use agent_core::node_state::Usage;
use api_types::engine::{EngineType, PublisherType};
use api_types::execution::ComputeState;
use api_types::protocol::Work;
use api_types::quantity::Resources;
use api_types::source::SourceType;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;
use telemetry::metrics::{
    Exposition, HttpMetrics, Registry, cores, long_seconds, number, quantity, registry, sample,
    seconds, short_seconds,
};

use super::stage::Stage;

/// The prefix of every name.
const DAEMON: &str = "compute_agent";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfEngine {
    engine: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStage {
    engine: String,
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    kind: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) http: HttpMetrics,
    stages: Family<OfStage, Histogram>,
    acceptance_to_start: Family<OfEngine, Histogram>,
    run_duration: Family<OfEngine, Histogram>,
    ends: Family<State, Counter>,
    fetches: Moved,
    publications: Moved,
    pub(crate) sessions: Counter,
    pub(crate) missed_heartbeats: Counter,
    commit_duration: Histogram,
}

/// A transfer in or out: count, duration, bytes.
struct Moved {
    count: Family<Outcome, Counter>,
    duration: Family<OfKind, Histogram>,
    bytes: Family<OfKind, Counter>,
}

/// Values read at the time of a scrape.
pub(crate) struct Scrape {
    pub(crate) usage: Usage,
    pub(crate) capacity: Resources,
    pub(crate) joined: bool,
    pub(crate) reports_waiting: usize,
    pub(crate) engines: Vec<(EngineType, bool)>,
}

// === impl Moved ===

impl Moved {
    fn register(registry: &mut Registry, names: [(&str, &str); 3]) -> Self {
        let (count, bytes) = (Family::default(), Family::default());
        let [(name, help), (duration_name, duration_help), (bytes_name, bytes_help)] = names;
        registry.register(name, help, Family::clone(&count));
        registry.register_with_unit(bytes_name, bytes_help, Unit::Bytes, Family::clone(&bytes));
        let duration = seconds(registry, duration_name, duration_help, long_seconds);
        Self { count, duration, bytes }
    }

    fn add(&self, kind: &str, worked: bool, bytes: u64, took: f64) {
        let kind = kind.to_owned();
        let outcome = if worked { "done" } else { "failed" };
        self.count.get_or_create(&Outcome { kind: kind.clone(), outcome }).inc();
        let kind = OfKind { kind };
        self.duration.get_or_create(&kind).observe(took);
        self.bytes.get_or_create(&kind).inc_by(bytes);
    }
}

// === impl Metrics ===

impl Metrics {
    pub(super) fn new() -> Self {
        let mut registry = registry(DAEMON);
        let http = HttpMetrics::register(&mut registry);
        let stages = seconds(
            &mut registry,
            "start_stage_duration",
            "Time of the stages between acceptance and start: go_ahead (until the \
             orchestrator orders the run), inputs (fetching), make (image or \
             module, and container), start (the engine)",
            long_seconds,
        );
        let acceptance_to_start = seconds(
            &mut registry,
            "acceptance_to_start",
            "Time from the acceptance of an execution to the start of its process: all stages and \
             the agent's overhead between them",
            long_seconds,
        );
        let help = "Run time of the processes of executions";
        let run_duration = seconds(&mut registry, "run_duration", help, long_seconds);
        let ends = Family::default();
        let help = "Executions that ended on this node, by compute state";
        registry.register("execution_ends", help, Family::clone(&ends));
        let fetches = Moved::register(
            &mut registry,
            [
                ("input_fetches", "Inputs fetched, by type and outcome"),
                ("input_fetch_duration", "Time to fetch an input, including retries and delays"),
                ("input_fetched", "Bytes of inputs placed on disk, including cached ones"),
            ],
        );
        let publications = Moved::register(
            &mut registry,
            [
                ("publications", "Results published, by type and outcome"),
                ("publication_duration", "Time to pack and publish, including retries and delays"),
                ("published", "Bytes of the archives to publish"),
            ],
        );
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let sessions =
            counter("sessions_opened", "Sessions that the agent opened with its orchestrator");
        let missed_heartbeats =
            counter("missed_heartbeats", "Heartbeats without a response from the orchestrator");
        let commit_duration = short_seconds();
        let help = "Time to commit one transaction to the ledger";
        registry.register_with_unit(
            "commit_duration",
            help,
            Unit::Seconds,
            commit_duration.clone(),
        );
        Self {
            registry,
            http,
            stages,
            acceptance_to_start,
            run_duration,
            ends,
            fetches,
            publications,
            sessions,
            missed_heartbeats,
            commit_duration,
        }
    }

    pub(super) fn stage(&self, work: &Work, stage: Stage, took: f64) {
        let label = OfStage { engine: engine(work), stage: stage.word() };
        self.stages.get_or_create(&label).observe(took);
    }

    pub(super) fn acceptance_to_start(&self, work: &Work, took: f64) {
        self.acceptance_to_start.get_or_create(&OfEngine { engine: engine(work) }).observe(took);
    }

    pub(super) fn ran(&self, work: &Work, took: f64) {
        self.run_duration.get_or_create(&OfEngine { engine: engine(work) }).observe(took);
    }

    pub(super) fn ended(&self, state: ComputeState) {
        let state = match state {
            ComputeState::AskForBidRejected => "declined",
            ComputeState::Completed => "completed",
            ComputeState::Failed => "failed",
            ComputeState::Cancelled => "cancelled",
            ComputeState::Undefined
            | ComputeState::New
            | ComputeState::AskForBid
            | ComputeState::AskForBidAccepted
            | ComputeState::BidAccepted
            | ComputeState::BidRejected => return,
        };
        self.ends.get_or_create(&State { state }).inc();
    }

    pub(super) fn fetched(&self, kind: SourceType, worked: bool, bytes: u64, took: f64) {
        self.fetches.add(&kind.to_string(), worked, bytes, took);
    }

    pub(super) fn published(&self, kind: PublisherType, worked: bool, bytes: u64, took: f64) {
        self.publications.add(&kind.to_string(), worked, bytes, took);
    }

    pub(crate) fn committed(&self, took: f64) {
        self.commit_duration.observe(took);
    }

    pub(crate) fn render(
        &self,
        form: Exposition,
        scrape: &Scrape,
    ) -> Result<String, std::fmt::Error> {
        let mut registry = Registry::with_prefix(DAEMON);
        scrape.describe(&mut registry);
        form.render(&[&self.registry, &registry])
    }
}

fn engine(work: &Work) -> String {
    work.task.engine.engine_type.to_string()
}

// === impl Scrape ===

impl Scrape {
    fn describe(&self, registry: &mut Registry) {
        let Usage { used, running_executions, enqueued_executions } = self.usage;
        let help = "Executions of this node that are started and not finished";
        number(registry, "running_executions", help, sample(running_executions));
        let help = "Executions of this node that are accepted but not started";
        number(registry, "enqueued_executions", help, sample(enqueued_executions));
        resources(registry, "capacity", "Total of the resource on this node", &self.capacity);
        resources(registry, "allocated", "Amount of the resource allocated to executions", &used);
        let help = "Whether the agent has a session with its orchestrator";
        number(registry, "session_joined", help, sample(u64::from(self.joined)));
        let waiting = sample(self.reports_waiting as u64);
        number(registry, "reports_waiting", "Unacknowledged reports", waiting);
        let family = Family::<OfEngine, Gauge>::default();
        for (engine, answers) in &self.engines {
            let label = OfEngine { engine: engine.to_string() };
            family.get_or_create(&label).set(i64::from(*answers));
        }
        let help = "Whether an engine in the settings is reachable";
        registry.register("engine_available", help, family);
    }
}

fn resources(registry: &mut Registry, name: &str, help: &str, of: &Resources) {
    let unit = Unit::Other("cores".to_owned());
    quantity(registry, &format!("{name}_cpu"), &format!("{help}: CPU"), unit, cores(of.cpu_millis));
    for (what, bytes) in [("memory", of.memory_bytes), ("disk", of.disk_bytes)] {
        let (name, help) = (format!("{name}_{what}"), format!("{help}: {what}"));
        quantity(registry, &name, &help, Unit::Bytes, sample(bytes));
    }
    number(registry, &format!("{name}_gpus"), &format!("{help}: GPUs"), sample(of.gpus));
}
