//! Credentials of namespaces, as they are stored: the login encrypted for its hosts.

use api_types::Timestamp;
use api_types::credential::{Credential, CredentialType, CredentialValue, Login, Scope};
use api_types::job::JobSpec;
use control_plane::records::{Expected, Record, RecordKey, RecordKind, RecordWrite};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::access::token::shown;
use crate::keys::sealing::Sealed;
use crate::keys::{KeyError, KeyRing};
use crate::records::Published;
use crate::secrets::place;

/// Credentials as they are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct StoredCredential {
    #[serde(rename = "Type")]
    credential_type: CredentialType,
    hosts: Vec<String>,
    buckets: Vec<String>,
    /// Counts the changes, from 1.
    version: u64,
    create_time: Timestamp,
    modify_time: Timestamp,
    sealed: Sealed,
}

/// Checked credentials, as somebody asks for them.
#[derive(Debug, Clone)]
pub(crate) struct NewCredential {
    pub(crate) credential_type: CredentialType,
    pub(crate) hosts: Vec<String>,
    pub(crate) buckets: Vec<String>,
    pub(crate) login: Login,
}

/// What of a job's credentials is wrong, and what may yet become right.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Where in the task, and why it can never work.
    pub(crate) refused: Vec<(String, String)>,
    pub(crate) missing: Vec<String>,
}

// === impl StoredCredential ===

impl StoredCredential {
    pub(crate) fn of(record: &Record) -> Option<Self> {
        serde_json::from_str(&record.value).ok()
    }

    pub(crate) fn wire(self, key: &RecordKey) -> Credential {
        let (namespace, name) = place(key);
        Credential {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            credential_type: self.credential_type,
            hosts: self.hosts,
            buckets: self.buckets,
            version: self.version,
            create_time: shown(Some(self.create_time)),
            modify_time: shown(Some(self.modify_time)),
        }
    }

    /// Binds the login to its hosts: one that was stored for other hosts cannot be decrypted.
    fn sealed_for(&self, key: &RecordKey) -> String {
        let Self { credential_type, hosts, buckets, version, .. } = self;
        let scope = serde_json::json!([key.key, version, credential_type, hosts, buckets]);
        format!("credential {scope}")
    }
}

/// The record of credentials. Their name has no '/', whatever the namespace has.
pub(crate) fn key(namespace: &str, name: &str) -> RecordKey {
    RecordKind::Credential.key(format!("{namespace}/{name}"))
}

/// The credentials anew, and what has to be stored for them.
pub(crate) fn changed(
    keys: &KeyRing,
    records: &Published,
    key: RecordKey,
    asked: NewCredential,
    now: Timestamp,
) -> Result<(Credential, Vec<RecordWrite>), KeyError> {
    let record = records.get(&key);
    let before = record.as_ref().and_then(StoredCredential::of);
    let NewCredential { credential_type, hosts, buckets, login } = asked;
    let login = Zeroizing::new(serde_json::to_vec(&login).expect("a login is plain data"));
    let mut credential = StoredCredential {
        credential_type,
        hosts,
        buckets,
        version: before.as_ref().map_or(0, |before| before.version) + 1,
        create_time: before.map_or(now, |before| before.create_time),
        modify_time: now,
        sealed: Sealed::default(),
    };
    let (sealed, mut writes) = keys.seal_value(records, &credential.sealed_for(&key), &login)?;
    credential.sealed = sealed;
    let expected = Expected::as_read(record.as_ref());
    writes.push(RecordWrite::json(key.clone(), expected, &credential));
    let wire = credential.wire(&key);
    Ok((wire, writes))
}

/// Credentials with their login; `None` where there are none of this name.
pub(crate) fn reveal(
    keys: &KeyRing,
    records: &Published,
    key: &RecordKey,
) -> Result<Option<CredentialValue>, KeyError> {
    let Some(record) = records.get(key) else { return Ok(None) };
    let what = || format!("the credential record '{}'", key.key);
    let damaged = || KeyError::Damaged { what: what() };
    let stored = StoredCredential::of(&record).ok_or_else(damaged)?;
    let login = keys.unseal_value(records, &stored.sealed_for(key), &stored.sealed, what)?;
    let login = serde_json::from_slice(&login).map_err(|_| damaged())?;
    let StoredCredential { credential_type, hosts, buckets, version, .. } = stored;
    let name = place(key).1.to_owned();
    Ok(Some(CredentialValue { name, credential_type, hosts, buckets, version, login }))
}

/// Which key the login is encrypted with.
pub(crate) fn key_id(record: &Record) -> Option<String> {
    StoredCredential::of(record).map(|credential| credential.sealed.key_id)
}

/// The same login, encrypted with the newest key.
pub(crate) fn encrypted_again(
    keys: &KeyRing,
    records: &Published,
    record: &Record,
) -> Result<RecordWrite, KeyError> {
    let what = || format!("the credential record '{}'", record.key.key);
    let stored = StoredCredential::of(record).ok_or_else(|| KeyError::Damaged { what: what() })?;
    let place = stored.sealed_for(&record.key);
    let sealed = keys.seal_value_again(records, &place, &stored.sealed, what)?;
    let encrypted = StoredCredential { sealed, ..stored };
    Ok(RecordWrite::json(record.key.clone(), record.unchanged(), &encrypted))
}

/// Judges the credentials that a job names by those that its namespace has now.
pub(crate) fn check(records: &Published, spec: &JobSpec) -> Findings {
    let mut findings = Findings::default();
    for (index, task) in spec.tasks.iter().enumerate() {
        for named in task.credentials() {
            let name = named.name;
            let stored = records.get(&key(&spec.namespace, name));
            let Some(stored) = stored.as_ref().and_then(StoredCredential::of) else {
                findings.missing.push(name.to_owned());
                continue;
            };
            let StoredCredential { credential_type, hosts, buckets, .. } = &stored;
            let scope = Scope { name, credential_type: *credential_type, hosts, buckets };
            if let Err(reason) = scope.check(named.credential_type, &named.server) {
                let path = format!("Tasks[{index}].{}", named.path);
                findings.refused.push((path, reason.to_string()));
            }
        }
    }
    findings.missing.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use control_plane::records::RecordRow;

    use super::*;

    #[test]
    fn a_login_is_bound_to_its_hosts_and_not_in_what_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let keys = KeyRing::open(dir.path(), Path::new(""), &[]).unwrap();
        let (records, key) = (Published::default(), key("team/a", "hub"));
        let login = Login { username: "ada".into(), password: "hidden".into(), ..Login::default() };
        let asked = NewCredential {
            credential_type: CredentialType::Registry,
            hosts: vec!["ghcr.io".to_owned()],
            buckets: Vec::new(),
            login: login.clone(),
        };
        assert_eq!(reveal(&keys, &records, &key).unwrap(), None);
        let (wire, writes) = changed(&keys, &records, key.clone(), asked, Timestamp(7)).unwrap();
        assert_eq!(
            (wire.namespace.as_str(), wire.name.as_str(), wire.version),
            ("team/a", "hub", 1)
        );
        assert!(!format!("{writes:?}").contains("hidden"));
        let rows = writes.into_iter().map(|RecordWrite { key, value, .. }| RecordRow {
            key,
            version: 1,
            value,
        });
        records.update(&rows.collect::<Vec<_>>());
        let revealed = reveal(&keys, &records, &key).unwrap().unwrap();
        assert_eq!((revealed.login, revealed.version), (login, 1));

        // Somebody with the database alone wants the login sent elsewhere.
        let stored = records.get(&key).unwrap().value.replace("ghcr.io", "evil.io");
        let moved = RecordRow { key: key.clone(), version: 2, value: Some(stored.into()) };
        records.update(&[moved]);
        let refused = reveal(&keys, &records, &key).err().unwrap();
        assert_eq!(
            refused.to_string(),
            "the credential record 'team/a/hub' is damaged; restore it from a backup"
        );
    }
}
