//! The assignments stream: one JSON object a line, for as long as both sides stay connected.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt::Display;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use api_types::engine::PublisherType;
use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobSpec, Task};
use api_types::protocol::{Assignment, AssignmentLine, KEEP_ALIVE_SECONDS, Work};
use api_types::{ExecutionId, JobId, routes};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::IntoResponse;
use control_plane::store::Reads;
use futures_util::stream;
use http::{HeaderMap, Method, Uri, header};
use scheduler::change::{AssignmentChange, WorkOrder};
use serde_json::Value;
use telemetry::traces::execution_span;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::specification;
use crate::driver::StreamItem;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::error::{BadRequest, Failure};
use crate::http::lookup;
use crate::http::openapi::{CALL, OWN_NODE_ID, QUERY, SESSION, params, refusals};
use crate::http::query::{Parameters as _, Query, RequiredNumber, query};
use crate::logs::Attachment;
use crate::namespaces;
use crate::specs::KnownSpec;

/// Changes taken from the driver's queue in one step; the rest waits there.
const CHANGES_AT_ONCE: usize = 256;

/// A piece of this length is written before more is rendered: a specification may hold megabytes of
/// inline input, and each of its executions carries it.
const PIECE_BYTES: usize = 1 << 20;

/// The copy of a specification of this size takes a worker less than a millisecond.
const LARGE_SPEC_BYTES: usize = 256 << 10;

/// The placeholder in the key of the `s3` publisher for the index of the execution.
const INDEX: &str = "{index}";

/// How many larger ones are copied at the same time.
static LARGE_SPECS: Semaphore = Semaphore::const_new(2);

/// Streams send their keep-alive lines together, at multiples of this since [`EPOCH`]: to wake up for
/// each of a thousand costs several times what the line costs.
const KEEP_ALIVE_STEP: Duration = Duration::from_millis(500);

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The state of an open stream.
struct Lines {
    api: Arc<Api>,
    items: mpsc::Receiver<StreamItem>,
    /// Requests for output and usage, which are not part of the desired state.
    requests: Attachment,
    /// Taken from the queue and not rendered yet.
    queue: VecDeque<Unrendered>,
    /// When the last piece was written.
    written: Instant,
}

/// By job and version: a specification, or why it cannot be read.
type Specs = HashMap<(JobId, u64), Result<KnownSpec, String>>;

enum Unrendered {
    /// The head of a snapshot, with the number of changes that follow.
    Snapshot(u64),
    Change(AssignmentChange),
}

/// An assignment before its work is copied from the specification, which has a task.
struct Unwritten {
    assignment: Assignment,
    work: Option<(WorkOrder, KnownSpec)>,
}

query! {
    pub(super) struct StreamQuery {
        session: u64 =
            ("session", RequiredNumber, "The session that the node received when it joined.");
    }
}

/// Assignments
///
/// Stays open and carries one object a line: first a snapshot of the node's desired state, then
/// each change, and requests for output and usage. Opening another stream ends the previous one.
#[utoipa::path(
    get,
    path = routes::NODE_ASSIGNMENTS,
    operation_id = "streamAssignments",
    tag = "Agent protocol",
    params(params::OwnNodePath, StreamQuery),
    responses((
        status = 200,
        description = "The stream.",
        content((String = "application/x-ndjson"), (String = "text/plain")),
    )),
    extensions(("x-error-codes" = json!(refusals(&[OWN_NODE_ID, QUERY, CALL, SESSION]))), ("x-item-schema" = json!({ "application/x-ndjson": "AssignmentLine" }))),
)]
pub(super) async fn stream(
    State(api): State<Arc<Api>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    query: Query,
    Parameter(text): Parameter,
) -> Handled {
    if method != Method::GET {
        // A HEAD request would open a stream without a reader, and end the one in use.
        let path = uri.path().to_owned();
        let failure = Failure::from(BadRequest::Method { method: method.to_string(), path });
        return Ok(([(header::ALLOW, "GET")], failure).into_response());
    }
    let node = lookup::full_node(&text)?;
    let StreamQuery { session } = StreamQuery::read(&query)?;
    let items = api.handle.open_assignments(node, session).await?;
    let requests = api.logs.relay.attach(node);
    let lines = Lines { api, items, requests, queue: VecDeque::new(), written: Instant::now() };
    let pieces = stream::unfold(lines, |mut lines| async move {
        let piece = lines.next_piece().await?;
        lines.written = Instant::now();
        // The stream only ever ends; it never fails partway.
        Some((Ok::<_, Infallible>(piece), lines))
    });
    // For people who read along.
    let is_text = headers.get(header::ACCEPT).is_some_and(|accepted| accepted == "text/plain");
    let content_type = if is_text { "text/plain" } else { "application/x-ndjson" };
    let content_type = [(header::CONTENT_TYPE, content_type)];
    Ok((content_type, Body::from_stream(pieces)).into_response())
}

// === impl Lines ===

impl Lines {
    /// The next lines, or `None` when the stream is over.
    async fn next_piece(&mut self) -> Option<Bytes> {
        if self.queue.is_empty() {
            let mut items = Vec::new();
            tokio::select! {
                biased;
                () = self.api.stopping.cancelled() => return None,
                count = self.items.recv_many(&mut items, CHANGES_AT_ONCE) => {
                    if count == 0 {
                        return None;
                    }
                }
                // The snapshot comes before the first request.
                request = self.requests.next() => {
                    return Some(Bytes::from(line(&request)?));
                }
                () = tokio::time::sleep_until(keep_alive_due(self.written)) => {
                    return Some(Bytes::from(line(&AssignmentLine::KeepAlive)?));
                }
            }
            self.take_up(items);
        }
        match self.render().await {
            Ok(bytes) => Some(bytes),
            Err(failure) => {
                // The agent opens another stream, which begins with the full desired state.
                tracing::error!(
                    ?failure,
                    "an assignments stream was cut off: cannot read specifications now"
                );
                None
            }
        }
    }

    fn take_up(&mut self, items: Vec<StreamItem>) {
        for item in items {
            match item {
                StreamItem::Snapshot(changes) => {
                    self.queue.push_back(Unrendered::Snapshot(changes.len() as u64));
                    self.queue.extend(changes.into_iter().map(Unrendered::Change));
                }
                StreamItem::Change(change) => self.queue.push_back(Unrendered::Change(change)),
            }
        }
    }

    /// Queued lines, up to the length of a piece.
    ///
    /// What needs a specification that cannot be read is withdrawn, and only its own job fails.
    async fn render(&mut self) -> Result<Bytes, Failure> {
        let mut bytes = Vec::new();
        let mut specs = Specs::new();
        let mut known = 0;
        while let Some(next) = self.queue.pop_front() {
            if known == 0 {
                specs = self.specs(&next).await?;
                known = self.queue.len().min(CHANGES_AT_ONCE);
            } else {
                known -= 1;
            }
            match next {
                Unrendered::Snapshot(executions) => {
                    write(&mut bytes, &AssignmentLine::Snapshot { executions })?;
                }
                Unrendered::Change(change) => {
                    let assignment = self.assignment(change, &specs).await?;
                    bytes = self.append(bytes, assignment).await?;
                }
            }
            if bytes.len() >= PIECE_BYTES {
                break;
            }
        }
        Ok(bytes.into())
    }

    /// The specifications that the next lines need, from memory or from the store.
    async fn specs(&self, next: &Unrendered) -> Result<Specs, Failure> {
        let mut specs = Specs::new();
        let mut missing = Vec::new();
        let ahead = self.queue.iter().take(CHANGES_AT_ONCE);
        let changes = [next].into_iter().chain(ahead).filter_map(|unrendered| match unrendered {
            Unrendered::Snapshot(_) => None,
            Unrendered::Change(change) => Some(change),
        });
        for work in changes.filter_map(|change| change.work.as_ref()) {
            let key = (work.job, work.version);
            if specs.contains_key(&key) || missing.contains(&key) {
                continue;
            }
            match self.api.view.specs().known(work.job, work.version) {
                Some(spec) => drop(specs.insert(key, Ok(spec))),
                None => missing.push(key),
            }
        }
        if missing.is_empty() {
            return Ok(specs);
        }
        let api = Arc::clone(&self.api);
        let load = move |reads: &dyn Reads| {
            let loaded =
                missing.into_iter().map(|key| Ok((key, specification::load(&api, reads, key)?)));
            loaded.collect::<Result<Vec<_>, Failure>>()
        };
        specs.extend(self.api.read_for_agent(load).await?);
        Ok(specs)
    }

    /// Appends an assignment, on a blocking thread if its specification is large. Each is a copy of
    /// it: a few at a time, however many streams carry one.
    async fn append(&self, mut bytes: Vec<u8>, assignment: Unwritten) -> Result<Vec<u8>, Failure> {
        let is_large =
            assignment.work.as_ref().is_some_and(|(_, known)| known.bytes >= LARGE_SPEC_BYTES);
        if !is_large {
            assignment.write(&mut bytes, &self.api)?;
            return Ok(bytes);
        }
        let permit = LARGE_SPECS.acquire().await;
        let api = Arc::clone(&self.api);
        let writing = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            assignment.write(&mut bytes, &api).map(|()| bytes)
        });
        writing.await.map_err(not_rendered)?
    }

    async fn assignment(
        &self,
        change: AssignmentChange,
        specs: &Specs,
    ) -> Result<Unwritten, Failure> {
        let AssignmentChange { execution, desired, compute, message, work } = change;
        let assignment = Assignment {
            execution_id: execution,
            desired_state: desired,
            compute_state: compute,
            message: message.to_string(),
            work: None,
        };
        let Some(order) = work else { return Ok(Unwritten { assignment, work: None }) };
        let reason = match specs.get(&(order.job, order.version)) {
            Some(Ok(known)) if known.spec.tasks.is_empty() => "it has no task",
            Some(Ok(known)) => {
                return Ok(Unwritten { assignment, work: Some((order, known.clone())) });
            }
            Some(Err(reason)) => reason.as_str(),
            None => "it is missing",
        };
        if !matches!(compute, ComputeState::New | ComputeState::AskForBid) {
            // The node has it in its own ledger, and ignores what comes with an execution that it
            // has accepted.
            specification::log_unreadable(order.job, execution, reason);
            return Ok(Unwritten { assignment, work: None });
        }
        specification::unreadable(&self.api, order.job, execution, reason).await?;
        let assignment = Assignment { desired_state: DesiredState::Stopped, ..assignment };
        Ok(Unwritten { assignment, work: None })
    }
}

/// When a stream that was last written to at this moment sends a keep-alive line: at the last step
/// before it would have been silent for too long.
fn keep_alive_due(written: Instant) -> Instant {
    let latest = written.duration_since(*EPOCH) + Duration::from_secs(KEEP_ALIVE_SECONDS);
    let steps = latest.as_nanos() / KEEP_ALIVE_STEP.as_nanos();
    *EPOCH + KEEP_ALIVE_STEP * u32::try_from(steps).unwrap_or(u32::MAX)
}

// === impl Unwritten ===

impl Unwritten {
    fn write(self, bytes: &mut Vec<u8>, api: &Api) -> Result<(), Failure> {
        let Self { mut assignment, work } = self;
        assignment.work = work.and_then(|(order, KnownSpec { spec, .. })| {
            Some(work_of(assignment.execution_id, &order, &spec, spec.tasks.first()?, api))
        });
        write(bytes, &AssignmentLine::Assignment(Box::new(assignment)))
    }
}

fn work_of(
    execution: ExecutionId,
    order: &WorkOrder,
    spec: &JobSpec,
    task: &Task,
    api: &Api,
) -> Work {
    Work {
        job_id: order.job,
        job_name: spec.name.clone(),
        namespace: spec.namespace.clone(),
        job_type: spec.job_type,
        index: order.index,
        count: order.count,
        resources: order.resources.into(),
        task: with_index(task, order.index),
        no_capabilities: !namespaces::settings(api.view.records(), &spec.namespace)
            .permits_capabilities(),
        traceparent: (api.observer.tracer.samples(order.job))
            .then(|| execution_span(order.job, execution).to_string()),
    }
}

/// The task of the execution with this index: agents of release 0.1.0 do not know `{index}`, and
/// would publish all executions under one key.
fn with_index(task: &Task, index: u32) -> Task {
    let mut task = task.clone();
    if task.publisher.publisher_type == PublisherType::S3
        && let Some(Value::String(key)) = task.publisher.params.get_mut("Key")
        && key.contains(INDEX)
    {
        *key = key.replace(INDEX, &index.to_string());
    }
    task
}

fn write(bytes: &mut Vec<u8>, line: &AssignmentLine) -> Result<(), Failure> {
    serde_json::to_writer(&mut *bytes, line).map_err(not_rendered)?;
    bytes.push(b'\n');
    Ok(())
}

fn not_rendered(error: impl Display) -> Failure {
    Failure::Internal { cause: format!("render an assignment: {error}") }
}

fn line(line: &AssignmentLine) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    write(&mut bytes, line).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keep_alive_lines_are_sent_together_and_never_late() {
        let longest = Duration::from_secs(KEEP_ALIVE_SECONDS);
        let mut wake_ups = BTreeSet::new();
        for millis in (0..1_000).step_by(10) {
            let written = *EPOCH + Duration::from_millis(millis);
            let due = keep_alive_due(written);
            let silence = due - written;
            assert!(silence <= longest && silence > longest - KEEP_ALIVE_STEP, "{silence:?}");
            wake_ups.insert(due);
        }
        assert_eq!(wake_ups.len(), 2);
    }
}
