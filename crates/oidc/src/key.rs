//! The public keys of an issuer, as its key set has them.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// The most keys of a set that are read; issuers have two or three.
const MAX_KEYS: usize = 100;

/// A key that verifies tokens.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    pub(crate) decoding: DecodingKey,
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

/// The usable keys of a set. Keys for other purposes and of unknown kinds are left out.
pub(crate) fn parse(set: &[u8]) -> Result<Vec<Key>, serde_json::Error> {
    let Set { keys } = serde_json::from_slice(set)?;
    Ok(keys.into_iter().take(MAX_KEYS).filter_map(Key::parse).collect())
}

// === impl Key ===

impl Key {
    fn parse(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let (algorithm, stated) = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
                (Algorithm::ES256, KeyAlgorithm::ES256)
            }
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
            }
            // A secret in a public document is none.
            _ => return None,
        };
        let is_for_signatures =
            matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature));
        let is_for_algorithm = jwk.common.key_algorithm.is_none_or(|it| it == stated);
        let decoding = DecodingKey::from_jwk(&jwk).ok()?;
        (is_for_signatures && is_for_algorithm).then_some(Self {
            id: jwk.common.key_id,
            algorithm,
            decoding,
        })
    }

    /// Whether a token with this header was signed by it. A token that names no key was, if the set
    /// has one key for its algorithm.
    fn is_named(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        self.algorithm == algorithm && (id.is_none() || self.id.as_deref() == id)
    }
}

/// The key that a token names.
pub(crate) fn find(keys: &[Key], id: Option<&str>, algorithm: Algorithm) -> Option<Key> {
    let mut named = keys.iter().filter(|key| key.is_named(id, algorithm));
    let first = named.next()?;
    // Without a name, two keys would leave it to chance.
    (id.is_some() || named.next().is_none()).then(|| first.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ed(id: &str, more: &Value) -> Value {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let mut key = json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "kid": id });
        for (name, value) in more.as_object().unwrap() {
            key[name] = value.clone();
        }
        key
    }

    fn ids(set: &Value) -> Vec<String> {
        let keys = parse(set.to_string().as_bytes()).unwrap();
        keys.into_iter().map(|key| key.id.unwrap_or_default()).collect()
    }

    #[test]
    fn only_public_keys_for_signatures_are_read() {
        let set = json!({ "keys": [
            ed("plain", &json!({})),
            ed("stated", &json!({ "use": "sig", "alg": "EdDSA" })),
            ed("encrypts", &json!({ "use": "enc" })),
            ed("other-algorithm", &json!({ "alg": "RS256" })),
            { "kty": "oct", "k": "c2VjcmV0", "kid": "a-secret" },
            { "kty": "EC", "crv": "P-384", "x": "AA", "y": "AA", "kid": "another-curve" },
            { "kty": "new", "kid": "a-kind-of-the-future" },
            "no key",
        ]});
        assert_eq!(ids(&set), ["plain", "stated"]);
        assert!(parse(b"[]").is_err() && parse(b"{}").is_err());
    }

    #[test]
    fn a_token_without_a_key_id_is_of_the_only_key() {
        let one = json!({ "keys": [ed("a", &json!({}))] }).to_string();
        let one = parse(one.as_bytes()).unwrap();
        let two = json!({ "keys": [ed("a", &json!({})), ed("b", &json!({}))] }).to_string();
        let two = parse(two.as_bytes()).unwrap();
        let found = |keys: &[Key], id: Option<&str>, algorithm| {
            find(keys, id, algorithm).and_then(|key| key.id)
        };
        assert_eq!(found(&one, None, Algorithm::EdDSA).as_deref(), Some("a"));
        assert_eq!(found(&two, None, Algorithm::EdDSA), None);
        assert_eq!(found(&two, Some("b"), Algorithm::EdDSA).as_deref(), Some("b"));
        assert_eq!(found(&two, Some("c"), Algorithm::EdDSA), None);
        assert_eq!(found(&two, Some("b"), Algorithm::RS256), None);
    }
}
