//! The CA of a cluster.

use api_types::{KeyDigest, NodeId, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType, SerialNumber, date_time_ymd,
};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;

use crate::peer::{NODE_PREFIX, ORCHESTRATOR_PREFIX};
use crate::request::NodeRequest;

/// Every certificate begins here: a clock that is wrong cannot make it invalid.
const FIRST_YEAR: i32 = 2020;

/// A CA, and with it the server certificates that it issues, ends this many years later.
const CA_YEARS: i32 = 20;

/// Random bytes of a serial number; RFC 5280 permits 20.
const SERIAL_BYTES: usize = 16;

/// Signs the certificates of servers and nodes.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
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
        let mut params = params("jobs CA")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(AuthorityError::Make)?;
        Self::load(&certificate.pem(), &key.serialize_pem())
    }

    /// Both in PEM.
    pub fn load(certificate: &str, key: &str) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(key).map_err(AuthorityError::Key)?;
        let info = key.subject_public_key_info();
        let der =
            CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(AuthorityError::Pem)?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&der)
            .map_err(|_| AuthorityError::Certificate(rcgen::Error::CouldNotParseCertificate))?;
        if parsed.tbs_certificate.subject_pki.raw != info {
            return Err(AuthorityError::OtherKey);
        }
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(AuthorityError::Certificate)?;
        Ok(Self { issuer, key: key_digest(&info), pem: certificate.to_owned(), certificate: der })
    }

    /// The certificate in PEM.
    pub fn certificate(&self) -> &str {
        &self.pem
    }

    pub(crate) fn der(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The key in PEM: whoever has it is the cluster.
    pub fn private_key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// What clients pin.
    pub fn key(&self) -> KeyDigest {
        self.key
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
        Ok(Issued { certificate: self.chain(&certificate), key: key.serialize_pem() })
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
        Ok(self.chain(&certificate))
    }

    fn chain(&self, certificate: &rcgen::Certificate) -> String {
        format!("{}{}", certificate.pem(), self.pem)
    }
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

/// Of a `SubjectPublicKeyInfo` in DER.
pub(crate) fn key_digest(info: &[u8]) -> KeyDigest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, info).as_ref());
    KeyDigest(bytes)
}
