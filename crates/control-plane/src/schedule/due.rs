//! What is to be done about the times that have come since a schedule was last decided on.

use std::time::Duration;

use api_types::Timestamp;
use api_types::schedule::CatchUp;

use super::Plan;
use super::cron::Times;

/// Due times that `All` catches up, the newest ones: a schedule of every minute would otherwise
/// flood the queue after a day.
const MOST_CAUGHT_UP: usize = 100;

/// A run is caught up if it is later than this: what a busy or restarted service needs.
const ON_TIME: Duration = Duration::from_secs(30);

/// What is next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// The due time that gets a run.
    pub run: Option<Timestamp>,
    /// The newest of the due times before it that get none, and why.
    pub missed: Option<(Timestamp, String)>,
}

/// What to do at `now`, which is earlier than the clock's time by the schedule's jitter. Everything
/// up to `decided` is.
pub fn next(plan: &Plan, times: &Times, decided: Timestamp, now: Timestamp) -> Next {
    let most = match plan.catch_up {
        CatchUp::All => MOST_CAUGHT_UP,
        CatchUp::Latest | CatchUp::None => 1,
    };
    let bound = Duration::from_secs(plan.catch_up_seconds.into());
    let is_allowed = |due: Timestamp| {
        let late = now.since(due);
        let is_caught_up = match plan.catch_up {
            CatchUp::None => false,
            CatchUp::Latest | CatchUp::All => bound.is_zero() || late <= bound,
        };
        late <= ON_TIME || is_caught_up
    };
    let due = newest(times, decided, now, most + 1);
    let excess = due.len().saturating_sub(most);
    let allowed = due[excess..].iter().position(|due| is_allowed(*due)).map(|at| excess + at);
    let skipped = match allowed {
        Some(at) => &due[..at],
        None => &due[..],
    };
    let missed = skipped
        .last()
        .map(|last| (*last, reason(plan, !is_allowed(*last), *last, skipped.len() > 1)));
    Next { run: allowed.map(|at| due[at]), missed }
}

fn reason(plan: &Plan, is_late: bool, last: Timestamp, are_several: bool) -> String {
    let why = match (plan.catch_up, is_late) {
        (CatchUp::None, _) => "CatchUp is None".to_owned(),
        (CatchUp::Latest | CatchUp::All, true) => {
            format!("it was later than CatchUpSeconds ({})", plan.catch_up_seconds)
        }
        (CatchUp::Latest, false) => "CatchUp is Latest, and a newer run was due".to_owned(),
        (CatchUp::All, false) => format!("CatchUp takes the newest {MOST_CAUGHT_UP} runs"),
    };
    let last = last.rfc3339_seconds();
    match are_several {
        true => format!("the service was away; the runs up to {last} were left out: {why}"),
        false => format!("the service was away at {last}: {why}"),
    }
}

/// The newest due times after one time and up to another, the oldest first. Searched backwards in
/// growing steps, so that a year of minutes is not walked.
fn newest(times: &Times, after: Timestamp, until: Timestamp, count: usize) -> Vec<Timestamp> {
    let minutes = u64::try_from(count).unwrap_or(u64::MAX);
    let mut window = Duration::from_secs(60).saturating_mul(u32::try_from(minutes).unwrap_or(1));
    loop {
        let from = after.max(until - window);
        let next = |time: &Timestamp| times.after(*time);
        let within = std::iter::successors(times.after(from), next);
        let found: Vec<_> = within.take_while(|time| *time <= until).collect();
        if found.len() >= count || from == after {
            return found[found.len().saturating_sub(count)..].to_vec();
        }
        window = window.saturating_mul(2);
    }
}
