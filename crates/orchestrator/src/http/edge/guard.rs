//! Refuses requests for other hosts, and requests from pages of other origins.
//!
//! The API accepts requests without credentials, so a page of another origin must not be able to
//! use the browser of a person who can reach it. Three checks, before anything else is read:
//!
//! - The host that the request names must be this service. A page that rebinds its own name to the
//!   address of the service still sends that name.
//! - A page of another origin may only link to pages: a top-level `GET` of one, or of the one operation
//!   with which an issuer sends a browser back. Browsers say where a request comes from in `Origin`
//!   and `Sec-Fetch-Site`; programs send neither.
//! - A listener on loopback trusts every caller, because all of them are on this machine. A proxy
//!   in front of it would make the whole network trusted.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{PoisonError, RwLock};

use api_types::routes;
use http::uri::Authority;
use http::{HeaderMap, Method, Uri, header};

use crate::http::error::{Denied, Failure};

const SEC_FETCH_SITE: &str = "sec-fetch-site";
const SEC_FETCH_MODE: &str = "sec-fetch-mode";
const SEC_FETCH_DEST: &str = "sec-fetch-dest";

/// What proxies add, as sent and as shown.
const PROXY_HEADERS: [(&str, &str); 3] =
    [("forwarded", "Forwarded"), ("x-forwarded-for", "X-Forwarded-For"), ("via", "Via")];

/// The longest part of a foreign header that is repeated to its sender.
const MAX_SHOWN_CHARS: usize = 200;

/// Knows the names of this service.
#[derive(Debug)]
pub(crate) struct Guard {
    /// In lower case.
    names: BTreeSet<String>,
    /// Likewise, of the other orchestrators: their clients reach this one while it leads.
    others: RwLock<BTreeSet<String>>,
    /// It is on loopback, and takes requests without credentials.
    trusts_every_caller: bool,
}

// === impl Guard ===

impl Guard {
    /// In addition to IP addresses, the service answers to `localhost`, the name of its machine
    /// (whole, and its first label), and `allowed`.
    pub(crate) fn new(is_open_loopback: bool, machine: &str, allowed: &[String]) -> Self {
        let machine = name(machine);
        let label = machine.split('.').next().unwrap_or_default().to_owned();
        let names = ["localhost".to_owned(), label, machine].into_iter();
        let names = names.chain(allowed.iter().map(|host| name(host)));
        Self {
            names: names.filter(|name| !name.is_empty()).collect(),
            others: RwLock::default(),
            trusts_every_caller: is_open_loopback,
        }
    }

    /// Answers to the names of these orchestrators too, from now on.
    pub(crate) fn also<'n>(&self, names: impl Iterator<Item = &'n String>) {
        let others = names.map(|host| name(host)).collect();
        *self.others.write().unwrap_or_else(PoisonError::into_inner) = others;
    }

    /// Refuses what must not be answered.
    pub(in crate::http) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Failure> {
        self.check_host(uri, headers)?;
        check_origin(method, uri, headers)?;
        let proxied = PROXY_HEADERS.iter().find(|(name, _)| headers.contains_key(*name));
        match proxied {
            Some((_, header)) if self.trusts_every_caller => Err(Denied::Proxied { header }.into()),
            _ => Ok(()),
        }
    }

    /// Whether a request that names this host is answered.
    pub(in crate::http) fn answers_for(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        self.check_host(uri, headers).is_ok()
    }

    /// A request without any host comes from no browser.
    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
        let in_uri = uri.authority().map(|authority| authority.as_str().as_bytes());
        let in_headers = headers.get_all(header::HOST).iter().map(|host| host.as_bytes());
        for host in in_uri.into_iter().chain(in_headers) {
            if !self.is_own(host) {
                return Err(Denied::OtherHost { host: shown(host) }.into());
            }
        }
        Ok(())
    }

    fn is_own(&self, host: &[u8]) -> bool {
        // As most programs write it.
        let address = std::str::from_utf8(host).ok().map(str::parse::<SocketAddr>);
        if matches!(address, Some(Ok(_))) {
            return true;
        }
        let authority = Authority::try_from(host);
        let Some(authority) = authority.ok().filter(|text| !text.as_str().contains('@')) else {
            return false;
        };
        let host = authority.host();
        let unbracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if unbracketed.unwrap_or(host).parse::<IpAddr>().is_ok() {
            return true;
        }
        let host = name(host);
        let others = || self.others.read().unwrap_or_else(PoisonError::into_inner);
        self.names.contains(&host) || others().contains(&host)
    }
}

fn check_origin(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
    let is = |name: &str, word: &str| headers.get(name).is_some_and(|value| value == word);
    let opens_a_page = || {
        (web::is_page(method, uri.path(), headers) || is_callback(method, uri))
            && is(SEC_FETCH_MODE, "navigate")
            && is(SEC_FETCH_DEST, "document")
    };
    let foreign = headers
        .get_all(SEC_FETCH_SITE)
        .iter()
        .find(|site| !matches!(site.as_bytes(), b"same-origin" | b"none"));
    if let Some(site) = foreign
        && !opens_a_page()
    {
        let value = shown(site.as_bytes());
        return Err(Denied::CrossOrigin { header: "Sec-Fetch-Site", value }.into());
    }
    let host = match uri.authority() {
        Some(authority) => Some(authority.as_str().as_bytes()),
        None => headers.get(header::HOST).map(|host| host.as_bytes()),
    };
    for origin in headers.get_all(header::ORIGIN) {
        let own = authority_of(origin.as_bytes());
        if own.is_none() || !own.zip(host).is_some_and(|(own, host)| own.eq_ignore_ascii_case(host))
        {
            let value = shown(origin.as_bytes());
            return Err(Denied::CrossOrigin { header: "Origin", value }.into());
        }
    }
    Ok(())
}

/// Where an issuer sends a browser back that has signed in. The operation takes nothing without the
/// cookie of the sign-in that it ends.
fn is_callback(method: &Method, uri: &Uri) -> bool {
    *method == Method::GET && uri.path() == routes::AUTH_CALLBACK
}

/// `host:port` of an origin; none of `null` and of schemes that are not the web's.
fn authority_of(origin: &[u8]) -> Option<&[u8]> {
    let schemes: [&[u8]; 2] = [b"http://", b"https://"];
    schemes.into_iter().find_map(|scheme| origin.strip_prefix(scheme))
}

/// A host name as it is compared: in lower case, without the dot of the root.
fn name(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

fn shown(value: &[u8]) -> String {
    String::from_utf8_lossy(value).chars().take(MAX_SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    /// Whether the listener trusts every caller.
    const LOOPBACK: bool = true;
    const OPEN: bool = false;

    fn guard(is_open_loopback: bool) -> Guard {
        let allowed = ["Jobs.Example.com".to_owned()];
        Guard::new(is_open_loopback, "Build-1.lan", &allowed)
    }

    fn checked(guard: &Guard, method: &Method, uri: &str, fields: &[(&str, &str)]) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name: http::HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        match guard.check(method, &uri.parse().unwrap(), &headers) {
            Ok(()) => 200,
            Err(failure) => failure.into_response().status().as_u16(),
        }
    }

    #[test]
    fn a_host_is_an_address_or_a_known_name() {
        let guard = guard(OPEN);
        for (host, status) in [
            ("127.0.0.1", 200),
            ("127.0.0.1:1234", 200),
            ("10.1.2.3:80", 200),
            ("[::1]:1234", 200),
            ("[fe80::1]", 200),
            ("localhost", 200),
            ("LOCALHOST:9", 200),
            ("localhost.", 200),
            ("build-1", 200),
            ("build-1.lan:1234", 200),
            ("jobs.example.com", 200),
            ("jobs.EXAMPLE.com.:443", 200),
            ("evil.example", 421),
            ("evil.example:1234", 421),
            ("localhost.evil.example", 421),
            ("x.localhost", 421),
            ("build-1.evil.example", 421),
            ("example.com", 421),
            ("127.0.0.1.evil.example", 421),
            ("127.0.0.1@evil.example", 421),
            ("localhost@evil.example", 421),
            ("evil.example@localhost", 421),
            ("127.1", 421),
            ("2130706433", 421),
            ("", 421),
            ("a b", 421),
            ("localhost/", 421),
        ] {
            let found = checked(&guard, &Method::GET, "/livez", &[("host", host)]);
            assert_eq!(found, status, "{host}");
        }
        let get = |uri, fields| checked(&guard, &Method::GET, uri, fields);
        assert_eq!(get("/livez", &[]), 200);
        assert_eq!(get("/livez", &[("host", "localhost"), ("host", "evil.example")]), 421);
        assert_eq!(get("http://evil.example/livez", &[("host", "localhost")]), 421);
        assert_eq!(get("http://localhost/livez", &[("host", "localhost")]), 200);
    }

    #[test]
    fn a_foreign_page_reaches_pages_only_by_opening_them() {
        const HOST: (&str, &str) = ("host", "localhost:1234");
        const JOBS: &str = "/api/v1/orchestrator/jobs";
        const BACK: &str = "/api/v1/auth/callback?code=c&state=s";
        const SITE: &str = SEC_FETCH_SITE;
        const HTML: (&str, &str) = ("accept", "text/html");
        const OPENS: [(&str, &str); 2] =
            [(SEC_FETCH_MODE, "navigate"), (SEC_FETCH_DEST, "document")];
        let guard = guard(LOOPBACK);
        let (get, put, post) = (&Method::GET, &Method::PUT, &Method::POST);
        for (method, path, fields, status) in [
            // Programs, and the pages of this service.
            (put, JOBS, &[][..], 200),
            (put, JOBS, &[(SITE, "same-origin"), ("origin", "http://localhost:1234")], 200),
            (put, JOBS, &[("origin", "http://LOCALHOST:1234")], 200),
            (put, JOBS, &[("origin", "https://localhost:1234")], 200),
            (get, JOBS, &[(SITE, "none")], 200),
            // Others.
            (put, JOBS, &[("origin", "http://evil.example")], 403),
            (put, JOBS, &[("origin", "http://localhost")], 403),
            (put, JOBS, &[("origin", "http://localhost:12345")], 403),
            (put, JOBS, &[("origin", "http://127.0.0.1:1234")], 403),
            (put, JOBS, &[("origin", "null")], 403),
            (put, JOBS, &[("origin", "")], 403),
            (put, JOBS, &[("origin", "chrome-extension://localhost:1234")], 403),
            (post, JOBS, &[(SITE, "cross-site")], 403),
            (post, JOBS, &[(SITE, "same-site")], 403),
            (get, JOBS, &[(SITE, "cross-site")], 403),
            (get, JOBS, &[(SITE, "same-site")], 403),
            (get, JOBS, &[(SITE, "whatever")], 403),
            (get, JOBS, &[(SITE, "cross-site"), HTML, OPENS[0], OPENS[1]], 403),
            (get, "/metrics", &[(SITE, "cross-site"), HTML, OPENS[0], OPENS[1]], 403),
            (get, "/ui/app.js", &[(SITE, "cross-site"), HTML, OPENS[0], OPENS[1]], 403),
            // Links to pages.
            (get, "/", &[(SITE, "cross-site"), HTML, OPENS[0], OPENS[1]], 200),
            (get, "/jobs/j-1", &[(SITE, "same-site"), HTML, OPENS[0], OPENS[1]], 200),
            (get, "/", &[(SITE, "cross-site"), HTML], 403),
            (get, "/", &[(SITE, "cross-site"), HTML, OPENS[0]], 403),
            (get, "/", &[(SITE, "cross-site"), HTML, OPENS[0], (SEC_FETCH_DEST, "iframe")], 403),
            (post, "/", &[(SITE, "cross-site"), HTML, OPENS[0], OPENS[1]], 403),
            // The way back from an issuer, and nothing else of signing in.
            (get, BACK, &[(SITE, "cross-site"), OPENS[0], OPENS[1]], 200),
            (get, BACK, &[(SITE, "cross-site")], 403),
            (get, BACK, &[(SITE, "cross-site"), OPENS[0], (SEC_FETCH_DEST, "iframe")], 403),
            (get, BACK, &[("origin", "http://evil.example"), OPENS[0], OPENS[1]], 403),
            (post, BACK, &[(SITE, "cross-site"), OPENS[0], OPENS[1]], 403),
            (get, routes::AUTH_LOGIN, &[(SITE, "cross-site"), HTML, OPENS[0], OPENS[1]], 403),
            (get, routes::AUTH_LOGIN, &[(SITE, "same-origin"), OPENS[0], OPENS[1]], 200),
            (post, routes::AUTH_EXCHANGE, &[(SITE, "cross-site"), OPENS[0], OPENS[1]], 403),
            (get, "/", &[("origin", "http://evil.example"), HTML, OPENS[0], OPENS[1]], 403),
        ] {
            let fields: Vec<_> = fields.iter().copied().chain([HOST]).collect();
            assert_eq!(
                checked(&guard, method, path, &fields),
                status,
                "{method} {path} {fields:?}"
            );
        }
        // Without a host nothing is of the same origin.
        assert_eq!(checked(&guard, put, JOBS, &[("origin", "http://localhost:1234")]), 403);
    }

    #[test]
    fn only_a_listener_on_loopback_refuses_proxies() {
        for (listens_on, status) in [(LOOPBACK, 403), (OPEN, 200)] {
            let guard = guard(listens_on);
            for (name, _) in PROXY_HEADERS {
                let fields = [("host", "localhost"), (name, "1.2.3.4")];
                let found = checked(&guard, &Method::GET, "/livez", &fields);
                assert_eq!(found, status, "{listens_on} {name}");
            }
            let direct = checked(&guard, &Method::GET, "/livez", &[("host", "localhost")]);
            assert_eq!(direct, 200, "{listens_on}");
        }
    }
}
