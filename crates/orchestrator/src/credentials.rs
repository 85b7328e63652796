//! Credentials of namespaces: logins, each encrypted for its hosts.

use api_types::credential::{Credential, CredentialType, CredentialValue, Scope as ServerScope};
use api_types::error::FieldError;
use api_types::job::JobSpec;
use control_plane::records::{RecordKey, RecordKind};
use serde::{Deserialize, Serialize};

use crate::access::token::shown;
use crate::records::Published;
use crate::sealed::{self, Scope, SealedRecord, place};

/// Which servers get the login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct CredentialScope {
    #[serde(rename = "Type")]
    pub(crate) credential_type: CredentialType,
    pub(crate) hosts: Vec<String>,
    pub(crate) buckets: Vec<String>,
}

/// What of a job's credentials is wrong, and what may yet become right.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Where in the task, and why it can never work.
    pub(crate) refused: Vec<FieldError>,
    pub(crate) missing: Vec<String>,
}

// === impl CredentialScope ===

impl Scope for CredentialScope {
    const KIND: RecordKind = RecordKind::Credential;
    const NOUN: &'static str = "credential record";

    type Shown = Credential;
    type Revealed = CredentialValue;

    /// Binds the login to its hosts: one that was stored for other hosts cannot be decrypted.
    fn sealed_for(&self, key: &RecordKey, version: u64) -> String {
        let Self { credential_type, hosts, buckets } = self;
        let scope = serde_json::json!([key.key, version, credential_type, hosts, buckets]);
        format!("credential {scope}")
    }

    fn shown(record: SealedRecord<Self>, key: &RecordKey) -> Credential {
        let (namespace, name) = place(key);
        let Self { credential_type, hosts, buckets } = record.scope;
        Credential {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            credential_type,
            hosts,
            buckets,
            version: record.version,
            create_time: shown(Some(record.create_time)),
            modify_time: shown(Some(record.modify_time)),
        }
    }

    fn revealed(record: SealedRecord<Self>, name: &str, value: &[u8]) -> Option<CredentialValue> {
        let login = serde_json::from_slice(value).ok()?;
        let (name, version) = (name.to_owned(), record.version);
        let Self { credential_type, hosts, buckets } = record.scope;
        Some(CredentialValue { name, credential_type, hosts, buckets, version, login })
    }
}

/// Judges the credentials that a job names by those that its namespace has now.
pub(crate) fn check(records: &Published, spec: &JobSpec) -> Findings {
    let mut findings = Findings::default();
    for (index, task) in spec.tasks.iter().enumerate() {
        for named in task.credentials() {
            let name = named.name;
            let stored = records.get(&sealed::key::<CredentialScope>(&spec.namespace, name));
            let Some(stored) =
                stored.as_ref().and_then(SealedRecord::<CredentialScope>::from_record)
            else {
                findings.missing.push(name.to_owned());
                continue;
            };
            let CredentialScope { credential_type, hosts, buckets } = &stored.scope;
            let scope = ServerScope { name, credential_type: *credential_type, hosts, buckets };
            if let Err(reason) = scope.check(named.credential_type, &named.server) {
                let path = format!("Tasks[{index}].{}", named.path);
                findings.refused.push(FieldError { path, reason: reason.to_string() });
            }
        }
    }
    findings.missing.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use api_types::Timestamp;
    use api_types::credential::Login;
    use control_plane::records::{RecordRow, RecordWrite};

    use super::*;
    use crate::keys::KeyRing;
    use crate::sealed::{key, put, reveal};

    #[test]
    fn a_login_is_bound_to_its_hosts_and_not_in_what_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let keys = KeyRing::open(dir.path(), Path::new(""), &[]).unwrap();
        let (records, key) = (Published::default(), key::<CredentialScope>("team/a", "hub"));
        let login = Login { username: "ada".into(), password: "hidden".into(), ..Login::default() };
        let scope = CredentialScope {
            credential_type: CredentialType::Registry,
            hosts: vec!["ghcr.io".to_owned()],
            buckets: Vec::new(),
        };
        let value = serde_json::to_vec(&login).unwrap();
        assert_eq!(reveal::<CredentialScope>(&keys, &records, &key).unwrap(), None);
        let (wire, writes) = put(&keys, &records, &key, (scope, &value), Timestamp(7)).unwrap();
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
        let (version, revealed) =
            reveal::<CredentialScope>(&keys, &records, &key).unwrap().unwrap();
        assert_eq!((revealed.login, revealed.version, version), (login, 1, 1));

        // An attacker with the database alone wants the login sent elsewhere.
        let stored = records.get(&key).unwrap().value.replace("ghcr.io", "evil.io");
        let moved = RecordRow { key: key.clone(), version: 2, value: Some(stored.into()) };
        records.update(&[moved]);
        let refused = reveal::<CredentialScope>(&keys, &records, &key).err().unwrap();
        assert_eq!(
            refused.to_string(),
            "the credential record 'team/a/hub' is damaged; restore it from a backup"
        );
    }
}
