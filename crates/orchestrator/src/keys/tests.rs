//! The key ring over starts, copies, crashes and damage.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use api_types::KeyDigest;
use control_plane::records::RecordRow;
use control_plane::store::{Store, sqlite};
use pki::Authority;

use super::authorities::{self, Authorities};
use super::cluster_key::CLUSTER_KEY;
use super::*;
use crate::driver::{self, Driver, Handle, Writer};
use crate::observer::Observer;
use crate::settings::Settings;
use crate::view::View;

const CA_KEY: &str = "ca.key";
const CA_CERTIFICATE: &str = "ca.crt";

/// The parts of an orchestrator that have to do with keys.
pub(crate) struct Started {
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) handle: Handle,
    pub(crate) view: Arc<View>,
    driver: Driver,
}

// === impl Started ===

impl Started {
    pub(crate) fn open(dir: &Path) -> Result<Self, KeyError> {
        let (mut store, _) = sqlite::open(dir).unwrap();
        let keys = Arc::new(KeyRing::open(dir, Path::new(""), &store.records().unwrap())?);
        let (view, settings) = (Arc::new(View::default()), Settings::default());
        let (driver, vitals) = Driver::new();
        let handle = driver::start(
            Writer::alone(Box::new(store)),
            Arc::clone(&view),
            settings.scheduler(),
            settings.retention(),
            Observer::default(),
            vitals,
        )
        .unwrap();
        Ok(Self { keys, handle, view, driver })
    }

    async fn authorities(&self) -> Result<Authorities, KeyError> {
        let records = self.view.records();
        let opened = authorities::open(&self.keys, &self.handle, records, Vec::new(), true).await;
        opened.map(|authorities| authorities.expect("one is made"))
    }

    pub(crate) async fn stop(self) {
        let Self { handle, mut driver, keys, view } = self;
        drop((handle, keys, view));
        driver.ended().await.unwrap();
    }
}

/// Starts, and returns the key of the CA.
async fn start(dir: &Path) -> Result<KeyDigest, KeyError> {
    let started = Started::open(dir)?;
    let authorities = started.authorities().await;
    started.stop().await;
    authorities.map(|it| it.signing.key())
}

async fn refused(dir: &Path) -> KeyError {
    start(dir).await.expect_err("the keys cannot be used")
}

/// What an earlier version left: the CA's key in a file.
fn leave_files(dir: &Path) -> KeyDigest {
    let (authority, ring) = (Authority::make().unwrap(), KeyRing::open(dir, Path::new(""), &[]));
    let sealed = ring.unwrap().cluster_key.seal(CA_KEY, authority.private_key().as_bytes());
    fs::write(dir.join(CA_KEY), serde_json::to_vec(&sealed.unwrap()).unwrap()).unwrap();
    fs::write(dir.join(CA_CERTIFICATE), authority.certificate()).unwrap();
    authority.key()
}

/// A disk that is full at the start keeps the first term from beginning, and reads go on.
#[tokio::test]
async fn the_stored_ca_counts_before_a_term_has_begun() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let first = start(dir).await.unwrap();
    let started = Started::open(dir).unwrap();
    let stored = started.view.records().of_kind(RecordKind::Key);
    let unknown = Published::default();
    let opened = authorities::open(&started.keys, &started.handle, &unknown, stored, true).await;
    assert_eq!(opened.unwrap().expect("it is stored").signing.key(), first);
    assert_eq!(started.view.records().of_kind(RecordKind::Key).len(), 1, "no other was made");
    started.stop().await;
}

#[tokio::test]
async fn the_ca_is_made_once_and_its_key_is_encrypted_in_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let first = start(dir).await.unwrap();
    for (name, mode) in [(CLUSTER_KEY, 0o600), (CA_CERTIFICATE, 0o644)] {
        let found = fs::metadata(dir.join(name)).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode, "{name}");
    }
    assert!(!dir.join(CA_KEY).exists());
    let certificate = fs::read_to_string(dir.join(CA_CERTIFICATE)).unwrap();

    // The database has the certificate: the file is for people.
    for content in [None, Some("damaged")] {
        fs::remove_file(dir.join(CA_CERTIFICATE)).unwrap();
        if let Some(text) = content {
            fs::write(dir.join(CA_CERTIFICATE), text).unwrap();
        }
        let started = Started::open(dir).unwrap();
        let authority = started.authorities().await.unwrap().signing;
        assert_eq!(authority.key(), first);
        assert_eq!(fs::read_to_string(dir.join(CA_CERTIFICATE)).unwrap(), certificate);
        let secret = authority.private_key();
        let secret = secret.lines().nth(1).unwrap();
        let records = started.view.records().of_kind(RecordKind::Key);
        assert_eq!(records.len(), 1);
        assert!(!records[0].value.contains(secret));
        started.stop().await;
    }
}

#[tokio::test]
async fn a_ca_in_files_is_taken_over_wherever_the_process_ends() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let expected = leave_files(dir);
    let file = fs::read(dir.join(CA_KEY)).unwrap();
    assert_eq!(start(dir).await.unwrap(), expected);
    assert!(!dir.join(CA_KEY).exists());
    // It ended between the commit and the removal of the file.
    fs::write(dir.join(CA_KEY), &file).unwrap();
    assert_eq!(start(dir).await.unwrap(), expected);
    assert!(!dir.join(CA_KEY).exists());

    // It ended before the commit, with a cluster key that is missing by now.
    let other = tempfile::tempdir().unwrap();
    leave_files(other.path());
    fs::remove_file(other.path().join(CLUSTER_KEY)).unwrap();
    assert!(matches!(refused(other.path()).await, KeyError::NoClusterKey { .. }));

    // The key of another CA is neither used nor removed.
    fs::copy(dir.join(CLUSTER_KEY), other.path().join(CLUSTER_KEY)).unwrap();
    fs::remove_file(other.path().join(CA_KEY)).unwrap();
    leave_files(other.path());
    fs::copy(other.path().join(CA_KEY), dir.join(CA_KEY)).unwrap();
    let error = refused(dir).await;
    assert!(matches!(error, KeyError::TwoAuthorities { .. }), "{error}");
    assert!(dir.join(CA_KEY).exists());
    for content in ["", "{}"] {
        fs::write(dir.join(CA_KEY), content).unwrap();
        let error = refused(dir).await.to_string();
        assert!(error.ends_with("ca.key is damaged; restore it from a backup"), "{error}");
    }
}

#[tokio::test]
async fn without_the_right_cluster_key_nothing_is_made_anew() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, other) = (dir.path(), other.path());
    let first = start(dir).await.unwrap();
    start(other).await.unwrap();
    let path = dir.join(CLUSTER_KEY);
    let key = fs::read(&path).unwrap();

    fs::remove_file(&path).unwrap();
    let error = refused(dir).await;
    assert!(error.is_of_settings(), "{error}");
    assert!(error.to_string().contains("cluster.key is missing"), "{error}");
    assert!(!path.exists());

    fs::copy(other.join(CLUSTER_KEY), &path).unwrap();
    let error = refused(dir).await.to_string();
    assert!(error.contains("was encrypted with the cluster key"), "{error}");

    for text in ["", "AAAA", "not base64"] {
        fs::write(&path, text).unwrap();
        let error = refused(dir).await.to_string();
        assert!(error.contains("is not a cluster key"), "{error}");
    }
    fs::write(&path, key).unwrap();
    assert_eq!(start(dir).await.unwrap(), first);
}

#[tokio::test]
async fn damaged_keys_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let started = Started::open(dir.path()).unwrap();
    started.authorities().await.unwrap();
    let record = started.view.records().of_kind(RecordKind::Key).remove(0);
    let ciphertext = record.value.split("Ciphertext\":\"").nth(1).unwrap();
    let tampered = record.value.replace(ciphertext, &ciphertext.to_uppercase());
    for content in ["", "{}", &tampered] {
        let value = Some(content.into());
        started.view.records().update(&[RecordRow { key: record.key.clone(), version: 9, value }]);
        let error = started.authorities().await.unwrap_err().to_string();
        assert!(error.ends_with("in the state database is damaged; restore it from a backup"));
    }
    started.stop().await;
}

#[tokio::test]
async fn the_next_cluster_key_is_found_wherever_the_process_ends() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (path, next) = (dir.join(CLUSTER_KEY), dir.join("cluster.key.next"));
    let first = start(dir).await.unwrap();
    let former = fs::read(&path).unwrap();
    let started = Started::open(dir).unwrap();
    let id = started.keys.cluster_key_id().unwrap();
    started.stop().await;
    let old = dir.join(format!("cluster.key.old-{id}"));

    // Before the commit: the next key is there, and the one before counts.
    let started = Started::open(dir).unwrap();
    let writes = started.keys.under_next_cluster_key(started.view.records(), None).unwrap();
    started.stop().await;
    let made = fs::read(&next).unwrap();
    assert_eq!(start(dir).await.unwrap(), first);
    assert_eq!(
        (fs::read(&path).unwrap(), fs::read(&next).unwrap()),
        (former.clone(), made.clone())
    );

    // After it: only the next one opens the ring, whatever else is there.
    let started = Started::open(dir).unwrap();
    started.handle.change_records(writes).await.unwrap();
    started.stop().await;
    fs::rename(&next, dir.join("kept")).unwrap();
    assert!(matches!(refused(dir).await, KeyError::OtherClusterKey { .. }));
    for left in [Some(&former), None] {
        fs::copy(dir.join("kept"), &next).unwrap();
        match left {
            Some(former) => fs::write(&path, former).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        assert_eq!(start(dir).await.unwrap(), first);
        assert_eq!(fs::read(&path).unwrap(), made);
        assert!(!next.exists());
        assert_eq!(fs::read(&old).unwrap(), former);
    }
    let mode = fs::metadata(&old).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // An operator has renamed the next file, and the process did not see it.
    let started = Started::open(dir).unwrap();
    let writes = started.keys.under_next_cluster_key(started.view.records(), None).unwrap();
    started.handle.change_records(writes).await.unwrap();
    fs::rename(&next, &path).unwrap();
    started.keys.follow_cluster_key(started.view.records()).unwrap();
    started.stop().await;
    assert_eq!(start(dir).await.unwrap(), first);
    // One that cannot be read yet does not keep it from starting.
    fs::write(&next, "half").unwrap();
    assert_eq!(start(dir).await.unwrap(), first);
}

#[tokio::test]
async fn a_cluster_key_is_replaced_by_the_one_that_lies_next_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    start(dir).await.unwrap();
    let given = format!("{}\n", "A".repeat(43) + "=");
    fs::write(dir.join("cluster.key.next"), &given).unwrap();
    let started = Started::open(dir).unwrap();
    let before = started.keys.cluster_key_id();
    let writes = started.keys.under_next_cluster_key(started.view.records(), None).unwrap();
    started.handle.change_records(writes).await.unwrap();
    // What is encrypted from here on is encrypted with it, whatever became of the files.
    let (_, write) = started.keys.mint(started.view.records()).unwrap();
    started.handle.change_records(vec![write]).await.unwrap();
    assert_ne!(started.keys.cluster_key_id(), before);
    started.keys.follow_cluster_key(started.view.records()).unwrap();
    assert_eq!(fs::read_to_string(dir.join(CLUSTER_KEY)).unwrap(), given);
    started.stop().await;
    start(dir).await.unwrap();
}

#[tokio::test]
async fn a_cluster_key_whose_files_cannot_be_renamed_is_in_use_and_stays_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let first = start(dir).await.unwrap();
    let started = Started::open(dir).unwrap();
    let former = started.keys.cluster_key_id().unwrap();
    let in_the_way = dir.join(format!("cluster.key.old-{former}"));
    fs::create_dir(&in_the_way).unwrap();
    let replace =
        |started: &Started| started.keys.under_next_cluster_key(started.view.records(), None);
    started.handle.change_records(replace(&started).unwrap()).await.unwrap();
    started.keys.follow_cluster_key(started.view.records()).unwrap();
    assert_ne!(started.keys.cluster_key_id().unwrap(), former);
    let next = fs::read(dir.join("cluster.key.next")).unwrap();
    // The only copy is not written over.
    let refused = replace(&started).unwrap_err();
    assert!(matches!(refused, KeyError::Io { .. }), "{refused}");
    started.stop().await;
    assert_eq!(start(dir).await.unwrap(), first);
    assert_eq!(fs::read(dir.join("cluster.key.next")).unwrap(), next);
    fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(start(dir).await.unwrap(), first);
    assert_eq!(fs::read(dir.join(CLUSTER_KEY)).unwrap(), next);
}

#[tokio::test]
async fn a_ca_follows_another_and_both_are_published() {
    let dir = tempfile::tempdir().unwrap();
    let started = Started::open(dir.path()).unwrap();
    let first = started.authorities().await.unwrap().signing.key();
    let records = started.view.records();
    let end = api_types::Timestamp(5);
    let mut keys = vec![first];
    for _ in 1..pki::MAX_AUTHORITIES {
        let writes = authorities::succession(&started.keys, records, end).unwrap().unwrap();
        started.handle.change_records(writes).await.unwrap();
        let now = started.authorities().await.unwrap();
        keys.insert(0, now.signing.key());
        let trusted: Vec<_> = now.trusted().iter().map(pki::AuthorityCertificate::key).collect();
        assert_eq!(trusted, keys);
        let file = fs::read_to_string(dir.path().join(CA_CERTIFICATE)).unwrap();
        assert_eq!(file.matches("BEGIN CERTIFICATE").count(), keys.len());
        assert!(file.starts_with(now.signing.certificate()));
    }
    assert!(authorities::succession(&started.keys, records, end).unwrap().is_none(), "too many");
    // The keys of those that were replaced are gone.
    let stored = of_purpose(records, Purpose::Authority).unwrap();
    assert_eq!(stored.iter().filter(|(_, key)| key.sealed.is_some()).count(), 1);

    // The oldest goes first, when no one has a certificate of it and the last one has expired.
    let removal = |now, held| {
        authorities::removal(records, api_types::Timestamp(now), |key| {
            assert_eq!(key, first);
            held
        })
        .unwrap()
    };
    assert!(removal(4, 0).is_none() && removal(5, 1).is_none());
    let (removed, write) = removal(5, 0).unwrap();
    assert_eq!(removed, first);
    started.handle.change_records(vec![write]).await.unwrap();
    let left = started.authorities().await.unwrap();
    assert_eq!(left.trusted().len(), pki::MAX_AUTHORITIES - 1);
    started.stop().await;
}
