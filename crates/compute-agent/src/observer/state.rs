//! The state of the observer: metrics, the trace exporter, and the executions in progress.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api_types::protocol::Work;
use api_types::{ExecutionId, Timestamp};
use telemetry::traces::{Span, Traceparent, Tracer};

use super::metrics::Metrics;

pub(crate) struct Observer {
    pub(crate) metrics: Metrics,
    tracer: Tracer,
    /// Executions in progress, as far as this process has seen them.
    lifecycles: Mutex<HashMap<ExecutionId, Lifecycle>>,
}

/// What is known of an execution in progress.
pub(super) struct Lifecycle {
    pub(super) work: Arc<Work>,
    /// None for one that was adopted after a restart.
    pub(super) accepted: Option<Timestamp>,
    pub(super) started: Option<Timestamp>,
    /// The number of its latest report, and when it was made.
    pub(super) reported: Option<(u64, Timestamp)>,
}

// === impl Observer ===

impl Observer {
    pub(crate) fn new(tracer: Tracer) -> Arc<Self> {
        Arc::new(Self { metrics: Metrics::new(), tracer, lifecycles: Mutex::default() })
    }

    /// The parent span of the current work, if it is traced.
    pub(super) fn context(&self, work: &Work) -> Option<Traceparent> {
        self.tracer.context(work.traceparent.as_deref())
    }

    pub(super) fn record(&self, span: Span) {
        self.tracer.record(span);
    }

    /// Sends all pending traces.
    pub(crate) async fn shutdown(&self) {
        self.tracer.shutdown().await;
    }

    pub(super) fn lifecycles(&self) -> MutexGuard<'_, HashMap<ExecutionId, Lifecycle>> {
        self.lifecycles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

// === impl Life ===

impl Lifecycle {
    pub(super) fn new(work: &Arc<Work>) -> Self {
        Self { work: Arc::clone(work), accepted: None, started: None, reported: None }
    }
}
