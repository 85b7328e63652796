//! Desired against actual: an execution that the snapshot does not list is unwanted.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use api_types::ExecutionId;
use api_types::protocol::Assignment;

use crate::execution::Phase;

/// Active executions that the snapshot does not list.
pub(super) fn unwanted<'a>(
    held: impl Iterator<Item = (ExecutionId, &'a Phase)>,
    snapshot: &[Assignment],
) -> Vec<ExecutionId> {
    let wanted: BTreeSet<_> = snapshot.iter().map(|assignment| assignment.execution_id).collect();
    let mut unwanted: Vec<_> = held
        .filter(|(id, phase)| !phase.is_done() && !wanted.contains(id))
        .map(|(id, _)| id)
        .collect();
    unwanted.sort_unstable();
    unwanted
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use api_types::Timestamp;
    use api_types::execution::{ComputeState, DesiredState};

    use super::*;
    use crate::boot::BootId;
    use api_types::testing::execution_id as id;

    #[test]
    fn an_execution_missing_from_the_snapshot_is_unwanted() {
        let done = Phase::Done {
            state: ComputeState::Completed,
            message: String::new(),
            finished_at: Timestamp(1),
            unpublished: false,
            kept_bytes: None,
            outcome: None,
        };
        let running = Phase::Running { started_at: Timestamp(1), boot_id: BootId::UNKNOWN };
        let held =
            [(id(1), &running), (id(2), &done), (id(3), &Phase::Accepted), (id(4), &running)];
        let snapshot = [3, 9].map(|number| Assignment {
            execution_id: id(number),
            desired_state: DesiredState::Running,
            compute_state: ComputeState::AskForBid,
            message: String::new(),
            work: None,
        });
        assert_eq!(unwanted(held.into_iter(), &snapshot), [id(1), id(4)]);
        assert_eq!(unwanted(held.into_iter(), &[]), [id(1), id(3), id(4)]);
        assert_eq!(unwanted(core::iter::empty(), &snapshot), []);
    }
}
