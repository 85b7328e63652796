//! Traces over OTLP: one per job, from its submission to its end, over both daemons.
//!
//! A span is made when what it tells of is over, from the moments that are known by then. Trace and
//! span ids are derived from the ids of jobs and executions, so that nothing has to be kept: a
//! daemon that was restarted goes on with the traces of the one before, and each side knows the ids
//! of the other's spans.
//!
//! Without an endpoint there is no tracer, and nothing is derived or built. With one, spans go into
//! a bounded queue that a thread of its own empties; when that is full they are dropped.
//!
//! Rejected: spans of the logging library as traces. They live and die with a process, and get
//! their ids at random.

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

/// Spans that wait to be sent; beyond it new ones are dropped. About 2 MB, and with a collector
/// that answers, several times what a thousand jobs a second make between two batches.
const QUEUE_SPANS: usize = 8192;

/// Spans in one request to the collector.
const BATCH_SPANS: usize = 512;

/// How long spans wait for others to be sent with.
const BATCH_DELAY: Duration = Duration::from_secs(1);

/// How long one try to reach the collector may take.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the end of a daemon waits for what was not sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Takes spans; clones share their queue. One that is off does nothing.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<Exporting>>);

#[derive(Debug)]
struct Exporting {
    processor: BatchSpanProcessor,
    /// Of all jobs, those whose number is below it are traced; none for all of them.
    threshold: Option<u64>,
    scope: InstrumentationScope,
}

/// Something that is over.
#[derive(Debug, Clone)]
pub struct Span {
    pub name: &'static str,
    /// Where it stands.
    pub at: Traceparent,
    /// The span that it is a part of; none for the root of a trace.
    pub parent: Option<Traceparent>,
    pub kind: Kind,
    pub from: Timestamp,
    pub to: Timestamp,
    pub attributes: Vec<KeyValue>,
    pub links: Vec<Traceparent>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// How a span stands to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Work of this process.
    Internal,
    /// An answer to a request.
    Server,
    /// Work that another process handed over.
    Consumer,
}

/// Why there is no tracer.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    #[error("make an HTTP client for the collector")]
    Client(#[from] reqwest::Error),
    #[error("make an exporter for the collector")]
    Exporter(#[from] ExporterBuildError),
}

// === impl Tracer ===

impl Tracer {
    /// Sends to the endpoint of the settings, if they name one; must be called on the runtime that
    /// is to carry the requests.
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
        tracing::info!(sampling_ratio = settings.sampling_ratio, "traces are sent over OTLP");
        Ok(Self(Some(Arc::new(Exporting { processor, threshold, scope }))))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether this job is traced: the same answer whenever and wherever it is asked with the same
    /// ratio.
    pub fn samples(&self, job: JobId) -> bool {
        match self.0.as_deref() {
            None => false,
            Some(Exporting { threshold: None, .. }) => true,
            Some(Exporting { threshold: Some(threshold), .. }) => lot(job) < *threshold,
        }
    }

    /// What a record of another process said; none when it says nothing or this one does not
    /// trace.
    pub fn context(&self, traceparent: Option<&str>) -> Option<Traceparent> {
        self.0.as_deref()?;
        traceparent.and_then(Traceparent::parse).filter(|context| context.sampled)
    }

    /// Queues it, or drops it when the queue is full.
    pub fn record(&self, span: Span) {
        if let Some(exporting) = self.0.as_deref() {
            exporting.processor.on_end(exporting.data(span));
        }
    }

    /// Sends what is queued, for a short time, and takes nothing more.
    pub async fn shutdown(&self) {
        let Some(exporting) = self.0.clone() else { return };
        let ended = tokio::task::spawn_blocking(move || {
            exporting.processor.shutdown_with_timeout(FLUSH_TIMEOUT)
        });
        if let Ok(Err(error)) = ended.await {
            tracing::debug!(%error, "spans were not sent");
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

/// A number that is as good as random, and always the same for one job. The bits of the id itself
/// are not all random.
fn lot(job: JobId) -> u64 {
    let digest = digest::digest(&digest::SHA256, job.uuid().as_bytes());
    digest.as_ref().iter().take(8).fold(0, |lot, byte| lot << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests;
