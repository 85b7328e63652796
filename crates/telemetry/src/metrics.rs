//! Metrics for Prometheus: registries, and the exposition of a scrape.
//!
//! Names and units follow Prometheus: base units, and `_total` for counters. A label has few
//! values, all known in advance: never an id, a raw path, or any other user input.

mod exposed;
mod http;
mod measures;
mod process;
mod text;

use api_types::version::VersionRecord;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::info::Info;

pub use exposed::Exposed;
pub use http::{HttpMetrics, RouteMetrics};
pub use measures::{
    COUNTS, LONG_SECONDS, SHORT_SECONDS, cores, elapsed, long_seconds, number, quantity, sample,
    seconds, short_seconds,
};
pub(crate) use process::note_start;
pub use prometheus_client::registry::Registry;

/// The two exposition formats; the scraper chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// `OpenMetrics` 1.0.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: String,
    commit: String,
    os: String,
    architecture: String,
}

// === impl Exposition ===

impl Exposition {
    /// Chooses the format by an `Accept` header; the default is the one that every scraper reads.
    pub fn negotiate(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            Some(_) | None => Self::Text,
        }
    }

    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Renders these registries and the metrics of the process.
    pub fn render(self, registries: &[&Registry]) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        for registry in registries {
            encode_registry(&mut text, registry)?;
        }
        encode_registry(&mut text, &process::registry())?;
        encode_registry(&mut text, &log_registry())?;
        encode_eof(&mut text)?;
        Ok(match self {
            Self::OpenMetrics => text,
            Self::Text => text::from_open_metrics(&text),
        })
    }
}

fn log_registry() -> Registry {
    let mut registry = Registry::with_prefix("log");
    let help = "Lines of the log that were dropped because its reader was too slow or had stopped";
    registry.register("lines_dropped", help, ConstCounter::new(crate::log::dropped_lines()));
    registry
}

/// A registry with the daemon's name as prefix and a `build` info.
pub fn registry(daemon: &str) -> Registry {
    let VersionRecord { git_version, git_commit, goos, goarch, .. } = VersionRecord::current();
    let build = Build { version: git_version, commit: git_commit, os: goos, architecture: goarch };
    let mut registry = Registry::with_prefix(daemon);
    registry.register("build", "The running program; always 1", Info::new(build));
    registry
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[test]
    fn the_scraper_chooses_the_format() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3";
        assert_eq!(Exposition::negotiate(Some(prometheus)), Exposition::OpenMetrics);
        for accept in [None, Some("*/*"), Some("text/plain")] {
            assert_eq!(Exposition::negotiate(accept), Exposition::Text);
        }
    }

    #[test]
    fn both_formats_contain_the_same_samples() {
        let mut registry = registry("daemon");
        let counter = Counter::<u64>::default();
        registry.register("things", "Things", counter.clone());
        counter.inc_by(3);
        let open = Exposition::OpenMetrics.render(&[&registry]).unwrap();
        let text = Exposition::Text.render(&[&registry]).unwrap();
        let is_ours = |line: &&str| line.starts_with("daemon_");
        let samples = |format: &str| format.lines().filter(is_ours).map(str::to_owned).collect();
        let (in_open, in_text): (Vec<_>, Vec<_>) = (samples(&open), samples(&text));
        assert_eq!(in_open, in_text);
        assert!(in_open.contains(&"daemon_things_total 3".to_owned()), "{in_open:?}");
        assert!(open.ends_with("# EOF\n") && !text.contains("# EOF"));
        for word in ["# TYPE daemon_things_total counter", "process_cpu_seconds_total "] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}
