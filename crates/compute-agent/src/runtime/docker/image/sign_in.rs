//! To which servers a registry sends its clients, and whether the Engine may follow.
//!
//! A registry answers with the address at which its clients sign in (the realm), or redirects them.
//! The Engine follows both, and takes the login to the realm. So the agent first asks the registry,
//! without a login, and checks these addresses.
//!
//! If the agent cannot reach a registry, the Engine reports that: it may have its own proxy or CA.
//! A registry can also respond differently to the Engine than to the agent; only a list of
//! registries helps against that.
//!
//! Rejected: giving the Engine a token instead of the login, since a token expires during a long
//! pull and the Engine cannot renew it.

use std::time::Duration;

use api_types::image::ImageReference;
use http::header::{LOCATION, WWW_AUTHENTICATE};
use http::{HeaderMap, Method};
use reqwest::Url;
use tracing::debug;

use super::credentials::RegistryLogin;
use super::reference::DOCKER_HUB;
use super::registries::Registries;
use crate::data::egress::addresses::{EgressPolicy, Unreached};
use crate::data::egress::{attempt_error, shown};
use crate::data::retry::AttemptError;

/// The server that the hub's images come from.
const SERVER_OF_THE_HUB: &str = "registry-1.docker.io";

/// Time for all questions to one registry; after it the pull begins, and reports what is wrong.
const PROBE_TIMEOUT: Duration = Duration::from_secs(15);

/// As many as the Engine follows.
const MAX_REDIRECTS: usize = 10;

/// Answers of one registry.
struct Probe<'a> {
    registries: &'a Registries,
    /// As the name of the image has it.
    registry: String,
    /// The operator lists the registry, or gives credentials for it.
    is_vouched_for: bool,
    has_login: bool,
}

/// Why a question has no answer.
enum Failed {
    Unreachable(String),
    Refused(String),
}

// === impl Registries ===

impl Registries {
    /// Why the Engine must not follow the registry of the image, if so.
    pub(super) async fn check_sign_in(
        &self,
        image: &ImageReference,
        known: &RegistryLogin,
    ) -> Result<(), String> {
        // Without a login and without a policy there is nothing to protect.
        if self.policy == EgressPolicy::Anywhere && known.login.is_none() {
            return Ok(());
        }
        let (Some(registry), Some((path, version))) = (image.registry(), image.manifest()) else {
            return Ok(());
        };
        let manifest = format!("/v2/{path}/manifests/{version}");
        let probe = Probe {
            registries: self,
            is_vouched_for: self.vouches_for(registry).await,
            has_login: known.login.is_some(),
            registry: registry.to_owned(),
        };
        match tokio::time::timeout(PROBE_TIMEOUT, probe.run(&manifest)).await {
            Ok(Err(Failed::Refused(reason))) => Err(reason),
            Ok(Err(Failed::Unreachable(reason))) => {
                debug!(%image, reason, "cannot ask a registry where its clients sign in");
                Ok(())
            }
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }
}

// === impl Probe ===

impl Probe<'_> {
    async fn run(&self, manifest_path: &str) -> Result<(), Failed> {
        let server = match self.registry.as_str() {
            DOCKER_HUB => SERVER_OF_THE_HUB,
            server => server,
        };
        let root = |scheme: &str| {
            Url::parse(&format!("{scheme}://{server}/v2/"))
                .map_err(|error| Failed::Unreachable(error.to_string()))
        };
        // Like the Engine: https, then http. Only the Engine knows whether it accepts http; the
        // question holds nothing secret.
        let (mut root, mut answered) = (root("https")?, Err(Failed::Unreachable(String::new())));
        for scheme in ["https", "http"] {
            // Both schemes are special, so one can replace the other.
            let _ = root.set_scheme(scheme);
            answered = self.challenges(Method::GET, root.clone()).await;
            if !matches!(answered, Err(Failed::Unreachable(_))) {
                break;
            }
        }
        let mut challenges = answered?;
        let mut manifest = root.clone();
        manifest.set_path(manifest_path);
        // Engines differ in which of the two answers they follow.
        challenges.extend(self.challenges(Method::HEAD, manifest).await?);
        let is_secure = root.scheme() == "https";
        for realm in challenges.iter().flat_map(|challenge| realms(challenge)) {
            self.check(&realm, is_secure).await?;
        }
        Ok(())
    }

    /// The challenges at a URL, or where it redirects.
    async fn challenges(&self, method: Method, mut url: Url) -> Result<Vec<String>, Failed> {
        for _ in 0..=MAX_REDIRECTS {
            let client = match self.is_vouched(&url) {
                true => &self.registries.unguarded,
                false => &self.registries.guarded,
            };
            client.check(&url).map_err(|refused| self.leads("redirects to", &url, &refused))?;
            let answer = client.client().request(method.clone(), url.clone()).send().await;
            let response = answer.map_err(|error| match attempt_error(&url, &error) {
                AttemptError::Transient(failure) => Failed::Unreachable(failure.message),
                AttemptError::Permanent(failure) => {
                    self.leads("redirects to", &url, &failure.message)
                }
            })?;
            match next(&url, response.status(), response.headers()) {
                Some(next) => url = next,
                None => {
                    let values = response.headers().get_all(WWW_AUTHENTICATE).iter();
                    let text = |value: &http::HeaderValue| {
                        String::from_utf8_lossy(value.as_bytes()).into_owned()
                    };
                    return Ok(values.map(text).collect());
                }
            }
        }
        Err(Failed::Unreachable(format!("{} redirects without end", shown(&url))))
    }

    async fn check(&self, realm: &Url, is_secure: bool) -> Result<(), Failed> {
        if self.has_login && is_secure && realm.scheme() != "https" {
            let reason = "the login would be sent without encryption";
            return Err(self.leads("lets clients sign in at", realm, &reason));
        }
        if self.is_vouched(realm) {
            return Ok(());
        }
        match self.registries.guarded.reaches(realm).await {
            Ok(()) => Ok(()),
            Err(Unreached::Unknown { .. }) if self.registry == DOCKER_HUB => Ok(()),
            Err(refused) => Err(self.leads("lets clients sign in at", realm, &refused)),
        }
    }

    /// Whether the operator vouches for the server of a URL.
    fn is_vouched(&self, url: &Url) -> bool {
        let server = server(url);
        self.registries.policy == EgressPolicy::Anywhere
            || self.registries.names(&server)
            || (self.is_vouched_for && server == server_of(&self.registry, url.scheme()))
    }

    fn leads(&self, verb: &str, url: &Url, reason: &dyn std::fmt::Display) -> Failed {
        Failed::Refused(format!(
            "registry '{}' {verb} {}, where this node does not go: {reason}; if that is right, \
             list '{}' in docker.registries",
            self.registry,
            shown(url),
            server(url)
        ))
    }
}

/// The server of a URL as people write a registry: without the scheme's own port.
fn server(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The same for a registry, which may name the scheme's own port.
fn server_of(registry: &str, scheme: &str) -> String {
    let url = Url::parse(&format!("{scheme}://{registry}/"));
    url.map_or_else(|_| registry.to_owned(), |url| server(&url))
}

/// None when the answer is no redirect, or none that could be followed.
fn next(from: &Url, status: http::StatusCode, headers: &HeaderMap) -> Option<Url> {
    let location = headers.get(LOCATION).filter(|_| status.is_redirection())?;
    let next = from.join(location.to_str().ok()?).ok()?;
    matches!(next.scheme(), "http" | "https").then_some(next)
}

/// The URLs in a challenge, whatever its scheme: an Engine may read it in another way.
fn realms(challenge: &str) -> Vec<Url> {
    let lower = challenge.to_ascii_lowercase();
    let starts = lower.match_indices("realm").map(|(at, word)| at + word.len());
    let values = starts.filter_map(|at| {
        let rest = challenge.get(at..)?.trim_start().strip_prefix('=')?.trim_start();
        Some(match rest.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => rest.split([',', ' ', '\t']).next().unwrap_or_default().to_owned(),
        })
    });
    let urls = values.filter_map(|value| Url::parse(&value).ok());
    urls.filter(|url| matches!(url.scheme(), "http" | "https")).collect()
}

/// What stands before the closing quote, without its escapes.
fn unquoted(text: &str) -> String {
    let (mut value, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => value.extend(letters.next()),
            letter => value.push(letter),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_realm_is_found_however_it_is_written() {
        for challenge in [
            r#"Bearer realm="http://h/token",service="s",scope="a""#,
            r#"bearer service="s", REALM = "http:\/\/h/token""#,
            r#"Basic realm="registry", Bearer realm="http://h/token""#,
            "Bearer realm=http://h/token,service=s",
        ] {
            let found: Vec<_> = realms(challenge).iter().map(Url::to_string).collect();
            assert_eq!(found, ["http://h/token"], "{challenge}");
        }
        assert!(realms(r#"Basic realm="registry""#).is_empty());
    }

    #[test]
    fn a_server_is_the_same_with_and_without_the_port_of_its_scheme() {
        let url = Url::parse("https://h.example:443/token").unwrap();
        assert_eq!(server(&url), server_of("h.example", "https"));
        assert_eq!(server(&url), server_of("h.example:443", "https"));
        assert_ne!(server(&url), server_of("h.example:5000", "https"));
    }
}
