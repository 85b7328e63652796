//! The rights of this program: of an unprivileged user, and one capability in its own namespace.

use rustix::io::Result;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// An unprivileged user and group, by number: the image has no names.
const NOBODY: u32 = 65534;

const KEPT: CapabilitySet = CapabilitySet::NET_ADMIN;

/// The capabilities that a number of 64 bits can name.
const MAX_CAPABILITIES: u32 = 64;

/// Gives up all rights except [`KEPT`], and that one until [`raised`] needs it. Threads that exist
/// keep theirs, so this comes before the first.
pub(crate) fn give_up() -> Result<()> {
    for number in 0..MAX_CAPABILITIES {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        // The kernel knows no capability with a higher number.
        let Ok(is_possible) = capability_is_in_bounding_set(capability) else { break };
        if is_possible && capability != KEPT {
            remove_capability_from_bounding_set(capability)?;
        }
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    set_keep_capabilities(true)?;
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    set_capabilities(None, effective(CapabilitySet::empty()))?;
    set_keep_capabilities(false)
}

/// Acts with the kept capability, where this program has it.
pub(crate) fn raised<T>(act: impl FnOnce() -> T) -> T {
    let is_raised = set_capabilities(None, effective(KEPT)).is_ok();
    let outcome = act();
    if is_raised {
        // Giving up a right is always allowed.
        let _ = set_capabilities(None, effective(CapabilitySet::empty()));
    }
    outcome
}

fn effective(effective: CapabilitySet) -> CapabilitySets {
    CapabilitySets { effective, permitted: KEPT, inheritable: CapabilitySet::empty() }
}
