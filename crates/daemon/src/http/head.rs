//! What is wrong with the head of a request, whatever it asks for.
//!
//! The HTTP library reads a head in pieces and limits what is incomplete, so whether a head above
//! its limit passes depends on how it arrives. The length is therefore counted again here.

use api_types::{ApiError, Code};
use http::{Request, StatusCode, Version, header};

use super::refusal::Refusal;

/// The largest request head: the request line and all headers. A complete one is counted as most
/// clients write it, with one space after each colon. Beyond it, the response is 431.
pub(super) const MAX_HEAD_BYTES: usize = 64 * 1024;

/// What the HTTP library reads at a time: more than a head, so that the limit of the head decides.
pub(super) const READ_HEAD_BYTES: usize = 2 * MAX_HEAD_BYTES;

/// Why no operation sees a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// HTTP/1.1 requires exactly one `Host` (RFC 9112, section 3.2).
    NoHost,
    SeveralHosts,
    TooLong,
}

// === impl Flaw ===

impl Flaw {
    pub(super) fn find_in<B>(request: &Request<B>) -> Option<Self> {
        if length(request) > MAX_HEAD_BYTES {
            return Some(Self::TooLong);
        }
        let hosts = request.headers().get_all(header::HOST).iter().count();
        match hosts {
            0 if request.version() >= Version::HTTP_11 => Some(Self::NoHost),
            0 | 1 => None,
            _ => Some(Self::SeveralHosts),
        }
    }

    pub(super) fn refusal(self) -> Refusal {
        let (status, message, hint) = match self {
            Self::NoHost => (
                StatusCode::BAD_REQUEST,
                "the request has no Host header, which HTTP/1.1 requires".to_owned(),
                "send the name or address of this service as Host",
            ),
            Self::SeveralHosts => (
                StatusCode::BAD_REQUEST,
                "the request has several Host headers".to_owned(),
                "send the name or address of this service as Host, once",
            ),
            Self::TooLong => (
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                format!(
                    "the head of the request (path, query and headers) is longer than {} KiB",
                    MAX_HEAD_BYTES / 1024
                ),
                "send a shorter query, or fewer or shorter headers",
            ),
        };
        let error = ApiError::new(Code::InvalidRequest, message).with_hint(hint);
        Refusal::of_the_caller(ApiError { status: status.as_u16(), ..error })
    }
}

/// The length of a head: `METHOD target HTTP/1.1`, a line for each header, and the empty line.
fn length<B>(request: &Request<B>) -> usize {
    let uri = request.uri();
    let target = uri.path_and_query().map_or(1, |target| target.as_str().len());
    let authority = uri.authority().map_or(0, |authority| authority.as_str().len());
    let line = request.method().as_str().len() + authority + target + "  HTTP/1.1\r\n".len();
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    line + headers.sum::<usize>() + "\r\n".len()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::response::IntoResponse;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::http::{Listening, answer, serve};

    async fn served() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let listening = Listening::new(listener, 8, None);
        tokio::spawn(serve(listening, CancellationToken::new(), |request| {
            answer(request, false, |_| async { StatusCode::NO_CONTENT.into_response() })
        }));
        address
    }

    /// The status and the body of the answer to this head, sent in these pieces.
    async fn ask(address: SocketAddr, pieces: &[&[u8]]) -> (u16, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        for piece in pieces {
            stream.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        (text[9..12].parse().unwrap(), body.unwrap())
    }

    #[tokio::test]
    async fn http_1_1_needs_one_host() {
        let address = served().await;
        for (head, status, says) in [
            ("GET / HTTP/1.1\r\n", 400, "has no Host header"),
            ("GET http://h/ HTTP/1.1\r\n", 400, "has no Host header"),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n", 400, "several Host headers"),
            ("GET / HTTP/1.0\r\n", 204, ""),
            ("GET / HTTP/1.1\r\nhost: h\r\n", 204, ""),
        ] {
            let head = format!("{head}Connection: close\r\n\r\n");
            let (found, body) = ask(address, &[head.as_bytes()]).await;
            assert_eq!(found, status, "{head}: {body}");
            assert!(body.contains(says) && (found == 204 || body.contains("\"InvalidRequest\"")));
        }
    }

    /// A head of exactly this many bytes, most of them in its query or in a header.
    fn head(bytes: usize, in_query: bool) -> Vec<u8> {
        let rest = "GET /? HTTP/1.1\r\nhost: h\r\nconnection: close\r\nx: \r\n\r\n".len();
        let filling = "a".repeat(bytes - rest);
        let (query, header) = if in_query { (&*filling, "") } else { ("", &*filling) };
        let head = format!(
            "GET /?{query} HTTP/1.1\r\nhost: h\r\nconnection: close\r\nx: {header}\r\n\r\n"
        );
        assert_eq!(head.len(), bytes);
        head.into_bytes()
    }

    #[tokio::test]
    async fn a_head_is_limited_to_the_byte_however_it_arrives() {
        let address = served().await;
        for in_query in [false, true] {
            let (largest, larger) =
                (head(MAX_HEAD_BYTES, in_query), head(MAX_HEAD_BYTES + 1, in_query));
            for at in [1, 8192, 40_000, MAX_HEAD_BYTES - 1] {
                let (first, rest) = largest.split_at(at);
                assert_eq!(ask(address, &[first, rest]).await.0, 204, "{at}");
                let (first, rest) = larger.split_at(at);
                let (status, body) = ask(address, &[first, rest]).await;
                assert!(
                    status == 431 && body.contains("longer than 64 KiB"),
                    "{at}: {status} {body}"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_head_has_a_hundred_headers() {
        let address = served().await;
        for (others, status) in [(98, 204), (99, 431)] {
            let others: String = (0..others).map(|number| format!("x-{number}: 1\r\n")).collect();
            let head = format!("GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{others}\r\n");
            assert_eq!(ask(address, &[head.as_bytes()]).await.0, status);
        }
    }
}
