//! TLS of a server: which certificate it presents to which client, and which clients it asks for
//! one.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};

use crate::{AuthorityCertificate, Issued};

/// Why a certificate and its key cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("the certificate is not PEM: {0}")]
    Certificate(rustls::pki_types::pem::Error),
    #[error("there is no certificate in it")]
    NoCertificate,
    #[error("the key is not PEM: {0}")]
    Key(rustls::pki_types::pem::Error),
    #[error("the certificate and the key do not belong together")]
    Mismatch,
    #[error("{0}")]
    Unusable(Error),
    #[error("the CA cannot be asked for: {0}")]
    Verifier(rustls::server::VerifierBuilderError),
}

/// Presents this certificate to agents, and asks for theirs. An agent that has none yet is let
/// through; one with a certificate of another CA than these is not.
pub fn for_agents<'a>(
    trusted: impl IntoIterator<Item = &'a AuthorityCertificate>,
    own: &Issued,
) -> Result<ServerConfig, ServerError> {
    let mut roots = RootCertStore::empty();
    for authority in trusted {
        roots.add(authority.der().clone()).map_err(ServerError::Unusable)?;
    }
    let roots = Arc::new(roots);
    let provider = Arc::new(default_provider());
    let inner = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(ServerError::Verifier)?;
    let (chain, key) = parsed(own)?;
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(ServerError::Unusable)?
        .with_client_cert_verifier(Arc::new(WheneverIssued(inner)))
        .with_single_cert(chain, key)
        .map_err(refused)
}

/// Presents this certificate to every client, and asks none for one.
pub fn for_callers(own: &Issued) -> Result<ServerConfig, ServerError> {
    let (chain, key) = parsed(own)?;
    ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(ServerError::Unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(refused)
}

/// Whether the first of these certificates is valid for this name.
pub fn is_valid_for(pem: &str, name: &str) -> bool {
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).ok();
    let name = ServerName::try_from(name).ok();
    certificate.zip(name).is_some_and(|(certificate, name)| {
        let parsed = ParsedCertificate::try_from(&certificate);
        parsed.is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
    })
}

fn refused(error: Error) -> ServerError {
    match error {
        Error::InconsistentKeys(_) => ServerError::Mismatch,
        other => ServerError::Unusable(other),
    }
}

type ChainAndKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn parsed(issued: &Issued) -> Result<ChainAndKey, ServerError> {
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(issued.certificate.as_bytes()).collect();
    let chain = chain.map_err(ServerError::Certificate)?;
    if chain.is_empty() {
        return Err(ServerError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).map_err(ServerError::Key)?;
    Ok((chain, key))
}

/// Judges a certificate as of its last second: who holds it is proved after its end too, and what
/// the holder may do is not decided in a handshake.
#[derive(Debug)]
struct WheneverIssued(Arc<dyn ClientCertVerifier>);

// === impl WheneverIssued ===

impl ClientCertVerifier for WheneverIssued {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let damaged = || Error::InvalidCertificate(CertificateError::BadEncoding);
        let (_, parsed) =
            x509_parser::parse_x509_certificate(certificate).map_err(|_| damaged())?;
        let end = parsed.validity().not_after.timestamp();
        let end = Duration::from_secs(u64::try_from(end).map_err(|_| damaged())?);
        self.0.verify_client_cert(certificate, chain, UnixTime::since_unix_epoch(end))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
