//! The key of a node, and its requests for certificates.

use api_types::KeyDigest;
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PublicKeyData};

use crate::authority::{AuthorityError, key_digest};

/// A key that never leaves its node.
#[derive(Debug)]
pub struct NodeKey(KeyPair);

// === impl NodeKey ===

impl NodeKey {
    pub fn make() -> Result<Self, AuthorityError> {
        KeyPair::generate().map(Self).map_err(AuthorityError::Make)
    }

    /// In PEM.
    pub fn load(pem: &str) -> Result<Self, AuthorityError> {
        KeyPair::from_pem(pem).map(Self).map_err(AuthorityError::Key)
    }

    /// In PEM.
    pub fn private_key(&self) -> String {
        self.0.serialize_pem()
    }

    pub fn digest(&self) -> KeyDigest {
        key_digest(&self.0.subject_public_key_info())
    }

    /// A request for a certificate of this key, in PEM. It names nobody: the CA decides who the
    /// holder is.
    pub fn request(&self) -> Result<String, AuthorityError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&self.0).map_err(AuthorityError::Make)?;
        request.pem().map_err(AuthorityError::Make)
    }
}
