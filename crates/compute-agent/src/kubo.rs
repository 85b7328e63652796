//! An IPFS node, through the RPC interface of Kubo that the agent's settings name.
//!
//! The interface is Kubo's `/api/v0`: every call is a POST, arguments stand in the query, an
//! error is a JSON object with a `Message`.

use std::io;

use futures_util::StreamExt;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Response, Url};
use serde::Deserialize;
use tokio::fs::File;
use tokio::sync::mpsc;
use tokio_util::io::ReaderStream;

use crate::archive::ChunkReader;
use crate::attempts::Setback;
use crate::web::addresses::Reach;
use crate::web::{self, Web};

/// How long Kubo may look for content before it says that nobody has it.
const FIND_TIMEOUT: &str = "60s";

/// What an error that Kubo writes may have, and what a result of `add` may.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Chunks on their way from the network to the disk.
const CHUNKS_AHEAD: usize = 16;

/// Stands between the parts of a multipart body; an archive is gzip and does not hold it by
/// chance, and its length is told anyway.
const BOUNDARY: &str = "service-archive-4f1c0a6e8d1b";

#[derive(Debug, Clone)]
pub(crate) struct Kubo {
    /// Ends with a slash.
    api: Url,
    web: Web,
}

#[derive(Deserialize)]
struct RpcError {
    #[serde(rename = "Message")]
    message: String,
}

#[derive(Deserialize)]
struct Added {
    #[serde(rename = "Hash")]
    hash: String,
}

// === impl Kubo ===

impl Kubo {
    /// None where the settings name none, or what is no URL, which they refuse before.
    pub(crate) fn new(api: &str) -> Option<Self> {
        let base = format!("{}/api/v0/", api.trim_end_matches('/'));
        let api = Url::parse(&base).ok().filter(|_| !api.is_empty())?;
        // The operator's own word, not a job's.
        Some(Self { api, web: Web::new(Reach::Anywhere) })
    }

    /// The file or directory of this path as a tar, whose one top entry is it.
    pub(crate) async fn get(&self, path: &str) -> Result<ChunkReader, Setback> {
        let call =
            self.call("get", &[("arg", path), ("archive", "true"), ("timeout", FIND_TIMEOUT)])?;
        let response = self.web.client().post(call.clone()).send().await;
        let response = self.checked(response.map_err(|error| web::setback(&call, &error))?).await?;
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        tokio::spawn(async move {
            let mut chunks = response.bytes_stream();
            while let Some(chunk) = chunks.next().await {
                let chunk = chunk.map_err(|error| {
                    io::Error::new(io::ErrorKind::UnexpectedEof, error.without_url())
                });
                // Nobody reads on when the tar was refused.
                if sender.send(chunk).await.is_err() {
                    return;
                }
            }
        });
        Ok(ChunkReader::new(receiver))
    }

    /// Adds and pins the file; answers with its content id.
    pub(crate) async fn add(
        &self,
        file: File,
        name: &str,
        size_bytes: u64,
    ) -> Result<String, Setback> {
        let call = self.call("add", &[("cid-version", "1"), ("pin", "true")])?;
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        );
        let tail = format!("\r\n--{BOUNDARY}--\r\n");
        let length = head.len() as u64 + size_bytes + tail.len() as u64;
        let once = |text: String| futures_util::stream::once(async { Ok(text.into()) });
        let body = once(head).chain(ReaderStream::new(file)).chain(once(tail));
        let request = self
            .web
            .client()
            .post(call.clone())
            .header(CONTENT_TYPE, format!("multipart/form-data; boundary={BOUNDARY}"))
            .header(CONTENT_LENGTH, length)
            .body(Body::wrap_stream(body));
        let response = request.send().await.map_err(|error| web::setback(&call, &error))?;
        let answer = short(self.checked(response).await?).await;
        // One object a line; the file itself comes last.
        let added = answer.lines().rfind(|line| !line.trim().is_empty());
        added
            .and_then(|line| serde_json::from_str::<Added>(line).ok())
            .map(|added| added.hash)
            .ok_or_else(|| {
                let api = web::shown(&self.api);
                Setback::passing(format!("the IPFS node at {api} answered '{answer}'"))
            })
    }

    fn call(&self, operation: &str, query: &[(&str, &str)]) -> Result<Url, Setback> {
        let mut url = self
            .api
            .join(operation)
            .map_err(|error| Setback::lasting(format!("{}: {error}", web::shown(&self.api))))?;
        url.query_pairs_mut().extend_pairs(query);
        Ok(url)
    }

    async fn checked(&self, response: Response) -> Result<Response, Setback> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let answer = short(response).await;
        let said = match serde_json::from_str::<RpcError>(&answer) {
            Ok(error) => error.message,
            Err(_) => status.to_string(),
        };
        let message = format!("the IPFS node at {} says: {said}", web::shown(&self.api));
        // Kubo answers 500 to everything; what names the content wrongly stays wrong.
        let lasting = status.is_client_error()
            || ["invalid", "no link named", "not found", "deadline exceeded"]
                .iter()
                .any(|words| said.contains(words));
        Err(if lasting { Setback::lasting(message) } else { Setback::passing(message) })
    }
}

/// The beginning of an answer, as text.
async fn short(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = MAX_ANSWER_BYTES - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
