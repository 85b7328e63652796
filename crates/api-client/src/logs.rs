//! Task output of a job.

use std::fmt::Display;

use api_types::log::{LogLine, LogStream};
use api_types::routes;
use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt, TryStreamExt};

use crate::call::Call;
use crate::client::{Client, segment};
use crate::error::ClientError;
use crate::lines;
use crate::query::Pairs;

/// Selects a part of a job's output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobLogsQuery {
    /// Only this execution; the id may be short.
    pub execution_id: Option<String>,
    /// Continue until the job, or the one execution, is over.
    pub follow: bool,
    /// Number of existing lines to begin with, per execution; all when absent.
    pub tail: Option<u64>,
    /// Both when absent.
    pub stream: Option<LogStream>,
    /// Merge the output of several executions by time.
    pub by_time: bool,
    /// What was received before: executions, each with a stream and the `Offset` of its last line,
    /// like `e-….stdout.1024`, separated by commas.
    pub from: Option<String>,
}

impl Client {
    /// `GET /jobs/:id/logs`, line by line.
    ///
    /// A followed stream has no timeout: a task may be silent for as long as it runs.
    pub async fn job_logs(
        &self,
        id: impl Display,
        query: &JobLogsQuery,
    ) -> Result<BoxStream<'static, Result<LogLine, ClientError>>, ClientError> {
        let call = self.logs_call(id, query).accept("application/x-ndjson");
        let (response, context) = call.open().await?;
        Ok(lines::values(Box::pin(response.bytes_stream()), context).boxed())
    }

    /// `GET /jobs/:id/logs` as plain text: raw bytes for a single execution, lines prefixed with
    /// their execution for several.
    pub async fn job_logs_text(
        &self,
        id: impl Display,
        query: &JobLogsQuery,
    ) -> Result<BoxStream<'static, Result<Bytes, ClientError>>, ClientError> {
        let (response, context) = self.logs_call(id, query).accept("text/plain").open().await?;
        Ok(response.bytes_stream().map_err(move |error| context.unreachable(&error)).boxed())
    }

    fn logs_call(&self, id: impl Display, query: &JobLogsQuery) -> Call<'_> {
        let stream = query.stream.map(|stream| match stream {
            LogStream::Stdout => "stdout",
            LogStream::Stderr => "stderr",
        });
        let pairs = Pairs::default()
            .add("execution_id", query.execution_id.as_ref())
            .add_flag("follow", query.follow)
            .add("tail", query.tail)
            .add("stream", stream)
            .add("order", query.by_time.then_some("time"))
            .add("from", query.from.as_ref());
        self.get(&routes::fill(routes::JOB_LOGS, segment(id))).query(&pairs.0)
    }
}
