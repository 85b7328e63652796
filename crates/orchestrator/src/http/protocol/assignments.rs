//! The assignments stream: one JSON object a line, for as long as both sides stand.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use api_types::JobId;
use api_types::job::JobSpec;
use api_types::protocol::{Assignment, AssignmentLine, KEEP_ALIVE_SECONDS, Work};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::IntoResponse;
use futures_util::stream;
use http::{Method, Uri, header};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::driver::StreamItem;
use crate::engine::change::AssignmentChange;
use crate::http::error::{Failure, Kind};
use crate::http::query::Query;
use crate::http::{Api, Handled, Parameter, jobs, lookup};

/// Changes that are written in one piece; more wait for the next piece.
const CHANGES_PER_PIECE: usize = 256;

/// What a stream that is open needs.
struct Lines {
    api: Arc<Api>,
    items: mpsc::Receiver<StreamItem>,
    /// When the last piece was written.
    written: Instant,
}

pub(super) async fn stream(
    State(api): State<Arc<Api>>,
    method: Method,
    uri: Uri,
    query: Query,
    Parameter(text): Parameter,
) -> Handled {
    if method != Method::GET {
        // A HEAD would open a stream nobody reads, and so end the one that is read.
        let path = uri.path().to_owned();
        let failure = Failure::MethodNotAllowed { method: method.to_string(), path };
        return Ok(([(header::ALLOW, "GET")], failure).into_response());
    }
    let node = lookup::full_node(&text)?;
    let session = query.number("session")?;
    let items = api.handle.open_assignments(node, session).await?;
    let lines = Lines { api, items, written: Instant::now() };
    let pieces = stream::unfold(lines, |mut lines| async move {
        let piece = lines.next_piece().await?;
        lines.written = Instant::now();
        // It only ever ends; it never fails half way.
        Some((Ok::<_, Infallible>(piece), lines))
    });
    let content_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((content_type, Body::from_stream(pieces)).into_response())
}

// === impl Lines ===

impl Lines {
    /// The next lines, or nothing when the stream is over.
    async fn next_piece(&mut self) -> Option<Bytes> {
        let silence_ends = self.written + Duration::from_secs(KEEP_ALIVE_SECONDS);
        let mut items = Vec::new();
        tokio::select! {
            biased;
            () = self.api.stopping.cancelled() => return None,
            count = self.items.recv_many(&mut items, CHANGES_PER_PIECE) => {
                if count == 0 {
                    return None;
                }
            }
            () = tokio::time::sleep_until(silence_ends) => {
                return Some(Bytes::from(line(&AssignmentLine::KeepAlive)?));
            }
        }
        match self.render(items).await {
            Ok(bytes) => Some(bytes),
            Err(failure) => {
                // The agent opens another stream, which begins with everything that is desired.
                tracing::error!(?failure, "an assignments stream is cut off: no specification");
                None
            }
        }
    }

    async fn render(&self, items: Vec<StreamItem>) -> Result<Bytes, Failure> {
        let specs = self.specs(&items).await?;
        let mut bytes = Vec::new();
        for item in items {
            let changes = match item {
                StreamItem::Snapshot(changes) => {
                    let executions = changes.len() as u64;
                    write(&mut bytes, &AssignmentLine::Snapshot { executions })?;
                    changes
                }
                StreamItem::Change(change) => vec![change],
            };
            for change in changes {
                let assignment = assignment(change, &specs)?;
                write(&mut bytes, &AssignmentLine::Assignment(Box::new(assignment)))?;
            }
        }
        Ok(bytes.into())
    }

    /// The specifications that the items need, from memory or else from the store.
    async fn specs(&self, items: &[StreamItem]) -> Result<HashMap<JobId, Arc<JobSpec>>, Failure> {
        let mut specs = HashMap::new();
        let mut missing = Vec::new();
        let changes = items.iter().flat_map(|item| match item {
            StreamItem::Snapshot(changes) => changes.as_slice(),
            StreamItem::Change(change) => std::slice::from_ref(change),
        });
        for work in changes.filter_map(|change| change.work.as_ref()) {
            if specs.contains_key(&work.job) || missing.contains(&work.job) {
                continue;
            }
            match self.api.specs.get(work.job) {
                Some(spec) => drop(specs.insert(work.job, spec)),
                None => missing.push(work.job),
            }
        }
        if missing.is_empty() {
            return Ok(specs);
        }
        let api = Arc::clone(&self.api);
        let loaded = self
            .api
            .reader
            .run(move |reads| {
                let mut loaded = Vec::with_capacity(missing.len());
                for job in missing {
                    let stored = reads
                        .job(job)?
                        .ok_or_else(|| lookup::absent(Kind::Job, &job.to_string()))?;
                    let spec = Arc::new(jobs::specification(&stored.spec_json)?);
                    api.specs.insert(job, Arc::clone(&spec), stored.spec_json.len());
                    loaded.push((job, spec));
                }
                Ok(loaded)
            })
            .await?;
        specs.extend(loaded);
        Ok(specs)
    }
}

fn assignment(
    change: AssignmentChange,
    specs: &HashMap<JobId, Arc<JobSpec>>,
) -> Result<Assignment, Failure> {
    let work = match change.work {
        None => None,
        Some(order) => {
            let spec = specs.get(&order.job);
            let (spec, task) = spec
                .and_then(|spec| Some((spec, spec.tasks.first()?)))
                .ok_or_else(|| lookup::absent(Kind::Job, &order.job.to_string()))?;
            Some(Work {
                job_id: order.job,
                job_name: spec.name.clone(),
                namespace: spec.namespace.clone(),
                job_type: spec.job_type,
                index: order.index,
                count: order.count,
                resources: order.resources.into(),
                task: task.clone(),
            })
        }
    };
    Ok(Assignment {
        execution_id: change.execution,
        desired_state: change.desired,
        compute_state: change.compute,
        message: change.message.into_owned(),
        work,
    })
}

fn write(bytes: &mut Vec<u8>, line: &AssignmentLine) -> Result<(), Failure> {
    serde_json::to_writer(&mut *bytes, line)
        .map_err(|error| Failure::Internal { cause: format!("render an assignment: {error}") })?;
    bytes.push(b'\n');
    Ok(())
}

fn line(line: &AssignmentLine) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    write(&mut bytes, line).ok()?;
    Some(bytes)
}
