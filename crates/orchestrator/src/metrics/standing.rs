//! What this process alone reports, leading or not: its readiness, and connections passed on.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;
use telemetry::metrics::{Exposition, Registry, elapsed, registry};

use super::DAEMON;

/// Counted from the start of the process, in both of its roles.
pub(crate) struct StandingMetrics {
    pub(super) registry: Registry,
    ready: Gauge,
    poll_age: Gauge<f64, AtomicU64>,
    open_passed_connections: Gauge,
    passed_connections: Counter,
    refused_prefaces: Counter,
}

/// A connection that is being passed on, for as long as it lives.
pub(crate) struct PassedConnection(Arc<StandingMetrics>);

// === impl StandingMetrics ===

impl StandingMetrics {
    /// Whether this process is ready in its present role, and how long ago it last saw the row of the
    /// leader; a process that leads does not poll.
    pub(crate) fn stands(&self, is_ready: bool, poll_age: Option<Duration>) {
        self.ready.set(i64::from(is_ready));
        self.poll_age.set(poll_age.map_or(0.0, elapsed));
    }

    pub(crate) fn passes(self: &Arc<Self>) -> PassedConnection {
        self.passed_connections.inc();
        self.open_passed_connections.inc();
        PassedConnection(Arc::clone(self))
    }

    pub(crate) fn refused_preface(&self) {
        self.refused_prefaces.inc();
    }

    /// As long as no driver has metrics.
    pub(crate) fn render_alone(&self, form: Exposition) -> Result<String, std::fmt::Error> {
        let mut following = registry(DAEMON);
        following.register("leading", "1 while this process leads", <Gauge>::default());
        form.render(&[&following, &self.registry])
    }
}

impl Default for StandingMetrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix(DAEMON);
        let ready = Gauge::default();
        registry.register("ready", "1 while this process is ready in its role", ready.clone());
        let poll_age = Gauge::default();
        let help = "Time since this process last saw the row of the leader; 0 while it leads";
        registry.register_with_unit("poll_age", help, Unit::Seconds, poll_age.clone());
        let open_passed_connections = Gauge::default();
        let help = "Open connections that this process passes on to the leader";
        registry.register("open_passed_connections", help, open_passed_connections.clone());
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let help = "Connections that this process passed on to the leader";
        let passed_connections = counter("passed_connections", help);
        let help = "Connections refused because no follower of this leader can have passed them on";
        let refused_prefaces = counter("refused_prefaces", help);
        Self {
            registry,
            ready,
            poll_age,
            open_passed_connections,
            passed_connections,
            refused_prefaces,
        }
    }
}

// === impl PassedConnection ===

impl Drop for PassedConnection {
    fn drop(&mut self) {
        self.0.open_passed_connections.dec();
    }
}
