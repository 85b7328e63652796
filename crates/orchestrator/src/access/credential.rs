//! Secrets of tokens and sessions: made here, stored as hashes, compared in constant time.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// Longer texts are no credentials.
const MAX_CHARS: usize = 128;

/// What a caller presents: `<kind>_<id>_<secret>`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) id: String,
    secret: String,
}

// === impl Credential ===

impl Credential {
    pub(crate) fn mint() -> Self {
        let id = random::<ID_BYTES>().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { id, secret: URL_SAFE_NO_PAD.encode(random::<SECRET_BYTES>()) }
    }

    /// None if the text is no credential of this kind.
    pub(crate) fn parse(kind: &str, text: &str) -> Option<Self> {
        if text.len() > MAX_CHARS {
            return None;
        }
        let (id, secret) = text.strip_prefix(kind)?.strip_prefix('_')?.split_once('_')?;
        Self::from_parts(id, secret)
    }

    /// None if these are not the parts of a credential.
    pub(crate) fn from_parts(id: &str, secret: &str) -> Option<Self> {
        let is_id = id.len() == 2 * ID_BYTES && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_secret = URL_SAFE_NO_PAD.decode(secret).is_ok_and(|it| it.len() == SECRET_BYTES);
        (is_id && is_secret)
            .then(|| Self { id: id.to_ascii_lowercase(), secret: secret.to_owned() })
    }

    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }

    pub(crate) fn text(&self, kind: &str) -> String {
        format!("{kind}_{}_{}", self.id, self.secret)
    }

    /// What is stored of the secret. It has 256 random bits, so no slow hash is needed.
    pub(crate) fn hash(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.secret.as_bytes()))
    }

    pub(crate) fn matches(&self, hash: &str) -> bool {
        self.hash().as_bytes().ct_eq(hash.as_bytes()).into()
    }
}

/// The secret stays out of logs.
impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Bytes that cannot be guessed.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the system's random source does not fail once the system is up");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_reads_back_and_matches_its_own_hash_alone() {
        let (one, other) = (Credential::mint(), Credential::mint());
        let text = one.text("jt1");
        assert!(text.starts_with("jt1_") && text.len() == 4 + 16 + 1 + 43, "{text}");
        assert_eq!(Credential::parse("jt1", &text).as_ref(), Some(&one));
        assert!(one.matches(&one.hash()) && !one.matches(&other.hash()) && !one.matches(""));
        assert!(!format!("{one:?}").contains(&one.secret));
    }

    #[test]
    fn what_is_no_credential_is_refused() {
        let text = Credential::mint().text("jt1");
        for bad in ["", "jt1", "jt1_", "jt1__", "jt1_a_b", &text[..text.len() - 1], &text[1..]] {
            assert_eq!(Credential::parse("jt1", bad), None, "{bad}");
        }
        assert_eq!(Credential::parse("js1", &text), None);
        assert_eq!(Credential::parse("jt1", &format!("{text}x")), None);
        assert_eq!(Credential::parse("jt1", &"x".repeat(100_000)), None);
    }
}
