//! HTTP on behalf of jobs: their URLs are strangers' words, and are treated so.

pub(crate) mod addresses;

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{AUTHORIZATION, COOKIE, HeaderMap, LOCATION};
use reqwest::dns::Resolve;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use tracing::warn;

use crate::attempts::Setback;
use addresses::{Forbidden, JudgingResolver, Reach};

/// Redirects of one request; beyond them it is taken for a loop.
const MAX_REDIRECTS: usize = 10;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long nothing may come of an answer; beyond it the connection counts as dead.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A client that reaches what [`Reach`] allows, and follows redirects by hand.
#[derive(Debug, Clone)]
pub(crate) struct Web {
    client: Client,
    reach: Reach,
}

// === impl Web ===

impl Web {
    pub(crate) fn new(reach: Reach) -> Self {
        Self::with_resolver(reach, Arc::new(JudgingResolver::new(reach)))
    }

    /// With names resolved by something that judges as [`JudgingResolver`] does.
    pub(crate) fn with_resolver(reach: Reach, resolver: Arc<dyn Resolve>) -> Self {
        // Whoever installed a provider before made the choice for the whole process.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            Client::builder()
                .user_agent(concat!("compute-agent/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT_TIMEOUT)
                .read_timeout(READ_TIMEOUT)
                .redirect(Policy::none())
                // A proxy would resolve the name again, where nobody judges.
                .no_proxy()
                // A connection that was judged for one job is not handed to the next.
                .pool_max_idle_per_host(0)
                .dns_resolver(Arc::clone(&resolver))
        };
        let client = builder().build().or_else(|error| {
            warn!(
                error = &error as &dyn Error,
                "https URLs cannot be fetched: this machine has no CA certificates"
            );
            builder().tls_certs_only([]).build()
        });
        let client = client.expect("a client without certificates needs nothing of the machine");
        Self { client, reach }
    }

    /// The bare client: it judges names, but not addresses that stand in a URL, and follows no
    /// redirect.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Refuses a URL whose host is an address that must not be reached.
    pub(crate) fn judge(&self, url: &Url) -> Result<(), Forbidden> {
        let host = url.host_str().unwrap_or_default();
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => self.reach.judge(host, address),
            // A name is judged when it is resolved.
            Err(_) => Ok(()),
        }
    }

    /// GET, with every redirect judged like the first URL.
    pub(crate) async fn get(&self, url: &Url, headers: HeaderMap) -> Result<Response, Setback> {
        let (mut url, mut headers) = (url.clone(), headers);
        for _ in 0..=MAX_REDIRECTS {
            if !matches!(url.scheme(), "http" | "https") {
                let message = format!("{} is neither http nor https", shown(&url));
                return Err(Setback::lasting(message));
            }
            self.judge(&url).map_err(|refused| Setback::lasting(refused.to_string()))?;
            let answer = self.client.get(url.clone()).headers(headers.clone()).send().await;
            let response = answer.map_err(|error| setback(&url, &error))?;
            let Some(next) = redirection(&url, &response)? else { return Ok(response) };
            if next.origin() != url.origin() {
                headers.remove(AUTHORIZATION);
                headers.remove(COOKIE);
            }
            url = next;
        }
        let message = format!("{} was redirected more than {MAX_REDIRECTS} times", shown(&url));
        Err(Setback::lasting(message))
    }
}

/// Where an answer sends the client; none when it is not a redirect.
fn redirection(from: &Url, response: &Response) -> Result<Option<Url>, Setback> {
    let redirects = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let location = response.headers().get(LOCATION).filter(|_| redirects);
    let Some(location) = location else { return Ok(None) };
    let next = location.to_str().ok().and_then(|location| from.join(location).ok());
    let lost = || Setback::lasting(format!("{} redirects to what is no URL", shown(from)));
    let next = next.ok_or_else(lost)?;
    Ok(Some(next))
}

/// What an error of the client means for the next try.
pub(crate) fn setback(url: &Url, error: &reqwest::Error) -> Setback {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    let mut reason = error.to_string();
    while let Some(inner) = cause {
        if let Some(forbidden) = inner.downcast_ref::<Forbidden>() {
            return Setback::lasting(forbidden.to_string());
        }
        // The innermost one says what happened.
        reason = inner.to_string();
        cause = inner.source();
    }
    Setback::passing(format!("{} cannot be reached: {reason}", shown(url)))
}

/// What an answer that is no success means for the next try.
pub(crate) fn refusal(url: &Url, status: StatusCode) -> Setback {
    let url = shown(url);
    let message = match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            format!("{url} does not exist ({status}); check the URL")
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            format!("{url} may not be read ({status}); check its credentials")
        }
        _ => format!("{url} answered {status}"),
    };
    let passing = status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
        );
    if passing { Setback::passing(message) } else { Setback::lasting(message) }
}

/// A URL as it may stand in a message or in the log: user and password may both be a token, and
/// the values of a query are signatures, often enough.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    if !url.username().is_empty() || url.password().is_some() {
        // Only a URL without a host refuses, and that has neither.
        let _ = url.set_password(None);
        let _ = url.set_username("***");
    }
    if let Some(query) = url.query() {
        let key_of = |pair: &str| match pair.split_once('=') {
            Some((key, _)) => format!("{key}=***"),
            None => "***".to_owned(),
        };
        let query: Vec<_> = query.split('&').map(key_of).collect();
        url.set_query(Some(&query.join("&")));
    }
    url.set_fragment(None);
    format!("'{url}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_url_holds_no_credential() {
        for (url, expected) in [
            ("https://u:p@h/a?X-Sig=s&v=1#f", "'https://***@h/a?X-Sig=***&v=***'"),
            ("https://token@h/r.git", "'https://***@h/r.git'"),
            ("http://h/a?token", "'http://h/a?***'"),
            ("http://h:9/a%20b", "'http://h:9/a%20b'"),
        ] {
            assert_eq!(shown(&Url::parse(url).unwrap()), expected);
        }
    }
}
