//! Quotas of namespaces of which something is left again, or nothing: who may look for room.

use alloc::sync::Arc;

use crate::queue::group::Entry;
use crate::queue::quota::Change;
use crate::queue::search::Holder;
use crate::settle::group;
use crate::settle::leftover::Settle;
use crate::state::{State, gate};
use crate::turn::Turn;

// === Quotas ===

/// Holds the entries of the namespace that do not fit into its quota any more, or opens the first
/// held one that fits.
///
/// An entry that was opened looks for room on all nodes before the next one is opened.
pub(crate) fn follow(
    settle: &mut Settle,
    state: &mut State,
    turn: &mut Turn<'_>,
    namespace: &Arc<str>,
) {
    settle.backlog.quotas.remove(namespace);
    while let Some(change) = state.queue.quotas.next_change(namespace) {
        if turn.budget.is_spent() {
            settle.backlog.quotas.insert(Arc::clone(namespace));
            state.queue.quotas.begin_closing(namespace);
            return;
        }
        turn.budget.spend();
        match change {
            Change::Hold(Entry::Class(class)) => {
                group::hold_class(settle, state, class, Holder::Quota);
            }
            Change::Hold(entry @ Entry::Job(id)) => {
                state.queue.quotas.hold(entry);
                state.marks.jobs.push(id);
            }
            Change::Open(Entry::Class(class)) => {
                let opened = state.queue.open_to_quota(class);
                state.marks.opened.push(opened);
                return;
            }
            Change::Open(entry @ Entry::Job(id)) => {
                state.queue.quotas.open(entry);
                gate::opened(state, id);
                return;
            }
        }
    }
}
