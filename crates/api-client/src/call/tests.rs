//! Which requests go to which of several URLs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};

use super::*;
use crate::options::{Options, Trust};

/// What a server does with each request.
#[derive(Debug, Clone, Copy)]
enum Does {
    Answers,
    /// As a leader that cannot prove that it still leads.
    IsUnavailable,
    Refuses,
    /// As a follower that finds no leader.
    Closes,
    BreaksOff,
    IsSilent,
}

struct Server {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Server {
    async fn new(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let counter = Arc::clone(&counter);
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                        if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    counter.fetch_add(1, Ordering::Relaxed);
                    let _ = stream.write_all(&does.response()).await;
                    if matches!(does, Does::IsSilent) {
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        Self { address, requests }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Does {
    fn response(self) -> Vec<u8> {
        let (status, body) = match self {
            Self::Answers => (200, r#"{"Status":"OK"}"#.to_owned()),
            Self::IsUnavailable => refusal(Code::StoreUnavailable),
            Self::Refuses => refusal(Code::JobNotFound),
            Self::BreaksOff => return b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_vec(),
            Self::Closes | Self::IsSilent => return Vec::new(),
        };
        let length = body.len();
        let head = "connection: close\r\ncontent-type: application/json\r\n";
        format!("HTTP/1.1 {status} X\r\n{head}content-length: {length}\r\n\r\n{body}").into_bytes()
    }
}

fn refusal(code: Code) -> (u16, String) {
    let error = ApiError::new(code, "no");
    (error.status, serde_json::to_string(&error).unwrap())
}

/// An address at which nothing listens.
async fn refusing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

async fn pair(first: Does) -> (Client, Server, Server) {
    let (first, second) = (Server::new(first).await, Server::new(Does::Answers).await);
    let urls = format!("http://{},http://{}", first.address, second.address);
    (Client::new(&urls).unwrap(), first, second)
}

/// Sends a request that only reads, one with an idempotency key, or one that changes something.
async fn send(client: &Client, kind: &str) -> Result<(), ClientError> {
    let body = Bytes::from_static(b"{}");
    let value: Result<serde_json::Value, _> = match kind {
        "reads" => client.get("/x").send().await,
        "has a key" => {
            client
                .call(Method::PUT, "/x")
                .json_bytes(body)
                .header(IDEMPOTENCY_KEY, "1")
                .send()
                .await
        }
        _ => client.call(Method::PUT, "/x").json_bytes(body).send().await,
    };
    value.map(drop)
}

#[tokio::test]
async fn an_unreachable_service_is_named_in_the_error() {
    let base_url = refusing().await;
    let error = Client::new(&base_url).unwrap().alive().await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{text}");
    assert!(text.contains(&base_url) && text.contains("refused"), "{text}");
    assert!(text.starts_with("GET /api/v1/agent/alive"), "{text}");
}

#[tokio::test]
async fn the_next_url_gets_what_cannot_be_done_twice() {
    for (first, kind, reaches_the_second) in [
        (Does::Closes, "reads", true),
        (Does::Closes, "has a key", true),
        (Does::Closes, "changes", false),
        (Does::BreaksOff, "reads", true),
        (Does::BreaksOff, "changes", false),
        (Does::IsUnavailable, "reads", true),
        (Does::IsUnavailable, "has a key", true),
        // It may have been stored before the service lost its store.
        (Does::IsUnavailable, "changes", false),
        (Does::Refuses, "reads", false),
    ] {
        let (client, one, two) = pair(first).await;
        let ended = send(&client, kind).await;
        assert_eq!(ended.is_ok(), reaches_the_second, "{first:?}: {kind}: {ended:?}");
        assert_eq!((one.requests(), two.requests()), (1, usize::from(reaches_the_second)));
        // Whatever became of it, a later request begins where an answer is to be expected.
        let answers = matches!(first, Does::Refuses);
        let expected = if answers { one.address } else { two.address };
        assert_eq!(client.base_url(), format!("http://{expected}"), "{first:?}: {kind}");
    }
}

#[tokio::test]
async fn what_was_never_sent_goes_to_the_next_url_and_stays_there() {
    let second = Server::new(Does::Answers).await;
    let urls = format!("{},http://{}", refusing().await, second.address);
    let client = Client::new(&urls).unwrap();
    for _ in 0..3 {
        send(&client, "changes").await.unwrap();
    }
    assert_eq!(second.requests(), 3);
    assert_eq!(client.base_url(), format!("http://{}", second.address));
}

#[tokio::test]
async fn a_server_without_a_handshake_is_left_after_two_seconds() {
    let silent = Server::new(Does::IsSilent).await;
    let base_url = format!("https://{},https://127.0.0.1:1", silent.address);
    let pin = Trust::AuthorityKey(api_types::KeyDigest([7; 32]));
    let client = Client::with(Options { base_url, trust: pin, ..Options::default() }).unwrap();
    let began = Instant::now();
    let error = timeout(REQUEST_TIMEOUT, send(&client, "changes")).await.unwrap().unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    let ClientError::NoAnswer(none) = &error else { panic!("{error}") };
    assert_eq!(none.attempts.len(), 2);
    assert!(error.is_transient());
    let text = error.to_string();
    assert!(text.contains(&format!("https://{}: ", silent.address)), "{text}");
    assert!(text.contains("; https://127.0.0.1:1: ") && text.contains("refused"), "{text}");
}

#[tokio::test]
async fn a_request_whose_time_is_over_is_not_repeated_but_later_ones_go_elsewhere() {
    let (client, _silent, second) = pair(Does::IsSilent).await;
    let limit = Duration::from_millis(200);
    let value: Result<serde_json::Value, _> = client.get("/x").timeout(limit).send().await;
    assert!(matches!(value, Err(ClientError::Unreachable { .. })), "{value:?}");
    send(&client, "changes").await.unwrap();
    assert_eq!(second.requests(), 1);
}

#[tokio::test]
async fn a_refusal_by_all_is_the_answer() {
    let (one, two) =
        (Server::new(Does::IsUnavailable).await, Server::new(Does::IsUnavailable).await);
    let urls = format!("http://{},http://{}", one.address, two.address);
    let error = send(&Client::new(&urls).unwrap(), "reads").await.unwrap_err();
    assert_eq!(error.code(), Some(Code::StoreUnavailable));
    assert_eq!((one.requests(), two.requests()), (1, 1));
}

#[tokio::test]
async fn a_stream_opens_at_the_next_url() {
    let (client, ..) = pair(Does::Closes).await;
    client.get("/x").open().await.unwrap();
}
