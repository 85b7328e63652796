//! The CAs of the cluster: the one that signs, and those that it replaced and that are still trusted.
//!
//! A CA is replaced in one commit, which stores the new one, certified by the old one, and removes
//! the key of the old one. Who trusts only the old CA accepts servers of the new one by that
//! certificate, and certificates of the old one stay valid until the last of them has expired.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use api_types::{KeyDigest, Timestamp};
use control_plane::records::{Expected, Record, RecordWrite};
use pki::{Authority, AuthorityCertificate, MAX_AUTHORITIES};
use zeroize::Zeroizing;

use super::KeyRing;
use super::error::{KeyError, named};
use super::sealing::Sealed;
use super::stored::{self, Purpose, StoredAuthority, StoredKey};
use crate::driver::Handle;
use crate::records::Published;
use crate::{clock, files};

/// In the data directory, for operators and clients to copy: the CAs that are trusted, the one that
/// signs first.
const CERTIFICATE_FILE: &str = "ca.crt";

/// The certificates are public: clients need a copy of them.
const CERTIFICATE_MODE: u32 = 0o644;

/// Where the key was before it was a record of the ring, and under which name it was encrypted.
const KEY_FILE: &str = "ca.key";

/// The CAs of the cluster.
#[derive(Debug)]
pub(crate) struct Authorities {
    /// The newest, which signs.
    pub(crate) signing: Authority,
    /// All that are trusted, newest first.
    trusted: Vec<AuthorityCertificate>,
}

// === impl Authorities ===

impl Authorities {
    /// None where there is no CA yet.
    pub(crate) fn load(keys: &KeyRing, records: &Published) -> Result<Option<Self>, KeyError> {
        let (mut trusted, mut path, mut newest) = (Vec::new(), String::new(), None);
        let stored = stored::of_purpose(records, Purpose::Authority)?;
        let count = stored.len();
        for (at, (record, stored)) in stored.into_iter().enumerate() {
            let what = || named(&record.key);
            let damaged = || KeyError::Damaged { what: what() };
            let failed = |source| KeyError::Authority { what: what(), source };
            let public = stored.authority.ok_or_else(damaged)?;
            // The oldest ends the chain; what an even older one signed convinces no one.
            let is_oldest = at + 1 == count;
            path.push_str(if is_oldest {
                &public.certificate
            } else {
                &public.certified_by_former
            });
            if at == 0 {
                let sealed = stored.sealed.ok_or_else(damaged)?;
                let key = keys.cluster_key.unseal(&record.key.key, &sealed).ok_or_else(damaged)?;
                let key = std::str::from_utf8(&key).map_err(|_| damaged())?;
                newest = Some(Authority::load(&public.certificate, key).map_err(failed)?);
            }
            trusted.push(AuthorityCertificate::read(&public.certificate).map_err(failed)?);
        }
        Ok(newest.map(|newest| Self { signing: newest.by_way_of(path), trusted }))
    }

    /// All that are trusted, the one that signs first.
    pub(crate) fn trusted(&self) -> &[AuthorityCertificate] {
        &self.trusted
    }

    /// Writes the certificates where people find them.
    pub(crate) fn publish(&self, keys: &KeyRing) -> Result<(), KeyError> {
        let path = certificate_file(&keys.data_dir);
        let text: String = self.trusted.iter().map(AuthorityCertificate::pem).collect();
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            return Ok(());
        }
        files::write(&path, text.as_bytes(), CERTIFICATE_MODE)
            .map_err(|source| KeyError::Io { path, source })
    }
}

/// Where the certificates of the CAs are.
pub(crate) fn certificate_file(data_dir: &Path) -> PathBuf {
    data_dir.join(CERTIFICATE_FILE)
}

/// The CAs of the cluster; the first one is made where one is `needed`. A CA in the files of an
/// earlier version is taken over.
///
/// While no term can begin, as on a full disk, the records are those that were `stored` at the start.
pub(crate) async fn open(
    keys: &KeyRing,
    handle: &Handle,
    records: &Published,
    stored: Vec<Record>,
    needed: bool,
) -> Result<Option<Authorities>, KeyError> {
    let file = keys.data_dir.join(KEY_FILE);
    let mut authorities = match records.are_known() {
        true => Authorities::load(keys, records)?,
        false => Authorities::load(keys, &Published::stored(stored))?,
    };
    if authorities.is_none() {
        let first = match of_file(keys)? {
            Some(authority) => Some(authority),
            None if needed => Some(Authority::make().map_err(KeyError::Make)?),
            None => None,
        };
        let Some(first) = first else { return Ok(None) };
        handle.change_records(vec![write(keys, &first, 1, String::new())?]).await?;
        authorities = Authorities::load(keys, records)?;
    }
    if let Some(authorities) = &authorities {
        let is_in_ring =
            |key: KeyDigest| authorities.trusted.iter().any(|authority| authority.key() == key);
        let left = key_in_file(keys)?;
        if left.is_some_and(|key| !is_in_ring(key)) {
            return Err(KeyError::TwoAuthorities { path: file });
        }
        authorities.publish(keys)?;
        // Only now: until here a crash leaves the file, and the next start reads it again.
        if left.is_some() {
            fs::remove_file(&file).map_err(|source| KeyError::Io { path: file, source })?;
        }
    }
    Ok(authorities)
}

/// The key file of an earlier version, for error messages, and the ID of its cluster key.
pub(super) fn in_file(data_dir: &Path) -> Result<Option<(String, String)>, KeyError> {
    let sealed = sealed_in_file(&data_dir.join(KEY_FILE))?;
    Ok(sealed.map(|(what, sealed)| (what, sealed.key_id)))
}

fn sealed_in_file(path: &Path) -> Result<Option<(String, Sealed)>, KeyError> {
    let what = path.display().to_string();
    match fs::read(path) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(sealed) => Ok(Some((what, sealed))),
            Err(_) => Err(KeyError::Damaged { what }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeyError::Io { path: path.to_owned(), source }),
    }
}

/// The CA's key in the file of an earlier version, in PEM.
fn pem_in_file(keys: &KeyRing) -> Result<Option<(String, Zeroizing<String>)>, KeyError> {
    let Some((what, sealed)) = sealed_in_file(&keys.data_dir.join(KEY_FILE))? else {
        return Ok(None);
    };
    let key = keys.cluster_key.unseal(KEY_FILE, &sealed);
    let text = key.as_ref().and_then(|key| std::str::from_utf8(key).ok());
    match text {
        Some(text) => Ok(Some((what, Zeroizing::new(text.to_owned())))),
        None => Err(KeyError::Damaged { what }),
    }
}

fn key_in_file(keys: &KeyRing) -> Result<Option<KeyDigest>, KeyError> {
    let Some((what, pem)) = pem_in_file(keys)? else { return Ok(None) };
    let key = pki::NodeKey::load(&pem);
    key.map(|key| Some(key.digest())).map_err(|source| KeyError::Authority { what, source })
}

/// The CA in the files of an earlier version.
fn of_file(keys: &KeyRing) -> Result<Option<Authority>, KeyError> {
    let Some((what, key)) = pem_in_file(keys)? else { return Ok(None) };
    let path = certificate_file(&keys.data_dir);
    let certificate =
        fs::read_to_string(&path).map_err(|source| KeyError::Io { path: path.clone(), source })?;
    let what = format!("{what} with {}", path.display());
    let authority = Authority::load(&certificate, &key);
    authority.map(Some).map_err(|source| KeyError::Authority { what, source })
}

fn write(
    keys: &KeyRing,
    authority: &Authority,
    number: u64,
    certified_by_former: String,
) -> Result<RecordWrite, KeyError> {
    let record = stored::authority(authority.key());
    let key = Zeroizing::new(authority.private_key());
    let stored = StoredKey {
        number,
        create_time: clock::now(),
        sealed: Some(keys.cluster_key.seal(&record.key, key.as_bytes())?),
        authority: Some(StoredAuthority {
            certificate: authority.certificate().to_owned(),
            certified_by_former,
            last_expiry: None,
        }),
    };
    Ok(stored.write(record, Expected::Nothing))
}

/// What is to be stored for another CA to take the place of the one that signs, whose last
/// certificate expires then. None while too many are trusted.
pub(crate) fn succession(
    keys: &KeyRing,
    records: &Published,
    last_expiry: Timestamp,
) -> Result<Option<Vec<RecordWrite>>, KeyError> {
    let stored = stored::of_purpose(records, Purpose::Authority)?;
    let authorities = Authorities::load(keys, records)?;
    let Some(((record, former), authorities)) = stored.first().cloned().zip(authorities) else {
        return Ok(Some(vec![write(
            keys,
            &Authority::make().map_err(KeyError::Make)?,
            1,
            String::new(),
        )?]));
    };
    if stored.len() >= MAX_AUTHORITIES {
        return Ok(None);
    }
    let next = Authority::make().map_err(KeyError::Make)?;
    let certified = authorities.signing.certify(&next).map_err(KeyError::Make)?;
    let public =
        former.authority.map(|it| StoredAuthority { last_expiry: Some(last_expiry), ..it });
    let replaced = StoredKey { sealed: None, authority: public, ..former };
    let expected = Expected::Version(record.version);
    Ok(Some(vec![
        write(keys, &next, replaced.number + 1, certified)?,
        replaced.write(record.key, expected),
    ]))
}

/// A CA, as operators see it.
pub(crate) struct Status {
    pub(crate) key: KeyDigest,
    pub(crate) create_time: Timestamp,
    /// Of a CA that was replaced: when the last certificate that it signed expires.
    pub(crate) last_expiry: Option<Timestamp>,
}

/// All CAs that are trusted, newest first.
pub(crate) fn statuses(records: &Published) -> Result<Vec<Status>, KeyError> {
    let mut statuses = Vec::new();
    for (record, stored) in stored::of_purpose(records, Purpose::Authority)? {
        let damaged = || KeyError::Damaged { what: named(&record.key) };
        let StoredKey { create_time, authority, .. } = stored;
        let public = authority.ok_or_else(damaged)?;
        let key = AuthorityCertificate::read(&public.certificate).map_err(|_| damaged())?.key();
        statuses.push(Status { key, create_time, last_expiry: public.last_expiry });
    }
    Ok(statuses)
}

/// The removal of the oldest CA, once no one holds a valid certificate of it.
pub(crate) fn removal(
    records: &Published,
    now: Timestamp,
    holders: impl Fn(KeyDigest) -> usize,
) -> Result<Option<(KeyDigest, RecordWrite)>, KeyError> {
    let Some(oldest) = statuses(records)?.pop() else { return Ok(None) };
    let is_over = oldest.last_expiry.is_some_and(|end| end <= now) && holders(oldest.key) == 0;
    let key = stored::authority(oldest.key);
    let Some(record) = records.get(&key).filter(|_| is_over) else { return Ok(None) };
    Ok(Some((oldest.key, record.removal())))
}
