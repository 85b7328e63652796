//! Rotations that end, and rotations that are interrupted.

use std::sync::Arc;

use api_types::Timestamp;
use api_types::credential::{CredentialType, Login};
use api_types::secret::SecretValue;
use control_plane::records::Expected;

use super::*;
use crate::credentials::CredentialScope;
use crate::keys::tests::Started;
use crate::sealed;
use crate::secrets::{self, SecretScope};

/// More than one commit encrypts again.
const SECRETS: usize = 70;

fn rotation(started: &Started) -> Rotation {
    Rotation {
        handle: started.handle.clone(),
        view: Arc::clone(&started.view),
        keys: Arc::clone(&started.keys),
        protection: None,
        members: Arc::new(Members::of_test()),
    }
}

fn name(number: usize) -> control_plane::records::RecordKey {
    secrets::key("home", &format!("s{number}"))
}

fn revealed(started: &Started, key: &control_plane::records::RecordKey) -> SecretValue {
    let revealed = sealed::reveal::<SecretScope>(&started.keys, started.view.records(), key);
    revealed.unwrap().unwrap().1
}

async fn fill(started: &Started) {
    let records = started.view.records();
    for number in 0..SECRETS {
        let value = format!("value {number}");
        let value = (SecretScope {}, value.as_bytes());
        let (_, writes) =
            sealed::put(&started.keys, records, &name(number), value, Timestamp(7)).unwrap();
        started.handle.change_records(writes).await.unwrap();
    }
    let login = Login { username: "ada".into(), password: "hidden".into(), ..Login::default() };
    let scope = CredentialScope {
        credential_type: CredentialType::Git,
        hosts: vec!["git.example.com".to_owned()],
        buckets: Vec::new(),
    };
    let login = serde_json::to_vec(&login).unwrap();
    let key = sealed::key::<CredentialScope>("home", "git");
    let (_, writes) =
        sealed::put(&started.keys, records, &key, (scope, &login), Timestamp(7)).unwrap();
    started.handle.change_records(writes).await.unwrap();
}

fn check(started: &Started) {
    let records = started.view.records();
    for number in 0..SECRETS {
        let revealed = revealed(started, &name(number));
        assert_eq!(revealed.bytes().unwrap(), format!("value {number}").into_bytes());
        assert_eq!(revealed.version, 1, "no value has changed");
    }
    let key = sealed::key::<CredentialScope>("home", "git");
    let revealed = sealed::reveal::<CredentialScope>(&started.keys, records, &key);
    assert_eq!(revealed.unwrap().unwrap().1.login.password, "hidden");
}

fn keys(started: &Started) -> Vec<String> {
    let keys = of_purpose(started.view.records(), Purpose::Values).unwrap();
    keys.into_iter().map(|(record, _)| record.key.key).collect()
}

#[tokio::test]
async fn values_are_encrypted_again_and_readable_at_every_moment() {
    let dir = tempfile::tempdir().unwrap();
    let started = Started::open(dir.path()).unwrap();
    let refused = rotation(&started).begin(KeyPurpose::Secrets, None).await.unwrap_err();
    assert!(matches!(refused, RotationError::Refused(RotationRefusal::NoKey)), "{refused}");
    fill(&started).await;
    let before = keys(&started);
    rotation(&started).begin(KeyPurpose::Secrets, None).await.unwrap();
    assert_eq!(keys(&started).len(), 2);
    check(&started);

    // It ends after one commit of several, and once more at a start with two keys to go.
    let stale = values::stale(&started.keys, started.view.records()).unwrap();
    assert_eq!(stale.len(), SECRETS + 1);
    rotation(&started).encrypt_chunk(&stale[..32].into()).await.unwrap();
    check(&started);
    started.stop().await;
    let started = Started::open(dir.path()).unwrap();
    check(&started);
    rotation(&started).begin(KeyPurpose::Secrets, None).await.unwrap();
    assert_eq!(keys(&started).len(), 3);
    check(&started);
    rotation(&started).finish().await.unwrap();
    check(&started);
    let after = keys(&started);
    assert!(after.len() == 1 && after != before, "{after:?}");

    rotation(&started).begin(KeyPurpose::Cluster, None).await.unwrap();
    check(&started);
    started.stop().await;
    let started = Started::open(dir.path()).unwrap();
    check(&started);
    started.stop().await;
}

#[tokio::test]
async fn a_damaged_value_keeps_its_key_and_holds_up_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let started = Started::open(dir.path()).unwrap();
    fill(&started).await;
    // In the place of another it cannot be read.
    let records = started.view.records();
    let (key, value) = (name(SECRETS), records.get(&name(1)).unwrap().value);
    let write = RecordWrite { key: key.clone(), expected: Expected::Nothing, value: Some(value) };
    started.handle.change_records(vec![write]).await.unwrap();
    rotation(&started).begin(KeyPurpose::Secrets, None).await.unwrap();
    rotation(&started).finish().await.unwrap();
    check(&started);
    assert_eq!(keys(&started).len(), 2);
    let stale = values::stale(&started.keys, records).unwrap();
    assert_eq!(stale, std::slice::from_ref(&key));

    let write = RecordWrite { key, expected: Expected::Anything, value: None };
    started.handle.change_records(vec![write]).await.unwrap();
    rotation(&started).finish().await.unwrap();
    assert_eq!(keys(&started).len(), 1);
    started.stop().await;
}

#[tokio::test]
async fn a_value_that_is_set_during_a_rotation_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let started = Started::open(dir.path()).unwrap();
    fill(&started).await;
    // Encrypted with the key of before, and not stored yet.
    let in_use = started.keys.in_use().await;
    let (records, late) = (started.view.records(), secrets::key("home", "late"));
    let value = (SecretScope {}, b"late".as_slice());
    let (_, writes) = sealed::put(&started.keys, records, &late, value, Timestamp(8)).unwrap();
    let turning = rotation(&started);
    let rotating = tokio::spawn(async move {
        turning.clone().begin(KeyPurpose::Secrets, None).await?;
        turning.finish().await
    });
    tokio::task::yield_now().await;
    started.handle.change_records(writes).await.unwrap();
    drop(in_use);
    rotating.await.unwrap().unwrap();
    assert_eq!(keys(&started).len(), 1);
    assert_eq!(revealed(&started, &late).bytes().unwrap(), b"late");
    check(&started);
    started.stop().await;
}
