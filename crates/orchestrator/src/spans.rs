//! Spans of jobs and executions in their traces.
//!
//! ```text
//! submit job
//! └─ job
//!    ├─ queue       waiting for room, and for the delay of a retry
//!    └─ execution   from its offer to its end; linked to the one that it retries
//!       ├─ offer    until its node has decided
//!       └─ …        what the node does
//! ```

use std::collections::HashMap;

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::{ExecutionId, JobId, Timestamp};
use telemetry::traces::{
    KeyValue, Kind, Span, Traceparent, Tracer, execution_span, job_span, named_span,
};

use scheduler::Output;
use scheduler::change::{EventRow, EventSubject, ExecutionRow, Fact};

/// The submission operation, as an HTTP span names it.
const METHOD_AND_ROUTE: [&str; 2] = ["PUT", api_types::routes::JOBS];

/// Follows the commits.
pub(crate) struct Spans {
    tracer: Tracer,
    /// When slots of live jobs began to wait for a retry. Lost on a restart: the span of such a
    /// wait then begins where it ends.
    waiting: HashMap<JobId, HashMap<u32, Timestamp>>,
}

/// An answered submission.
pub(crate) struct Submitted<'a> {
    pub(crate) job: JobId,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    /// The header `traceparent` of the request, if it had one.
    pub(crate) traceparent: Option<&'a str>,
}

fn submit_span(job: JobId) -> Traceparent {
    named_span(job, job.uuid(), "submit")
}

/// The root of the job's trace. A caller with a trace finds a span there too, and each
/// links to the other: the job may run long after the request was answered.
pub(crate) fn submitted(tracer: &Tracer, submitted: &Submitted<'_>) {
    let Submitted { job, from, to, traceparent } = *submitted;
    if !tracer.samples(job) {
        return;
    }
    let root = submit_span(job);
    let theirs = tracer.context(traceparent);
    let [method, route] = METHOD_AND_ROUTE;
    let span = |at, parent, links| Span {
        name: "submit job",
        at,
        parent,
        kind: Kind::Server,
        from,
        to,
        attributes: vec![
            KeyValue::new("job.id", job.to_string()),
            KeyValue::new("http.request.method", method),
            KeyValue::new("http.route", route),
            KeyValue::new("http.response.status_code", 200),
        ],
        links,
        error: None,
    };
    let ours = theirs.map(|theirs| theirs.child(job.uuid(), "submit"));
    tracer.record(span(root, None, ours.into_iter().collect()));
    if let Some(ours) = ours {
        tracer.record(span(ours, theirs, vec![root]));
    }
}

// === impl Spans ===

impl Spans {
    pub(crate) fn new(tracer: Tracer) -> Self {
        Self { tracer, waiting: HashMap::new() }
    }

    /// Records a commit that is now on disk.
    pub(crate) fn happened(&mut self, output: &Output) {
        if !self.tracer.is_on() {
            return;
        }
        for event in &output.changes.events {
            let EventSubject::Execution { job, id, previous, new, .. } = event.subject else {
                continue;
            };
            if previous == new || !self.tracer.samples(job) {
                continue;
            }
            if let Some(row) = output.changes.executions.get(&id) {
                self.execution(event, row, previous, new);
            }
        }
        for fact in &output.facts {
            match *fact {
                Fact::Placed { execution, job, index, at, submitted, is_first } => {
                    let begun = self.waiting.get_mut(&job).and_then(|slots| slots.remove(&index));
                    let from = begun.unwrap_or(if is_first { submitted } else { at });
                    self.queue(job, execution, from, at);
                }
                Fact::JobEnded { job, state, at, submitted, .. } => {
                    self.waiting.remove(&job);
                    self.job(job, state, submitted, at);
                }
                Fact::Started { .. } | Fact::LeaseEnded | Fact::BackedOff | Fact::SlotFailed => {}
            }
        }
    }

    fn execution(
        &mut self,
        event: &EventRow,
        row: &ExecutionRow,
        previous: ComputeState,
        new: ComputeState,
    ) {
        let whole = execution_span(row.job, row.id);
        let failed = matches!(
            new,
            ComputeState::Failed | ComputeState::Cancelled | ComputeState::AskForBidRejected
        );
        let error = failed.then(|| format!("{new:?}"));
        if previous == ComputeState::AskForBid {
            let at = whole.child(row.id.uuid(), "offer");
            let times = (row.create_time, event.time);
            self.record("offer", at, whole, times, attributes_of(row), Vec::new(), error.clone());
        }
        if !new.is_terminal() {
            return;
        }
        if row.followup.is_some() {
            self.waiting.entry(row.job).or_default().insert(row.index, event.time);
        }
        let links = row.previous.map(|previous| execution_span(row.job, previous));
        let times = (row.create_time, event.time);
        let links = links.into_iter().collect();
        let parent = job_span(row.job);
        self.record("execution", whole, parent, times, attributes_of(row), links, error);
    }

    fn queue(&self, job: JobId, execution: ExecutionId, from: Timestamp, to: Timestamp) {
        if self.tracer.samples(job) {
            let at = named_span(job, execution.uuid(), "queue");
            let attributes = vec![
                KeyValue::new("job.id", job.to_string()),
                KeyValue::new("execution.id", execution.to_string()),
            ];
            self.record("queue", at, job_span(job), (from, to), attributes, Vec::new(), None);
        }
    }

    fn job(&self, job: JobId, state: JobStateType, from: Timestamp, to: Timestamp) {
        if self.tracer.samples(job) {
            let attributes = vec![
                KeyValue::new("job.id", job.to_string()),
                KeyValue::new("job.state", state.to_string()),
            ];
            let error = (state == JobStateType::Failed).then(|| state.to_string());
            let (at, parent) = (job_span(job), submit_span(job));
            self.record("job", at, parent, (from, to), attributes, Vec::new(), error);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "every part of a span comes from the caller")]
    fn record(
        &self,
        name: &'static str,
        at: Traceparent,
        parent: Traceparent,
        (from, to): (Timestamp, Timestamp),
        attributes: Vec<KeyValue>,
        links: Vec<Traceparent>,
        error: Option<String>,
    ) {
        let kind = Kind::Internal;
        let parent = Some(parent);
        self.tracer.record(Span { name, at, parent, kind, from, to, attributes, links, error });
    }
}

fn attributes_of(row: &ExecutionRow) -> Vec<KeyValue> {
    vec![
        KeyValue::new("job.id", row.job.to_string()),
        KeyValue::new("execution.id", row.id.to_string()),
        KeyValue::new("execution.index", i64::from(row.index)),
        KeyValue::new("execution.attempt", i64::from(row.tries.attempt)),
        KeyValue::new("node.id", row.node.to_string()),
    ]
}
