//! The context of a span: trace id and span id, as in the W3C header `traceparent`.

use std::fmt;

use api_types::{ExecutionId, JobId};
use opentelemetry::trace::{SpanId, TraceId};
use ring::digest::{Context, SHA256};
use uuid::Uuid;

/// `00-<trace>-<span>-<flags>`; <https://www.w3.org/TR/trace-context/>.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traceparent {
    pub trace: TraceId,
    pub span: SpanId,
    pub sampled: bool,
}

/// The trace id of a job: its UUID.
pub fn trace_of(job: JobId) -> TraceId {
    TraceId::from_bytes(job.uuid().into_bytes())
}

/// The span of a job from submission to end.
pub fn job_span(job: JobId) -> Traceparent {
    named_span(job, job.uuid(), "job")
}

/// The span of an execution from offer to end; it contains the spans of its node.
pub fn execution_span(job: JobId, execution: ExecutionId) -> Traceparent {
    named_span(job, execution.uuid(), "execution")
}

/// The span of an operation that occurs once per job or execution.
pub fn named_span(job: JobId, subject: Uuid, what: &str) -> Traceparent {
    Traceparent { trace: trace_of(job), span: derived(subject, what), sampled: true }
}

fn derived(subject: Uuid, what: &str) -> SpanId {
    let mut hash = Context::new(&SHA256);
    hash.update(subject.as_bytes());
    hash.update(what.as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.finish().as_ref()[..8]);
    SpanId::from_bytes(bytes)
}

// === impl Traceparent ===

impl Traceparent {
    /// Parses the header; `None` when it is malformed, as the specification requires.
    pub fn parse(header: &str) -> Option<Self> {
        let header = header.trim();
        let mut parts = header.split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Version 00 has four parts; later versions may add more.
        let is_complete = version != "00" || parts.next().is_none();
        let lengths = [version, trace, span, flags].map(str::len) == [2, 32, 16, 2];
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let digits = [version, trace, span, flags].concat().bytes().all(digit);
        if !is_complete || !lengths || !digits || version == "ff" {
            return None;
        }
        let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
        let flags = u8::from_str_radix(flags, 16).ok()?;
        (trace != TraceId::INVALID && span != SpanId::INVALID).then_some(Self {
            trace,
            span,
            sampled: flags & 1 == 1,
        })
    }

    /// A child span of an operation that occurs once per subject.
    pub fn child(&self, subject: Uuid, what: &str) -> Self {
        Self { span: derived(subject, what), ..*self }
    }
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_header_survives_a_round_trip() {
        let context = Traceparent::parse(SAMPLE).unwrap();
        assert!(context.sampled);
        assert_eq!(context.to_string(), SAMPLE);
        let unsampled = Traceparent::parse(&SAMPLE.replace("-01", "-00")).unwrap();
        assert!(!unsampled.sampled);
        let later = format!("{}-more", SAMPLE.replacen("00", "01", 1));
        assert_eq!(Traceparent::parse(&later).map(|later| later.span), Some(context.span));
    }

    #[test]
    fn a_malformed_header_is_ignored() {
        for header in [
            "",
            "00",
            &SAMPLE.to_uppercase(),
            &SAMPLE.replacen("00", "ff", 1),
            &format!("{SAMPLE}-more"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-001",
        ] {
            assert_eq!(Traceparent::parse(header), None, "{header}");
        }
    }

    #[test]
    fn span_ids_are_derived_from_the_job_and_its_executions() {
        let job = JobId::from_uuid(Uuid::from_u128(0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c));
        let execution = ExecutionId::from_uuid(Uuid::from_u128(7));
        assert_eq!(trace_of(job).to_string(), "0af7651916cd43dd8448eb211c80319c");
        let spans = [job_span(job), execution_span(job, execution)];
        assert_ne!(spans[0].span, spans[1].span);
        assert_eq!(spans, [job_span(job), execution_span(job, execution)]);
        assert_eq!(spans[0].child(execution.uuid(), "execution"), spans[1]);
    }
}
