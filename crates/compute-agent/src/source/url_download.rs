//! Inputs from a URL: one file.
//!
//! A download that breaks off is resumed where it stopped, if the server can do that and says
//! that it still has the same content; otherwise it begins anew.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use api_types::source::{InputSource, UrlParams};
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
use super::place::{Quota, make_readable};
use super::{Fetch, Source, params};
use crate::attempts::{Patience, Setback};
use crate::execution::Failure;
use crate::executor::MountedInput;
use crate::web::{self, Web};

/// Tries of one download in all, however much each one brought: a server that cuts every
/// connection after a few bytes must not keep a node busy for ever.
const MAX_RESUMES: u32 = 100;

/// The name of a file in a Target that ends with `/`, when neither Alias nor URL has one.
const DEFAULT_FILE_NAME: &str = "download";

#[derive(Debug)]
pub(crate) struct UrlDownload {
    web: Web,
    patience: Patience,
}

/// The first answer, and what the content is called that it begins.
struct Begun {
    response: Response,
    /// None when the server names nothing that would tell this content from another.
    validator: Option<HeaderValue>,
}

/// A download under way.
struct Download<'a> {
    source: &'a UrlDownload,
    url: &'a Url,
    validator: Option<HeaderValue>,
    quota: &'a Quota,
    written_bytes: AtomicU64,
}

// === impl UrlDownload ===

impl UrlDownload {
    pub(crate) fn new(web: Web, patience: Patience) -> Self {
        Self { web, patience }
    }

    async fn begin(&self, url: &Url) -> Result<Begun, Failure> {
        self.patience
            .persist(|| async {
                let response = self.web.get(url, HeaderMap::new()).await?;
                if response.status() != StatusCode::OK {
                    return Err(web::refusal(url, response.status()));
                }
                let validator = validator(response.headers());
                Ok(Begun { response, validator })
            })
            .await
    }

    async fn bring(&self, fetch: Fetch<'_>) -> Result<MountedInput, Setback> {
        let url = url(fetch.input).map_err(|reason| Setback::Lasting(Failure::task(reason)))?;
        let last = url.path_segments().and_then(|mut parts| parts.next_back()).unwrap_or_default();
        let name = fetch.place.file_name(last, DEFAULT_FILE_NAME);
        let Begun { response, validator } = self.begin(&url).await.map_err(Setback::Lasting)?;
        if let Some(bytes) = response.content_length() {
            fetch.quota.expect(bytes)?;
        }
        let length = response.content_length().unwrap_or_default().to_string();
        let download = Download {
            source: self,
            url: &url,
            validator: validator.clone(),
            quota: &fetch.quota,
            written_bytes: AtomicU64::new(0),
        };
        let (place, name_of_file) = (&fetch.place, name.as_str());
        let write = || async move {
            let file = place.make_file(name_of_file)?;
            // The name of the file is there once it is whole.
            let beside = place.beside("partial");
            download.run(response, &beside).await?;
            make_readable(&beside)?;
            fs::rename(&beside, &file).await?;
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
        self.web.judge(&url).map_err(|refused| refused.to_string())
    }

    fn fetch<'a>(&'a self, fetch: Fetch<'a>) -> BoxFuture<'a, Result<MountedInput, Setback>> {
        self.bring(fetch).boxed()
    }
}

// === impl Download ===

impl Download<'_> {
    /// Writes the content to `file`, with as many requests as it takes.
    async fn run(self, first: Response, file: &Path) -> Result<(), Setback> {
        let patience = self.source.patience;
        let mut backoff = patience.backoff();
        let mut response = Some(first);
        let mut in_vain = 0;
        let mut last = Failure::node("");
        for _ in 0..MAX_RESUMES {
            let before = self.written_bytes.load(Ordering::Relaxed);
            match self.go_on(response.take(), file).await {
                Ok(()) => return Ok(()),
                Err(Setback::Lasting(failure)) => return Err(Setback::Lasting(failure)),
                Err(Setback::Passing(failure)) => last = failure,
            }
            // Tries that bring nothing count; one that brought something begins the count anew.
            in_vain = match self.written_bytes.load(Ordering::Relaxed) > before {
                true => 1,
                false => in_vain + 1,
            };
            if in_vain >= patience.tries {
                break;
            }
            backoff.wait().await;
        }
        Err(Setback::Lasting(patience.given_up(last)))
    }

    /// One try: from the answer at hand, or from another request for what is missing.
    async fn go_on(&self, response: Option<Response>, file: &Path) -> Result<(), Setback> {
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

    async fn ask_for_the_rest(&self) -> Result<Response, Setback> {
        let written_bytes = self.written_bytes.load(Ordering::Relaxed);
        let mut headers = HeaderMap::new();
        if let Some(validator) = self.validator.as_ref().filter(|_| written_bytes > 0) {
            let range = HeaderValue::try_from(format!("bytes={written_bytes}-"));
            headers.insert(RANGE, range.expect("digits may stand in a header"));
            headers.insert(IF_RANGE, validator.clone());
        }
        let response = self.source.web.get(self.url, headers).await?;
        match response.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(response),
            status => Err(web::refusal(self.url, status)),
        }
    }

    /// The file to write this answer to: where it stopped, or anew.
    async fn open(&self, response: &Response, file: &Path) -> Result<File, Setback> {
        let written_bytes = self.written_bytes.load(Ordering::Relaxed);
        if response.status() == StatusCode::PARTIAL_CONTENT {
            let wanted = format!("bytes {written_bytes}-");
            let range = response.headers().get(CONTENT_RANGE);
            let fits = range.is_some_and(|range| range.as_bytes().starts_with(wanted.as_bytes()));
            if !fits {
                let message =
                    format!("{} sent another part than was asked for", web::shown(self.url));
                return Err(Setback::lasting(message));
            }
            return Ok(OpenOptions::new().append(true).open(file).await?);
        }
        self.quota.give_back(written_bytes);
        self.written_bytes.store(0, Ordering::Relaxed);
        if validator(response.headers()) != self.validator {
            // What is kept under the first validator must be what that validator names.
            let message = format!("{} changed while it was fetched", web::shown(self.url));
            return Err(Setback::lasting(message));
        }
        Ok(File::create(file).await?)
    }

    fn cut_off(&self, error: &reqwest::Error) -> Setback {
        let written_bytes = self.written_bytes.load(Ordering::Relaxed);
        let reason = match web::setback(self.url, error) {
            Setback::Passing(failure) | Setback::Lasting(failure) => failure.message,
        };
        Setback::passing(format!("the connection broke off after {written_bytes} bytes: {reason}"))
    }
}

fn url(input: &InputSource) -> Result<Url, String> {
    let params: UrlParams = params(input)?;
    let url = Url::parse(&params.url).map_err(|error| format!("'{}': {error}", params.url))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err(format!("'{}' does not begin with http:// or https://", params.url)),
    }
}

/// What names exactly this content (RFC 9110, 8.8): a strong entity tag, else date and length.
fn validator(headers: &HeaderMap) -> Option<HeaderValue> {
    let get = |name: HeaderName| headers.get(name).cloned();
    let strong = get(ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    strong.or_else(|| get(LAST_MODIFIED).filter(|_| headers.contains_key(CONTENT_LENGTH)))
}
