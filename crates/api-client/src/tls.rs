//! TLS of a client: whose certificates it accepts, and which one it presents.

use std::sync::Arc;

use api_types::KeyDigest;
use api_types::trust::AGENT_PROTOCOL;
use ring::digest::{SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::options::{Credentials, Identity, Trust};

const HTTP: &[u8] = b"http/1.1";

/// The most certificates of a chain that are compared with a pinned key; ours has two.
const MAX_CHAIN: usize = 8;

/// The configuration for these options; none when the machine's own trust is enough. Errors are
/// sentences for the user who set the option.
pub(crate) fn config(
    trust: &Trust,
    credentials: &Credentials,
) -> Result<Option<ClientConfig>, String> {
    let (identity, is_agent) = match credentials {
        Credentials::None | Credentials::Bearer(_) => (None, false),
        Credentials::Agent(identity) => (identity.as_ref(), true),
    };
    let crypto = Arc::new(provider::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&crypto))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match trust {
        Trust::System if !is_agent => return Ok(None),
        Trust::System => {
            return Err("an agent trusts the orchestrator's CA alone: name its digest".to_owned());
        }
        Trust::Authority(pem) => builder.with_root_certificates(authorities(pem)?),
        Trust::AuthorityKey(key) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(PinnedAuthority { key: *key, crypto })),
    };
    let mut config = match identity {
        Some(identity) => {
            let (chain, key) = parsed(identity)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = match is_agent {
        true => vec![AGENT_PROTOCOL.to_vec()],
        false => vec![HTTP.to_vec()],
    };
    Ok(Some(config))
}

fn authorities(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("the CA is not PEM: {error}"))?;
        roots.add(certificate).map_err(|error| format!("the CA is not usable: {error}"))?;
    }
    if roots.is_empty() {
        return Err("the CA contains no certificate; it is a PEM file".to_owned());
    }
    Ok(roots)
}

type ChainAndKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn parsed(identity: &Identity) -> Result<ChainAndKey, String> {
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect();
    let chain = chain.map_err(|error| format!("the certificate is not PEM: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())
        .map_err(|error| format!("the key is not PEM: {error}"))?;
    Ok((chain, key))
}

/// Accepts the certificates of one CA, which is known by its key and is part of the chain.
#[derive(Debug)]
struct PinnedAuthority {
    key: KeyDigest,
    crypto: Arc<CryptoProvider>,
}

// === impl PinnedAuthority ===

impl ServerCertVerifier for PinnedAuthority {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut roots = RootCertStore::empty();
        for candidate in chain.iter().take(MAX_CHAIN) {
            if key_digest(candidate) == Some(self.key) {
                roots.add(candidate.clone().into_owned())?;
                break;
            }
        }
        if roots.is_empty() {
            return Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        }
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.crypto))
            .build()
            .map_err(|error| Error::General(error.to_string()))?
            .verify_server_cert(certificate, chain, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto.signature_verification_algorithms.supported_schemes()
    }
}

/// The digest of the key of the first certificate in this PEM; none when there is none.
pub fn authority_key(pem: &str) -> Option<KeyDigest> {
    key_digest(&CertificateDer::from_pem_slice(pem.as_bytes()).ok()?)
}

/// SHA-256 of the certificate's `SubjectPublicKeyInfo`; none when it is no certificate.
fn key_digest(certificate: &CertificateDer<'_>) -> Option<KeyDigest> {
    let mut parsed = RootCertStore::empty();
    parsed.add(certificate.clone().into_owned()).ok()?;
    let contents = parsed.roots.first()?.subject_public_key_info.as_ref();
    // The parser leaves out the header of the sequence.
    let mut sequence = vec![0x30];
    match u8::try_from(contents.len()) {
        Ok(short) if short < 0x80 => sequence.push(short),
        Ok(short) => sequence.extend([0x81, short]),
        Err(_) => {
            let length = u16::try_from(contents.len()).ok()?.to_be_bytes();
            sequence.extend([0x82, length[0], length[1]]);
        }
    }
    sequence.extend_from_slice(contents);
    digest(&SHA256, &sequence).as_ref().try_into().ok().map(KeyDigest)
}

/// Whether the peer's certificate was refused, somewhere in the chain of causes.
pub(crate) fn is_distrust(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(current) = cause {
        if matches!(current.downcast_ref::<Error>(), Some(Error::InvalidCertificate(_))) {
            return true;
        }
        // An I/O error shows the source of what it wraps, not what it wraps.
        let wrapped = current.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        cause = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => current.source(),
        };
    }
    false
}
