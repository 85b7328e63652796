//! What tasks with a network reach: the settings, and the addresses that the node has.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api_types::Timestamp;
use bollard::errors::Error;
use ring::digest::{SHA256, digest};

use super::super::engine::Engine;
use super::host_addresses::{self, Labels};
use crate::data::egress::addresses::NOT_PUBLIC;
use crate::host::clock;
use crate::host::settings::{AddressRange, DeniedAddresses, Settings};

/// How long the node's addresses are taken for what they were. Where the operator denies only
/// them, a new public one can be reached for this long.
const HOST_AGE: Duration = Duration::from_secs(10 * 60);

/// How long sandboxes are kept ready after the last task with a network: most nodes have such tasks
/// all the time or never.
const WARM: Duration = Duration::from_secs(60 * 60);

pub(super) struct Guard {
    denied: Vec<DeniedAddresses>,
    allowed: Vec<AddressRange>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When the node's addresses were read, and what they were.
    host: Option<(Timestamp, BTreeSet<IpAddr>)>,
    used_at: Option<Timestamp>,
}

/// The two lists, as the program in the sandbox reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) denied: String,
    pub(super) allowed: String,
}

// === impl Guard ===

impl Guard {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            denied: settings.denied_addresses.clone(),
            allowed: settings.allow_addresses.clone(),
            state: Mutex::default(),
        }
    }

    /// A task asks for a network.
    pub(super) fn is_used(&self, now: Timestamp) {
        self.state().used_at = Some(now);
    }

    /// Whether another such task may come soon.
    pub(super) fn is_warm(&self, now: Timestamp) -> bool {
        self.state().used_at.is_some_and(|at| now.since(at) < WARM)
    }

    /// The current policy; asks the Engine for the node's addresses when they are old.
    pub(super) async fn policy(&self, docker: &Engine, labels: Labels) -> Result<Policy, Error> {
        if !self.denied.contains(&DeniedAddresses::Host) {
            return Ok(self.with(&BTreeSet::new()));
        }
        let now = clock::steady();
        let known = self.state().host.clone();
        if let Some((at, addresses)) = known
            && now.since(at) < HOST_AGE
        {
            return Ok(self.with(&addresses));
        }
        let addresses = host_addresses::read(docker, labels).await?;
        self.state().host = Some((now, addresses.clone()));
        Ok(self.with(&addresses))
    }

    fn with(&self, host: &BTreeSet<IpAddr>) -> Policy {
        let private = || NOT_PUBLIC.iter().filter_map(|range| range.parse::<AddressRange>().ok());
        let mut ranges: BTreeSet<AddressRange> = BTreeSet::new();
        for denied in &self.denied {
            match denied {
                DeniedAddresses::Private => ranges.extend(private()),
                DeniedAddresses::Range(range) => drop(ranges.insert(*range)),
                DeniedAddresses::Host => {}
            }
        }
        if self.denied.contains(&DeniedAddresses::Host) {
            let is_new = |address: &IpAddr| !ranges.iter().any(|range| range.contains(*address));
            let new: Vec<_> = host.iter().copied().filter(is_new).collect();
            ranges.extend(new.into_iter().map(AddressRange::from));
        }
        let carried: Vec<_> = ranges.iter().flat_map(|range| range.carried_by_v6()).collect();
        ranges.extend(carried);
        let allowed = self.allowed.iter().map(ToString::to_string).collect::<Vec<_>>();
        let denied = ranges.iter().map(ToString::to_string).collect::<Vec<_>>();
        Policy { denied: denied.join(","), allowed: allowed.join(",") }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Policy ===

impl Policy {
    /// Differs between policies.
    pub(super) fn stamp(&self) -> String {
        let text = format!("{} {}", self.denied, self.allowed);
        let digest = digest(&SHA256, text.as_bytes());
        digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(change: impl FnOnce(&mut Settings)) -> Policy {
        let mut settings = Settings::default();
        change(&mut settings);
        let host = ["10.1.2.3", "127.0.0.1", "8.8.4.4"].map(|text| text.parse().unwrap());
        Guard::new(&settings).with(&BTreeSet::from(host))
    }

    #[test]
    fn by_default_nothing_is_reached_that_is_private_or_the_nodes() {
        let policy = policy(|_| ());
        let denied: Vec<_> = policy.denied.split(',').collect();
        for range in ["10.0.0.0/8", "169.254.0.0/16", "8.8.4.4/32", "64:ff9b::a00:0/104"] {
            assert!(denied.contains(&range), "{range}: {denied:?}");
        }
        assert!(!denied.contains(&"10.1.2.3/32"), "another range has it: {denied:?}");
        assert_eq!(policy.allowed, "");
    }

    #[test]
    fn the_settings_replace_the_list_and_name_exceptions() {
        let policy = policy(|settings| {
            settings.denied_addresses = vec!["1.2.3.0/24".parse().unwrap()];
            settings.allow_addresses = vec!["10.0.0.7".parse().unwrap()];
        });
        assert_eq!(policy.denied, "1.2.3.0/24,64:ff9b::102:300/120,2002:102:300::/40");
        assert_eq!(policy.allowed, "10.0.0.7/32");
        let other = Policy { allowed: String::new(), ..policy.clone() };
        assert_ne!(policy.stamp(), other.stamp());
    }
}
