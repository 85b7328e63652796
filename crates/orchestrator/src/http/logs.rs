//! Job Logs: what the tasks of a job print, live or after.
//!
//! Everything is made while the reader takes it: the chain from the reader to the nodes holds a
//! few pieces of output per execution, however slow the reader and however long the output.

mod merge;
mod record;
mod relay;
mod render;
mod source;

use std::io;
use std::sync::Arc;

use api_types::execution::ComputeState;
use api_types::job::{JobSpec, JobType};
use api_types::log::LogStream;
use api_types::node::Connection;
use api_types::{Code, routes};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::IntoResponse;
use futures_util::stream;
use http::{HeaderMap, header};
use tokio::sync::OwnedSemaphorePermit;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as collect;

use super::error::{Failure, Kind};
use super::openapi::{EXECUTION, JOB, QUERY, READ, params, refusals};
use super::query::Query;
use super::{Api, Handled, Parameter, jobs, lookup};
use crate::store::StoredExecution;
use merge::{Merge, Which};
pub(crate) use relay::{Attachment, Relay};
use render::{BrokenOff, Form, Render};
use source::Asked;

const NDJSON: &str = "application/x-ndjson";

const STREAMS: &[(&str, Option<LogStream>)] =
    &[("stdout", Some(LogStream::Stdout)), ("stderr", Some(LogStream::Stderr))];

/// One reader.
struct Reading {
    merge: Merge,
    render: Render,
    _place: OwnedSemaphorePermit,
}

pub(super) fn router() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default().routes(collect!(logs))
}

/// Job Logs
///
/// What the tasks of a job print, live or after, as it is read. Plain text is the bytes as they
/// were printed where there is one execution at a time, else lines that begin with the short ID
/// of their execution; with `Accept: application/x-ndjson` it is one object a line.
#[utoipa::path(
    get,
    path = routes::JOB_LOGS,
    operation_id = "readLogs",
    tag = "Jobs",
    params(params::JobPath, params::LogFilters),
    responses((
        status = 200,
        description = "The output, as a chunked body.",
        content((String = "text/plain; charset=utf-8"), (String = "application/x-ndjson")),
    )),
    extensions(("x-error-codes" = json!(refusals(&[JOB, EXECUTION, QUERY, READ, &[Code::NodeUnavailable]]))), ("x-item-schema" = json!({ "application/x-ndjson": "LogLine" }))),
)]
async fn logs(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    query: Query,
    Parameter(text): Parameter,
) -> Handled {
    let asked = Asked {
        follow: query.flag("follow")?,
        tail: query.optional_number("tail")?,
        stream: query.choice("stream", STREAMS, None)?,
    };
    let execution = query.text("execution_id")?.map(str::to_owned);
    let place = api.log_readers.take()?;
    let (job, execution) = api
        .reader
        .run(move |reads| {
            let job = lookup::job(reads, &text)?;
            let execution = match execution {
                None => None,
                Some(text) => {
                    let found = lookup::execution(reads, &text)?;
                    let is_of_job = found.row.job == job.id;
                    Some(found)
                        .filter(|_| is_of_job)
                        .ok_or_else(|| lookup::absent(Kind::Execution, &text))
                        .map(Some)?
                }
            };
            Ok((job, execution))
        })
        .await?;
    let which = match &execution {
        Some(execution) => {
            if !asked.follow {
                can_be_read(&api, execution)?;
            }
            Which::One(execution.row.id)
        }
        None if has_one_slot(&jobs::specification(&job.spec_json)?) => Which::InTurn(job.id),
        None => Which::Together(job.id),
    };
    let (form, content_type) = match which {
        _ if accepts_ndjson(&headers) => (Form::Json, NDJSON),
        Which::One(_) | Which::InTurn(_) => (Form::Raw, "text/plain; charset=utf-8"),
        Which::Together(_) => (Form::Prefixed, "text/plain; charset=utf-8"),
    };
    let merge = Merge::new(&api, which, asked);
    let reading = Reading { merge, render: Render::new(form), _place: place };
    let pieces = stream::unfold(Some(reading), |reading| async move {
        let mut reading = reading?;
        match reading.next().await? {
            Ok(bytes) => Some((Ok(bytes), Some(reading))),
            // The connection breaks off, so that what came does not pass for everything.
            Err(BrokenOff(reason)) => Some((Err(io::Error::other(reason)), None)),
        }
    });
    Ok(([(header::CONTENT_TYPE, content_type)], Body::from_stream(pieces)).into_response())
}

// === impl Reading ===

impl Reading {
    async fn next(&mut self) -> Option<Result<Bytes, BrokenOff>> {
        loop {
            match self.render.told(self.merge.next().await?) {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Some(Ok(bytes.into())),
                Err(broken_off) => return Some(Err(broken_off)),
            }
        }
    }
}

/// Whether its executions follow one another; the text of those of other jobs says whose it is.
fn has_one_slot(spec: &JobSpec) -> bool {
    match spec.job_type {
        JobType::Batch | JobType::Service => spec.count <= 1,
        JobType::Ops | JobType::Daemon => false,
    }
}

/// Refuses what is known to be out of reach before anything is sent.
fn can_be_read(api: &Api, execution: &StoredExecution) -> Result<(), Failure> {
    let node = execution.row.node;
    let is_connected =
        api.view.node(node).is_some_and(|node| node.connection == Connection::Connected);
    if execution.row.compute == ComputeState::BidAccepted && !is_connected {
        return Err(Failure::NodeUnavailable(node));
    }
    Ok(())
}

fn accepts_ndjson(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|kind| kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(NDJSON))
}
