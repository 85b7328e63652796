//! How fast the callers of a namespace may change what the audit log keeps for a year.
//!
//! A record of a change is never folded, so a flood of changes would push out the records of others.
//! At this pace a flood takes days, and an alert comes first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::lock::lock;
use super::{Bound, Group, Owner, Refusals, Refused};

/// The name in metrics.
const POOL: &str = "change";

/// One change in this time, for the callers of a namespace together.
const INTERVAL: Duration = Duration::from_secs(1);

/// As many may come at the same time, after a pause.
const BURST: u32 = 1000;

/// When the changes of each namespace are paid off; absent for those that owe none.
pub(crate) struct Pace {
    owed: Mutex<HashMap<Arc<str>, Instant>>,
    refusals: Refusals,
}

// === impl Pace ===

impl Pace {
    pub(crate) fn new(refusals: &Refusals) -> Self {
        refusals.begin(POOL);
        Self { owed: Mutex::default(), refusals: refusals.clone() }
    }

    /// Admits another change. Those who belong to no namespace make as many as they like.
    pub(crate) fn admit(&self, owner: &Owner) -> Result<(), Refused> {
        let Group::Namespace(name) = &owner.group else { return Ok(()) };
        if self.owe(name, Instant::now()) {
            return Ok(());
        }
        self.refusals.note(POOL, &owner.group, None);
        let total = usize::try_from(BURST).unwrap_or(usize::MAX);
        Err(Refused { what: "changes", total, bound: Bound::Pace { namespace: Arc::clone(name) } })
    }

    /// Takes back an admission whose change was not made.
    pub(crate) fn refund(&self, owner: &Owner) {
        let Group::Namespace(name) = &owner.group else { return };
        if let Some(paid) = lock(&self.owed).get_mut(name) {
            *paid -= INTERVAL;
        }
    }

    fn owe(&self, name: &Arc<str>, now: Instant) -> bool {
        let mut owed = lock(&self.owed);
        let paid = owed.get(name).copied().filter(|paid| *paid > now);
        let next = paid.unwrap_or(now) + INTERVAL;
        if next > now + INTERVAL * BURST {
            return false;
        }
        if paid.is_none() {
            owed.retain(|_, paid| *paid > now);
        }
        owed.insert(Arc::clone(name), next);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_followed_by_one_a_second() {
        let (pace, begin) = (Pace::new(&Refusals::default()), Instant::now());
        let admitted =
            |name: &str, at| (0..2000).filter(|_| pace.owe(&Arc::from(name), at)).count();
        assert_eq!(admitted("a", begin), 1000);
        assert_eq!(admitted("a", begin + INTERVAL / 2), 0);
        assert_eq!(admitted("b", begin), 1000, "others owe nothing");
        assert_eq!(admitted("a", begin + INTERVAL), 1);
        assert_eq!(admitted("a", begin + INTERVAL * 11), 10);
        let day = begin + Duration::from_secs(86_400);
        assert_eq!(admitted("a", day), 1000);
        assert_eq!(lock(&pace.owed).len(), 1, "who owes nothing is not remembered");
    }

    #[test]
    fn operators_have_no_pace_and_failed_changes_cost_nothing() {
        let pace = Pace::new(&Refusals::default());
        let mut owner = Owner::everyone();
        assert!((0..2000).all(|_| pace.admit(&owner).is_ok()));
        owner.group = Group::Namespace("a".into());
        for _ in 0..2000 {
            assert!(pace.admit(&owner).is_ok());
            pace.refund(&owner);
        }
        let admitted = (0..2000).filter(|_| pace.admit(&owner).is_ok()).count();
        assert!((1000..1100).contains(&admitted), "{admitted}");
        assert!(pace.refusals.count(POOL, "a", "(newcomers)") > 0);
    }
}
