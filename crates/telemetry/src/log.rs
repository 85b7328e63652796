//! The log: lines for people, or one JSON object a line for machines.
//!
//! Fields that belong to all lines of some work (request, job, execution, node) stand in its span.
//! What libraries say below `info` may repeat what they were handed, credentials included, so a
//! filter reaches them only by their own names.

use std::io::IsTerminal;

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// What is logged when `RUST_LOG` says nothing.
const DEFAULT_FILTER: &str = "info";

/// What libraries may log at most, unless the filter names them: requests with their headers,
/// signatures and bodies pass through them.
const LIBRARIES: &str = "bollard=info,h2=info,hickory_net=info,hickory_proto=info,\
    hickory_resolver=info,hyper=info,hyper_util=info,object_store=info,reqwest=info,rustls=info,\
    opentelemetry=info,opentelemetry_sdk=info,opentelemetry_otlp=info,opentelemetry_http=info,\
    cranelift_codegen=info,wasmtime=info,wasmtime_internal_cranelift=info,wasmtime_wasi=info";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    /// One object a line, with the fields of the event at its top and those of the work it belongs
    /// to under `span`.
    Json,
}

/// Begins to log to standard error; to be called once, before anything else is done.
pub fn init(format: LogFormat) {
    crate::metrics::note_start();
    let wanted = std::env::var("RUST_LOG").ok().filter(|filter| !filter.trim().is_empty());
    let (filter, wrong) = match filter(wanted.as_deref().unwrap_or(DEFAULT_FILTER)) {
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
    if let Some(error) = wrong {
        tracing::warn!(%error, "RUST_LOG is not a filter; '{DEFAULT_FILTER}' is used instead");
    }
}

/// Of two directives for the same target the later one counts.
fn filter(wanted: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(format!("{LIBRARIES},{wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_heard_only_by_their_names() {
        let text = filter("debug").unwrap().to_string();
        assert!(text.contains("bollard=info") && text.ends_with("debug"), "{text}");
        let text = filter("info,bollard=trace").unwrap().to_string();
        assert!(text.contains("bollard=trace") && !text.contains("bollard=info"), "{text}");
        assert!(filter("info,=,=").is_err());
    }
}
