//! The log: text lines for people, or one JSON object per line for machines.
//!
//! The span of a piece of work carries the fields of all its lines (request, job, execution, node).
//! Libraries may log credentials below `info`, so a filter applies to them only if it names them.
//!
//! A separate thread writes the lines. A reader that stops, such as a terminal after Ctrl-S or a
//! journal that hangs, must not stop the daemon: once the queue is full, lines are dropped and counted.

use std::borrow::Cow;
use std::io::{IsTerminal, Stderr, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

use api_types::text::is_directional;
use serde::{Deserialize, Serialize};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
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

/// The most lines that wait to be written, which are some megabytes at most.
const QUEUED_LINES: usize = 8192;

/// Ends the thread that writes once it is taken and dropped.
static WRITING: Mutex<Option<WorkerGuard>> = Mutex::new(None);

static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    /// One object per line: the event's fields at the top level, those of its span under `span`.
    Json,
}

/// The log of a process; dropping it [finishes] it.
///
/// [finishes]: finish
#[must_use = "the log ends when it is dropped"]
#[derive(Debug)]
pub struct Log(());

/// Standard error, with a line where some are missing.
struct Output {
    stderr: Stderr,
    format: LogFormat,
    /// How many lines were dropped when it last said so.
    said: u64,
}

/// Starts logging to standard error. A daemon calls it once, before anything else.
pub fn init(format: LogFormat) -> Log {
    crate::metrics::note_start();
    let requested = std::env::var("RUST_LOG").ok().filter(|filter| !filter.trim().is_empty());
    let (filter, invalid) = match filter(requested.as_deref().unwrap_or(DEFAULT_FILTER)) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new(DEFAULT_FILTER), Some(error)),
    };
    let (writer, writing) = NonBlockingBuilder::default()
        .buffered_lines_limit(QUEUED_LINES)
        .thread_name("log")
        .finish(Output { stderr: std::io::stderr(), format, said: 0 });
    DROPPED.get_or_init(|| writer.error_counter());
    *WRITING.lock().unwrap_or_else(PoisonError::into_inner) = Some(writing);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => {
            builder.json().flatten_event(true).with_current_span(true).with_span_list(false).init();
        }
    }
    if let Some(error) = invalid {
        tracing::warn!(%error, "RUST_LOG is not a valid filter; using '{DEFAULT_FILTER}'");
    }
    Log(())
}

/// Writes the lines that wait, for a second or so at most, and logs nothing more. A process that does
/// not return from its main function calls it before it exits.
pub fn finish() {
    drop(WRITING.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// How many lines were dropped because those before them were not read.
pub(crate) fn dropped_lines() -> u64 {
    DROPPED.get().map_or(0, |dropped| dropped.dropped_lines() as u64)
}

/// The last of several directives for a target applies.
fn filter(requested: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(format!("{LIBRARIES},{requested}"))
}

/// A line that stands for those that were dropped.
fn missing(format: LogFormat, lines: u64) -> String {
    let message =
        format!("dropped {lines} lines of the log: its reader was too slow or had stopped");
    match format {
        LogFormat::Text => format!(" WARN telemetry::log: {message}\n"),
        LogFormat::Json => format!(
            "{}\n",
            serde_json::json!({ "level": "WARN", "target": "telemetry::log", "message": message })
        ),
    }
}

/// A line as it is written: text of others in it cannot reorder it for its reader. The escapes are those
/// of Rust, and in JSON those of JSON.
fn shown(line: &[u8], format: LogFormat) -> Cow<'_, [u8]> {
    let text = match std::str::from_utf8(line) {
        Ok(text) if !text.is_ascii() && text.contains(is_directional) => text,
        Ok(_) | Err(_) => return Cow::Borrowed(line),
    };
    let mut shown = String::with_capacity(2 * text.len());
    for character in text.chars() {
        match format {
            _ if !is_directional(character) => shown.push(character),
            LogFormat::Text => shown.extend(character.escape_unicode()),
            LogFormat::Json => shown.push_str(&format!("\\u{:04x}", u32::from(character))),
        }
    }
    Cow::Owned(shown.into_bytes())
}

// === impl Log ===

impl Drop for Log {
    fn drop(&mut self) {
        finish();
    }
}

// === impl Output ===

impl Write for Output {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let dropped = dropped_lines();
        if dropped > self.said {
            self.stderr.write_all(missing(self.format, dropped - self.said).as_bytes())?;
            self.said = dropped;
        }
        match shown(line, self.format) {
            Cow::Borrowed(line) => self.stderr.write(line),
            Cow::Owned(shown) => self.stderr.write_all(&shown).map(|()| line.len()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stderr.flush()
    }
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

    #[test]
    fn a_line_cannot_be_reordered_by_what_it_quotes() {
        let line = "name \u{202e}txt.exe größer\n";
        let of =
            |line: &str, format| String::from_utf8(shown(line.as_bytes(), format).into()).unwrap();
        assert_eq!(of(line, LogFormat::Text), "name \\u{202e}txt.exe größer\n");
        let json = of(&format!("{}\n", serde_json::json!({ "name": line })), LogFormat::Json);
        assert!(json.is_ascii() || !json.contains(is_directional), "{json}");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["name"], line);
        assert!(matches!(shown("größer".as_bytes(), LogFormat::Text), Cow::Borrowed(_)));
        assert!(matches!(shown(b"\xff\xe2\x80\xae", LogFormat::Text), Cow::Borrowed(_)));
    }
}
