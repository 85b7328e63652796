//! Examples of keys of the cluster.

use api_types::key::{Key, KeyPurpose, KeyState, ListKeys, RotateKey};

use super::records::MOMENT;

pub(in crate::http) fn rotate_key() -> RotateKey {
    RotateKey { purpose: KeyPurpose::Ca }
}

pub(in crate::http) fn list_keys() -> ListKeys {
    let key = |purpose, id: &str| Key {
        purpose,
        id: id.to_owned(),
        state: KeyState::Active,
        create_time: MOMENT.rfc3339_seconds(),
        last_expiry: String::new(),
        nodes: None,
    };
    let ca = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let former = "3b1f0c5b7a2e4d6f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f7";
    let keys = vec![
        Key { nodes: Some(12), ..key(KeyPurpose::Ca, ca) },
        Key {
            state: KeyState::Retiring,
            last_expiry: MOMENT.rfc3339_seconds(),
            nodes: Some(3),
            ..key(KeyPurpose::Ca, former)
        },
        key(KeyPurpose::Secrets, "5e884898"),
        Key { create_time: String::new(), ..key(KeyPurpose::Cluster, "2c26b46b") },
    ];
    ListKeys { keys }
}
