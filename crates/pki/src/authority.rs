//! The CA of a cluster.

use api_types::{KeyDigest, NodeId, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType, SerialNumber, date_time_ymd,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;

use crate::name::{NODE_PREFIX, ORCHESTRATOR_PREFIX, key_digest};
use crate::request::NodeRequest;

/// Every certificate begins here: a clock that is wrong cannot make it invalid.
const FIRST_YEAR: i32 = 2020;

/// A CA, and with it the server certificates that it issues, ends this many years later.
const CA_YEARS: i32 = 20;

/// Digits of a CA's key in its name.
const NAMED_DIGITS: usize = 16;

/// Random bytes of a serial number; RFC 5280 permits 20.
const SERIAL_BYTES: usize = 16;

/// The most CAs that a cluster trusts at a time: the one that signs, and those that it replaced.
/// Every handshake sends a certificate for each.
pub const MAX_AUTHORITIES: usize = 3;

/// How many CAs may follow another in a chain. Cluster and clients may use different ones while the
/// CA is being replaced, so a CA also certifies those that come after it.
const MAX_SUCCESSORS: u8 = 2;

/// Signs the certificates of servers and nodes.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: AuthorityCertificate,
    /// What servers send after their own certificate, in PEM.
    path: String,
}

/// The certificate of a CA, without its key.
#[derive(Debug, Clone)]
pub struct AuthorityCertificate {
    der: CertificateDer<'static>,
    pem: String,
    key: KeyDigest,
}

/// A certificate with those that lead to its CA, and its key, in PEM.
#[derive(Clone)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

/// Why there is no CA, or no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("the certificate of the CA is damaged")]
    Certificate(#[source] rcgen::Error),
    #[error("the certificate of the CA is not PEM: {0}")]
    Pem(rustls::pki_types::pem::Error),
    #[error("the key of the CA is damaged")]
    Key(#[source] rcgen::Error),
    #[error("the key of the CA is not that of its certificate")]
    OtherKey,
    #[error("make a certificate")]
    Make(#[source] rcgen::Error),
    #[error("the system has no random numbers")]
    Random,
}

// === impl Authority ===

impl Authority {
    /// Makes a CA with a new key.
    pub fn make() -> Result<Self, AuthorityError> {
        let key = KeyPair::generate().map_err(AuthorityError::Make)?;
        let params = ca_params(key_digest(&key.subject_public_key_info()))?;
        let certificate = params.self_signed(&key).map_err(AuthorityError::Make)?;
        Self::load(&certificate.pem(), &key.serialize_pem())
    }

    /// Both in PEM.
    pub fn load(certificate: &str, key: &str) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(key).map_err(AuthorityError::Key)?;
        let certificate = AuthorityCertificate::read(certificate)?;
        if certificate.key != key_digest(&key.subject_public_key_info()) {
            return Err(AuthorityError::OtherKey);
        }
        let issuer =
            Issuer::from_ca_cert_der(&certificate.der, key).map_err(AuthorityError::Certificate)?;
        Ok(Self { issuer, path: certificate.pem.clone(), certificate })
    }

    /// Sends these certificates, in PEM, after those of servers in place of the CA's own: they lead
    /// to CAs that clients may know instead.
    #[must_use]
    pub fn by_way_of(self, path: String) -> Self {
        Self { path, ..self }
    }

    /// The certificate in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate.pem
    }

    /// What of it may be known to everybody.
    pub fn public(&self) -> &AuthorityCertificate {
        &self.certificate
    }

    /// A certificate of this CA for the key of another, in PEM: a peer that trusts this CA
    /// accepts what the other one signs.
    pub fn certify(&self, successor: &Self) -> Result<String, AuthorityError> {
        let params = ca_params(successor.key())?;
        let certificate =
            params.signed_by(successor.issuer.key(), &self.issuer).map_err(AuthorityError::Make)?;
        Ok(certificate.pem())
    }

    /// The key in PEM, which proves to every node that its holder is the cluster.
    pub fn private_key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// What clients pin.
    pub fn key(&self) -> KeyDigest {
        self.certificate.key
    }

    /// A certificate with a new key for this orchestrator under these names and addresses, until
    /// the CA ends.
    pub fn issue_server(&self, id: NodeId, names: &[String]) -> Result<Issued, AuthorityError> {
        let key = KeyPair::generate().map_err(AuthorityError::Make)?;
        let mut params = params(&format!("jobs orchestrator {}", id.short()))?;
        let named = CertificateParams::new(names).map_err(AuthorityError::Make)?;
        params.subject_alt_names = named.subject_alt_names;
        params.subject_alt_names.push(uri(ORCHESTRATOR_PREFIX, id)?);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).map_err(AuthorityError::Make)?;
        let chain = format!("{}{}", certificate.pem(), self.path);
        Ok(Issued { certificate: chain, key: key.serialize_pem() })
    }

    /// A certificate for the key of this request, with its chain in PEM. It says that its holder is
    /// this node, and nothing else.
    pub fn sign_node(
        &self,
        request: &NodeRequest,
        node: NodeId,
        until: Timestamp,
    ) -> Result<String, AuthorityError> {
        let mut params = params(&node.to_string())?;
        params.subject_alt_names.push(uri(NODE_PREFIX, node)?);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let until = OffsetDateTime::from_unix_timestamp_nanos(i128::from(until.0))
            .unwrap_or(params.not_after);
        params.not_after = until.min(params.not_after);
        let certificate =
            params.signed_by(&request.0, &self.issuer).map_err(AuthorityError::Make)?;
        Ok(format!("{}{}", certificate.pem(), self.certificate.pem))
    }
}

// === impl AuthorityCertificate ===

impl AuthorityCertificate {
    /// Reads a certificate in PEM.
    pub fn read(pem: &str) -> Result<Self, AuthorityError> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(AuthorityError::Pem)?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&der)
            .map_err(|_| AuthorityError::Certificate(rcgen::Error::CouldNotParseCertificate))?;
        let key = key_digest(parsed.tbs_certificate.subject_pki.raw);
        Ok(Self { pem: pem.to_owned(), key, der })
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// What clients pin.
    pub fn key(&self) -> KeyDigest {
        self.key
    }

    pub(crate) fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }
}

/// Of a CA with this key. Its name contains the key, so that chains of several CAs are unambiguous.
fn ca_params(key: KeyDigest) -> Result<CertificateParams, AuthorityError> {
    let key = key.to_string();
    let mut params = params(&format!("jobs CA {}", &key[..NAMED_DIGITS]))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(MAX_SUCCESSORS));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn params(name: &str) -> Result<CertificateParams, AuthorityError> {
    let mut serial = [0; SERIAL_BYTES];
    SystemRandom::new().fill(&mut serial).map_err(|_| AuthorityError::Random)?;
    // Positive and without a leading zero, as DER wants an integer.
    serial[0] = serial[0] & 0x7f | 0x40;
    let mut params = CertificateParams::default();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(FIRST_YEAR, 1, 1);
    params.not_after = date_time_ymd(FIRST_YEAR + CA_YEARS, 1, 1);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn uri(prefix: &str, id: NodeId) -> Result<SanType, AuthorityError> {
    let uri = format!("{prefix}{id}").try_into().map_err(AuthorityError::Make)?;
    Ok(SanType::URI(uri))
}
