//! Whether this process leads, and what it withheld because that was not certain.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use telemetry::metrics::Registry;

pub(crate) struct LeadMetrics {
    leading: Gauge,
    withheld_responses: Counter,
}

// === impl LeadMetrics ===

impl LeadMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let (leading, withheld_responses) = (Gauge::default(), Counter::default());
        registry.register("leading", "1 while this process leads", leading.clone());
        let help = "Responses withheld or cut off because another orchestrator may lead";
        registry.register("withheld_responses", help, withheld_responses.clone());
        Self { leading, withheld_responses }
    }

    pub(crate) fn leads(&self, leads: bool) {
        self.leading.set(i64::from(leads));
    }

    pub(crate) fn withheld(&self) {
        self.withheld_responses.inc();
    }
}
