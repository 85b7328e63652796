//! HTTP on behalf of jobs: their URLs are untrusted.

pub(crate) mod addresses;

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api_types::credential::CredentialValue;
use http::StatusCode;
use http::header::{AUTHORIZATION, COOKIE, HeaderMap, LOCATION};
use reqwest::dns::Resolve;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use tracing::warn;

use crate::data::credentials::authorization;
use crate::data::retry::AttemptError;
use addresses::{EgressPolicy, FilteringResolver, Forbidden, Unreached};

/// Redirects of one request; more than this count as a loop.
const MAX_REDIRECTS: usize = 10;

/// Time limit for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest silence in a response; beyond it the connection counts as dead.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A client that connects only where [`EgressPolicy`] allows, and follows redirects itself.
#[derive(Debug, Clone)]
pub(crate) struct EgressClient {
    client: Client,
    policy: EgressPolicy,
}

// === impl EgressClient ===

impl EgressClient {
    pub(crate) fn new(policy: EgressPolicy) -> Self {
        Self::with_resolver(policy, Arc::new(FilteringResolver::new(policy)))
    }

    /// Uses a resolver that applies the same policy as [`FilteringResolver`].
    pub(crate) fn with_resolver(policy: EgressPolicy, resolver: Arc<dyn Resolve>) -> Self {
        // An earlier caller has already chosen the provider for the process.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            Client::builder()
                .user_agent(concat!("compute-agent/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT_TIMEOUT)
                .read_timeout(READ_TIMEOUT)
                .redirect(Policy::none())
                // A proxy would resolve the name again, without the policy.
                .no_proxy()
                // A connection that was allowed for one job is not reused for the next.
                .pool_max_idle_per_host(0)
                .dns_resolver(Arc::clone(&resolver))
        };
        let client = builder().build().or_else(|error| {
            warn!(
                error = &error as &dyn Error,
                "cannot fetch https URLs: this machine has no CA certificates"
            );
            builder().tls_certs_only([]).build()
        });
        let client = client.expect("a client without certificates needs nothing of the machine");
        Self { client, policy }
    }

    /// The underlying client: it checks names, but not literal addresses in a URL, and follows no
    /// redirects.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Refuses a URL whose host is a literal address that the policy denies.
    pub(crate) fn check(&self, url: &Url) -> Result<(), Forbidden> {
        let host = url.host_str().unwrap_or_default();
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => self.policy.check(host, address),
            // The resolver checks names.
            Err(_) => Ok(()),
        }
    }

    /// Whether the policy allows what the host of a URL leads to, before anything else connects to
    /// it.
    pub(crate) async fn reaches(&self, url: &Url) -> Result<(), Unreached> {
        self.check(url)?;
        match url.domain() {
            Some(name) => FilteringResolver::new(self.policy).check(name).await,
            None => Ok(()),
        }
    }

    /// Sends a GET request and checks every redirect like the first URL. The login of credentials
    /// goes to their hosts alone, wherever the request is redirected.
    pub(crate) async fn get(
        &self,
        url: &Url,
        headers: HeaderMap,
        credential: Option<&CredentialValue>,
    ) -> Result<Response, AttemptError> {
        let (mut url, mut headers) = (url.clone(), headers);
        for _ in 0..=MAX_REDIRECTS {
            if !matches!(url.scheme(), "http" | "https") {
                let message = format!("{} is neither http nor https", shown(&url));
                return Err(AttemptError::permanent(message));
            }
            self.check(&url).map_err(|refused| AttemptError::permanent(refused.to_string()))?;
            if let Some(login) = credential.and_then(|it| authorization(it, url.as_str())) {
                headers.insert(AUTHORIZATION, login);
            }
            let answer = self.client.get(url.clone()).headers(headers.clone()).send().await;
            let response = answer.map_err(|error| attempt_error(&url, &error))?;
            let Some(next) = redirection(&url, &response)? else { return Ok(response) };
            if next.origin() != url.origin() {
                headers.remove(AUTHORIZATION);
                headers.remove(COOKIE);
            }
            url = next;
        }
        let message = format!("{} was redirected more than {MAX_REDIRECTS} times", shown(&url));
        Err(AttemptError::permanent(message))
    }
}

/// The target of a redirect; none when the response is not a redirect.
fn redirection(from: &Url, response: &Response) -> Result<Option<Url>, AttemptError> {
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
    let lost = || AttemptError::permanent(format!("{} redirects to an invalid URL", shown(from)));
    let next = next.ok_or_else(lost)?;
    Ok(Some(next))
}

/// Classifies an error of the client as transient or permanent.
pub(crate) fn attempt_error(url: &Url, error: &reqwest::Error) -> AttemptError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    let mut reason = error.to_string();
    while let Some(inner) = cause {
        if let Some(forbidden) = inner.downcast_ref::<Forbidden>() {
            return AttemptError::permanent(forbidden.to_string());
        }
        // The innermost error says what happened.
        reason = inner.to_string();
        cause = inner.source();
    }
    AttemptError::transient(format!("cannot reach {}: {reason}", shown(url)))
}

/// Classifies a response that is not a success as transient or permanent.
pub(crate) fn refusal(url: &Url, status: StatusCode) -> AttemptError {
    let url = shown(url);
    let message = match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            let message = format!("{url} does not exist ({status}); check the URL");
            return AttemptError::definite(message);
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let message = format!("{url} may not be read ({status}); check its credentials");
            return AttemptError::definite(message);
        }
        _ => format!("{url} answered {status}"),
    };
    let passing = status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
        );
    if passing { AttemptError::transient(message) } else { AttemptError::permanent(message) }
}

/// A URL without its secrets, for messages and the log: user and password may be tokens, and the
/// values of a query are often signatures.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    if !url.username().is_empty() || url.password().is_some() {
        // Only a URL without a host refuses, and that has neither user nor password.
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
    fn a_shown_url_contains_no_credentials() {
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
