//! How certificates name their holders, and how keys are told apart.

use api_types::KeyDigest;
use ring::digest::{SHA256, digest};

pub(crate) const NODE_PREFIX: &str = "urn:jobs:node:";
pub(crate) const ORCHESTRATOR_PREFIX: &str = "urn:jobs:orchestrator:";

/// Of a `SubjectPublicKeyInfo` in DER.
pub(crate) fn key_digest(info: &[u8]) -> KeyDigest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, info).as_ref());
    KeyDigest(bytes)
}
