//! Whom the agent tells what it does: metrics and traces.
//!
//! The supervisor hands over what it has committed, and the steps what they have done. What a step
//! does deep inside finds its [`Watch`] with the task that it runs in, so that engines, sources and
//! publishers need to know nothing of who watches.

mod life;
mod metrics;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api_types::ExecutionId;
use api_types::protocol::Work;
use telemetry::traces::{Span, Traceparent, Tracer};

use life::Life;
pub(crate) use metrics::{Metrics, Scrape};
pub(crate) use watch::{Stage, Watch, fetch, part, publish};

pub(crate) struct Observer {
    pub(crate) metrics: Metrics,
    tracer: Tracer,
    /// Executions that are not over, as far as this process has seen them.
    lives: Mutex<HashMap<ExecutionId, Life>>,
}

// === impl Observer ===

impl Observer {
    pub(crate) fn new(tracer: Tracer) -> Arc<Self> {
        Arc::new(Self { metrics: Metrics::new(), tracer, lives: Mutex::default() })
    }

    /// For one step of an execution.
    pub(crate) fn watch(self: &Arc<Self>, id: ExecutionId, work: &Arc<Work>) -> Watch {
        Watch {
            observer: Arc::clone(self),
            id,
            work: Arc::clone(work),
            context: self.context(work),
        }
    }

    /// The span that what is done here is a part of, if that is traced.
    fn context(&self, work: &Work) -> Option<Traceparent> {
        self.tracer.context(work.traceparent.as_deref())
    }

    fn record(&self, span: Span) {
        self.tracer.record(span);
    }

    /// Sends what was not sent yet.
    pub(crate) async fn shutdown(&self) {
        self.tracer.shutdown().await;
    }

    fn lives(&self) -> MutexGuard<'_, HashMap<ExecutionId, Life>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}
