//! Metrics of HTTP requests by route and status.

use std::sync::OnceLock;
use std::time::Duration;

use http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::measures::{elapsed, seconds, short_seconds};

/// The route label of requests that match no route.
const NO_ROUTE: &str = "unmatched";

#[derive(Debug, Clone)]
pub struct HttpMetrics {
    requests: Family<Answered, Counter>,
    duration: Family<Operation, Histogram>,
}

/// The metrics of one route, kept at hand: counting a request searches for no label.
#[derive(Debug)]
pub struct RouteMetrics {
    all: HttpMetrics,
    route: &'static str,
    of_methods: [OfMethod; METHODS.len()],
}

#[derive(Debug, Default)]
struct OfMethod {
    duration: OnceLock<Histogram>,
    /// Of the status that nearly all have.
    ok: OnceLock<Counter>,
}

/// The last stands for all others.
const METHODS: [&str; 8] = ["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "OTHER"];

const OK: u16 = 200;

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

    /// Those of requests with this route; without one, they share a label value.
    pub fn of_route(&self, route: Option<&'static str>) -> RouteMetrics {
        let route = route.unwrap_or(NO_ROUTE);
        RouteMetrics { all: self.clone(), route, of_methods: Default::default() }
    }
}

// === impl RouteMetrics ===

impl RouteMetrics {
    /// Counts a response. Requests with unknown methods share a label value.
    pub fn answered(&self, method: &Method, status: u16, took: Duration) {
        let known = METHODS.iter().position(|known| method.as_str() == *known);
        let index = known.unwrap_or(METHODS.len() - 1);
        let (method, route, of_method) = (METHODS[index], self.route, &self.of_methods[index]);
        let duration = || self.all.duration.get_or_create_owned(&Operation { method, route });
        of_method.duration.get_or_init(duration).observe(elapsed(took));
        let answered = Answered { method, route, status: status.into() };
        let count = || self.all.requests.get_or_create_owned(&answered);
        match status {
            OK => of_method.ok.get_or_init(count).inc(),
            _ => count().inc(),
        };
    }
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
            let metrics = metrics.of_route(route);
            for status in [404, 200, 200] {
                metrics.answered(&method, status, Duration::from_millis(2));
            }
        }
        let text = Exposition::Text.render(&[&registry]).unwrap();
        for line in [
            r#"http_requests_total{method="GET",route="/jobs/{id}",status="404"} 1"#,
            r#"http_requests_total{method="GET",route="/jobs/{id}",status="200"} 2"#,
            r#"http_requests_total{method="OTHER",route="unmatched",status="404"} 2"#,
            r#"http_requests_total{method="OTHER",route="unmatched",status="200"} 4"#,
            r#"http_request_duration_seconds_bucket{le="0.0025",method="GET",route="/jobs/{id}"} 3"#,
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
