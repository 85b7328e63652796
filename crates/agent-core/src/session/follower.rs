//! What the lines of the assignments stream mean, and when another stream is opened.

use alloc::vec::Vec;
use core::time::Duration;

use api_types::Timestamp;
use api_types::log::StreamRequest;
use api_types::protocol::{Assignment, AssignmentLine, KEEP_ALIVE_SECONDS};
use api_types::usage::UsageRequest;

use super::retries::retries;
use crate::backoff::{Backoff, Fraction};
use crate::node_state::Input;

/// After this long without a line, the stream counts as dead, whatever the connection reports.
pub const SILENCE: Duration = Duration::from_secs(3 * KEEP_ALIVE_SECONDS);

/// The most assignments in one snapshot; a longer one cannot be meant for one node, and the agent
/// closes the stream before it fills the memory.
const MAX_SNAPSHOT: u64 = 1_000_000;

/// Follows one stream after another within a session.
#[derive(Debug)]
pub struct Follower {
    backoff: Backoff,
    reading: Reading,
}

/// How far the current stream has been read.
#[derive(Debug)]
enum Reading {
    /// The head of the snapshot comes first.
    Head {
        asked_at: Timestamp,
    },
    /// Acting on part of a snapshot would stop wanted executions.
    Snapshot {
        asked_at: Timestamp,
        size: u64,
        assignments: Vec<Assignment>,
    },
    Changes,
}

/// What a line asks of the agent.
#[derive(Debug)]
pub enum Followed {
    Nothing,
    /// An input of [`NodeState`](crate::NodeState).
    Input(Input),
    /// A reader wants output.
    Stream(StreamRequest),
    Usage(UsageRequest),
}

/// The stream breaks the protocol, and has to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation(&'static str);

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for Violation {}

// === impl Follower ===

impl Default for Follower {
    fn default() -> Self {
        Self { backoff: retries(), reading: Reading::Head { asked_at: Timestamp::ZERO } }
    }
}

impl Follower {
    /// Another stream is requested: its snapshot is the desired state at this time or later.
    pub fn asks(&mut self, now: Timestamp) {
        self.reading = Reading::Head { asked_at: now };
    }

    /// The stream could not be opened, or broke off; the delay before the next one.
    pub fn broke_off(&mut self, fraction: Fraction) -> Duration {
        self.backoff.next_delay(fraction)
    }

    pub fn line(&mut self, line: AssignmentLine) -> Result<Followed, Violation> {
        use AssignmentLine as Line;
        match (&mut self.reading, line) {
            (_, Line::KeepAlive | Line::Unknown) => Ok(Followed::Nothing),
            (Reading::Head { asked_at }, Line::Snapshot { executions }) => {
                if executions > MAX_SNAPSHOT {
                    return Err(Violation("its snapshot is too large"));
                }
                let (asked_at, assignments) = (*asked_at, Vec::new());
                self.reading = Reading::Snapshot { asked_at, size: executions, assignments };
                Ok(self.snapshot_if_complete())
            }
            (Reading::Head { .. }, Line::Assignment(_) | Line::Stream(_) | Line::Usage(_)) => {
                Err(Violation("it does not open with a snapshot"))
            }
            (Reading::Snapshot { assignments, .. }, Line::Assignment(assignment)) => {
                assignments.push(*assignment);
                Ok(self.snapshot_if_complete())
            }
            // A reader whose request arrives within a snapshot repeats it.
            (Reading::Snapshot { .. }, Line::Stream(_) | Line::Usage(_)) => Ok(Followed::Nothing),
            (Reading::Snapshot { .. }, Line::Snapshot { .. }) => {
                Err(Violation("a snapshot came within a snapshot"))
            }
            (Reading::Changes, Line::Assignment(assignment)) => {
                Ok(Followed::Input(Input::Change(assignment)))
            }
            (Reading::Changes, Line::Stream(request)) => Ok(Followed::Stream(request)),
            (Reading::Changes, Line::Usage(request)) => Ok(Followed::Usage(request)),
            (Reading::Changes, Line::Snapshot { .. }) => {
                Err(Violation("a snapshot came in the middle of the stream"))
            }
        }
    }

    /// Snapshot => Changes, once the snapshot is complete.
    fn snapshot_if_complete(&mut self) -> Followed {
        let Reading::Snapshot { asked_at, size, assignments } = &mut self.reading else {
            return Followed::Nothing;
        };
        if (assignments.len() as u64) < *size {
            return Followed::Nothing;
        }
        let snapshot = Input::Snapshot(*asked_at, core::mem::take(assignments));
        self.reading = Reading::Changes;
        self.backoff.reset();
        Followed::Input(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::string::String;
    use alloc::vec;

    use api_types::execution::{ComputeState, DesiredState};
    use api_types::testing::execution_id;

    use super::super::retries::RETRY_FIRST;
    use super::*;

    fn head(executions: u64) -> AssignmentLine {
        AssignmentLine::Snapshot { executions }
    }

    fn assignment(number: u128) -> AssignmentLine {
        AssignmentLine::Assignment(Box::new(Assignment {
            execution_id: execution_id(number),
            desired_state: DesiredState::Running,
            compute_state: ComputeState::AskForBid,
            message: String::new(),
            work: None,
        }))
    }

    /// The number of executions in each snapshot, and 0 for each change.
    fn inputs(lines: Vec<AssignmentLine>) -> Result<Vec<usize>, Violation> {
        let mut follower = Follower::default();
        follower.asks(Timestamp(5));
        let mut inputs = Vec::new();
        for line in lines {
            match follower.line(line)? {
                Followed::Input(Input::Snapshot(asked_at, assignments)) => {
                    assert_eq!(asked_at, Timestamp(5));
                    inputs.push(assignments.len());
                }
                Followed::Input(_) => inputs.push(0),
                Followed::Nothing | Followed::Stream(_) | Followed::Usage(_) => {}
            }
        }
        Ok(inputs)
    }

    #[test]
    fn a_snapshot_is_taken_whole_or_not_at_all() {
        let (silent, newer) = (AssignmentLine::KeepAlive, AssignmentLine::Unknown);
        let lines = vec![newer.clone(), head(2), assignment(1), silent, newer, assignment(2)];
        assert_eq!(inputs(lines), Ok(vec![2]));
        assert_eq!(inputs(vec![head(2), assignment(1)]), Ok(vec![]));
        assert_eq!(inputs(vec![head(0), assignment(1)]).map(|inputs| inputs.len()), Ok(2));
        for lines in [
            vec![assignment(1)],
            vec![head(u64::MAX)],
            vec![head(2), head(2)],
            vec![head(0), head(0)],
        ] {
            assert!(inputs(lines.clone()).is_err(), "{lines:?}");
        }
    }

    #[test]
    fn streams_that_break_off_are_opened_ever_more_rarely_until_a_snapshot_is_complete() {
        let mut follower = Follower::default();
        assert_eq!(follower.broke_off(1.0), RETRY_FIRST);
        follower.asks(Timestamp(1));
        follower.line(head(1)).unwrap();
        assert_eq!(follower.broke_off(1.0), RETRY_FIRST * 2);
        follower.asks(Timestamp(2));
        // What came of the last stream does not count.
        assert!(matches!(follower.line(head(1)), Ok(Followed::Nothing)));
        follower.line(assignment(1)).unwrap();
        assert_eq!(follower.broke_off(1.0), RETRY_FIRST);
    }
}
