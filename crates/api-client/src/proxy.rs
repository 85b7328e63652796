//! Which proxy a client uses, so that an error can name it.

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;

use crate::options::ProxyUse;

/// The proxy for requests to this URL, without its credentials.
pub(crate) fn for_url(url: &Url, usage: ProxyUse) -> Option<String> {
    match usage {
        ProxyUse::OfEnvironment if !is_loopback(url) => chosen(&Matcher::from_env(), url),
        ProxyUse::OfEnvironment | ProxyUse::Never => None,
    }
}

fn chosen(environment: &Matcher, url: &Url) -> Option<String> {
    let proxy = environment.intercept(&url.as_str().parse::<Uri>().ok()?)?;
    let uri = proxy.uri();
    let authority = uri.authority()?.as_str();
    let host = authority.rsplit('@').next().unwrap_or_default();
    Some(format!("{}://{host}", uri.scheme_str().unwrap_or("http")))
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_end_matches('.');
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match address {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    #[test]
    fn a_proxy_is_named_without_its_credentials() {
        let environment = Matcher::builder()
            .http("http://user:secret@proxy:3128")
            .https("http://secure-proxy:3128")
            .no("direct.example,10.0.0.0/8")
            .build();
        for (target, expected) in [
            ("http://orchestrator:1234", Some("http://proxy:3128")),
            ("https://orchestrator:1234", Some("http://secure-proxy:3128")),
            ("http://direct.example", None),
            ("https://10.1.2.3:1234", None),
        ] {
            assert_eq!(chosen(&environment, &url(target)).as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn loopback_has_several_names() {
        for loopback in [
            "http://127.0.0.1:1",
            "http://127.9.9.9",
            "http://[::1]:1",
            "http://localhost:1",
            "http://[::ffff:127.0.0.1]",
            "https://a.localhost",
            "http://LOCALHOST.",
        ] {
            assert!(is_loopback(&url(loopback)), "{loopback}");
        }
        for other in ["http://10.0.0.1", "http://localhost.example", "http://[::2]"] {
            assert!(!is_loopback(&url(other)), "{other}");
        }
    }
}
