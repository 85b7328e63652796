//! How an execution ends, and why.

use alloc::format;
use alloc::string::String;

use api_types::execution::ComputeState;
use api_types::protocol::FailureCause;

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    /// The task itself failed or exceeded its time limit.
    Failed {
        timeout: bool,
    },
    /// The execution failed for a reason unrelated to the task.
    Disturbed(Cause),
    /// The run succeeded, but its results cannot be published.
    Unpublished,
    /// The node declined it.
    Declined(Cause),
    /// The node did not answer the offer in time.
    Unanswered,
    /// The orchestrator cannot send the node the specification.
    Unreadable,
    /// The node accepted the offer after the scheduler had withdrawn it.
    Unwanted,
    /// Its node stopped it.
    Cancelled,
}

/// Why an execution failed for reasons unrelated to the task; decides which budget is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The node cannot fetch the image, a module or an input.
    Fetch,
    /// The node may have a defect; no probe of its agent has confirmed it.
    Node,
    /// The node has a defect: a probe of its agent failed as well.
    Defect,
    /// The node refuses this container, and runs others.
    Refused,
    /// The node's agent ended again and again while it handled the execution.
    EndedAgent,
    /// The node fell silent.
    Lost,
    /// An operator forgot or rejected the node.
    Removed,
    /// Something that the task names does not exist yet.
    Missing,
    /// Nothing failed: the node turned out to have no room, or an operator moved the execution.
    Room,
}

// === impl Cause ===

impl Cause {
    /// Whether the node is excluded for the slot for a while.
    pub(crate) const fn excludes(self) -> bool {
        match self {
            Self::Fetch | Self::Node | Self::Defect | Self::Refused | Self::EndedAgent => true,
            Self::Missing | Self::Lost | Self::Removed | Self::Room => false,
        }
    }

    /// Of a report, whose cause is not the task's own; `confirmed` says whether a probe failed too.
    pub(crate) const fn from_report(reported: FailureCause, confirmed: bool) -> Self {
        match reported {
            FailureCause::Fetch => Self::Fetch,
            FailureCause::Refused => Self::Refused,
            FailureCause::Missing => Self::Missing,
            FailureCause::Room => Self::Room,
            FailureCause::Node if confirmed => Self::Defect,
            FailureCause::Node
            | FailureCause::Task
            | FailureCause::Timeout
            | FailureCause::Publish => Self::Node,
        }
    }
}

// === impl End ===

impl End {
    pub(crate) const fn compute_state(self) -> ComputeState {
        match self {
            Self::Completed => ComputeState::Completed,
            Self::Failed { .. } | Self::Disturbed(_) | Self::Unpublished | Self::Unreadable => {
                ComputeState::Failed
            }
            Self::Declined(_) => ComputeState::AskForBidRejected,
            Self::Unwanted => ComputeState::BidRejected,
            Self::Cancelled | Self::Unanswered => ComputeState::Cancelled,
        }
    }
}

impl End {
    pub(crate) const fn default_message(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed { timeout: false } => "failed",
            Self::Failed { timeout: true } => "timed out",
            Self::Disturbed(Cause::Lost | Cause::Removed) => "lost with its node",
            Self::Disturbed(Cause::Refused) => "its node refused to create its container",
            Self::Disturbed(_) => "failed for a reason unrelated to the task",
            Self::Unpublished => "its results cannot be published",
            Self::Declined(_) => "declined by its node",
            Self::Unreadable => "its specification cannot be read",
            Self::Unanswered => "its node did not answer the offer",
            Self::Unwanted => "no longer wanted",
            Self::Cancelled => "stopped on its node",
        }
    }
}

/// What a job says that ends because of this.
pub(crate) fn unreadable(error: &dyn core::fmt::Display) -> String {
    format!(
        "its stored specification cannot be read ({error}): the state database is damaged; submit \
         the job again, or restore the database from a backup"
    )
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use api_types::rows;
    use api_types::testing::flaw;

    use super::*;

    #[test]
    fn every_end_has_words_for_its_user() {
        let causes = rows!(Cause {
            Cause::Fetch => [Cause::Fetch],
            Cause::Node => [Cause::Node],
            Cause::Defect => [Cause::Defect],
            Cause::Refused => [Cause::Refused],
            Cause::EndedAgent => [Cause::EndedAgent],
            Cause::Lost => [Cause::Lost],
            Cause::Removed => [Cause::Removed],
            Cause::Missing => [Cause::Missing],
            Cause::Room => [Cause::Room],
        });
        let mut ends: Vec<_> = causes.iter().map(|(_, cause)| End::Disturbed(*cause)).collect();
        let rows = rows!(End {
            End::Disturbed(_) => [End::Disturbed(Cause::Lost)],
            End::Completed => [End::Completed],
            End::Failed { .. } => [End::Failed { timeout: false }, End::Failed { timeout: true }],
            End::Unpublished => [End::Unpublished],
            End::Declined(_) => [End::Declined(Cause::Room)],
            End::Unanswered => [End::Unanswered],
            End::Unreadable => [End::Unreadable],
            End::Unwanted => [End::Unwanted],
            End::Cancelled => [End::Cancelled],
        });
        ends.extend(rows.into_iter().skip(1).map(|(_, end)| end));
        let said: Vec<_> = ends.iter().map(|end| end.default_message()).collect();
        assert!(said.iter().all(|text| flaw(text).is_none()), "{said:?}");
        let expected = [
            "failed for a reason unrelated to the task",
            "failed for a reason unrelated to the task",
            "failed for a reason unrelated to the task",
            "its node refused to create its container",
            "failed for a reason unrelated to the task",
            "lost with its node",
            "lost with its node",
            "failed for a reason unrelated to the task",
            "failed for a reason unrelated to the task",
            "completed",
            "failed",
            "timed out",
            "its results cannot be published",
            "declined by its node",
            "its node did not answer the offer",
            "its specification cannot be read",
            "no longer wanted",
            "stopped on its node",
        ];
        assert_eq!(said, expected);
    }
}
