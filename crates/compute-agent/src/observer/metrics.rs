//! What the agent counts, and what it looks up when somebody scrapes it.

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

use super::Stage;
use crate::core::Usage;

/// What every name begins with.
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

/// What goes in or out: how often, how long, how much.
struct Moved {
    count: Family<Outcome, Counter>,
    duration: Family<OfKind, Histogram>,
    bytes: Family<OfKind, Counter>,
}

/// What is read at the moment of a scrape.
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
            "Time of the parts of the way from an acceptance to a start: go_ahead (until the \
             orchestrator has the acceptance and says to run), inputs (fetching), make (image or \
             module, and container), start (the engine)",
            long_seconds,
        );
        let acceptance_to_start = seconds(
            &mut registry,
            "acceptance_to_start",
            "Time from the acceptance of an execution to the start of its process: all stages and \
             what this agent takes between them",
            long_seconds,
        );
        let help = "Time for which processes of executions ran";
        let run_duration = seconds(&mut registry, "run_duration", help, long_seconds);
        let ends = Family::default();
        let help = "Executions that came to an end here, by compute state";
        registry.register("execution_ends", help, Family::clone(&ends));
        let fetches = Moved::register(
            &mut registry,
            [
                ("input_fetches", "Inputs fetched, by type and outcome"),
                ("input_fetch_duration", "Time that an input took, tries and waits included"),
                ("input_fetched", "Bytes of inputs that were put in place, from caches too"),
            ],
        );
        let publications = Moved::register(
            &mut registry,
            [
                ("publications", "Results published, by type and outcome"),
                ("publication_duration", "Time to pack and publish, tries and waits included"),
                ("published", "Bytes of the archives that were to be published"),
            ],
        );
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let sessions = counter("sessions_opened", "Times that the agent joined its orchestrator");
        let missed_heartbeats =
            counter("missed_heartbeats", "Heartbeats that the orchestrator did not answer");
        let commit_duration = short_seconds();
        let help = "Time that one transaction took to be in the ledger";
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
        let help = "Executions of this node that are started and not over";
        number(registry, "running_executions", help, sample(running_executions));
        let help = "Executions of this node that are accepted and not started";
        number(registry, "enqueued_executions", help, sample(enqueued_executions));
        resources(registry, "capacity", "What this node has of it", &self.capacity);
        resources(
            registry,
            "allocated",
            "What the executions of this node were given of it",
            &used,
        );
        let help = "Whether the agent has a session with its orchestrator";
        number(registry, "session_joined", help, sample(u64::from(self.joined)));
        let waiting = sample(self.reports_waiting as u64);
        number(registry, "reports_waiting", "Reports that were not acknowledged", waiting);
        let family = Family::<OfEngine, Gauge>::default();
        for (engine, answers) in &self.engines {
            let label = OfEngine { engine: engine.to_string() };
            family.get_or_create(&label).set(i64::from(*answers));
        }
        let help = "Whether an engine that the settings name answers";
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
