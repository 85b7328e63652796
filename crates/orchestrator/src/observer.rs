//! Where the daemon reports what it does: metrics and traces.

use std::sync::Arc;

use telemetry::traces::Tracer;

use crate::metrics::Metrics;

/// Clones share what they record.
#[derive(Clone)]
pub struct Observer {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tracer: Tracer,
}

// === impl Observer ===

impl Observer {
    pub fn new(tracer: Tracer) -> Self {
        Self { metrics: Arc::new(Metrics::new()), tracer }
    }
}

impl Default for Observer {
    fn default() -> Self {
        Self::new(Tracer::default())
    }
}
