//! Traces over OTLP: one per job, from submission to end, across both daemons.
//!
//! A span is created after the fact, from recorded timestamps. Trace and span ids are derived from
//! the ids of jobs and executions, so that no state is needed: a restarted daemon continues the
//! traces of its predecessor, and each daemon knows the ids of the other's spans.
//!
//! Without an endpoint the tracer is off and builds no spans. With one, spans enter a bounded
//! queue, which a separate thread exports; when the queue is full, spans are dropped.
//!
//! Rejected: exporting the spans of the logging library. They do not survive their process, and
//! their ids are random.

mod collector;
mod context;
mod settings;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api_types::{JobId, Timestamp};
use opentelemetry::InstrumentationScope;
pub use opentelemetry::KeyValue;
use opentelemetry::trace::{Link, SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor,
};
use ring::digest;
use tokio::runtime::Handle;

use collector::Collector;
pub use context::{Traceparent, execution_span, job_span, named_span, trace_of};
pub use settings::OtlpSettings;

/// Capacity of the export queue; further spans are dropped. About 2 MB, and with a responsive
/// collector several times what a thousand jobs per second produce between two batches.
const QUEUE_SPANS: usize = 8192;

/// Spans per request to the collector.
const BATCH_SPANS: usize = 512;

/// Longest time that a span waits for its batch to fill.
const BATCH_DELAY: Duration = Duration::from_secs(1);

/// Time limit of one export request.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for exporting queued spans at shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Exports spans; clones share their queue. A tracer that is off does nothing.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<Exporting>>);

#[derive(Debug)]
struct Exporting {
    processor: BatchSpanProcessor,
    /// Jobs with a sampling hash below it are traced; `None` traces all jobs.
    threshold: Option<u64>,
    scope: InstrumentationScope,
}

/// A finished span.
#[derive(Debug, Clone)]
pub struct Span {
    pub name: &'static str,
    /// Its trace and span id.
    pub at: Traceparent,
    /// The parent span; `None` for the root of a trace.
    pub parent: Option<Traceparent>,
    pub kind: Kind,
    pub from: Timestamp,
    pub to: Timestamp,
    pub attributes: Vec<KeyValue>,
    pub links: Vec<Traceparent>,
    /// Why the operation failed, if it did.
    pub error: Option<String>,
}

/// Relation of a span to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Work within this process.
    Internal,
    /// Handling of a request.
    Server,
    /// Work that another process assigned.
    Consumer,
}

/// Why the tracer cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    #[error("create an HTTP client for the collector")]
    Client(#[from] reqwest::Error),
    #[error("create an exporter for the collector")]
    Exporter(#[from] ExporterBuildError),
}

// === impl Tracer ===

impl Tracer {
    /// Starts an exporter if the settings name an endpoint. Requests run on the runtime of the
    /// caller.
    pub fn start(
        settings: &OtlpSettings,
        service: &'static str,
        instance: String,
    ) -> Result<Self, OtlpError> {
        let Some(endpoint) = settings.traces_endpoint() else { return Ok(Self::default()) };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(Handle::current(), &endpoint, EXPORT_TIMEOUT)?)
            .with_endpoint(&endpoint)
            .with_timeout(EXPORT_TIMEOUT)
            .with_headers(settings.headers.clone().into_iter().collect::<HashMap<_, _>>())
            .build()?;
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_SPANS)
            .with_max_export_batch_size(BATCH_SPANS)
            .with_scheduled_delay(BATCH_DELAY)
            .build();
        let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
        let version = api_types::version::VersionRecord::current().git_version;
        let resource = Resource::builder_empty()
            .with_service_name(service)
            .with_attribute(KeyValue::new("service.instance.id", instance))
            .with_attribute(KeyValue::new("service.version", version))
            .build();
        processor.set_resource(&resource);
        let scope = InstrumentationScope::builder(service).build();
        let threshold = settings.threshold();
        tracing::info!(sampling_ratio = settings.sampling_ratio, "exporting traces over OTLP");
        Ok(Self(Some(Arc::new(Exporting { processor, threshold, scope }))))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether this job is traced; every process with the same ratio decides alike.
    pub fn samples(&self, job: JobId) -> bool {
        match self.0.as_deref() {
            None => false,
            Some(Exporting { threshold: None, .. }) => true,
            Some(Exporting { threshold: Some(threshold), .. }) => sampling_hash(job) < *threshold,
        }
    }

    /// Parses the trace context of another process; `None` when it is absent or unsampled, or when
    /// this tracer is off.
    pub fn context(&self, traceparent: Option<&str>) -> Option<Traceparent> {
        self.0.as_deref()?;
        traceparent.and_then(Traceparent::parse).filter(|context| context.sampled)
    }

    /// Queues the span, or drops it when the queue is full.
    pub fn record(&self, span: Span) {
        if let Some(exporting) = self.0.as_deref() {
            exporting.processor.on_end(exporting.data(span));
        }
    }

    /// Exports queued spans within [`FLUSH_TIMEOUT`] and accepts no more.
    pub async fn shutdown(&self) {
        let Some(exporting) = self.0.clone() else { return };
        let ended = tokio::task::spawn_blocking(move || {
            exporting.processor.shutdown_with_timeout(FLUSH_TIMEOUT)
        });
        if let Ok(Err(error)) = ended.await {
            tracing::debug!(%error, "could not export all spans");
        }
    }
}

// === impl Exporting ===

impl Exporting {
    fn data(&self, span: Span) -> SpanData {
        let Span { name, at, parent, kind, from, to, attributes, links, error } = span;
        let mut span_links = SpanLinks::default();
        span_links.links = links
            .into_iter()
            .map(|link| Link::new(span_context(link, true), Vec::new(), 0))
            .collect();
        SpanData {
            span_context: span_context(at, false),
            parent_span_id: parent
                .map_or(opentelemetry::trace::SpanId::INVALID, |parent| parent.span),
            parent_span_is_remote: kind != Kind::Internal,
            span_kind: match kind {
                Kind::Internal => SpanKind::Internal,
                Kind::Server => SpanKind::Server,
                Kind::Consumer => SpanKind::Consumer,
            },
            name: name.into(),
            start_time: moment(from),
            end_time: moment(to.max(from)),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: span_links,
            status: error.map_or(Status::Unset, Status::error),
            instrumentation_scope: self.scope.clone(),
        }
    }
}

fn span_context(context: Traceparent, is_remote: bool) -> SpanContext {
    let flags = if context.sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    SpanContext::new(context.trace, context.span, flags, is_remote, TraceState::NONE)
}

fn moment(time: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(time.0.unsigned_abs())
}

/// A uniformly distributed hash of the job id, whose own bits are not all random.
fn sampling_hash(job: JobId) -> u64 {
    let digest = digest::digest(&digest::SHA256, job.uuid().as_bytes());
    digest.as_ref().iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests;
