//! Two processes with one identity, as when a machine was copied with its data directory.
//!
//! A process that starts finds the row of its predecessor, which may have ended a moment ago. If the
//! row names another process again after it has written its own, that process lives. The older one
//! stays; the younger one ends, once it has seen two announcements of the older one: the first may
//! have been under way when its process ended.

use control_plane::store::{Member, SeenMember};

/// What this process has seen of another one with its identity.
#[derive(Debug, Default)]
pub(super) struct Rivalry {
    has_announced: bool,
    /// When the older process wrote last.
    older_seen_at: Option<i64>,
    is_contested: bool,
}

/// What the own row shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    NoRival,
    /// Another process wrote it; it is not known yet which of the two ends.
    Contested,
    /// An older process lives with the identity of this one.
    OlderRival,
}

// === impl Rivalry ===

impl Rivalry {
    /// The row under the own ID was read.
    pub(super) fn saw(&mut self, me: &Member, row: Option<&SeenMember>) -> Shown {
        let others = row.filter(|row| self.has_announced && row.member.instance != me.instance);
        let Some(row) = others else {
            self.is_contested = false;
            return Shown::NoRival;
        };
        self.is_contested = true;
        let age = |member: &Member| (member.started_at, member.instance);
        if age(&row.member) > age(me) {
            return Shown::Contested;
        }
        let earlier = self.older_seen_at.replace(row.seen_at);
        match earlier.is_some_and(|earlier| earlier != row.seen_at) {
            true => Shown::OlderRival,
            false => Shown::Contested,
        }
    }

    pub(super) fn announced(&mut self) {
        self.has_announced = true;
    }

    /// Whether the other process should soon see that this one lives.
    pub(super) fn is_contested(&self) -> bool {
        self.is_contested
    }
}

#[cfg(test)]
mod tests {
    use api_types::NodeId;
    use control_plane::store::{Exposure, MemberRecord};
    use uuid::Uuid;

    use super::*;

    fn member(instance: u128, started_at: i64) -> Member {
        let record = MemberRecord {
            address: "a:1".to_owned(),
            exposure: Exposure::Protected,
            names: Vec::new(),
            release: String::new(),
            format: 1,
            cluster_keys: Vec::new(),
            settings: Vec::new(),
            ready: true,
        };
        Member { id: NodeId::from_uuid(Uuid::nil()), instance, started_at, record }
    }

    fn row(member: &Member, seen_at: i64) -> SeenMember {
        SeenMember { member: member.clone(), seen_at }
    }

    #[test]
    fn the_predecessor_on_the_same_machine_is_no_rival() {
        let (former, me) = (member(1, 10), member(2, 20));
        let mut rivalry = Rivalry::default();
        assert_eq!(rivalry.saw(&me, None), Shown::NoRival);
        assert_eq!(rivalry.saw(&me, Some(&row(&former, 19))), Shown::NoRival);
        rivalry.announced();
        assert_eq!(rivalry.saw(&me, Some(&row(&me, 21))), Shown::NoRival);
        // What it had sent before it was killed.
        assert_eq!(rivalry.saw(&me, Some(&row(&former, 22))), Shown::Contested);
        assert!(rivalry.is_contested());
        assert_eq!(rivalry.saw(&me, Some(&row(&former, 22))), Shown::Contested);
        rivalry.announced();
        assert_eq!(rivalry.saw(&me, Some(&row(&me, 23))), Shown::NoRival);
        assert!(!rivalry.is_contested());
    }

    #[test]
    fn of_two_that_live_the_younger_one_finds_the_older_one() {
        let (older, younger) = (member(9, 10), member(2, 20));
        let (mut of_older, mut of_younger) = (Rivalry::default(), Rivalry::default());
        of_older.announced();
        of_younger.announced();
        for time in 30..40 {
            assert_eq!(of_older.saw(&older, Some(&row(&younger, time))), Shown::Contested);
        }
        assert_eq!(of_younger.saw(&younger, Some(&row(&older, 30))), Shown::Contested);
        assert_eq!(of_younger.saw(&younger, Some(&row(&older, 40))), Shown::OlderRival);
    }
}
