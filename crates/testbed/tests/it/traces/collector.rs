//! A simulated collector: receives OTLP over HTTP and stores the spans.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone)]
pub(super) struct Collector {
    address: SocketAddr,
    kept: Arc<Mutex<Contents>>,
}

#[derive(Default)]
struct Contents {
    spans: Vec<Collected>,
    tokens: Vec<String>,
}

/// A received span, with ids as text.
#[derive(Debug, Clone)]
pub(super) struct Collected {
    pub(super) service: String,
    pub(super) instance: String,
    pub(super) name: String,
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: String,
    /// Unix nanoseconds.
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) attributes: BTreeMap<String, String>,
    /// Trace and span of each.
    pub(super) links: Vec<(String, String)>,
    pub(super) error: String,
}

// === impl Collector ===

impl Collector {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let address = listener.local_addr().expect("an address");
        let collector = Self { address, kept: Arc::default() };
        let serving = collector.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                tokio::spawn(async move { serving.serve(stream).await });
            }
        });
        collector
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn spans(&self) -> Vec<Collected> {
        self.kept.lock().expect("no panic while it is held").spans.clone()
    }

    /// The distinct values of the header `x-token`.
    pub(super) fn tokens(&self) -> Vec<String> {
        let mut tokens = self.kept.lock().expect("no panic while it is held").tokens.clone();
        tokens.sort();
        tokens.dedup();
        tokens
    }

    /// Serves the requests of a connection.
    async fn serve(&self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        loop {
            let mut head = Vec::new();
            loop {
                let mut line = String::new();
                if !stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
                    return;
                }
                if line == "\r\n" {
                    break;
                }
                head.push(line.trim_end().to_ascii_lowercase());
            }
            assert!(head[0].starts_with("post /v1/traces "), "{head:?}");
            let header = |name: &str| {
                let of =
                    |line: &String| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned());
                head.iter().find_map(of)
            };
            assert_eq!(header("content-type").as_deref(), Some("application/x-protobuf"));
            let length = header("content-length").expect("a length").parse().expect("a number");
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.expect("a whole body");
            let request = ExportTraceServiceRequest::decode(&*body).expect("a message");
            self.keep(request, header("x-token"));
            let response = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
            if stream.write_all(response).await.is_err() {
                return;
            }
        }
    }

    fn keep(&self, request: ExportTraceServiceRequest, token: Option<String>) {
        let mut kept = self.kept.lock().expect("no panic while it is held");
        kept.tokens.extend(token);
        for resource in request.resource_spans {
            let about = texts(resource.resource.map(|about| about.attributes).unwrap_or_default());
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            kept.spans.extend(spans.map(|span| collected(&about, span)));
        }
    }
}

fn collected(about: &BTreeMap<String, String>, span: Span) -> Collected {
    let text = |key: &str| about.get(key).cloned().unwrap_or_default();
    Collected {
        service: text("service.name"),
        instance: text("service.instance.id"),
        name: span.name,
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        from: span.start_time_unix_nano,
        to: span.end_time_unix_nano,
        attributes: texts(span.attributes),
        links: span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect(),
        error: span.status.map(|status| status.message).unwrap_or_default(),
    }
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    attributes
        .into_iter()
        .map(|attribute| {
            let text = match attribute.value.and_then(|value| value.value) {
                Some(Value::StringValue(text)) => text,
                other => format!("{other:?}"),
            };
            (attribute.key, text)
        })
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
