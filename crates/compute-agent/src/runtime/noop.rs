//! An engine that completes tasks without running anything, for tests and benchmarks.
//!
//! It holds no state per execution that completes, so that a benchmark measures the service rather
//! than this. With the param `FailEvery`, every nth index fails.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agent_core::execution::Exit;
use api_types::protocol::Work;
use api_types::{ExecutionId, NodeId, Timestamp};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, ready};
use futures_util::stream::{self, BoxStream, StreamExt};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Executor, ExecutorError, OutputChunk, OutputRange, Run};
use crate::host::clock;

/// The param that names every how many indexes one fails: with 2, the odd ones do.
const FAIL_EVERY: &str = "FailEvery";

#[derive(Debug, Default)]
pub(crate) struct Noop {
    /// Executions that fail.
    failing: Mutex<HashSet<ExecutionId>>,
}

// === impl Noop ===

impl Executor for Noop {
    fn admit(&self, _: &Work) -> Result<(), String> {
        Ok(())
    }

    fn prepare<'a>(
        &'a self,
        run: &'a Run,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), ExecutorError>> {
        if fails(&run.work) {
            self.failing.lock().unwrap_or_else(PoisonError::into_inner).insert(run.id);
        }
        ready(Ok(())).boxed()
    }

    fn start(&self, _: ExecutionId) -> BoxFuture<'_, Result<Timestamp, ExecutorError>> {
        ready(Ok(clock::steady())).boxed()
    }

    fn wait(&self, id: ExecutionId) -> BoxFuture<'_, Result<Exit, ExecutorError>> {
        let fails = self.failing.lock().unwrap_or_else(PoisonError::into_inner).contains(&id);
        ready(Ok(Exit { code: i32::from(fails), ..Exit::default() })).boxed()
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

    fn remove(&self, id: ExecutionId) -> BoxFuture<'_, Result<(), ExecutorError>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        ready(Ok(())).boxed()
    }

    fn list(&self, _: NodeId) -> BoxFuture<'_, Result<Vec<ExecutionId>, ExecutorError>> {
        ready(Ok(Vec::new())).boxed()
    }
}

fn fails(work: &Work) -> bool {
    let every = work.task.engine.params.get(FAIL_EVERY).and_then(Value::as_u64);
    every.filter(|every| *every > 0).is_some_and(|every| (u64::from(work.index) + 1) % every == 0)
}
