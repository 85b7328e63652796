//! The key of a node, and its requests for certificates.

use api_types::KeyDigest;
use rcgen::{
    CertificateParams, CertificateSigningRequestParams, DistinguishedName, KeyPair,
    PKCS_ECDSA_P256_SHA256, PublicKey, PublicKeyData,
};

use crate::authority::AuthorityError;
use crate::name::key_digest;

/// The longest request for a certificate: ours has 300 bytes in PEM, one with a large RSA key and
/// many names would have some thousand.
const MAX_REQUEST_BYTES: usize = 16 << 10;

/// The key of a node that asks for a certificate, and that has proved to have it. What else the
/// request asks for is ignored.
#[derive(Debug, Clone)]
pub struct NodeRequest(pub(crate) PublicKey);

/// Why a text is no request for a certificate.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("it is not a certificate request in PEM, signed with its own key: {0}")]
    Unreadable(rcgen::Error),
    #[error("it has {0} bytes, and may have {MAX_REQUEST_BYTES}")]
    TooLong(usize),
    #[error("its key is not one of ECDSA on P-256")]
    Algorithm,
}

/// A key that never leaves its node.
#[derive(Debug)]
pub struct NodeKey(KeyPair);

// === impl NodeRequest ===

impl NodeRequest {
    /// Reads a request in PEM, and checks its signature.
    pub fn read(pem: &str) -> Result<Self, RequestError> {
        if pem.len() > MAX_REQUEST_BYTES {
            return Err(RequestError::TooLong(pem.len()));
        }
        let asked =
            CertificateSigningRequestParams::from_pem(pem).map_err(RequestError::Unreadable)?;
        match asked.public_key.algorithm() == &PKCS_ECDSA_P256_SHA256 {
            true => Ok(Self(asked.public_key)),
            false => Err(RequestError::Algorithm),
        }
    }

    pub fn key(&self) -> KeyDigest {
        key_digest(&self.0.subject_public_key_info())
    }
}

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

    /// A request for a certificate of this key, in PEM. It contains no name: the CA decides who the
    /// holder is.
    pub fn request(&self) -> Result<String, AuthorityError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&self.0).map_err(AuthorityError::Make)?;
        request.pem().map_err(AuthorityError::Make)
    }
}
