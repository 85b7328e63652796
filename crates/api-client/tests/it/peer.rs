//! A peer that accepts one request and responds with given bytes.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A peer that serves one request.
pub(crate) struct Peer {
    pub(crate) base_url: String,
    serving: JoinHandle<String>,
}

impl Peer {
    /// Responds with `parts`, each written and flushed separately, then closes the connection.
    pub(crate) async fn responding(parts: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind a loopback port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let serving = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.expect("accept the one connection");
            let request = read_request(&mut socket).await;
            for part in parts {
                // The client may hang up in the middle of a response that it refuses.
                if socket.write_all(&part).await.is_err() {
                    break;
                }
                let _ = socket.flush().await;
                tokio::task::yield_now().await;
            }
            request
        });
        Self { base_url: format!("http://{address}"), serving }
    }

    /// Responds with a status line and a JSON body.
    pub(crate) async fn json(status: &str, body: &str) -> Self {
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Self::responding(vec![head.into_bytes(), body.as_bytes().to_vec()]).await
    }

    /// Head and body of the client's request.
    pub(crate) async fn request(self) -> String {
        self.serving.await.expect("the peer does not panic")
    }
}

async fn read_request(socket: &mut tokio::net::TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = socket.read(&mut buffer).await.expect("read the request");
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .map_or(0, |(_, value)| value.trim().parse().expect("a length is a number"));
            if body.len() >= length {
                return text;
            }
        }
        assert!(count > 0, "the client hung up before its request was complete");
    }
}
