//! The log: text lines for people, or one JSON object per line for machines.
//!
//! The span of a piece of work carries the fields of all its lines (request, job, execution, node).
//! Libraries may log credentials below `info`, so a filter applies to them only if it names them.

use std::io::IsTerminal;

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// The filter when `RUST_LOG` is absent or empty.
const DEFAULT_FILTER: &str = "info";

/// Levels of libraries that the filter does not name: they handle requests with headers,
/// signatures and bodies.
const LIBRARIES: &str = "bollard=info,h2=info,hickory_net=info,hickory_proto=info,\
    hickory_resolver=info,hyper=info,hyper_util=info,object_store=info,reqwest=info,rustls=info,\
    opentelemetry=info,opentelemetry_sdk=info,opentelemetry_otlp=info,opentelemetry_http=info,\
    cranelift_codegen=info,wasmtime=info,wasmtime_internal_cranelift=info,wasmtime_wasi=info";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    /// One object per line: the event's fields at the top level, those of its span under `span`.
    Json,
}

/// Starts logging to standard error. A daemon calls it once, before anything else.
pub fn init(format: LogFormat) {
    crate::metrics::note_start();
    let requested = std::env::var("RUST_LOG").ok().filter(|filter| !filter.trim().is_empty());
    let (filter, invalid) = match filter(requested.as_deref().unwrap_or(DEFAULT_FILTER)) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new(DEFAULT_FILTER), Some(error)),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => {
            builder.json().flatten_event(true).with_current_span(true).with_span_list(false).init();
        }
    }
    if let Some(error) = invalid {
        tracing::warn!(%error, "RUST_LOG is not a valid filter; using '{DEFAULT_FILTER}'");
    }
}

/// The last of several directives for a target applies.
fn filter(requested: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(format!("{LIBRARIES},{requested}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_applies_to_libraries_only_by_name() {
        let text = filter("debug").unwrap().to_string();
        assert!(text.contains("bollard=info") && text.ends_with("debug"), "{text}");
        let text = filter("info,bollard=trace").unwrap().to_string();
        assert!(text.contains("bollard=trace") && !text.contains("bollard=info"), "{text}");
        assert!(filter("info,=,=").is_err());
    }
}
