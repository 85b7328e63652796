//! Inputs from a URL: one file.
//!
//! A download that breaks off resumes where it stopped, if the server supports that and confirms
//! that the content is the same; otherwise it starts again.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use agent_core::execution::Failure;
use api_types::credential::CredentialValue;
use api_types::source::{InputSource, UrlParams};
use api_types::text::unparsed_url;
use futures_util::future::{BoxFuture, FutureExt};
use http::StatusCode;
use http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_RANGE,
    LAST_MODIFIED, RANGE,
};
use reqwest::{Response, Url};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::AsyncWriteExt;

use super::cache::Cache;
use super::placement::{MountedInput, Quota, make_readable};
use super::source::{Fetch, Source, params};
use crate::data::egress::{self, EgressClient};
use crate::data::retry::{AttemptError, RetryPolicy};

/// Total attempts of one download, regardless of their progress: a server that cuts every
/// connection after a few bytes must not keep a node busy forever.
const MAX_RESUMES: u32 = 100;

/// The file name in a Target that ends with `/`, when neither Alias nor URL has one.
const DEFAULT_FILE_NAME: &str = "download";

#[derive(Debug)]
pub(crate) struct UrlDownload {
    client: EgressClient,
    retry: RetryPolicy,
}

/// The first response, and the validator of its content.
struct Begun {
    response: Response,
    /// None when the server sends nothing that identifies this content.
    validator: Option<HeaderValue>,
}

/// A download in progress.
struct Download<'a> {
    source: &'a UrlDownload,
    url: &'a Url,
    credential: Option<&'a CredentialValue>,
    validator: Option<HeaderValue>,
    quota: &'a Quota,
    written_bytes: AtomicU64,
}

// === impl UrlDownload ===

impl UrlDownload {
    pub(crate) fn new(client: EgressClient, retry: RetryPolicy) -> Self {
        Self { client, retry }
    }

    async fn begin(
        &self,
        url: &Url,
        credential: Option<&CredentialValue>,
    ) -> Result<Begun, Failure> {
        self.retry
            .run(|| async {
                let response = self.client.get(url, HeaderMap::new(), credential).await?;
                if response.status() != StatusCode::OK {
                    return Err(egress::refusal(url, response.status()));
                }
                let validator = validator(response.headers());
                Ok(Begun { response, validator })
            })
            .await
    }

    async fn bring(&self, fetch: Fetch<'_>) -> Result<MountedInput, AttemptError> {
        let url =
            url(fetch.input).map_err(|reason| AttemptError::Permanent(Failure::task(reason)))?;
        let last = url.path_segments().and_then(|mut parts| parts.next_back()).unwrap_or_default();
        let name = fetch.place.file_name(last, DEFAULT_FILE_NAME);
        let Begun { response, validator } =
            self.begin(&url, fetch.credential).await.map_err(AttemptError::Permanent)?;
        if let Some(bytes) = response.content_length() {
            fetch.quota.expect(bytes)?;
        }
        let length = response.content_length().unwrap_or_default().to_string();
        let download = Download {
            source: self,
            url: &url,
            credential: fetch.credential,
            validator: validator.clone(),
            quota: &fetch.quota,
            written_bytes: AtomicU64::new(0),
        };
        let (place, name_of_file) = (&fetch.place, name.as_str());
        let write = || async move {
            let file = place.make_file(name_of_file)?;
            // The final name appears only once the file is complete.
            let temporary = place.temporary("partial");
            download.run(response, &temporary).await?;
            make_readable(&temporary)?;
            fs::rename(&temporary, &file).await?;
            Ok(())
        };
        match validator.as_ref().and_then(|validator| validator.to_str().ok()) {
            Some(validator) => {
                let key = Cache::key(&["url", url.as_str(), validator, &length, &name]);
                let directory = fetch.place.directory();
                fetch.cache.fill(&key, &directory, &fetch.quota, write).await?;
            }
            None => write().await?,
        }
        Ok(fetch.place.mounted_file(&name))
    }
}

impl Source for UrlDownload {
    fn admit(&self, input: &InputSource) -> Result<(), String> {
        let url = url(input)?;
        self.client.check(&url).map_err(|refused| refused.to_string())
    }

    fn fetch<'a>(&'a self, fetch: Fetch<'a>) -> BoxFuture<'a, Result<MountedInput, AttemptError>> {
        self.bring(fetch).boxed()
    }
}

// === impl Download ===

impl Download<'_> {
    /// Writes the content to `file`, with as many requests as needed.
    async fn run(self, first: Response, file: &Path) -> Result<(), AttemptError> {
        let retry = self.source.retry;
        let mut backoff = retry.backoff();
        let mut response = Some(first);
        let mut in_vain = 0;
        let mut last = Failure::node("");
        for _ in 0..MAX_RESUMES {
            let before = self.written_bytes.load(Ordering::Relaxed);
            match self.go_on(response.take(), file).await {
                Ok(()) => return Ok(()),
                Err(AttemptError::Permanent(failure)) => {
                    return Err(AttemptError::Permanent(failure));
                }
                Err(AttemptError::Transient(failure)) => last = failure,
            }
            // Only consecutive attempts without progress count; progress resets the count.
            in_vain = match self.written_bytes.load(Ordering::Relaxed) > before {
                true => 1,
                false => in_vain + 1,
            };
            if in_vain >= retry.tries {
                break;
            }
            backoff.wait().await;
        }
        Err(AttemptError::Permanent(retry.exhausted(last)))
    }

    /// One attempt: reads the response at hand, or requests the missing part.
    async fn go_on(&self, response: Option<Response>, file: &Path) -> Result<(), AttemptError> {
        let response = match response {
            Some(response) => response,
            None => self.ask_for_the_rest().await?,
        };
        let mut file = self.open(&response, file).await?;
        let mut response = response;
        let outcome = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    let bytes = chunk.len() as u64;
                    self.quota.take(bytes)?;
                    self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
                    file.write_all(&chunk).await?;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(self.cut_off(&error)),
            }
        };
        file.flush().await?;
        outcome
    }

    async fn ask_for_the_rest(&self) -> Result<Response, AttemptError> {
        let written_bytes = self.written_bytes.load(Ordering::Relaxed);
        let mut headers = HeaderMap::new();
        if let Some(validator) = self.validator.as_ref().filter(|_| written_bytes > 0) {
            let range = HeaderValue::try_from(format!("bytes={written_bytes}-"));
            headers.insert(RANGE, range.expect("digits may stand in a header"));
            headers.insert(IF_RANGE, validator.clone());
        }
        let response = self.source.client.get(self.url, headers, self.credential).await?;
        match response.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(response),
            status => Err(egress::refusal(self.url, status)),
        }
    }

    /// Positions the file for this response: where the last one stopped, or at the start.
    async fn open(&self, response: &Response, file: &Path) -> Result<File, AttemptError> {
        let written_bytes = self.written_bytes.load(Ordering::Relaxed);
        if response.status() == StatusCode::PARTIAL_CONTENT {
            let wanted = format!("bytes {written_bytes}-");
            let range = response.headers().get(CONTENT_RANGE);
            let fits = range.is_some_and(|range| range.as_bytes().starts_with(wanted.as_bytes()));
            if !fits {
                let message =
                    format!("{} sent a different range than requested", egress::shown(self.url));
                return Err(AttemptError::permanent(message));
            }
            return Ok(OpenOptions::new().append(true).open(file).await?);
        }
        self.quota.give_back(written_bytes);
        self.written_bytes.store(0, Ordering::Relaxed);
        if validator(response.headers()) != self.validator {
            // The cache key names the first validator, so the content must match it.
            let message = format!("{} changed during the download", egress::shown(self.url));
            return Err(AttemptError::permanent(message));
        }
        Ok(File::create(file).await?)
    }

    fn cut_off(&self, error: &reqwest::Error) -> AttemptError {
        let written_bytes = self.written_bytes.load(Ordering::Relaxed);
        let reason = match egress::attempt_error(self.url, error) {
            AttemptError::Transient(failure) | AttemptError::Permanent(failure) => failure.message,
        };
        AttemptError::transient(format!(
            "the connection broke off after {written_bytes} bytes: {reason}"
        ))
    }
}

fn url(input: &InputSource) -> Result<Url, String> {
    let params: UrlParams = params(input)?;
    let url = Url::parse(&params.url)
        .map_err(|error| format!("{}: {error}", unparsed_url(&params.url)))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        // Without slashes, a user's name passes for a scheme and the password for a path.
        _ => {
            let shown = unparsed_url(&params.url);
            Err(format!("{shown} does not begin with http:// or https://"))
        }
    }
}

/// The validator that identifies exactly this content (RFC 9110, 8.8): a strong entity tag, or
/// else date and length.
fn validator(headers: &HeaderMap) -> Option<HeaderValue> {
    let get = |name: HeaderName| headers.get(name).cloned();
    let strong = get(ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    strong.or_else(|| get(LAST_MODIFIED).filter(|_| headers.contains_key(CONTENT_LENGTH)))
}

#[cfg(test)]
mod tests {
    use api_types::source::{SourceSpec, SourceType};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_url_is_quoted_without_its_password() {
        let of = |text: &str| InputSource {
            source: SourceSpec {
                source_type: SourceType::UrlDownload,
                params: serde_json::from_value(json!({ "URL": text })).unwrap(),
            },
            target: String::new(),
            alias: String::new(),
        };
        for text in
            ["https://u:secret@h:port/a?sig=secret", "ftp://u:secret@h/a?sig=secret", "u:secret@h"]
        {
            let refused = url(&of(text)).unwrap_err();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
