//! Who holds a certificate.

use api_types::{KeyDigest, NodeId, Timestamp};
use x509_parser::extensions::GeneralName;

use crate::name::{NODE_PREFIX, key_digest};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A node, as its certificate describes it.
///
/// Read only from a certificate that a handshake has verified: this checks no signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    pub node: NodeId,
    /// Identifies the node's key, which certificates of the same node may share.
    pub key: KeyDigest,
    pub expires: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    #[error("the certificate is damaged")]
    Damaged,
    #[error("the certificate is not that of a node")]
    NotANode,
}

// === impl Peer ===

impl Peer {
    /// Reads a certificate in DER.
    pub fn read(certificate: &[u8]) -> Result<Self, PeerError> {
        let (_, parsed) =
            x509_parser::parse_x509_certificate(certificate).map_err(|_| PeerError::Damaged)?;
        let names = parsed.subject_alternative_name().map_err(|_| PeerError::Damaged)?;
        let names = names.map_or(&[][..], |names| &names.value.general_names);
        let mut nodes = names.iter().filter_map(|name| match name {
            GeneralName::URI(uri) => uri.strip_prefix(NODE_PREFIX)?.parse().ok(),
            _ => None,
        });
        let node = nodes.next().ok_or(PeerError::NotANode)?;
        let seconds = parsed.validity().not_after.timestamp();
        Ok(Self {
            node,
            key: key_digest(parsed.tbs_certificate.subject_pki.raw),
            expires: Timestamp(seconds.saturating_mul(NANOS_PER_SECOND)),
        })
    }
}
