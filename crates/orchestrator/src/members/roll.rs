//! The members of the store, as they were read.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use api_types::NodeId;
use control_plane::store::{Member, Roll, SeenMember};
use tokio::time::Instant;

use crate::settings::{equal, is_host_name};

/// Members that have not been seen for this long are forgotten, with their names.
pub(super) const REMEMBERED_FOR: Duration = Duration::from_hours(7 * 24);

/// A member that missed three announcements does not stand by.
const ALIVE_FOR: Duration = Duration::from_secs(30);

/// All members, and when they were read.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) own: NodeId,
    pub(crate) roll: Roll,
    read_at: Instant,
}

/// What is counted of the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemberCounts {
    pub(crate) members: usize,
    /// Those next to this one that could take the lead over.
    pub(crate) ready_standbys: usize,
    pub(crate) with_other_settings: usize,
    pub(crate) takeovers: u64,
    pub(crate) times_went_back: u64,
}

// === impl Known ===

impl Known {
    pub(super) fn new(own: NodeId, roll: Roll) -> Self {
        Self { own, roll, read_at: Instant::now() }
    }

    pub(crate) fn age(&self) -> Duration {
        self.read_at.elapsed()
    }

    /// Names and addresses under which any member is reached, which clients and nodes may dial once
    /// another one leads. What is no name is left out: a certificate with it could not be made.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let members = self.roll.seen_within(REMEMBERED_FOR);
        let names = members.flat_map(|seen| &seen.member.record.names);
        let is_name = |name: &&String| name.parse::<IpAddr>().is_ok() || is_host_name(name);
        names.filter(|name| !name.is_empty()).filter(is_name).cloned().collect()
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = &SeenMember> {
        self.roll.members.iter().filter(|seen| seen.member.id != self.own)
    }

    /// The settings in which this member differs from this process.
    pub(crate) fn differing(&self, member: &Member) -> Vec<String> {
        let own = self.roll.members.iter().find(|seen| seen.member.id == self.own);
        own.map_or_else(Vec::new, |own| {
            equal::differing(&own.member.record.settings, &member.record.settings)
        })
    }

    pub(crate) fn is_alive(&self, seen: &SeenMember) -> bool {
        self.roll.unseen_for(seen) + self.age() <= ALIVE_FOR
    }

    pub(crate) fn counts(&self) -> MemberCounts {
        let stands_by = |seen: &&SeenMember| seen.member.record.ready && self.is_alive(seen);
        let differs =
            |seen: &&SeenMember| self.is_alive(seen) && !self.differing(&seen.member).is_empty();
        MemberCounts {
            members: self.roll.members.len(),
            ready_standbys: self.others().filter(stands_by).count(),
            with_other_settings: self.others().filter(differs).count(),
            takeovers: self.roll.takeovers,
            times_went_back: self.roll.times_went_back,
        }
    }
}
