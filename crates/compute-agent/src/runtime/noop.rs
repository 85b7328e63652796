//! An engine whose tasks do nothing, wait or fail as their `Params` say, for tests and benchmarks.
//!
//! A task has no process: what it does follows from its specification and its start, so it outlives
//! the agent. The engine holds nothing of a task without `Params`, so that a benchmark measures the
//! service rather than this. A task that waits is a timer, not a thread.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_core::execution::Exit;
use api_types::engine::NoopParams;
use api_types::protocol::Work;
use api_types::{ExecutionId, NodeId, Timestamp};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, ready};
use futures_util::stream::{self, BoxStream, StreamExt};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Executor, ExecutorError, OutputChunk, OutputRange, Run};
use crate::host::clock;

/// Exit code of a task that fails.
const FAILURE: i32 = 1;

/// Exit code of a task that was stopped while it waited: that of a process that SIGTERM ends.
const STOPPED: i32 = 143;

#[derive(Debug, Default)]
pub(crate) struct Noop {
    /// Started tasks that wait or fail.
    tasks: Mutex<HashMap<ExecutionId, Task>>,
}

#[derive(Debug, Clone)]
struct Task {
    /// When it ends, by the steady clock.
    end: Timestamp,
    exit_code: i32,
    stop: CancellationToken,
}

// === impl Noop ===

impl Noop {
    fn tasks(&self) -> MutexGuard<'_, HashMap<ExecutionId, Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn task(&self, id: ExecutionId) -> Option<Task> {
        self.tasks().get(&id).cloned()
    }
}

impl Executor for Noop {
    fn admit(&self, work: &Work) -> Result<(), String> {
        params(work).map(drop)
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

    fn note_start(&self, id: ExecutionId, work: &Work, at: Timestamp) {
        // Admitted, so it is valid.
        let NoopParams { fail_every, wait_milliseconds } = params(work).unwrap_or_default();
        let number = work.index.saturating_add(1);
        let fails = fail_every.is_some_and(|every| number.checked_rem(every) == Some(0));
        if fails || wait_milliseconds > 0 {
            let end = at + Duration::from_millis(wait_milliseconds.into());
            let exit_code = if fails { FAILURE } else { 0 };
            self.tasks().insert(id, Task { end, exit_code, stop: CancellationToken::new() });
        }
    }

    fn wait(&self, id: ExecutionId) -> BoxFuture<'_, Result<Exit, ExecutorError>> {
        let Some(Task { end, exit_code, stop }) = self.task(id) else {
            return ready(Ok(Exit::default())).boxed();
        };
        async move {
            let ended = stop.run_until_cancelled(clock::reach(end)).await;
            let code = if ended.is_some() { exit_code } else { STOPPED };
            Ok(Exit { code, ..Exit::default() })
        }
        .boxed()
    }

    fn is_running(&self, id: ExecutionId) -> BoxFuture<'_, Result<bool, ExecutorError>> {
        let now = clock::steady();
        let runs = |task: Task| task.end > now && !task.stop.is_cancelled();
        ready(Ok(self.task(id).is_some_and(runs))).boxed()
    }

    fn stop(&self, id: ExecutionId, _: Duration) -> BoxFuture<'_, Result<(), ExecutorError>> {
        if let Some(task) = self.task(id) {
            task.stop.cancel();
        }
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
        self.tasks().remove(&id);
        ready(Ok(())).boxed()
    }

    fn list(&self, _: NodeId) -> BoxFuture<'_, Result<Vec<ExecutionId>, ExecutorError>> {
        ready(Ok(Vec::new())).boxed()
    }
}

/// What a task is to do.
fn params(work: &Work) -> Result<NoopParams, String> {
    let params = &work.task.engine.params;
    if params.is_empty() {
        return Ok(NoopParams::default());
    }
    serde_json::from_value(Value::Object(params.clone()))
        .map_err(|error| format!("the Params of the noop engine are invalid: {error}"))
}
