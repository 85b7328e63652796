//! Metrics of HTTP requests by route and status.

use std::time::Duration;

use http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::{Registry, elapsed, seconds, short_seconds};

/// The route label of requests that match no route.
const NO_ROUTE: &str = "unmatched";

#[derive(Debug, Clone)]
pub struct HttpMetrics {
    requests: Family<Answered, Counter>,
    duration: Family<Operation, Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    method: &'static str,
    /// With the names of parameters in place of IDs.
    route: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: &'static str,
    status: u32,
}

// === impl HttpMetrics ===

impl HttpMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let requests = Family::default();
        registry.register(
            "http_requests",
            "Requests by route pattern (never the raw path) and status",
            requests.clone(),
        );
        let duration = seconds(
            registry,
            "http_request_duration",
            "Time from the head of a request to the head of its response, including long polls; \
             a stream counts until it is open",
            short_seconds,
        );
        Self { requests, duration }
    }

    /// Counts a response. Requests without a route share one label value, as do unknown methods.
    pub fn answered(
        &self,
        method: &Method,
        route: Option<&'static str>,
        status: u16,
        took: Duration,
    ) {
        let (method, route) = (known(method), route.unwrap_or(NO_ROUTE));
        let operation = Operation { method, route };
        self.duration.get_or_create(&operation).observe(elapsed(took));
        self.requests.get_or_create(&Answered { method, route, status: status.into() }).inc();
    }
}

fn known(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH"];
    KNOWN.into_iter().find(|known| method.as_str() == *known).unwrap_or("OTHER")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Exposition;

    #[test]
    fn unknown_routes_and_methods_share_a_label_value() {
        let mut registry = Registry::default();
        let metrics = HttpMetrics::register(&mut registry);
        for (method, route) in [("GET", Some("/jobs/{id}")), ("BREW", None), ("STEEP", None)] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            metrics.answered(&method, route, 404, Duration::from_millis(2));
        }
        let text = Exposition::Text.render(&[&registry]).unwrap();
        for line in [
            r#"http_requests_total{method="GET",route="/jobs/{id}",status="404"} 1"#,
            r#"http_requests_total{method="OTHER",route="unmatched",status="404"} 2"#,
            r#"http_request_duration_seconds_bucket{le="0.0025",method="GET",route="/jobs/{id}"} 1"#,
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
