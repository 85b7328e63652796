//! What is checked of an ID token, apart from its signature.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde_json::{Map, Value};

use crate::crypto::ALGORITHMS;
use crate::key::Key;
use crate::keys::Unavailable;

/// The longest token; those of issuers with many groups have some kilobytes.
pub const MAX_TOKEN_BYTES: usize = 16 << 10;

/// By how much the clocks of issuer and service may differ.
const LEEWAY_SECONDS: u64 = 60;

/// What an issuer says of a person or program.
#[derive(Debug, Clone, PartialEq)]
pub struct Claims {
    /// Never changes, and is never given to anyone else.
    pub subject: String,
    pub all: Map<String, Value>,
}

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToken {
    #[error("it is longer than {MAX_TOKEN_BYTES} bytes")]
    TooLong,
    #[error("it is not a JSON Web Token")]
    Malformed,
    #[error("it is not signed with RS256, ES256 or EdDSA")]
    Algorithm,
    #[error("its header is not that of an ID token")]
    Header,
    #[error("the issuer does not have the key that signed it")]
    UnknownKey,
    #[error("its signature is wrong")]
    Signature,
    #[error("another issuer made it")]
    Issuer,
    #[error("it is for another audience")]
    Audience,
    #[error("it was made for another client")]
    AuthorizedParty,
    #[error("it has expired")]
    Expired,
    #[error("it is not valid yet")]
    NotYetValid,
    #[error("it has no usable claim '{0}'")]
    Claim(&'static str),
    #[error("it belongs to another sign-in")]
    Nonce,
}

/// Why a token identifies no one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error("the ID token is refused: {0}")]
    Invalid(#[from] InvalidToken),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// What a token says of the key that signed it; nothing of it is verified.
pub(crate) struct Named {
    pub(crate) key_id: Option<String>,
    pub(crate) algorithm: Algorithm,
}

/// What a token must be for.
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    /// One of them is meant.
    pub(crate) audiences: &'a [String],
    pub(crate) nonce: Option<&'a str>,
    pub(crate) now_seconds: u64,
}

/// Reads the header. Keys and URLs in it are ignored: a token does not say itself whom to trust.
pub(crate) fn named(token: &str) -> Result<Named, InvalidToken> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(InvalidToken::TooLong);
    }
    // The library has no name for some algorithms, "none" among them.
    let header = decode_header(token).map_err(|_| match is_of_other_algorithm(token) {
        true => InvalidToken::Algorithm,
        false => InvalidToken::Malformed,
    })?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(InvalidToken::Algorithm);
    }
    // An access token names another type (RFC 9068); what is critical is not understood here.
    let is_id_token = header.typ.is_none_or(|kind| kind.eq_ignore_ascii_case("JWT"));
    if !is_id_token || header.crit.is_some() {
        return Err(InvalidToken::Header);
    }
    Ok(Named { key_id: header.kid, algorithm: header.alg })
}

/// Whether there is a header, and it names an algorithm that the library does not know.
fn is_of_other_algorithm(token: &str) -> bool {
    let header = token.split('.').next().and_then(|header| URL_SAFE_NO_PAD.decode(header).ok());
    let header = header.and_then(|header| serde_json::from_slice::<Value>(&header).ok());
    let word = header.as_ref().and_then(|header| header["alg"].as_str());
    word.is_some_and(|word| word.parse::<Algorithm>().is_err())
}

/// Verifies the signature with the key that the token names, and checks its claims.
pub(crate) fn verify(
    token: &str,
    named: &Named,
    key: &Key,
    expected: &Expected<'_>,
) -> Result<Claims, InvalidToken> {
    let mut validation = Validation::new(named.algorithm);
    validation.set_required_spec_claims(&["iss", "sub", "aud", "exp"]);
    validation.set_issuer(&[expected.issuer]);
    validation.set_audience(expected.audiences);
    // The library reads the system's clock.
    validation.validate_exp = false;
    let decoded = decode::<Map<String, Value>>(token, &key.decoding, &validation);
    let all = decoded.map_err(|error| invalid(error.kind()))?.claims;
    // The library takes a list of issuers too.
    if all.get("iss").and_then(Value::as_str) != Some(expected.issuer) {
        return Err(InvalidToken::Issuer);
    }
    check_party(&all, expected)?;
    check_times(&all, expected.now_seconds)?;
    if let Some(nonce) = expected.nonce
        && all.get("nonce").and_then(Value::as_str) != Some(nonce)
    {
        return Err(InvalidToken::Nonce);
    }
    let subject = all.get("sub").and_then(Value::as_str).filter(|subject| !subject.is_empty());
    let subject = subject.ok_or(InvalidToken::Claim("sub"))?.to_owned();
    Ok(Claims { subject, all })
}

fn invalid(kind: &ErrorKind) -> InvalidToken {
    match kind {
        ErrorKind::InvalidSignature | ErrorKind::Base64(_) => InvalidToken::Signature,
        ErrorKind::InvalidAlgorithm => InvalidToken::Algorithm,
        ErrorKind::InvalidIssuer => InvalidToken::Issuer,
        ErrorKind::InvalidAudience => InvalidToken::Audience,
        ErrorKind::MissingRequiredClaim(claim) => {
            let required = ["iss", "sub", "aud", "exp"];
            let claim = required.into_iter().find(|name| name == claim);
            claim.map_or(InvalidToken::Malformed, InvalidToken::Claim)
        }
        _ => InvalidToken::Malformed,
    }
}

/// A token for several audiences says which of them it was made for.
fn check_party(all: &Map<String, Value>, expected: &Expected<'_>) -> Result<(), InvalidToken> {
    let is_for_several =
        all.get("aud").and_then(Value::as_array).is_some_and(|audiences| audiences.len() > 1);
    let party = all.get("azp").and_then(Value::as_str);
    let is_own = party.is_some_and(|party| expected.audiences.iter().any(|own| own == party));
    match is_for_several && !is_own {
        true => Err(InvalidToken::AuthorizedParty),
        false => Ok(()),
    }
}

fn check_times(all: &Map<String, Value>, now: u64) -> Result<(), InvalidToken> {
    let expires = seconds(all, "exp")?.ok_or(InvalidToken::Claim("exp"))?;
    if expires.saturating_add(LEEWAY_SECONDS) <= now {
        return Err(InvalidToken::Expired);
    }
    for claim in ["nbf", "iat"] {
        let begins = seconds(all, claim)?;
        if begins.is_some_and(|begins| begins > now.saturating_add(LEEWAY_SECONDS)) {
            return Err(InvalidToken::NotYetValid);
        }
    }
    Ok(())
}

/// A moment, which some issuers give with a fraction.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is checked to be one of seconds that fits"
)]
fn seconds(all: &Map<String, Value>, claim: &'static str) -> Result<Option<u64>, InvalidToken> {
    let Some(value) = all.get(claim) else { return Ok(None) };
    let whole = value.as_u64().or_else(|| {
        let seconds = value.as_f64().filter(|seconds| (0.0..1e15).contains(seconds))?;
        Some(seconds as u64)
    });
    whole.map(Some).ok_or(InvalidToken::Claim(claim))
}

/// The nonce of a token that came from the issuer itself, over TLS: its signature is not checked.
pub fn nonce_of(token: &str) -> Option<String> {
    let claims = token.split('.').nth(1)?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    claims["nonce"].as_str().map(str::to_owned)
}
