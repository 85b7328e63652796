//! The orchestrators that share a store, as each of them describes itself.
//!
//! Every process writes one row, whether it leads or not, and no follower writes anything else. The
//! row is not part of any commit and has no fence: nothing that decides who leads depends on it.

use std::time::Duration;

use api_types::NodeId;
use serde::{Deserialize, Serialize};

use super::{Exposure, StoreError, Term};
use crate::records::Record;

/// What the orchestrators of a store know of each other. Every call is blocking, and fails within a
/// few seconds if the store cannot be reached; the next call then uses another connection.
pub trait Membership: Send {
    /// All members, and what the store says of the lead.
    fn roll(&mut self) -> Result<Roll, StoreError>;

    /// Stores what this process says of itself, as of now.
    fn announce(&mut self, me: &Member) -> Result<(), StoreError>;

    /// The keys of the cluster, for a process that does not lead.
    fn keys(&mut self) -> Result<Vec<Record>, StoreError>;

    /// Removes the members that have not been seen for this long, and returns how many they were.
    fn forget(&mut self, unseen_for: Duration) -> Result<u64, StoreError>;
}

/// One process, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// That of its data directory: the next process there takes the place of this one.
    pub id: NodeId,
    /// Drawn by the process: two that live at the same time with one identity differ in it.
    pub instance: u128,
    /// When it read the members first, by the store's clock, in nanoseconds since 1970.
    pub started_at: i64,
    pub record: MemberRecord,
}

/// What a member says of itself. Processes of older and newer releases read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct MemberRecord {
    /// The `host:port` that the other orchestrators dial.
    pub address: String,
    pub exposure: Exposure,
    /// Names and addresses under which clients and nodes reach it.
    #[serde(default)]
    pub names: Vec<String>,
    #[serde(default)]
    pub release: String,
    /// The format of the data that its release writes.
    #[serde(default)]
    pub format: u32,
    /// The IDs of the cluster keys in its files.
    #[serde(default)]
    pub cluster_keys: Vec<String>,
    /// Each setting that must be equal, with a digest of its value.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
    /// Whether it leads, or could take the lead over.
    #[serde(default)]
    pub ready: bool,
}

/// All members of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roll {
    /// The store's clock, in nanoseconds since 1970.
    pub now: i64,
    pub term: Term,
    /// Where the process listens that leads; none if the lead was resigned.
    pub leader: Option<String>,
    /// How often a process took the lead over.
    pub takeovers: u64,
    /// How often the store had lost what it had acknowledged.
    pub times_went_back: u64,
    /// What the server says of itself; empty before a process has led.
    pub server: String,
    pub members: Vec<SeenMember>,
}

/// A member, and when it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenMember {
    pub member: Member,
    /// By the store's clock, in nanoseconds since 1970.
    pub seen_at: i64,
}

// === impl Roll ===

impl Roll {
    /// The members that have been seen within this time.
    pub fn seen_within(&self, time: Duration) -> impl Iterator<Item = &SeenMember> {
        self.members.iter().filter(move |seen| self.unseen_for(seen) <= time)
    }

    pub fn unseen_for(&self, seen: &SeenMember) -> Duration {
        Duration::from_nanos(self.now.saturating_sub(seen.seen_at).max(0).cast_unsigned())
    }

    pub fn leads(&self, member: &Member) -> bool {
        self.leader.as_ref() == Some(&member.record.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_releases_say_is_read_and_what_they_lack_has_defaults() {
        let text = r#"{"Address":"a:1","Exposure":"Protected","Later":[1]}"#;
        let read: MemberRecord = serde_json::from_str(text).unwrap();
        assert_eq!((read.address.as_str(), read.exposure), ("a:1", Exposure::Protected));
        assert!(read.names.is_empty() && !read.ready);
    }
}
