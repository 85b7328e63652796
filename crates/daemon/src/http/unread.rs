//! Request bodies that no handler reads to their end: the rest is read and dropped.
//!
//! A request may be refused before its body has been read. If the rest of the body has not arrived by
//! then, hyper closes the connection, and a client that is still sending gets an error of the
//! connection instead of the response.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use api_types::MAX_BODY_BYTES;
use http::{Request, header};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

/// For how long it is waited for. What is longer than any operation accepts is not read to its end
/// either. The connection is closed then, which over TLS hides the response.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The body of a request, which leaves behind what is not read of it.
#[derive(Debug)]
pub struct RequestBody {
    body: Option<Incoming>,
    left: Option<Left>,
}

#[derive(Debug, Clone, Default)]
struct Left(Arc<Mutex<Option<Incoming>>>);

/// What is left of a body once its request is answered.
pub(super) struct Rest(Option<Left>);

/// Follows what is read of the request's body.
pub(super) fn follow(request: Request<Incoming>) -> (Request<RequestBody>, Rest) {
    // A client that expects to be told sends nothing before.
    let is_whole = request.body().is_end_stream() || request.headers().contains_key(header::EXPECT);
    let left = (!is_whole).then(Left::default);
    let rest = Rest(left.clone());
    (request.map(|body| RequestBody { body: Some(body), left }), rest)
}

// === impl Rest ===

impl Rest {
    /// Reads and drops it, before the response is sent.
    pub(super) async fn take_in(self) {
        if let Some(body) = self.0.and_then(|left| left.take()) {
            // Whether all of it came changes nothing about the response.
            let _ = Box::pin(tokio::time::timeout(TIMEOUT, drain(body))).await;
        }
    }
}

async fn drain(mut body: Incoming) {
    let mut bytes = 0;
    while bytes < MAX_BODY_BYTES {
        let next = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let Some(Ok(frame)) = next else { return };
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
}

// === impl Left ===

impl Left {
    fn take(&self) -> Option<Incoming> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep(&self, body: Incoming) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
    }
}

// === impl RequestBody ===

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(left) = &self.left
            && let Some(body) = self.body.take().filter(|body| !body.is_end_stream())
        {
            left.keep(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::response::Response;
    use http::StatusCode;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::http::{Listening, serve};

    /// A listener that refuses every request without reading its body, and tells of each.
    async fn refusing() -> (TcpStream, mpsc::UnboundedReceiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (asks, asked) = mpsc::unbounded_channel();
        let listening = Listening::new(listener, 8, None);
        tokio::spawn(serve(listening, CancellationToken::new(), move |request| {
            let asks = asks.clone();
            async move {
                drop(request);
                asks.send(()).unwrap();
                let mut response = Response::new(Body::from("no"));
                *response.status_mut() = StatusCode::FORBIDDEN;
                response
            }
        }));
        (TcpStream::connect(address).await.unwrap(), asked)
    }

    async fn response(stream: &mut TcpStream) -> String {
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\nno") {
            let mut piece = [0; 512];
            let count = stream.read(&mut piece).await.unwrap();
            assert!(count > 0, "it is closed after {:?}", String::from_utf8_lossy(&text));
            text.extend_from_slice(&piece[..count]);
        }
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn a_request_that_is_refused_before_its_body_arrives_keeps_its_connection() {
        let (mut stream, mut asked) = refusing().await;
        for length in [5, 5, 1_000_000, 5] {
            let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            // It is refused by now.
            asked.recv().await.unwrap();
            tokio::task::yield_now().await;
            stream.write_all(&vec![b'x'; length]).await.unwrap();
            assert!(response(&mut stream).await.starts_with("HTTP/1.1 403"));
        }
    }

    #[tokio::test]
    async fn a_body_that_never_comes_delays_the_refusal_no_longer_than_it_is_worth() {
        let (mut stream, _asked) = refusing().await;
        let head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n";
        stream.write_all(head).await.unwrap();
        let answered = tokio::time::timeout(20 * TIMEOUT, response(&mut stream)).await;
        assert!(answered.unwrap().starts_with("HTTP/1.1 403"));
        // And one that waits for `100 Continue` is answered immediately.
        let (mut stream, _asked) = refusing().await;
        let head =
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n";
        stream.write_all(head).await.unwrap();
        assert!(response(&mut stream).await.starts_with("HTTP/1.1 403"));
    }
}
