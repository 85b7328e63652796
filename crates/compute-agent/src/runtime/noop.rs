//! An engine that completes tasks without running anything, for tests and benchmarks.
//!
//! It holds no state per execution, so that a benchmark measures the service rather than this.

use std::time::Duration;

use agent_core::execution::Exit;
use api_types::protocol::Work;
use api_types::{ExecutionId, NodeId, Timestamp};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, ready};
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio_util::sync::CancellationToken;

use super::{Executor, ExecutorError, OutputChunk, OutputRange, Run};
use crate::host::clock;

#[derive(Debug, Default)]
pub(crate) struct Noop;

// === impl Noop ===

impl Executor for Noop {
    fn admit(&self, _: &Work) -> Result<(), String> {
        Ok(())
    }

    fn prepare<'a>(
        &'a self,
        _: &'a Run,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), ExecutorError>> {
        ready(Ok(())).boxed()
    }

    fn start(&self, _: ExecutionId) -> BoxFuture<'_, Result<Timestamp, ExecutorError>> {
        ready(Ok(clock::steady())).boxed()
    }

    fn wait(&self, _: ExecutionId) -> BoxFuture<'_, Result<Exit, ExecutorError>> {
        ready(Ok(Exit::default())).boxed()
    }

    fn is_running(&self, _: ExecutionId) -> BoxFuture<'_, Result<bool, ExecutorError>> {
        ready(Ok(false)).boxed()
    }

    fn stop(&self, _: ExecutionId, _: Duration) -> BoxFuture<'_, Result<(), ExecutorError>> {
        ready(Ok(())).boxed()
    }

    fn logs(
        &self,
        _: ExecutionId,
        _: OutputRange,
    ) -> BoxStream<'_, Result<OutputChunk, ExecutorError>> {
        stream::empty().boxed()
    }

    fn copy_out<'a>(
        &'a self,
        _: ExecutionId,
        path: &'a str,
    ) -> BoxStream<'a, Result<Bytes, ExecutorError>> {
        let error = ExecutorError::NoSuchPath { path: path.to_owned() };
        stream::once(ready(Err(error))).boxed()
    }

    fn remove(&self, _: ExecutionId) -> BoxFuture<'_, Result<(), ExecutorError>> {
        ready(Ok(())).boxed()
    }

    fn list(&self, _: NodeId) -> BoxFuture<'_, Result<Vec<ExecutionId>, ExecutorError>> {
        ready(Ok(Vec::new())).boxed()
    }
}
