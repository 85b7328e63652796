//! What users should know of tasks that start nevertheless.
//!
//! A remark goes with the start of its execution and with a failure. A label of the container keeps
//! it across restarts of the agent.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api_types::ExecutionId;
use bollard::models::ContainerConfig;

use crate::runtime::ExecutorError;

/// The label of a container whose task has a remark.
pub(super) const LABEL: &str = "service.org/remark";

/// Of the executions that this process has prepared.
#[derive(Debug, Default)]
pub(super) struct Remarks(Mutex<HashMap<ExecutionId, String>>);

// === impl Remarks ===

impl Remarks {
    pub(super) fn note(&self, id: ExecutionId, remark: Option<String>) {
        if let Some(remark) = remark {
            self.all().insert(id, remark);
        }
    }

    pub(super) fn get(&self, id: ExecutionId) -> Option<String> {
        self.all().get(&id).cloned()
    }

    pub(super) fn forget(&self, id: ExecutionId) {
        self.all().remove(&id);
    }

    /// The error of a start, with what may explain it.
    pub(super) fn explain(&self, id: ExecutionId, error: ExecutorError) -> ExecutorError {
        match (error, self.get(id)) {
            (ExecutorError::Refused { reason, formerly }, Some(remark)) => {
                ExecutorError::Refused { reason: format!("{reason}; {remark}"), formerly }
            }
            (ExecutorError::Failed(mut failure), Some(remark)) => {
                failure.message = format!("{}; {remark}", failure.message);
                ExecutorError::Failed(failure)
            }
            (error, _) => error,
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ExecutionId, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The remark of a container, from its labels.
pub(super) fn of_container(config: Option<&ContainerConfig>) -> Option<String> {
    config?.labels.as_ref()?.get(LABEL).cloned()
}
