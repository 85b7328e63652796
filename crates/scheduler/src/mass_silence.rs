//! Mass silence: when most nodes fall silent at once, the orchestrator is probably cut off.

use core::time::Duration;

use crate::Scheduler;
use crate::silence::Mass;
use crate::time::Moment;
use crate::timer::Timer;

/// Mass silence is measured against the nodes that held a lease within this window.
const MASS_WINDOW: Duration = Duration::from_secs(60);

/// Fewer silent nodes than this are never a mass silence.
const MASS_NODES: usize = 3;

/// While most nodes are silent, the scheduler assumes for at most this long that the orchestrator
/// is the one cut off.
pub(crate) const MASS_HOLD: Duration = Duration::from_secs(120);

// === impl Scheduler: mass silence ===

impl Scheduler {
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
    pub(crate) fn detect_mass_silence(&mut self, now: Moment) {
        let was_holding = self.is_mass_silence();
        let (mut silent, mut returned, mut held) = (0, 0, 0);
        let is_renewed = self.are_leases_renewed(now);
        let overdue = now.before(self.lease() / 2);
        let recently = now.before(self.lease() * 2);
        let just_now = now.before(self.lease());
        let window = match self.silence.mass {
            // Nodes that were lost with the others count for as long as the silence lasts.
            Mass::Holding(until) => until.before(MASS_HOLD).before(self.lease() * 2),
            Mass::None if is_renewed => now.before(MASS_HOLD),
            Mass::None | Mass::Spent => now,
        };
        let window = window.min(now.before(MASS_WINDOW));
        for node in self.nodes.values() {
            let is_silent = match node.row.silent_since {
                None => node.heard_at < overdue,
                Some(_) if node.lost_lease_at < window => continue,
                Some(since) => {
                    let is_recent = is_renewed || since >= recently;
                    is_recent || self.silence.mass != Mass::None
                }
            };
            held += 1;
            silent += usize::from(is_silent);
            returned += usize::from(!is_silent && node.returned_at > just_now);
        }
        let is_mass = are_a_mass(silent, held);
        self.silence.mass = match (is_mass, self.silence.mass) {
            (false, Mass::None) if are_a_mass(silent + returned, held) => {
                self.silence.others_may_follow_until = now + self.lease();
                Mass::None
            }
            (false, Mass::None | Mass::Spent) => Mass::None,
            (false, Mass::Holding(_)) => {
                self.silence.others_may_follow_until = now + self.lease();
                Mass::None
            }
            (true, Mass::None) => {
                self.recheck_at(now, now + MASS_HOLD);
                Mass::Holding(now + MASS_HOLD)
            }
            (true, known @ (Mass::Holding(_) | Mass::Spent)) => known,
        };
        if self.silence.mass == Mass::None {
            self.timers.cancel(Timer::MassSilence);
        }
        if was_holding && !self.is_mass_silence() {
            self.arm_all();
        }
    }

    /// Whether a restart or a pause renewed all leases a lease ago, so that those end together which
    /// are not held any more.
    pub(crate) fn are_leases_renewed(&self, now: Moment) -> bool {
        now <= self.silence.not_before + self.lease() / 2
    }

    /// A mass silence is checked again every half lease while it lasts: nodes that were only overdue
    /// when it began may have been heard since, and then the work of the others waits for nothing.
    pub(crate) fn mass_silence_due(&mut self, now: Moment) {
        match self.silence.mass {
            Mass::Holding(until) if now >= until => {
                self.silence.mass = Mass::Spent;
                self.arm_all();
            }
            Mass::Holding(_) | Mass::Spent | Mass::None => self.detect_mass_silence(now),
        }
        match self.silence.mass {
            Mass::Holding(until) => self.recheck_at(now, until),
            // Until it is over, the silence that is no longer waited for is no new one.
            Mass::Spent => self.recheck_at(now, now + MASS_WINDOW),
            Mass::None => {}
        }
    }

    /// Continues a mass silence that had begun before a restart: most nodes lost their lease within
    /// the time for which one is waited out.
    pub(crate) fn restore_mass_silence(&mut self, now: Moment) {
        let (begin, lease) = (now.before(MASS_HOLD), self.lease());
        let last = self.silence.nodes.last().map_or(now, |(since, _)| *since);
        let (mut first, mut silent, mut held) = (now, 0, 0);
        for node in self.nodes.values_mut() {
            held += 1;
            let Some(since) = node.row.silent_since else { continue };
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
            self.silence.mass = Mass::Holding(until);
            self.recheck_at(now, until);
        }
    }

    fn recheck_at(&mut self, now: Moment, until: Moment) {
        self.timers.set(until.min(now + self.lease() / 2), Timer::MassSilence);
    }
}

fn are_a_mass(silent: usize, held: usize) -> bool {
    silent >= MASS_NODES && 2 * silent > held
}
