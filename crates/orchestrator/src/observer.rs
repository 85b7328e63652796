//! Where the daemon reports what it does: metrics and traces.

use std::sync::Arc;

use telemetry::traces::Tracer;

use crate::metrics::Metrics;
use crate::metrics::standing::StandingMetrics;

/// Clones share what they record.
#[derive(Clone)]
pub struct Observer {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tracer: Tracer,
}

// === impl Observer ===

impl Observer {
    /// `standing` is what the process counted before it led.
    pub(crate) fn new(tracer: Tracer, standing: Arc<StandingMetrics>) -> Self {
        Self { metrics: Arc::new(Metrics::new(standing)), tracer }
    }
}

impl Default for Observer {
    fn default() -> Self {
        Self::new(Tracer::default(), Arc::default())
    }
}
