//! The orchestrator's counters, and the gauges it reads for each scrape.
//!
//! The edge and the driver feed counters and histograms; the driver hands over each commit once it
//! is on disk. Gauges (queue, nodes, files) are read at the scrape; see [`scrape`].

pub(crate) mod lead;
mod members;
pub(crate) mod scrape;
pub(crate) mod standing;

use std::sync::Arc;
use std::time::Duration;

use api_types::cluster::{JobCounts, LiveExecutions};
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::schedule::RunOutcome;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;
use telemetry::metrics::{
    COUNTS, HttpMetrics, Registry, elapsed, long_seconds, registry, short_seconds,
};

use scheduler::change::{EventSubject, Fact};
use scheduler::{Census, Output};

use self::lead::LeadMetrics;
use self::standing::StandingMetrics;
use crate::shares::Refusals;

/// The prefix of every metric name.
const DAEMON: &str = "orchestrator";

/// The states of unfinished jobs.
const LIVE_JOBS: [JobStateType; 3] =
    [JobStateType::Pending, JobStateType::Queued, JobStateType::Running];

const ENDED_JOBS: [JobStateType; 3] =
    [JobStateType::Completed, JobStateType::Failed, JobStateType::Stopped];

const LIVE_EXECUTIONS: [ComputeState; 4] = [
    ComputeState::New,
    ComputeState::AskForBid,
    ComputeState::AskForBidAccepted,
    ComputeState::BidAccepted,
];

const ENDED_EXECUTIONS: [ComputeState; 5] = [
    ComputeState::AskForBidRejected,
    ComputeState::BidRejected,
    ComputeState::Completed,
    ComputeState::Failed,
    ComputeState::Cancelled,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

/// Jobs and executions, counted.
pub(crate) struct Counts {
    pub(crate) jobs: JobCounts,
    pub(crate) executions: LiveExecutions,
}

pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) http: HttpMetrics,
    submissions: Counter,
    jobs: Family<State, Gauge>,
    job_ends: Family<State, Counter>,
    executions: Family<State, Gauge>,
    execution_ends: Family<State, Counter>,
    failed_slots: Counter,
    placements: Counter,
    submission_to_placement: Histogram,
    placement_to_start: Histogram,
    submission_to_start: Histogram,
    commit_duration: Histogram,
    commit_inputs: Histogram,
    commit_failures: Counter,
    lead: LeadMetrics,
    pub(crate) standing: Arc<StandingMetrics>,
    lease_ends: Counter,
    back_offs: Counter,
    schedule_runs: Family<Outcome, Counter>,
    pub(crate) sessions: Counter,
    pub(crate) reports: Counter,
    /// Of permits, to callers whose share is used up.
    pub(crate) refusals: Refusals,
}

/// Registers the histograms of the stages from submission to start.
fn waits(registry: &mut Registry) -> [Histogram; 3] {
    [
        (
            "submission_to_placement",
            "Time from the submission of a job to the placement of one of its executions: the \
             orchestrator's own work and waiting for capacity; first attempts only",
        ),
        (
            "placement_to_start",
            "Time from the placement of an execution to the report that its process started: the way to the \
             node, its decision, inputs, image, engine, and the way back; retries included",
        ),
        (
            "submission_to_start",
            "Time from the submission of a job to the report that the process of an execution \
             started; first attempts only",
        ),
    ]
    .map(|(name, help)| {
        let histogram = long_seconds();
        registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        histogram
    })
}

/// Registers the counter of due times, with every outcome.
fn schedule_runs(registry: &mut Registry) -> Family<Outcome, Counter> {
    let runs = Family::default();
    let help = "Due times of schedules, by what became of them";
    registry.register("schedule_runs", help, runs.clone());
    for outcome in RunOutcome::ALL {
        runs.get_or_create_owned(&Outcome::of(*outcome));
    }
    runs
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn new(standing: Arc<StandingMetrics>) -> Self {
        let mut registry = registry(DAEMON);
        let http = HttpMetrics::register(&mut registry);
        let [submission_to_placement, placement_to_start, submission_to_start] =
            waits(&mut registry);
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let submissions = counter("submissions", "Jobs stored, not counting repeats");
        let placements = counter("placements", "Executions placed on a node");
        let commit_failures =
            counter("commit_failures", "Commits that failed on a full disk; their callers got 503");
        let back_offs = counter("back_offs", "Back-offs of nodes, each failed probe counted anew");
        let lease_ends = counter("lease_ends", "Leases that ended: nodes that fell silent");
        let sessions = counter("sessions_opened", "Sessions opened: a node joined or rejoined");
        let reports = counter("reports", "Reports from nodes, including repeats");
        let (commit_duration, commit_inputs) = (short_seconds(), Histogram::new(COUNTS));
        let help = "Time until one transaction was on disk";
        let duration = commit_duration.clone();
        registry.register_with_unit("commit_duration", help, Unit::Seconds, duration);
        let help = "Inputs that shared one transaction";
        registry.register("commit_inputs", help, commit_inputs.clone());
        let (jobs, job_ends) = (Family::default(), Family::default());
        registry.register("jobs", "Unfinished jobs, by state", jobs.clone());
        registry.register("job_ends", "Finished jobs, by state", job_ends.clone());
        let (executions, execution_ends) = (Family::default(), Family::default());
        let help = "Unfinished executions, by compute state";
        registry.register("executions", help, executions.clone());
        let help = "Finished executions, by compute state";
        registry.register("execution_ends", help, execution_ends.clone());
        let failed_slots = Counter::default();
        let help = "Slots of jobs that failed and are not tried again";
        registry.register("failed_slots", help, failed_slots.clone());
        let schedule_runs = schedule_runs(&mut registry);
        let refusals = Refusals::default();
        let help = "Requests refused because a pool, or the caller's share of it, is used up; by \
                    the namespace refused and the one that holds most of the rest";
        registry.register("pool_refusals", help, refusals.family());
        let lead = LeadMetrics::register(&mut registry);
        let metrics = Self {
            registry,
            http,
            submissions,
            jobs,
            job_ends,
            executions,
            execution_ends,
            failed_slots,
            placements,
            submission_to_placement,
            placement_to_start,
            submission_to_start,
            commit_duration,
            commit_inputs,
            commit_failures,
            lead,
            standing,
            lease_ends,
            back_offs,
            schedule_runs,
            sessions,
            reports,
            refusals,
        };
        metrics.show_ends();
        metrics.recount(&Census::default());
        metrics
    }

    /// Shows every way to end before anything has ended.
    fn show_ends(&self) {
        for state in ENDED_JOBS {
            self.job_ends.get_or_create_owned(&of_job(state));
        }
        for state in ENDED_EXECUTIONS {
            self.execution_ends.get_or_create_owned(&of_execution(state));
        }
    }

    /// Resets the gauges to the scheduler's counts after a start.
    pub(crate) fn recount(&self, census: &Census) {
        for state in LIVE_JOBS {
            self.jobs.get_or_create(&of_job(state)).set(counted(census.jobs.get(&state)));
        }
        for state in LIVE_EXECUTIONS {
            let count = counted(census.executions.get(&state));
            self.executions.get_or_create(&of_execution(state)).set(count);
        }
    }

    /// What the gauges and counters of jobs and executions say; of jobs that are over, those that
    /// ended since the start.
    pub(crate) fn counts(&self) -> Counts {
        let live = |state| {
            let count = self.jobs.get_or_create(&of_job(state)).get();
            u64::try_from(count).unwrap_or(0)
        };
        let ended = |state| self.job_ends.get_or_create(&of_job(state)).get();
        let executions = |state| {
            let count = self.executions.get_or_create(&of_execution(state)).get();
            u64::try_from(count).unwrap_or(0)
        };
        let jobs = JobCounts {
            pending: live(JobStateType::Pending),
            queued: live(JobStateType::Queued),
            running: live(JobStateType::Running),
            completed: ended(JobStateType::Completed),
            failed: ended(JobStateType::Failed),
            stopped: ended(JobStateType::Stopped),
        };
        let placed = [ComputeState::New, ComputeState::AskForBid, ComputeState::AskForBidAccepted];
        let executions = LiveExecutions {
            starting: placed.into_iter().map(executions).sum(),
            running: executions(ComputeState::BidAccepted),
        };
        Counts { jobs, executions }
    }

    pub(crate) fn committed(&self, inputs: usize, took: Duration) {
        self.commit_duration.observe(elapsed(took));
        self.commit_inputs.observe(telemetry::metrics::sample(inputs as u64));
    }

    pub(crate) fn commit_failed(&self) {
        self.commit_failures.inc();
    }

    pub(crate) fn lead(&self) -> &LeadMetrics {
        &self.lead
    }

    /// Records what became of due times that are now decided on disk.
    pub(crate) fn ran(&self, runs: &[RunOutcome]) {
        for run in runs {
            self.schedule_runs.get_or_create(&Outcome::of(*run)).inc();
        }
    }

    /// Records a commit that is now on disk.
    pub(crate) fn happened(&self, output: &Output) {
        self.submissions.inc_by(output.changes.new_jobs.len() as u64);
        for event in &output.changes.events {
            let is_first = event.revision == 1;
            match event.subject {
                EventSubject::Job { previous, new, .. } => self.job(is_first, previous, new),
                EventSubject::Execution { previous, new, .. } => {
                    self.execution(is_first, previous, new);
                }
                EventSubject::Node { .. } => {}
            }
        }
        for fact in &output.facts {
            self.fact(fact);
        }
    }

    fn job(&self, is_first: bool, previous: JobStateType, new: JobStateType) {
        if !is_first && previous == new {
            return;
        }
        if !is_first && !previous.is_terminal() {
            self.jobs.get_or_create(&of_job(previous)).dec();
        }
        if !new.is_terminal() {
            self.jobs.get_or_create(&of_job(new)).inc();
        } else if !previous.is_terminal() {
            self.job_ends.get_or_create(&of_job(new)).inc();
        }
    }

    fn execution(&self, is_first: bool, previous: ComputeState, new: ComputeState) {
        if !is_first && previous == new {
            return;
        }
        if !is_first {
            self.executions.get_or_create(&of_execution(previous)).dec();
        }
        if new.is_terminal() {
            self.execution_ends.get_or_create(&of_execution(new)).inc();
        } else {
            self.executions.get_or_create(&of_execution(new)).inc();
        }
    }

    fn fact(&self, fact: &Fact) {
        match *fact {
            Fact::Placed { at, submitted, is_first, .. } => {
                self.placements.inc();
                if is_first {
                    self.submission_to_placement.observe(elapsed(at.since(submitted)));
                }
            }
            Fact::Started { at, submitted, placed, is_first } => {
                self.placement_to_start.observe(elapsed(at.since(placed)));
                if is_first {
                    self.submission_to_start.observe(elapsed(at.since(submitted)));
                }
            }
            Fact::LeaseEnded => {
                self.lease_ends.inc();
            }
            Fact::BackedOff => {
                self.back_offs.inc();
            }
            Fact::SlotFailed => {
                self.failed_slots.inc();
            }
            Fact::JobEnded { .. } => {}
        }
    }
}

impl Outcome {
    fn of(run: RunOutcome) -> Self {
        let outcome = match run {
            RunOutcome::Started => "started",
            RunOutcome::Queued => "queued",
            RunOutcome::Skipped => "skipped",
            RunOutcome::Refused => "refused",
        };
        Self { outcome }
    }
}

fn counted(count: Option<&u64>) -> i64 {
    count.map_or(0, |count| i64::try_from(*count).unwrap_or(i64::MAX))
}

fn of_job(state: JobStateType) -> State {
    let state = match state {
        JobStateType::Pending => "pending",
        JobStateType::Queued => "queued",
        JobStateType::Running => "running",
        JobStateType::Completed => "completed",
        JobStateType::Failed => "failed",
        JobStateType::Stopped => "stopped",
    };
    State { state }
}

fn of_execution(state: ComputeState) -> State {
    let state = match state {
        ComputeState::Undefined => "undefined",
        ComputeState::New => "new",
        ComputeState::AskForBid => "offered",
        ComputeState::AskForBidAccepted => "accepted",
        ComputeState::AskForBidRejected => "declined",
        ComputeState::BidAccepted => "running",
        ComputeState::BidRejected => "withdrawn",
        ComputeState::Completed => "completed",
        ComputeState::Failed => "failed",
        ComputeState::Cancelled => "cancelled",
    };
    State { state }
}
