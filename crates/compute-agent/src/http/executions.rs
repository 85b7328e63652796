//! The executions of this node, and their output.

use agent_core::node_state::Matches;
use api_types::engine::EngineType;
use api_types::id::IdPrefix;
use api_types::log::{LogPosition, LogStream};
use api_types::protocol::{ListLocalExecutions, LocalExecution};
use api_types::{ApiError, Code, ExecutionId, routes};
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use daemon::http::Query;
use futures_util::stream::{self, Stream, StreamExt};
use http::header::CONTENT_TYPE;

use super::failure::Failure;
use super::openapi::refusals;
use super::paging::PageQuery;
use super::parameter::Parameter;
use super::render::Json;
use super::shared::{Shared, holding};
use crate::data::logs::{Begin, Output, Wanted};

/// Candidates listed in the error for an ambiguous id.
const MAX_CANDIDATES: usize = 5;

/// Executions of this node
///
/// Lists the executions that this node holds, including recently finished ones, page by page.
#[utoipa::path(
    get,
    path = routes::AGENT_EXECUTIONS,
    operation_id = "listOwnExecutions",
    tag = "Executions",
    params(
        ("limit" = Option<usize>, Query, description = "The number of rows of a page, 100 by default and at most 1,000."),
        ("next_token" = Option<String>, Query, description = "`NextToken` of the page before."),
        ("order_by" = Option<String>, Query, description = "The sort key: `id`, which is the default.", pattern = "^(id)?$"),
        ("reverse" = Option<bool>, Query, description = "Descending order."),
    ),
    responses((status = 200, description = "A page of executions.", body = ListLocalExecutions)),
    extensions(("x-error-codes" = json!(refusals(&[Code::ShuttingDown, Code::InvalidQuery, Code::InvalidNextToken])))),
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    query: Query,
) -> Result<Json<ListLocalExecutions>, Failure> {
    let wanted = PageQuery::read(&query)?;
    Ok(Json(wanted.apply(shared.mailbox.list().await?)))
}

/// One execution of this node
///
/// Returns the node's record of the execution.
#[utoipa::path(
    get,
    path = routes::AGENT_EXECUTION,
    operation_id = "describeOwnExecution",
    tag = "Executions",
    params(("execution_id" = String, Path, description = "The execution's ID, or a unique prefix with at least 8 characters of its UUID.", pattern = "^e-[0-9a-fA-F]{8}(-[0-9a-fA-F-]{0,27})?$")),
    responses((status = 200, description = "The execution.", body = LocalExecution)),
    extensions(("x-error-codes" = json!(refusals(&[Code::ExecutionNotFound, Code::AmbiguousId, Code::InvalidRequest, Code::ShuttingDown])))),
)]
pub(super) async fn describe(
    State(shared): State<Shared>,
    Parameter(id): Parameter,
) -> Result<Json<LocalExecution>, Failure> {
    let (local, _) = find(&shared, &id).await?;
    Ok(Json(local))
}

/// Output of one execution
///
/// Returns the task's output unchanged, in the order in which it was printed.
#[utoipa::path(
    get,
    path = routes::AGENT_EXECUTION_LOGS,
    operation_id = "readOwnLogs",
    tag = "Executions",
    params(
        ("execution_id" = String, Path, description = "The execution's ID, or a unique prefix with at least 8 characters of its UUID.", pattern = "^e-[0-9a-fA-F]{8}(-[0-9a-fA-F-]{0,27})?$"),
        ("follow" = Option<bool>, Query, description = "Continues until the execution ends."),
        ("tail" = Option<u64>, Query, description = "Only this many of the last lines."),
        ("stream" = Option<LogStream>, Query, description = "One of the two streams; both when absent."),
    ),
    responses((
        status = 200,
        description = "The bytes as the task printed them.",
        body = String,
        content_type = "text/plain; charset=utf-8",
    )),
    extensions(("x-error-codes" = json!(refusals(&[Code::ExecutionNotFound, Code::AmbiguousId, Code::InvalidRequest, Code::ShuttingDown, Code::InvalidQuery, Code::TooManyRequests])))),
)]
pub(super) async fn logs(
    State(shared): State<Shared>,
    Parameter(id): Parameter,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let params = LogParams::parse(query.as_deref().unwrap_or_default())?;
    let (local, _) = find(&shared, &id).await?;
    let permit = shared.readers.take()?;
    let begin = params.tail.map_or(Begin::At(LogPosition::default()), Begin::Tail);
    let LogParams { follow, stream, .. } = params;
    let mut output = Box::pin(shared.outputs.read(Wanted { id: local.id, follow, stream, begin }));
    // The status reports an output that cannot be read at all, the body one that breaks off.
    let first = output.next().await.transpose().map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, execution = %local.id, "output");
        Failure::new(Code::Internal, "cannot read the output of this execution")
    })?;
    let chunks = stream::iter(first.map(Ok)).chain(output).filter_map(|output| async {
        match output {
            Ok(Output::Begin(_)) => None,
            Ok(Output::Chunk(chunk)) => Some(Ok(chunk.bytes)),
            Err(error) => Some(Err(std::io::Error::other(error))),
        }
    });
    // A following reader would delay the agent's stop for as long as the task runs.
    let stopping = shared.stopping.clone();
    let cut_off = stream::once(async move {
        stopping.cancelled().await;
        Err(std::io::Error::other("the agent is stopping"))
    });
    let chunks = ends_with_first(chunks, cut_off);
    let content_type = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
    Ok((content_type, Body::from_stream(holding(permit, chunks))).into_response())
}

/// Merges both streams, until the first one ends or the second one yields.
fn ends_with_first<T: Send>(
    first: impl Stream<Item = Result<T, std::io::Error>> + Send,
    second: impl Stream<Item = Result<T, std::io::Error>> + Send,
) -> impl Stream<Item = Result<T, std::io::Error>> + Send {
    let first = first.map(Some).chain(stream::once(async { None }));
    stream::select(first, second.map(Some))
        .take_while(|item| std::future::ready(item.is_some()))
        .filter_map(std::future::ready)
}

async fn find(shared: &Shared, id: &str) -> Result<(LocalExecution, EngineType), Failure> {
    let unknown = || {
        ApiError::new(Code::ExecutionNotFound, format!("no execution on this node matches '{id}'"))
            .with_hint("list the node's executions with GET /api/v1/agent/executions")
    };
    let prefix = IdPrefix::parse(id, ExecutionId::LETTER).ok_or_else(unknown)?;
    match shared.mailbox.find(prefix).await? {
        Matches::None => Err(unknown().into()),
        Matches::One { local, engine } => Ok((*local, engine)),
        Matches::Many(ids) => {
            let message = format!("'{id}' matches {} executions of this node", ids.len());
            let candidates = ids.into_iter().take(MAX_CANDIDATES);
            Err(ApiError::new(Code::AmbiguousId, message).with_details(candidates).into())
        }
    }
}

/// The selected part of the output.
#[derive(Debug, Default, PartialEq, Eq)]
struct LogParams {
    follow: bool,
    tail: Option<u64>,
    stream: Option<LogStream>,
}

// === impl LogParams ===

impl LogParams {
    /// The last value of a repeated key wins; unknown keys are ignored.
    fn parse(query: &str) -> Result<Self, Failure> {
        let mut params = Self::default();
        for pair in query.split('&') {
            let refuse = |wanted: &str, came: &str| {
                Failure::new(Code::InvalidQuery, format!("{wanted}, not '{came}'"))
            };
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("follow", value) => {
                    params.follow = match value.to_ascii_lowercase().as_str() {
                        "true" | "1" => true,
                        "" => pair == "follow",
                        "false" | "0" => false,
                        _ => return Err(refuse("follow is true or false", value)),
                    };
                }
                ("tail" | "stream", "") => {}
                ("tail", count) => {
                    let parsed = count.parse();
                    params.tail =
                        Some(parsed.map_err(|_| refuse("tail is a number of lines", count))?);
                }
                ("stream", "stdout") => params.stream = Some(LogStream::Stdout),
                ("stream", "stderr") => params.stream = Some(LogStream::Stderr),
                ("stream", other) => return Err(refuse("stream is stdout or stderr", other)),
                _ => {}
            }
        }
        Ok(params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_parameters_are_parsed_strictly() {
        let parse = |query| LogParams::parse(query).map_err(|failure| failure.0.message);
        let all = LogParams { follow: true, tail: Some(3), stream: Some(LogStream::Stderr) };
        assert_eq!(parse("follow&tail=3&stream=stderr&pretty"), Ok(all));
        assert_eq!(parse("follow=&tail=&stream="), Ok(LogParams::default()));
        assert_eq!(parse("follow=0"), Ok(LogParams::default()));
        assert_eq!(parse("tail=-1"), Err("tail is a number of lines, not '-1'".to_owned()));
        assert!(parse("follow=maybe").is_err() && parse("stream=both").is_err());
    }
}
