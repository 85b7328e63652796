//! What the tasks of a job print.

use std::fmt::Display;

use api_types::log::{LogLine, LogStream};
use api_types::routes;
use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt, TryStreamExt};

use crate::client::{Call, Client, segment};
use crate::error::ClientError;
use crate::lines;
use crate::query::Pairs;

/// Which part of a job's output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobLogsQuery {
    /// Only of this execution; the id may be short.
    pub execution_id: Option<String>,
    /// Goes on until the job is over, or the one execution.
    pub follow: bool,
    /// Of each execution only so many of the lines that are there now.
    pub tail: Option<u64>,
    /// Both when absent.
    pub stream: Option<LogStream>,
}

impl Client {
    /// `GET /jobs/:id/logs`, line by line.
    ///
    /// A stream that follows has no timeout: a task may be silent for as long as it runs.
    pub async fn job_logs(
        &self,
        id: impl Display,
        query: &JobLogsQuery,
    ) -> Result<BoxStream<'static, Result<LogLine, ClientError>>, ClientError> {
        let call = self.logs_call(id, query).accept("application/x-ndjson");
        let (response, place) = call.open().await?;
        Ok(lines::values(Box::pin(response.bytes_stream()), place).boxed())
    }

    /// `GET /jobs/:id/logs` as plain text: the bytes as they were printed when it is of one
    /// execution, lines that say whose they are otherwise.
    pub async fn job_logs_text(
        &self,
        id: impl Display,
        query: &JobLogsQuery,
    ) -> Result<BoxStream<'static, Result<Bytes, ClientError>>, ClientError> {
        let (response, place) = self.logs_call(id, query).accept("text/plain").open().await?;
        Ok(response.bytes_stream().map_err(move |error| place.unreachable(&error)).boxed())
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
            .add("stream", stream);
        self.get(&routes::fill(routes::JOB_LOGS, segment(id))).query(&pairs.0)
    }
}
