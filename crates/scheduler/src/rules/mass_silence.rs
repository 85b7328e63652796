//! Mass silence: when most nodes fall silent together, the orchestrator is probably cut off.

use core::time::Duration;

use crate::rules::patience;
use crate::silence::{MASS_HOLD, Mass};
use crate::state::State;
use crate::time::Moment;
use crate::timer::Timer;

/// Mass silence is measured against the nodes that held a lease within this window.
const MASS_WINDOW: Duration = Duration::from_secs(60);

/// Fewer silent nodes than this are never a mass silence.
const MASS_NODES: usize = 3;

// === Mass silence ===

/// Detects mass silence: more than half of the nodes that held a lease a minute ago fell silent
/// within one lease of each other. The orchestrator is then probably cut off.
///
/// When the first lease ends, the others are still valid, and the first node's runs would be
/// thrown away. So a node whose heartbeat is long overdue counts as silent too.
///
/// The last of many is not given up because the others were heard just before: what most of the
/// nodes did, it is expected to do within a lease.
///
/// A restart or a pause renews the leases that have not ended, and so comes between nodes that
/// fell silent together: those from before it count as long as a mass silence may last.
///
/// Once it is over, the work of those that are still silent waits no longer.
pub(crate) fn detect_mass_silence(state: &mut State, now: Moment) {
    let was_holding = state.is_mass_silence();
    let (mut silent, mut returned, mut held) = (0, 0, 0);
    let is_renewed = are_leases_renewed(state, now);
    let overdue = now.before(state.lease() / 2);
    let recently = now.before(state.lease() * 2);
    let just_now = now.before(state.lease());
    let window = match state.silence.mass {
        // Nodes that were lost with the others count for as long as the silence lasts.
        Mass::Holding(until) => until.before(MASS_HOLD).before(state.lease() * 2),
        Mass::None if is_renewed => now.before(MASS_HOLD),
        Mass::None | Mass::Spent => now,
    };
    let window = window.min(now.before(MASS_WINDOW));
    for node in state.nodes.values() {
        let is_silent = match node.row().silent_since {
            None => node.heard_at < overdue,
            Some(_) if node.lost_lease_at < window => continue,
            Some(since) => {
                let is_recent = is_renewed || since >= recently;
                is_recent || state.silence.mass != Mass::None
            }
        };
        held += 1;
        silent += usize::from(is_silent);
        returned += usize::from(!is_silent && node.returned_at > just_now);
    }
    let is_mass = are_a_mass(silent, held);
    state.silence.mass = match (is_mass, state.silence.mass) {
        (false, Mass::None) if are_a_mass(silent + returned, held) => {
            state.silence.others_may_follow_until = now + state.lease();
            Mass::None
        }
        (false, Mass::None | Mass::Spent) => Mass::None,
        (false, Mass::Holding(_)) => {
            state.silence.others_may_follow_until = now + state.lease();
            Mass::None
        }
        (true, Mass::None) => {
            recheck_at(state, now, now + MASS_HOLD);
            Mass::Holding(now + MASS_HOLD)
        }
        (true, known @ (Mass::Holding(_) | Mass::Spent)) => known,
    };
    if state.silence.mass == Mass::None {
        state.timers.cancel(Timer::MassSilence);
    }
    if was_holding && !state.is_mass_silence() {
        patience::arm_all(state);
    }
}

/// Whether a restart or a pause renewed all leases a lease ago, so that those end together which
/// are not held any more.
pub(crate) fn are_leases_renewed(state: &State, now: Moment) -> bool {
    now <= state.silence.not_before + state.lease() / 2
}

/// A mass silence is checked again every half lease while it lasts: nodes that were only overdue
/// when it began may have been heard since, and then the work of the others waits for nothing.
pub(crate) fn mass_silence_due(state: &mut State, now: Moment) {
    match state.silence.mass {
        Mass::Holding(until) if now >= until => {
            state.silence.mass = Mass::Spent;
            patience::arm_all(state);
        }
        Mass::Holding(_) | Mass::Spent | Mass::None => detect_mass_silence(state, now),
    }
    match state.silence.mass {
        Mass::Holding(until) => recheck_at(state, now, until),
        // Until it is over, the silence that is no longer waited for is no new one.
        Mass::Spent => recheck_at(state, now, now + MASS_WINDOW),
        Mass::None => {}
    }
}

/// Continues a mass silence that had begun before a restart: most nodes lost their lease within
/// the time for which one is waited out.
pub(crate) fn restore_mass_silence(state: &mut State, now: Moment) {
    let (begin, lease) = (now.before(MASS_HOLD), state.lease());
    let last = state.silence.nodes.last().map_or(now, |(since, _)| *since);
    let (mut first, mut silent, mut held) = (now, 0, 0);
    for node in state.nodes.values_mut() {
        held += 1;
        let Some(since) = node.row().silent_since else { continue };
        node.lost_lease_at = now.min(since + lease);
        if node.lost_lease_at <= begin || node.abandoned.is_some() {
            held -= 1;
            continue;
        }
        // One that fell silent long before the others shortens nothing.
        if since >= last.before(lease * 2) {
            first = first.min(node.lost_lease_at);
        }
        silent += 1;
    }
    if are_a_mass(silent, held) {
        let until = first + MASS_HOLD;
        state.silence.mass = Mass::Holding(until);
        recheck_at(state, now, until);
    }
}

fn recheck_at(state: &mut State, now: Moment, until: Moment) {
    state.timers.set(until.min(now + state.lease() / 2), Timer::MassSilence);
}

fn are_a_mass(silent: usize, held: usize) -> bool {
    silent >= MASS_NODES && 2 * silent > held
}
