//! Job Logs: the output of a job's tasks, as text or as JSON objects.

use std::io;
use std::sync::Arc;

use api_types::execution::ComputeState;
use api_types::log::LogStream;
use api_types::node::Connection;
use api_types::{Code, JobId, routes};
use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use control_plane::store::{ExecutionOrder, ExecutionQuery, StoredExecution};
use daemon::collect;
use daemon::http::Operations;
use futures_util::stream;
use http::{HeaderMap, header};

use super::jobs;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::error::{Busy, Failure, Kind};
use crate::http::lookup;
use crate::http::openapi::{EXECUTION, JOB, QUERY, READ, params, refusals};
use crate::http::query::{Choice, Flag, IdPrefix, Number, Positions, query};
use crate::logs::{BrokenOff, Form, LogOptions, LogOrder, Resumed, Which};

const NDJSON: &str = "application/x-ndjson";

const STREAMS: Choice<Option<LogStream>> = Choice {
    permitted: &[("stdout", Some(LogStream::Stdout)), ("stderr", Some(LogStream::Stderr))],
    default: None,
};

const ORDERS: Choice<LogOrder> =
    Choice { permitted: &[("time", LogOrder::Time)], default: LogOrder::Arrival };

query! {
    struct LogQuery {
        execution: Option<String> = (
            "execution_id",
            IdPrefix('e'),
            "Only this execution of the job, by ID or prefix."
        );
        follow: bool =
            ("follow", Flag, "Continues until the job, or the selected execution, is over.");
        tail: Option<u64> = (
            "tail",
            Number,
            "Only this many of the last lines that each execution has now."
        );
        stream: Option<LogStream> =
            ("stream", STREAMS, "One of the two streams; both when absent.");
        order: LogOrder = (
            "order",
            ORDERS,
            "`time`: the output of several executions is merged by time, 64 of them at a time, and \
             lines of plain text begin with their index; without it, executions follow each other."
        );
        from: Resumed = (
            "from",
            Positions,
            "Resumes after what the reader has: full IDs of executions with a stream and the \
             `Offset` of its last line, like `e-….stdout.1024,e-….stderr.0`; `tail` does not apply \
             to these executions."
        );
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(logs))
}

/// Job Logs
///
/// The output of a job's tasks, live or afterwards. Plain text is the raw bytes where there is one
/// execution at a time, otherwise lines that begin with the short ID of their execution; with
/// `Accept: application/x-ndjson` it is one object a line.
#[utoipa::path(
    get,
    path = routes::JOB_LOGS,
    operation_id = "readLogs",
    tag = "Jobs",
    params(params::JobPath, LogQuery),
    responses((
        status = 200,
        description = "The output, as a chunked body.",
        content((String = "text/plain; charset=utf-8"), (String = "application/x-ndjson")),
    )),
    extensions(("x-error-codes" = json!(refusals(&[JOB, EXECUTION, QUERY, READ, &[Code::NodeUnavailable]]))), ("x-item-schema" = json!({ "application/x-ndjson": "LogLine" }))),
)]
async fn logs(
    State(api): State<Arc<Api>>,
    access: Access,
    headers: HeaderMap,
    query: LogQuery,
    Parameter(text): Parameter,
) -> Handled {
    let LogQuery { execution, follow, tail, stream, order, from } = query;
    let options = LogOptions { order, follow, tail, stream };
    let place = api.pools.log_readers.take(&api.pools.owner(access.caller()), 1)?;
    let (job, all, execution) = api
        .read(move |reads| {
            let job = lookup::job(reads, &access, &text)?;
            let execution = match execution {
                None => None,
                Some(text) => {
                    let found = lookup::execution(reads, &access, &text)?;
                    let is_of_job = found.row.job == job.id;
                    Some(found)
                        .filter(|_| is_of_job)
                        .ok_or_else(|| lookup::absent(Kind::Execution, &text))
                        .map(Some)?
                }
            };
            // Here, because the specification may be large.
            Ok((job.id, Which::for_job(job.id, &jobs::specification_of(&job)), execution))
        })
        .await?;
    let which = match &execution {
        Some(execution) => {
            if !options.follow {
                can_be_read(&api, execution)?;
            }
            Which::One(execution.row.id)
        }
        None => {
            if let (Which::InTurn(_), false) = (&all, options.follow)
                && let Some(last) = last_execution(&api, job).await?
            {
                can_be_read(&api, &last)?;
            }
            all
        }
    };
    let (form, content_type) = match which {
        _ if accepts_ndjson(&headers) => (Form::Json, NDJSON),
        Which::One(_) | Which::InTurn(_) => (Form::Raw, "text/plain; charset=utf-8"),
        Which::Together(_) => {
            let form = match order {
                LogOrder::Arrival => Form::Prefixed,
                LogOrder::Time => Form::Indexed,
            };
            (form, "text/plain; charset=utf-8")
        }
    };
    let reading = api.logs.read(which, options, from, form);
    let pieces = stream::unfold(Some((reading, place)), |reading| async move {
        let (mut reading, place) = reading?;
        match place.owner().within(reading.next()).await? {
            Ok(bytes) => Some((Ok(bytes), Some((reading, place)))),
            // Break the connection, so that partial output does not pass for complete.
            Err(BrokenOff(reason)) => Some((Err(io::Error::other(reason)), None)),
        }
    });
    Ok(([(header::CONTENT_TYPE, content_type)], Body::from_stream(pieces)).into_response())
}

/// The latest execution of a job with one slot.
async fn last_execution(api: &Api, job: JobId) -> Result<Option<StoredExecution>, Failure> {
    let query = ExecutionQuery {
        job,
        order: ExecutionOrder::CreateTime,
        reverse: true,
        states: Vec::new(),
        slots: None,
        after: None,
        limit: 1,
    };
    let page = api.read(move |reads| reads.executions(&query).map_err(Failure::from)).await?;
    Ok(page.items.into_iter().next())
}

/// Refuses output known to be unreachable before the response begins.
fn can_be_read(api: &Api, execution: &StoredExecution) -> Result<(), Failure> {
    let node = execution.row.node;
    let is_connected =
        api.view.node(node).is_some_and(|node| node.connection == Connection::Connected);
    if execution.row.compute == ComputeState::BidAccepted && !is_connected {
        return Err(Busy::NodeAway(node).into());
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
