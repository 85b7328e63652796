//! When a follower may take the lead, by what its polls show and its own clock alone.
//!
//! The clocks of two machines are never compared. A leader trusts a commit for a time that begins
//! when it sends it; a follower counts a longer time, which begins when an answer first shows that
//! commit. A takeover only succeeds if the store still holds what was seen, so the time between
//! the last answer and the takeover does no harm.
//!
//! | what is seen | the lead is free |
//! |---|---|
//! | no leader: it resigned | immediately |
//! | the same term, commit and beat | after [`FREE_AFTER`]; a failed poll begins anew, so that the leader is first when the database comes back, and so does another connection, since its server may have been promoted and lack the last renewal |
//! | the leader's session is missing in two polls on one connection, and its address refuses connections | immediately |
//!
//! Neither of the last two signs proves anything alone: the server also ends sessions of leaders
//! that live, and an address may be wrong.

use std::time::Duration;

use api_types::Timestamp;

use crate::clock::{Reading, ServiceClock, Stamp};
use crate::store::{SessionSign, Sighting, Term};

/// Interval between polls: a leader that resigned is replaced within it.
pub const POLL_EVERY: Duration = Duration::from_millis(500);

/// The lead is free if nothing has changed for this long: longer than a leader trusts a commit
/// ([`crate::step::TRUSTED_FOR`]), by more than the clocks of two machines drift apart.
pub const FREE_AFTER: Duration = Duration::from_secs(3);

/// Time until a second poll shows whether the session of the leader is still missing.
const CONFIRM_AFTER: Duration = Duration::from_millis(100);

/// Tokens and certificates expire by the wall clock: a larger difference from the database's is
/// worth a warning.
const WALL_CLOCK_TOLERANCE: Duration = Duration::from_secs(5);

/// A process that waits for the lead.
#[derive(Debug)]
pub struct Follower {
    /// The format of the data that this release writes.
    format: u32,
    /// What the row has shown since an answer; none after a poll that failed.
    unchanged: Option<Unchanged>,
    /// The last answer.
    last: Option<Answer>,
    /// When the last stamp arrived, if it came while this process was watching.
    arrived: Option<Answer>,
    /// A poll that did not show the session of the leader.
    missing: Option<Missing>,
}

#[derive(Debug)]
struct Unchanged {
    values: (Term, u64, u64),
    connection: u64,
    /// The answer that first showed them.
    since: Reading,
}

/// What a poll showed, and when.
#[derive(Debug, Clone, Copy)]
struct Answer {
    stamp: Option<Stamp>,
    at: Reading,
}

#[derive(Debug, PartialEq, Eq)]
struct Missing {
    term: Term,
    connection: u64,
}

/// What a follower does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Polls when CLOCK_BOOTTIME reaches this value, in nanoseconds.
    PollAt(u64),
    /// Tries to connect to the leader at this address, and reports whether it refused.
    Dial(String),
    /// Takes over from what the last poll showed.
    TakeOver,
}

// === impl Follower ===

impl Follower {
    pub fn new(format: u32) -> Self {
        Self { format, unchanged: None, last: None, arrived: None, missing: None }
    }

    /// A poll was answered; the clocks were read afterwards.
    pub fn saw(&mut self, seen: &Sighting, now: &Reading) -> Next {
        self.note_arrival(seen.stamp, now);
        let values = (seen.term, seen.last_commit, seen.beat);
        let connection = seen.connection;
        let is_same = |it: &Unchanged| it.values == values && it.connection == connection;
        let same = self.unchanged.take().filter(is_same);
        let unchanged = same.unwrap_or(Unchanged { values, connection, since: *now });
        let is_silent = passed(&unchanged.since, now) >= FREE_AFTER;
        self.unchanged = Some(unchanged);
        if seen.oldest > self.format {
            // A newer release has migrated the data: this one never leads.
            return poll_later(now);
        }
        let Some(leader) = &seen.leader else { return Next::TakeOver };
        if is_silent {
            return Next::TakeOver;
        }
        match seen.session {
            SessionSign::Present | SessionSign::Unknown => self.missing = None,
            SessionSign::Missing => {
                let missing = Missing { term: seen.term, connection: seen.connection };
                let was_missing = self.missing.as_ref() == Some(&missing);
                self.missing = Some(missing);
                return match was_missing {
                    true => Next::Dial(leader.address.clone()),
                    false => poll_after(CONFIRM_AFTER, now),
                };
            }
        }
        poll_later(now)
    }

    /// A poll or a takeover failed.
    pub fn failed(&mut self, now: &Reading) -> Next {
        (self.unchanged, self.missing) = (None, None);
        // What arrives until the next answer may have been there for long.
        self.last = None;
        poll_later(now)
    }

    /// Another process was faster: the row has changed since it was seen.
    pub fn was_late(&mut self, now: &Reading) -> Next {
        (self.unchanged, self.missing) = (None, None);
        Next::PollAt(now.boot)
    }

    /// What became of [`Next::Dial`].
    pub fn dialed(&mut self, refused: bool, now: &Reading) -> Next {
        match refused {
            true => Next::TakeOver,
            false => poll_later(now),
        }
    }

    /// The stamp with which this process takes over, so that the next process continues from it; none
    /// if nothing has been committed. The clocks of the machine that wrote the last stamp say nothing
    /// here if its arrival was seen.
    pub fn stamp(&self, seen: &Sighting, now: &Reading) -> Option<Stamp> {
        let last = seen.stamp?;
        let arrived = self.arrival(seen.stamp);
        let from = arrived.map_or(last, |arrived| Stamp { reading: arrived.at, ..last });
        Some(ServiceClock::resume(Some(from), now).stamp(now))
    }

    /// Whether the last stamp arrived while this process was watching.
    pub fn saw_arrival(&self, seen: &Sighting) -> bool {
        self.arrival(seen.stamp).is_some()
    }

    fn arrival(&self, stamp: Option<Stamp>) -> Option<&Answer> {
        self.arrived.as_ref().filter(|arrived| arrived.stamp == stamp)
    }

    fn note_arrival(&mut self, stamp: Option<Stamp>, now: &Reading) {
        let answer = Answer { stamp, at: *now };
        let last = self.last.replace(answer);
        if self.arrival(stamp).is_some() {
            return;
        }
        let was_watching =
            |last: &Answer| last.stamp != stamp && passed(&last.at, now) < FREE_AFTER;
        self.arrived = last.is_some_and(|last| was_watching(&last)).then_some(answer);
    }
}

/// How far the wall clock is from the database's, if that is worth a warning.
pub fn wall_clock_error(database: Timestamp, own: Timestamp) -> Option<Duration> {
    let error = own.since(database).max(database.since(own));
    (error >= WALL_CLOCK_TOLERANCE).then_some(error)
}

/// By CLOCK_BOOTTIME: a process lives within one boot.
fn passed(earlier: &Reading, now: &Reading) -> Duration {
    Duration::from_nanos(now.boot.saturating_sub(earlier.boot))
}

fn poll_later(now: &Reading) -> Next {
    poll_after(POLL_EVERY, now)
}

fn poll_after(pause: Duration, now: &Reading) -> Next {
    let nanos = u64::try_from(pause.as_nanos()).expect("a part of a second");
    Next::PollAt(now.boot.saturating_add(nanos))
}

#[cfg(test)]
mod tests;
