//! The key ring over starts, copies and damage.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn open(dir: &Path) -> Result<Authority, KeyError> {
    KeyRing::open(dir, Path::new(""), &[])?.authority()
}

fn refused(dir: &Path) -> String {
    open(dir).expect_err("the keys cannot be used").to_string()
}

#[test]
fn the_ca_is_made_once_and_its_key_is_not_readable() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("data");
    let first = open(&dir).unwrap();
    assert_eq!(open(&dir).unwrap().key(), first.key());
    for (name, mode) in [(CLUSTER_KEY, 0o600), (CA_KEY, 0o600), (CA_CERTIFICATE, 0o644)] {
        let found = fs::metadata(dir.join(name)).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode, "{name}");
    }
    let kept = fs::read_to_string(dir.join(CA_KEY)).unwrap();
    let secret = first.private_key();
    let secret = secret.lines().nth(1).unwrap();
    assert!(!kept.contains(secret), "{kept}");
    assert_eq!(fs::read_to_string(dir.join(CA_CERTIFICATE)).unwrap(), first.certificate());
}

#[test]
fn a_named_cluster_key_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("elsewhere").join("key");
    let data = dir.path().join("data");
    let first = KeyRing::open(&data, &key, &[]).unwrap().authority().unwrap();
    assert!(!data.join(CLUSTER_KEY).exists());
    assert_eq!(KeyRing::open(&data, &key, &[]).unwrap().authority().unwrap().key(), first.key());
}

#[test]
fn without_the_right_cluster_key_nothing_is_made_anew() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, other) = (dir.path(), other.path());
    open(dir).unwrap();
    open(other).unwrap();
    let path = dir.join(CLUSTER_KEY);
    let key = fs::read(&path).unwrap();

    fs::remove_file(&path).unwrap();
    let error = refused(dir);
    assert!(error.contains("cluster.key is missing"), "{error}");
    assert!(!path.exists());

    fs::copy(other.join(CLUSTER_KEY), &path).unwrap();
    let error = refused(dir);
    assert!(error.contains("was encrypted with the cluster key"), "{error}");

    for text in ["", "AAAA", "not base64"] {
        fs::write(&path, text).unwrap();
        let error = refused(dir);
        assert!(error.contains("is not a cluster key"), "{error}");
    }
    fs::write(&path, key).unwrap();
    open(dir).unwrap();
}

#[test]
fn damaged_keys_are_not_replaced() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, other) = (dir.path(), other.path());
    open(dir).unwrap();
    open(other).unwrap();
    let path = dir.join(CA_KEY);
    let kept = fs::read_to_string(&path).unwrap();
    let ciphertext = kept.split("Ciphertext\":\"").nth(1).unwrap();
    let tampered = kept.replace(ciphertext, &ciphertext.to_uppercase());
    for content in ["", "{}", &tampered] {
        fs::write(&path, content).unwrap();
        let error = refused(dir);
        assert!(error.ends_with("ca.key is damaged; restore it from a backup"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    fs::write(&path, kept).unwrap();
    fs::copy(other.join(CA_CERTIFICATE), dir.join(CA_CERTIFICATE)).unwrap();
    let error = refused(dir);
    assert!(error.contains("are no CA"), "{error}");
}
