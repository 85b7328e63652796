//! Keys that sign tokens, good ones and forged ones.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use serde_json::{Value, json};

/// The only RSA key, made for these tests: `ring` makes none.
const RSA: &[u8] = include_bytes!("rsa.pk8");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

#[derive(Debug, Clone)]
pub struct SigningKey {
    id: String,
    pair: Arc<Pair>,
}

#[derive(Debug)]
enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token of these parts.
fn assembled(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encode(header.to_string()), encode(claims.to_string()))
}

// === impl SigningKey ===

impl SigningKey {
    /// A new key; for RSA always the same one.
    pub fn new(algorithm: Algorithm, id: &str) -> Self {
        let random = SystemRandom::new();
        let pair = match algorithm {
            Algorithm::Rs256 => Pair::Rsa(RsaKeyPair::from_pkcs8(RSA).unwrap()),
            Algorithm::Es256 => {
                let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
                let key = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
                Pair::Ec(EcdsaKeyPair::from_pkcs8(kind, key.as_ref(), &random).unwrap())
            }
            Algorithm::EdDsa => {
                let key = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
                Pair::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
            }
        };
        Self { id: id.to_owned(), pair: Arc::new(pair) }
    }

    /// As a key set has it.
    pub fn public(&self) -> Value {
        let mut key = match &*self.pair {
            Pair::Rsa(pair) => {
                let public = rsa::PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({ "kty": "RSA", "n": encode(public.n), "e": encode(public.e) })
            }
            Pair::Ec(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y) })
            }
            Pair::Ed(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key()) })
            }
        };
        key["kid"] = json!(self.id);
        key["use"] = json!("sig");
        key
    }

    /// The public key as bytes, such as a forger takes for a secret.
    pub fn public_bytes(&self) -> Vec<u8> {
        match &*self.pair {
            Pair::Rsa(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Ec(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Ed(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    pub fn header(&self) -> Value {
        let word = match &*self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::Ec(_) => "ES256",
            Pair::Ed(_) => "EdDSA",
        };
        json!({ "alg": word, "kid": self.id, "typ": "JWT" })
    }

    pub fn sign(&self, claims: &Value) -> String {
        self.sign_as(&self.header(), claims)
    }

    /// With any header, be it true or not.
    pub fn sign_as(&self, header: &Value, claims: &Value) -> String {
        let message = assembled(header, claims);
        let random = SystemRandom::new();
        let signature = match &*self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature).unwrap();
                signature
            }
            Pair::Ec(pair) => pair.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", encode(signature))
    }
}

/// A token without a signature.
pub fn unsigned(claims: &Value) -> String {
    format!("{}.", assembled(&json!({ "alg": "none", "typ": "JWT" }), claims))
}

/// A token with an HMAC, for which the public key is taken as the secret.
pub fn with_public_key_as_secret(key: &SigningKey, claims: &Value) -> String {
    let mut header = key.header();
    header["alg"] = json!("HS256");
    let message = assembled(&header, claims);
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key.public_bytes());
    format!("{message}.{}", encode(ring::hmac::sign(&secret, message.as_bytes())))
}
