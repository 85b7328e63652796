//! Nodes that were rejected: what ends with them.
//!
//! Their keys, of which digests are kept for as long as nodes are remembered; the join tokens with
//! which they came, and those that would give them their ID back. Otherwise a node that is turned out
//! could come in again through the door that is still open. The digests are records of the same kind
//! as identities, under keys that no node has, so that an earlier release can open the database.

use std::collections::BTreeSet;

use api_types::joining::NodeToken;
use api_types::{KeyDigest, NodeId, Timestamp};
use control_plane::records::{Expected, Record, RecordKey, RecordKind, RecordWrite};
use serde::{Deserialize, Serialize};

use super::join_token::StoredJoinToken;
use super::node::{REJECTED, Renewable, StoredIdentity, identities, is_rejection};
use crate::records::Published;

/// A key that is refused, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredRejection {
    #[serde(rename = "NodeID")]
    node_id: NodeId,
    reject_time: Timestamp,
}

/// What a rejection changes.
#[derive(Debug, Default)]
pub(crate) struct Rejection {
    pub(crate) writes: Vec<RecordWrite>,
    /// The join tokens that end with the node.
    pub(crate) tokens: Vec<NodeToken>,
}

/// What is still open for a node that is rejected; no writes if nothing is.
pub(crate) fn for_node(records: &Published, node: NodeId, now: Timestamp) -> Rejection {
    let mut rejection = Rejection::default();
    let mut came_with = BTreeSet::new();
    for record in identities(records, node) {
        if let Some(digest) = digest_of(&record) {
            let stored = StoredRejection { node_id: node, reject_time: now };
            rejection.writes.push(RecordWrite::json(key(digest), Expected::Anything, &stored));
        }
        came_with.extend(StoredIdentity::from_record(&record).map(|identity| identity.token_id));
        // Whatever a renewal did to it in the meantime: a rejection is not refused.
        rejection.writes.push(RecordWrite::removal(record.key));
    }
    for record in records.of_kind(RecordKind::JoinToken) {
        let Some(token) = StoredJoinToken::from_record(&record) else { continue };
        if came_with.contains(&record.key.key) || token.node_id == Some(node) {
            rejection.tokens.push(token.wire(&record.key.key));
            rejection.writes.push(RecordWrite::removal(record.key));
        }
    }
    rejection
}

/// The node with which this key was rejected.
pub(crate) fn rejected_with(records: &Published, digest: KeyDigest) -> Option<NodeId> {
    stored(&records.get(&key(digest))?).map(|rejection| rejection.node_id)
}

/// Has the other changes of a request take place only if the key is not rejected by then.
pub(crate) fn unless_rejected(digest: KeyDigest) -> RecordWrite {
    RecordWrite { key: key(digest), expected: Expected::Nothing, value: None }
}

/// Those that are older than what is remembered of nodes.
pub(crate) fn outdated(
    records: &Published,
    now: Timestamp,
    renewable: &Renewable<'_>,
) -> Vec<RecordWrite> {
    let is_over = |record: &Record| {
        let permits = |it: StoredRejection| renewable.permits(it.node_id, it.reject_time, now);
        is_rejection(record) && !stored(record).is_some_and(permits)
    };
    let all = records.of_kind(RecordKind::NodeIdentity).into_iter().filter(is_over);
    all.map(Record::removal).collect()
}

fn key(digest: KeyDigest) -> RecordKey {
    RecordKind::NodeIdentity.key(format!("{REJECTED}{digest}"))
}

fn stored(record: &Record) -> Option<StoredRejection> {
    serde_json::from_str(&record.value).ok()
}

/// The key in the record of an identity.
fn digest_of(record: &Record) -> Option<KeyDigest> {
    record.key.key.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use control_plane::records::RecordRow;

    use super::*;

    const NODE: &str = "n-00000000-0000-4000-8000-000000000007";
    const OTHER: &str = "n-00000000-0000-4000-8000-000000000008";

    fn publish(records: &Published, writes: Vec<RecordWrite>) {
        let row = |write: RecordWrite| RecordRow { key: write.key, version: 1, value: write.value };
        records.update(&writes.into_iter().map(row).collect::<Vec<_>>());
    }

    fn identity(token: &str) -> StoredIdentity {
        StoredIdentity {
            token_id: token.to_owned(),
            name: String::new(),
            labels: BTreeMap::new(),
            admin_labels: None,
            max_capacity: None,
            join_time: Timestamp(0),
            expire_time: Timestamp(1000),
            ca: None,
        }
    }

    fn token(node_id: Option<NodeId>) -> StoredJoinToken {
        StoredJoinToken {
            name: String::new(),
            labels: BTreeMap::new(),
            admin_labels: None,
            node_id,
            max_capacity: None,
            uses_left: 3,
            create_time: Timestamp(0),
            expire_time: Timestamp(1000),
            hash: String::new(),
        }
    }

    #[test]
    fn with_a_node_end_its_keys_and_the_tokens_that_open_for_it() {
        let records = Published::default();
        let (node, other) = (NODE.parse().unwrap(), OTHER.parse().unwrap());
        let (own, foreign) = (KeyDigest([7; 32]), KeyDigest([8; 32]));
        publish(
            &records,
            vec![
                identity("came").write(StoredIdentity::key(node, own), Expected::Nothing),
                identity("else").write(StoredIdentity::key(other, foreign), Expected::Nothing),
                token(None).write("came", Expected::Nothing),
                token(None).write("else", Expected::Nothing),
                token(Some(node)).write("back", Expected::Nothing),
                token(Some(other)).write("back-other", Expected::Nothing),
            ],
        );
        let rejection = for_node(&records, node, Timestamp(5));
        let ended: Vec<_> = rejection.tokens.iter().map(|token| token.id.as_str()).collect();
        assert_eq!(ended, ["back", "came"]);
        publish(&records, rejection.writes);
        assert_eq!(rejected_with(&records, own), Some(node));
        assert_eq!(rejected_with(&records, foreign), None);
        assert!(identities(&records, node).is_empty());
        assert_eq!(identities(&records, other).len(), 1);
        assert!(
            for_node(&records, node, Timestamp(6)).writes.is_empty(),
            "nothing is open any more"
        );
    }

    #[test]
    fn a_rejected_key_is_kept_as_long_as_its_node() {
        let records = Published::default();
        let (node, key) = (NODE.parse().unwrap(), KeyDigest([7; 32]));
        let write = identity("came").write(StoredIdentity::key(node, key), Expected::Nothing);
        publish(&records, vec![write]);
        publish(&records, for_node(&records, node, Timestamp(0)).writes);
        let count = |now, is_remembered: bool| {
            let remembered = move |_| is_remembered;
            let time = Duration::from_nanos(10);
            let renewable = Renewable { time, remembered: &remembered };
            outdated(&records, Timestamp(now), &renewable).len()
        };
        assert_eq!((count(10, false), count(11, true), count(11, false)), (0, 0, 1));
    }
}
