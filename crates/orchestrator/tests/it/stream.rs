//! A test client for the event stream: block by block.

use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::server::{PATIENCE, Server};

pub(crate) const EVENTS: &str = "/api/v1/orchestrator/events";

pub(crate) struct Events {
    response: reqwest::Response,
    received: Vec<u8>,
}

/// The text between two empty lines.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Block {
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    /// Null when there is none.
    pub(crate) data: Value,
}

// === impl Events ===

impl Events {
    pub(crate) async fn open(server: &Server, query: &str) -> Self {
        Self::resume(server, query, None).await
    }

    /// Waits until the stream has begun.
    pub(crate) async fn resume(server: &Server, query: &str, last: Option<u64>) -> Self {
        let path = format!("{EVENTS}?{query}");
        // The stream outlives any timeout of one request.
        let mut request = server.request(Method::GET, &path).timeout(PATIENCE * 100);
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last.to_string());
        }
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, received: Vec::new() }
    }

    /// The next block, comments included, or `None` when the stream has ended.
    pub(crate) async fn block(&mut self) -> Option<Block> {
        loop {
            if let Some(end) = self.received.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.received.drain(..end + 2).collect();
                return Some(Block::read(&String::from_utf8(block).expect("UTF-8")));
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk())
                .await
                .expect("a block in time");
            match chunk {
                Ok(Some(bytes)) => self.received.extend_from_slice(&bytes),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// The next event: its id and its data.
    pub(crate) async fn event(&mut self) -> (u64, Value) {
        loop {
            let block = self.block().await.expect("the stream continues");
            if !block.data.is_null() {
                assert_eq!(block.event, "", "{block:?}");
                return (block.id.expect("an id"), block.data);
            }
        }
    }

    pub(crate) async fn events(&mut self, count: usize) -> Vec<(u64, Value)> {
        let mut events = Vec::with_capacity(count);
        while events.len() < count {
            events.push(self.event().await);
        }
        events
    }
}

// === impl Block ===

impl Block {
    fn read(text: &str) -> Self {
        let mut block = Self { id: None, event: String::new(), data: Value::Null };
        for line in text.lines().filter(|line| !line.is_empty()) {
            match line.split_once(": ") {
                Some(("id", id)) => block.id = Some(id.parse().expect("a number")),
                Some(("event", name)) => block.event = name.to_owned(),
                Some(("data", data)) => block.data = serde_json::from_str(data).expect("JSON"),
                Some(("retry" | "", _)) => {}
                _ => panic!("not a line of an event stream: {line}"),
            }
        }
        block
    }
}
