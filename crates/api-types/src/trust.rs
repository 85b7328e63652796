//! What a client trusts, and what a node joins with: the digest of a CA's key, and join tokens.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Protocol that agents offer when they open a TLS connection (ALPN): the orchestrator answers with
/// a certificate of the cluster's CA, and asks for the node's.
pub const AGENT_PROTOCOL: &[u8] = b"jobs-agent/1";

/// SHA-256 of a CA's `SubjectPublicKeyInfo`, as 64 hexadecimal digits.
///
/// It names the key, so it stays the same when the certificate of the key is made anew.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyDigest(pub [u8; 32]);

/// A text that is not the digest of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not the SHA-256 of a key: it is 64 hexadecimal digits")]
pub struct InvalidDigest(pub String);

// === impl KeyDigest ===

impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for KeyDigest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let invalid = || InvalidDigest(text.to_owned());
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(invalid());
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| invalid())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| invalid())?;
        }
        Ok(Self(digest))
    }
}

impl Serialize for KeyDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KeyDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_64_hexadecimal_digits() {
        let text = "00ff".repeat(16);
        let digest: KeyDigest = text.parse().unwrap();
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.to_uppercase().parse(), Ok(digest));
        for text in ["", "00", &"0".repeat(63), &"0".repeat(65), &"+f".repeat(32), &"é".repeat(32)]
        {
            assert_eq!(text.parse::<KeyDigest>(), Err(InvalidDigest(text.to_owned())));
        }
    }
}
