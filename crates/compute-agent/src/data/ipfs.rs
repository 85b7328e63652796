//! A client of an IPFS node, through the Kubo RPC API that the agent's settings name.
//!
//! The API is Kubo's `/api/v0`: every call is a POST with its arguments in the query, and an error
//! is a JSON object with a `Message`.

use std::io;

use futures_util::StreamExt;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Response, Url};
use serde::Deserialize;
use tokio::fs::File;
use tokio::sync::mpsc;
use tokio_util::io::ReaderStream;

use crate::data::archive::ChunkReader;
use crate::data::egress::addresses::EgressPolicy;
use crate::data::egress::{self, EgressClient};
use crate::data::retry::AttemptError;

/// How long Kubo may search for content before it reports that no peer has it.
const FIND_TIMEOUT: &str = "60s";

/// Size limits of a Kubo error and of a result of `add`.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Chunks buffered between the network and the disk.
const CHUNKS_AHEAD: usize = 16;

/// Separates the parts of a multipart body; a gzip archive does not contain it by chance, and the
/// body states the archive's length anyway.
const BOUNDARY: &str = "service-archive-4f1c0a6e8d1b";

#[derive(Debug, Clone)]
pub(crate) struct Kubo {
    /// Ends with a slash.
    api: Url,
    client: EgressClient,
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
    /// None when the settings name no node; they have already refused an invalid URL.
    pub(crate) fn new(api: &str) -> Option<Self> {
        let base = format!("{}/api/v0/", api.trim_end_matches('/'));
        let api = Url::parse(&base).ok().filter(|_| !api.is_empty())?;
        // The operator configured this URL, not a job.
        Some(Self { api, client: EgressClient::new(EgressPolicy::Anywhere) })
    }

    /// Fetches the file or directory at this path as a tar with one top-level entry.
    pub(crate) async fn get(&self, path: &str) -> Result<ChunkReader, AttemptError> {
        let call =
            self.call("get", &[("arg", path), ("archive", "true"), ("timeout", FIND_TIMEOUT)])?;
        let response = self.client.client().post(call.clone()).send().await;
        let response =
            self.checked(response.map_err(|error| egress::attempt_error(&call, &error))?).await?;
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        tokio::spawn(async move {
            let mut chunks = response.bytes_stream();
            while let Some(chunk) = chunks.next().await {
                let chunk = chunk.map_err(|error| {
                    io::Error::new(io::ErrorKind::UnexpectedEof, error.without_url())
                });
                // The reader stops early when the tar was refused.
                if sender.send(chunk).await.is_err() {
                    return;
                }
            }
        });
        Ok(ChunkReader::new(receiver))
    }

    /// Adds and pins the file; returns its content ID.
    pub(crate) async fn add(
        &self,
        file: File,
        name: &str,
        size_bytes: u64,
    ) -> Result<String, AttemptError> {
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
            .client
            .client()
            .post(call.clone())
            .header(CONTENT_TYPE, format!("multipart/form-data; boundary={BOUNDARY}"))
            .header(CONTENT_LENGTH, length)
            .body(Body::wrap_stream(body));
        let response =
            request.send().await.map_err(|error| egress::attempt_error(&call, &error))?;
        let answer = short(self.checked(response).await?).await;
        // One object per line; the file itself comes last.
        let added = answer.lines().rfind(|line| !line.trim().is_empty());
        added
            .and_then(|line| serde_json::from_str::<Added>(line).ok())
            .map(|added| added.hash)
            .ok_or_else(|| {
                let api = egress::shown(&self.api);
                AttemptError::transient(format!("the IPFS node at {api} returned '{answer}'"))
            })
    }

    fn call(&self, operation: &str, query: &[(&str, &str)]) -> Result<Url, AttemptError> {
        let mut url = self.api.join(operation).map_err(|error| {
            AttemptError::permanent(format!("{}: {error}", egress::shown(&self.api)))
        })?;
        url.query_pairs_mut().extend_pairs(query);
        Ok(url)
    }

    async fn checked(&self, response: Response) -> Result<Response, AttemptError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let answer = short(response).await;
        let said = match serde_json::from_str::<RpcError>(&answer) {
            Ok(error) => error.message,
            Err(_) => status.to_string(),
        };
        let message = format!("the IPFS node at {} says: {said}", egress::shown(&self.api));
        // Kubo returns 500 for every error; a wrong content name is permanent.
        let lasting = status.is_client_error()
            || ["invalid", "no link named", "not found", "deadline exceeded"]
                .iter()
                .any(|words| said.contains(words));
        Err(if lasting {
            AttemptError::permanent(message)
        } else {
            AttemptError::transient(message)
        })
    }
}

/// The start of a response, as text.
async fn short(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = MAX_ANSWER_BYTES - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
