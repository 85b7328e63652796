//! The connection to one service, and the requests that all operations share.

use std::sync::Arc;

use reqwest::Method;

use crate::call::Call;
use crate::endpoints::Endpoints;
use crate::error::InvalidBaseUrl;
use crate::options::{Credentials, Identity, Options, Trust};

/// A client of one service, which may have several base URLs. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    endpoints: Arc<Endpoints>,
    options: Arc<Options>,
}

// === impl Client ===

impl Client {
    /// Makes a client for `base_url`, like `http://127.0.0.1:1234`, or several separated by commas;
    /// sends nothing.
    pub fn new(base_url: &str) -> Result<Self, InvalidBaseUrl> {
        Self::with(Options { base_url: base_url.to_owned(), ..Options::default() })
    }

    /// Makes a client with these options; sends nothing.
    pub fn with(options: Options) -> Result<Self, InvalidBaseUrl> {
        let endpoints = Arc::new(Endpoints::new(&options)?);
        Ok(Self { endpoints, options: Arc::new(options) })
    }

    /// The same client with its own connections. Both go to the same one of several URLs.
    pub fn separate(&self) -> Result<Self, InvalidBaseUrl> {
        let endpoints = Arc::new(self.endpoints.separate(&self.options)?);
        Ok(Self { endpoints, options: Arc::clone(&self.options) })
    }

    /// Opens new connections of this client and of its clones with another identity, to servers of
    /// this CA, in PEM; requests in progress end on their own connections.
    pub fn replace_identity(&self, identity: Identity, ca: String) -> Result<(), InvalidBaseUrl> {
        let (trust, credentials) = (Trust::Authority(ca), Credentials::Agent(Some(identity)));
        let Options { base_url, proxy, .. } = &*self.options;
        let (base_url, proxy) = (base_url.clone(), *proxy);
        self.endpoints.reconnect(&Options { base_url, trust, credentials, proxy })
    }

    /// The URL that requests go to now.
    pub fn base_url(&self) -> &str {
        self.endpoints.current().base_url()
    }

    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    pub(crate) fn call(&self, method: Method, path: &str) -> Call<'_> {
        Call::new(self, method, path)
    }

    pub(crate) fn get(&self, path: &str) -> Call<'_> {
        self.call(Method::GET, path)
    }
}

/// Escapes a path parameter: everything but unreserved characters, so that no id can reach another
/// path.
pub(crate) fn segment(value: impl std::fmt::Display) -> String {
    let mut escaped = String::new();
    for byte in value.to_string().bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_reach_another_path() {
        assert_eq!(segment("j-12ab34cd"), "j-12ab34cd");
        assert_eq!(segment("a/b?c#d%ü"), "a%2Fb%3Fc%23d%25%C3%BC");
    }
}
