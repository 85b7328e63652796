//! URLs: which ones an issuer may have, and how parameters are encoded.

use std::net::IpAddr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use reqwest::Url;

/// Whether the text can be an issuer: `https`, or `http` on loopback.
///
/// # Errors
/// What is wrong with it.
pub fn check_issuer(issuer: &str) -> Result<(), &'static str> {
    let url = Url::parse(issuer).map_err(|_| "is not a URL")?;
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err("has a query, a fragment or a user name, which an issuer's URL must not have");
    }
    if !is_protected(&url) {
        return Err("is neither an https URL nor one of http on loopback");
    }
    Ok(())
}

/// Whether traffic to it is confidential.
pub(crate) fn is_protected(url: &Url) -> bool {
    match url.scheme() {
        "https" => url.has_host(),
        "http" => is_loopback(url),
        _ => false,
    }
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Parameters as a form or a query has them.
pub fn form(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

pub(crate) fn encode(value: &str) -> PercentEncode<'_> {
    utf8_percent_encode(value, RESERVED)
}

/// The decoded parameters of a query.
pub(crate) fn parameters(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_protected_or_on_this_machine() {
        for good in [
            "https://accounts.example.com",
            "https://keycloak.example.com/realms/main",
            "http://127.0.0.1:9400",
            "http://[::1]:9400",
            "http://localhost:9400/",
        ] {
            assert_eq!(check_issuer(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "accounts.example.com",
            "http://accounts.example.com",
            "http://127.0.0.1.example.com",
            "http://localhost.example.com",
            "ftp://127.0.0.1",
            "https://a.example/?x=1",
            "https://a.example/#x",
            "https://user@a.example/",
        ] {
            assert!(check_issuer(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parameters_read_back() {
        let pairs = [("a b", "1&2=3"), ("ä", "+%"), ("c", "")];
        let text = form(&pairs);
        assert_eq!(text, "a%20b=1%262%3D3&%C3%A4=%2B%25&c=");
        let read = parameters(&text);
        let read: Vec<_> = read.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(read, pairs);
        let owned = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(parameters("x=a+b&&y=%"), [owned("x", "a b"), owned("y", "%")]);
    }
}
