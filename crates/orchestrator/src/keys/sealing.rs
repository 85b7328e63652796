//! Keys that encrypt other secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;

/// Encrypts and authenticates with ChaCha20-Poly1305.
pub(crate) struct SealingKey {
    key: LessSafeKey,
    id: String,
}

/// A secret as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Sealed {
    /// Of the key that encrypted it.
    #[serde(rename = "KeyID")]
    pub(crate) key_id: String,
    /// In base64, like the ciphertext.
    nonce: String,
    ciphertext: String,
}

/// The system has no random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system has no random numbers")]
pub struct NoRandom;

// === impl SealingKey ===

impl SealingKey {
    /// `None` unless the key has [`KEY_BYTES`].
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, bytes).ok()?;
        Some(Self { key: LessSafeKey::new(key), id: key_id(bytes) })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// What it is stored under is authenticated: no secret can be put in another's place.
    pub(crate) fn seal(&self, place: &str, secret: &[u8]) -> Result<Sealed, NoRandom> {
        let nonce: [u8; NONCE_LEN] = random()?;
        let mut bytes = secret.to_vec();
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(place.as_bytes()),
                &mut bytes,
            )
            .map_err(|_| NoRandom)?;
        Ok(Sealed {
            key_id: self.id.clone(),
            nonce: STANDARD.encode(nonce),
            ciphertext: STANDARD.encode(bytes),
        })
    }

    /// `None` if it was changed, or sealed for another place or with another key.
    pub(crate) fn unseal(&self, place: &str, sealed: &Sealed) -> Option<Zeroizing<Vec<u8>>> {
        let nonce = STANDARD.decode(&sealed.nonce).ok()?;
        let nonce = Nonce::try_assume_unique_for_key(&nonce).ok()?;
        let mut bytes = Zeroizing::new(STANDARD.decode(&sealed.ciphertext).ok()?);
        let aad = Aad::from(place.as_bytes());
        let length = self.key.open_in_place(nonce, aad, &mut bytes).ok()?.len();
        bytes.truncate(length);
        Some(bytes)
    }
}

pub(crate) fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], NoRandom> {
    let mut bytes = [0; LENGTH];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(bytes)
}

/// Names a key without telling anything about it.
fn key_id(key: &[u8]) -> String {
    let digest = digest(&SHA256, key);
    digest.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_in_its_own_place_with_its_own_key_alone() {
        let key = SealingKey::new(&[7; KEY_BYTES]).unwrap();
        let sealed = key.seal("a/b/1", b"hidden").unwrap();
        assert_eq!(**key.unseal("a/b/1", &sealed).unwrap(), *b"hidden");
        assert!(key.unseal("a/b/2", &sealed).is_none());
        let other = SealingKey::new(&[8; KEY_BYTES]).unwrap();
        assert!(other.unseal("a/b/1", &sealed).is_none());
        assert_ne!(key.id(), other.id());
        assert_ne!(key.seal("a/b/1", b"hidden").unwrap(), sealed, "a nonce is used once");
        assert!(SealingKey::new(b"short").is_none());
    }
}
