//! The base URLs of one service, and which of them is used.
//!
//! All lead to the same service, so that a client needs only one that works. It uses the first one,
//! then stays with whichever answered last.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use api_types::text::unparsed_url;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use reqwest::Url;

use crate::error::{InvalidBaseUrl, reason};
use crate::options::{Credentials, Options, Trust};
use crate::{proxy, tls};

/// Time limit for opening a connection; beyond it the service counts as unreachable.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The same if there is another URL to try.
pub const CONNECT_TIMEOUT_OF_SEVERAL: Duration = Duration::from_secs(2);

/// URLs of one service; more are a mistake.
pub const MAX_URLS: usize = 16;

/// A pooled connection is closed after this idle time, before the server's own idle timeout
/// (75 s is common) can close it under a request.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(45);

/// After this idle time the kernel probes the peer, so that a stream whose peer vanished does not
/// hang forever.
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);

/// The URLs of a list, separated by commas, without trailing slashes.
pub fn base_urls(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(|url| url.trim().trim_end_matches('/'))
}

/// The URLs, at least one.
#[derive(Debug)]
pub(crate) struct Endpoints {
    all: Vec<Endpoint>,
    /// The index of the one that is used first. Clients that are separate share it: what one of
    /// them finds out about a URL holds for all.
    current: Arc<AtomicUsize>,
}

/// One URL and the connections to it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Without a trailing slash.
    base_url: String,
    http: RwLock<reqwest::Client>,
    /// Through which requests go, if any.
    proxy: Option<Arc<str>>,
}

// === impl Endpoints ===

impl Endpoints {
    pub(crate) fn new(options: &Options) -> Result<Self, InvalidBaseUrl> {
        Self::with(options, Arc::default())
    }

    /// Other connections to the same URLs.
    pub(crate) fn separate(&self, options: &Options) -> Result<Self, InvalidBaseUrl> {
        Self::with(options, Arc::clone(&self.current))
    }

    fn with(options: &Options, current: Arc<AtomicUsize>) -> Result<Self, InvalidBaseUrl> {
        let urls = checked(options)?;
        let timeout = if urls.len() == 1 { CONNECT_TIMEOUT } else { CONNECT_TIMEOUT_OF_SEVERAL };
        let endpoint = |(base_url, url): &(String, Url)| {
            let (http, proxy) = connections(options, base_url, url, timeout)?;
            let proxy = proxy.map(Arc::from);
            Ok(Endpoint { base_url: base_url.clone(), http: RwLock::new(http), proxy })
        };
        let all = urls.iter().map(endpoint).collect::<Result<_, _>>()?;
        Ok(Self { all, current })
    }

    /// Opens new connections with these options, which are for the same URLs.
    pub(crate) fn reconnect(&self, options: &Options) -> Result<(), InvalidBaseUrl> {
        let fresh = Self::new(options)?;
        for (endpoint, fresh) in self.all.iter().zip(fresh.all) {
            let http = fresh.http.into_inner().unwrap_or_else(PoisonError::into_inner);
            *endpoint.http.write().unwrap_or_else(PoisonError::into_inner) = http;
        }
        Ok(())
    }

    /// The one that is used first.
    pub(crate) fn current(&self) -> &Endpoint {
        &self.all[self.first()]
    }

    /// All of them once, the current one first, with what [`leave`](Self::leave) takes.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (usize, &Endpoint)> {
        let first = self.first();
        let (before, rest) = self.all.split_at(first);
        let numbered = rest.iter().chain(before).enumerate();
        numbered.map(move |(at, endpoint)| ((first + at) % self.all.len(), endpoint))
    }

    /// This one does not answer: the next one is used first, unless another request has moved on
    /// already.
    pub(crate) fn leave(&self, index: usize) {
        let next = (index + 1) % self.all.len();
        // It fails if another request was faster.
        let _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn first(&self) -> usize {
        self.current.load(Ordering::Relaxed) % self.all.len()
    }
}

// === impl Endpoint ===

impl Endpoint {
    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    pub(crate) fn proxy(&self) -> Option<&Arc<str>> {
        self.proxy.as_ref()
    }

    pub(crate) fn http(&self) -> reqwest::Client {
        self.http.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The URL for messages: without a user and password.
    pub(crate) fn shown_url(&self) -> String {
        if !self.base_url.contains('@') {
            return self.base_url.clone();
        }
        let Ok(mut url) = Url::parse(&self.base_url) else { return unparsed_url(&self.base_url) };
        // Only a URL without a host refuses, and that has neither.
        let _ = url.set_password(None);
        let _ = url.set_username("***");
        url.as_str().trim_end_matches('/').to_owned()
    }
}

/// The URLs of the options, as given and parsed.
fn checked(options: &Options) -> Result<Vec<(String, Url)>, InvalidBaseUrl> {
    let mut urls: Vec<(String, Url)> = Vec::new();
    for text in base_urls(&options.base_url) {
        let invalid = |reason: String| InvalidBaseUrl { url: unparsed_url(text), reason };
        let url = Url::parse(text).map_err(|error| invalid(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(invalid("it must begin with http:// or https:// and a host".to_owned()));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("it must have neither a query nor a fragment".to_owned()));
        }
        if url.scheme() == "http" && !matches!(options.trust, Trust::System) {
            return Err(invalid("a CA is given, so it must begin with https://".to_owned()));
        }
        if let Some((_, first)) = urls.first().filter(|(_, first)| first.scheme() != url.scheme()) {
            let scheme = first.scheme();
            let reason = format!("the first URL of the list begins with {scheme}://, so must all");
            return Err(invalid(reason));
        }
        if urls.iter().any(|(_, other)| *other == url) {
            return Err(invalid("the list has it twice".to_owned()));
        }
        if urls.len() == MAX_URLS {
            return Err(invalid(format!("the list has more than {MAX_URLS} URLs")));
        }
        urls.push((text.to_owned(), url));
    }
    Ok(urls)
}

/// The connections to a URL with these options, and the proxy that they use.
fn connections(
    options: &Options,
    base_url: &str,
    url: &Url,
    connect_timeout: Duration,
) -> Result<(reqwest::Client, Option<String>), InvalidBaseUrl> {
    let invalid = |reason: String| InvalidBaseUrl { url: unparsed_url(base_url), reason };
    // Fails when the process has already installed a provider, which then applies.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("api-client/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect_timeout)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .tcp_keepalive(TCP_KEEPALIVE)
        .tcp_nodelay(true)
        // The API never redirects; following a redirect could send a body to another server.
        .redirect(reqwest::redirect::Policy::none());
    if let Credentials::Bearer(token) = &options.credentials {
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| invalid("the token has characters that no token has".to_owned()))?;
        value.set_sensitive(true);
        builder = builder.default_headers(HeaderMap::from_iter([(AUTHORIZATION, value)]));
    }
    if url.scheme() == "http" {
        // Otherwise construction fails on a host without CA certificates, such as a
        // minimal container.
        builder = builder.tls_certs_only([]);
    } else if let Some(config) =
        tls::config(&options.trust, &options.credentials).map_err(invalid)?
    {
        builder = builder.tls_backend_preconfigured(config);
    }
    let proxy = proxy::for_url(url, options.proxy);
    if proxy.is_none() {
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(|error| invalid(reason(&error)))?;
    Ok((client, proxy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(list: &str) -> Result<Endpoints, InvalidBaseUrl> {
        Endpoints::new(&Options { base_url: list.to_owned(), ..Options::default() })
    }

    fn order(endpoints: &Endpoints) -> Vec<&str> {
        endpoints.in_order().map(|(_, endpoint)| endpoint.base_url()).collect()
    }

    #[test]
    fn a_base_url_is_checked_before_anything_is_sent() {
        let refused = endpoints("http://u:secret@h:x/").unwrap_err();
        assert_eq!(refused.to_string(), "'http://h…' is not a base URL: invalid port number");
        let shown = endpoints("http://u:secret@h:1/a").unwrap().current().shown_url();
        assert_eq!(shown, "http://***@h:1/a");
        for url in ["", "127.0.0.1:1234", "ftp://h", "http://h?x=1", "http://h/#x"] {
            assert!(endpoints(url).is_err(), "{url}");
        }
        assert_eq!(endpoints("http://h:1/").unwrap().current().base_url(), "http://h:1");
    }

    #[test]
    fn the_urls_of_a_list_are_of_one_scheme_and_differ() {
        for (list, expected) in [
            (
                "https://a,http://b",
                "'http://b…' is not a base URL: the first URL of the list begins with https://, so must all",
            ),
            ("http://a,", "'' is not a base URL: relative URL without a base"),
            ("http://a, http://a/", "'http://a…' is not a base URL: the list has it twice"),
        ] {
            assert_eq!(endpoints(list).unwrap_err().to_string(), expected, "{list}");
        }
        let many: Vec<_> = (0..=MAX_URLS).map(|number| format!("http://h{number}")).collect();
        assert!(endpoints(&many.join(",")).is_err() && endpoints(&many[1..].join(",")).is_ok());
        let with_spaces = endpoints(" http://a:1/ , http://b:2 ").unwrap();
        assert_eq!(order(&with_spaces), ["http://a:1", "http://b:2"]);
    }

    #[test]
    fn one_that_does_not_answer_is_left_once() {
        let endpoints = endpoints("http://a,http://b,http://c").unwrap();
        endpoints.leave(0);
        // Another request that failed there.
        endpoints.leave(0);
        assert_eq!(order(&endpoints), ["http://b", "http://c", "http://a"]);
        endpoints.leave(1);
        endpoints.leave(2);
        assert_eq!(order(&endpoints), ["http://a", "http://b", "http://c"]);
    }

    #[test]
    fn separate_connections_share_what_is_known_of_the_urls() {
        let options = Options { base_url: "http://a,http://b".to_owned(), ..Options::default() };
        let one = Endpoints::new(&options).unwrap();
        let other = one.separate(&options).unwrap();
        one.leave(0);
        assert_eq!(other.current().base_url(), "http://b");
    }
}
