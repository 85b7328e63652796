//! Join tokens as they are stored, and how they are verified.

use std::collections::{BTreeMap, BTreeSet};

use api_types::joining::{JoinToken, NodeToken};
use api_types::quantity::Capacity;
use api_types::{KeyDigest, NodeId, Timestamp};
use control_plane::records::{Expected, Record, RecordKey, RecordKind, RecordWrite};
use serde::{Deserialize, Serialize};

use super::credential::Credential;
use super::node::NodeRefusal;
use crate::records::Published;

/// A join token as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct StoredJoinToken {
    pub(crate) labels: BTreeMap<String, String>,
    /// As [`StoredIdentity::admin_labels`](super::node::StoredIdentity).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) admin_labels: Option<BTreeSet<String>>,
    /// Of the node that joins with it; empty if it may choose one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    /// The only node that may join with it.
    #[serde(rename = "NodeID", default, skip_serializing_if = "Option::is_none")]
    pub(crate) node_id: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_capacity: Option<Capacity>,
    pub(crate) uses_left: u32,
    pub(crate) create_time: Timestamp,
    pub(crate) expire_time: Timestamp,
    pub(crate) hash: String,
}

// === impl StoredJoinToken ===

impl StoredJoinToken {
    pub(crate) fn from_record(record: &Record) -> Option<Self> {
        serde_json::from_str(&record.value).ok()
    }

    pub(crate) fn key(id: &str) -> RecordKey {
        RecordKind::JoinToken.key(id)
    }

    pub(crate) fn write(&self, id: &str, expected: Expected) -> RecordWrite {
        RecordWrite::json(Self::key(id), expected, self)
    }

    /// The token as operators see it.
    pub(crate) fn wire(&self, id: &str) -> NodeToken {
        NodeToken {
            id: id.to_owned(),
            name: self.name.clone(),
            labels: self.labels.clone(),
            admin_labels: self.admin_labels.iter().flatten().cloned().collect(),
            node_id: self.node_id,
            max_capacity: self.max_capacity,
            uses_left: self.uses_left,
            create_time: self.create_time.rfc3339_seconds(),
            expire_time: self.expire_time.rfc3339_seconds(),
        }
    }

    /// Whether a node may still join with it.
    pub(crate) fn is_usable(&self, now: Timestamp) -> bool {
        self.uses_left > 0 && now < self.expire_time
    }
}

/// What an operator hands to a node.
pub(crate) fn text(credential: &Credential, ca: KeyDigest) -> String {
    let (id, secret) = (credential.id.clone(), credential.secret().to_owned());
    JoinToken { id, secret, ca }.to_string()
}

/// The part of a token that is no secret; empty if it is none.
pub(crate) fn id_of(text: &str) -> String {
    text.parse().map(|token: JoinToken| token.id).unwrap_or_default()
}

/// The token that a node presents, which has not expired; it may be used up.
pub(crate) fn verify(
    records: &Published,
    text: &str,
    now: Timestamp,
) -> Result<(Record, StoredJoinToken), NodeRefusal> {
    let presented: JoinToken = text.parse().map_err(|_| NodeRefusal::UnknownToken)?;
    let presented = Credential::from_parts(&presented.id, &presented.secret)
        .ok_or(NodeRefusal::UnknownToken)?;
    let record = records.get(&StoredJoinToken::key(&presented.id));
    let record = record.ok_or(NodeRefusal::UnknownToken)?;
    let token = StoredJoinToken::from_record(&record).ok_or(NodeRefusal::UnknownToken)?;
    if !presented.matches(&token.hash) {
        return Err(NodeRefusal::UnknownToken);
    }
    if token.expire_time <= now {
        return Err(NodeRefusal::ExpiredToken);
    }
    Ok((record, token))
}

/// Tokens with which no node can join any more; one that is used up stays until it expires, because
/// a node whose answer was lost asks again.
pub(crate) fn outdated(records: &Published, now: Timestamp) -> Vec<RecordWrite> {
    let is_over = |record: &Record| {
        StoredJoinToken::from_record(record).is_none_or(|token| token.expire_time <= now)
    };
    let all = records.of_kind(RecordKind::JoinToken).into_iter().filter(is_over);
    all.map(Record::removal).collect()
}

#[cfg(test)]
mod tests {
    use control_plane::records::RecordRow;

    use super::*;

    #[test]
    fn a_token_is_valid_until_it_expires_and_only_with_its_secret() {
        let (records, credential) = (Published::default(), Credential::mint());
        let token = StoredJoinToken {
            name: String::new(),
            labels: BTreeMap::new(),
            admin_labels: None,
            node_id: None,
            max_capacity: None,
            uses_left: 0,
            create_time: Timestamp(0),
            expire_time: Timestamp(10),
            hash: credential.hash(),
        };
        let write = token.write(&credential.id, Expected::Nothing);
        records.update(&[RecordRow { key: write.key, version: 1, value: write.value }]);
        let ca = KeyDigest([1; 32]);
        let check = |text: &str, now| verify(&records, text, now).map(|(_, token)| token);
        let given = text(&credential, ca);
        assert_eq!(check(&given, Timestamp(9)), Ok(token.clone()));
        assert!(!token.is_usable(Timestamp(9)));
        assert_eq!(check(&given, Timestamp(10)), Err(NodeRefusal::ExpiredToken));
        let forged = Credential::from_parts(&credential.id, Credential::mint().secret()).unwrap();
        for bad in [text(&forged, ca), text(&Credential::mint(), ca), "jn1".to_owned()] {
            assert_eq!(check(&bad, Timestamp(9)), Err(NodeRefusal::UnknownToken));
        }
        assert!(outdated(&records, Timestamp(9)).is_empty());
        assert_eq!(outdated(&records, Timestamp(10)).len(), 1);
    }
}
