//! The code flow with PKCE (RFC 7636), state and nonce.
//!
//! All secrets of a flow come from one seed, which stays with who began it: a browser in a cookie, or
//! the command line in its memory. So nothing has to be stored for a flow that is never finished.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use ring::digest::{SHA256, digest};
use ring::hmac;

use crate::provider::{Client, Metadata, Provider, ProviderError};
use crate::url::{form, parameters};

pub const SEED_BYTES: usize = 32;

/// Characters of the issuer's reason that are repeated.
const QUOTED_CHARS: usize = 200;

/// One attempt to sign in.
pub struct Flow {
    state: String,
    nonce: String,
    verifier: String,
}

/// With what the issuer sends the browser back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    pub code: String,
}

/// Why a callback does not end a flow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("it belongs to another sign-in")]
    OtherFlow,
    #[error("it comes from another issuer")]
    OtherIssuer,
    #[error("the issuer reports: {0}")]
    ByIssuer(String),
    #[error("it has no code")]
    NoCode,
}

// === impl Flow ===

impl Flow {
    pub fn of_seed(seed: &[u8; SEED_BYTES]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, seed);
        let part = |name: &str| URL_SAFE_NO_PAD.encode(hmac::sign(&key, name.as_bytes()));
        Self { state: part("state"), nonce: part("nonce"), verifier: part("verifier") }
    }

    /// What the ID token must repeat.
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// Where the user signs in.
    ///
    /// # Errors
    /// The issuer signs no one in.
    pub fn authorization_url(
        &self,
        provider: &Provider,
        metadata: &Metadata,
        client: &Client,
        redirect_uri: &str,
    ) -> Result<String, ProviderError> {
        let endpoint = metadata.authorization_endpoint();
        // In the form that a header takes.
        let endpoint = endpoint.and_then(|endpoint| Url::parse(endpoint).ok());
        let endpoint = endpoint.ok_or_else(|| provider.without_sign_in())?;
        let challenge = digest(&SHA256, self.verifier.as_bytes());
        let query = form(&[
            ("response_type", "code"),
            ("client_id", &client.id),
            ("redirect_uri", redirect_uri),
            ("scope", &client.scopes),
            ("state", &self.state),
            ("nonce", &self.nonce),
            ("code_challenge", &URL_SAFE_NO_PAD.encode(challenge)),
            ("code_challenge_method", "S256"),
        ]);
        let separator = if endpoint.query().is_some() { '&' } else { '?' };
        Ok(format!("{endpoint}{separator}{query}"))
    }

    /// Reads the query with which a browser comes back from the issuer.
    ///
    /// # Errors
    /// It is of another flow or issuer, or the issuer says why there is no code.
    pub fn callback(&self, issuer: &str, query: &str) -> Result<Callback, Refused> {
        let parameters = parameters(query);
        let one = |name: &str| {
            let mut values = parameters.iter().filter(|(found, _)| found == name);
            let first = values.next().map(|(_, value)| value.as_str());
            first.filter(|_| values.next().is_none())
        };
        // The state has 256 bits that only this flow knows.
        if one("state") != Some(self.state.as_str()) {
            return Err(Refused::OtherFlow);
        }
        // RFC 9207, for issuers that name themselves.
        if one("iss").is_some_and(|named| named != issuer) {
            return Err(Refused::OtherIssuer);
        }
        if let Some(error) = one("error") {
            let said = format!("{error} {}", one("error_description").unwrap_or_default());
            let said = said.trim().chars().filter(|it| !it.is_control());
            return Err(Refused::ByIssuer(said.take(QUOTED_CHARS).collect()));
        }
        match one("code") {
            Some(code) if !code.is_empty() => Ok(Callback { code: code.to_owned() }),
            Some(_) | None => Err(Refused::NoCode),
        }
    }

    /// Trades the code of a callback for an ID token, which is not verified here.
    ///
    /// # Errors
    /// As of [`Provider::redeem`].
    pub async fn redeem(
        &self,
        provider: &Provider,
        metadata: &Metadata,
        client: &Client,
        callback: &Callback,
        redirect_uri: &str,
    ) -> Result<String, ProviderError> {
        provider.redeem(metadata, client, &callback.code, &self.verifier, redirect_uri).await
    }
}

/// Its secrets stay out of logs.
impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://issuer.example";

    #[test]
    fn a_flow_is_the_same_for_the_same_seed_and_its_secrets_differ() {
        let (one, same) = (Flow::of_seed(&[1; 32]), Flow::of_seed(&[1; 32]));
        assert_eq!(
            (&one.state, &one.nonce, &one.verifier),
            (&same.state, &same.nonce, &same.verifier)
        );
        let other = Flow::of_seed(&[2; 32]);
        assert!(one.state != other.state && one.nonce != other.nonce);
        assert!(one.state != one.nonce && one.nonce != one.verifier);
        // RFC 7636: 43 to 128 characters.
        assert_eq!(one.verifier.len(), 43);
    }

    #[test]
    fn a_callback_is_of_its_own_flow_and_issuer() {
        let flow = Flow::of_seed(&[1; 32]);
        let state = &flow.state;
        let read = |query: &str| flow.callback(ISSUER, query);
        let good = Callback { code: "a b".to_owned() };
        assert_eq!(read(&format!("code=a+b&state={state}&session_state=1")), Ok(good.clone()));
        let named = form(&[("code", "a b"), ("state", state), ("iss", ISSUER)]);
        assert_eq!(read(&named), Ok(good));
        let other = form(&[("code", "a"), ("state", state), ("iss", "https://other.example")]);
        assert_eq!(read(&other), Err(Refused::OtherIssuer));
        for query in ["", "code=a", "code=a&state=", "code=a&state=x"] {
            assert_eq!(read(query), Err(Refused::OtherFlow), "{query}");
        }
        let twice = format!("code=a&state={state}&state={state}");
        assert_eq!(read(&twice), Err(Refused::OtherFlow));
        assert_eq!(read(&format!("state={state}")), Err(Refused::NoCode));
        let denied = format!("state={state}&error=access_denied&error_description=no%0A");
        assert_eq!(read(&denied), Err(Refused::ByIssuer("access_denied no".to_owned())));
    }
}
