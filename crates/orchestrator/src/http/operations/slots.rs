//! What became of the indexes of a job: which failed, and how many of each range ended how.

use std::sync::Arc;

use api_types::slots::{DEFAULT_BUCKETS, DescribeSlots, MAX_BUCKETS, SlotBucket};
use api_types::{JobId, routes};
use axum::extract::State;
use control_plane::store::{Reads, StoreError, StoredOutcomes};
use daemon::collect;
use daemon::http::Operations;

use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::error::{Failure, Kind};
use crate::http::lookup;
use crate::http::openapi::{JOB, QUERY, READ, examples, params, refusals};
use crate::http::query::{Number, invalid, query};
use crate::http::respond::json;

/// The longest list of failed indexes, in bytes. Ranges beyond it are in the buckets.
pub(super) const MAX_LIST_BYTES: usize = 4096;

query! {
    struct SlotsQuery {
        from: Option<u64> = ("from", Number, "The first index; 0 when absent.");
        to: Option<u64> = ("to", Number, "The last index; that of the job when absent.");
        buckets: Option<u64> = (
            "buckets",
            Number,
            "The most ranges into which these are divided, 1 to 1,000; 100 when absent."
        );
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(describe))
}

/// Job Slots
///
/// How many indexes of a job completed and failed, which failed, and the same of equal ranges. With
/// `from`, `to` and `buckets`, every single index of a job can be read.
#[utoipa::path(
    get,
    path = routes::JOB_SLOTS,
    operation_id = "describeSlots",
    tag = "Jobs",
    params(params::JobPath, SlotsQuery),
    responses((status = 200, description = "The counts.", body = DescribeSlots, example = json!(examples::describe_slots()))),
    extensions(("x-error-codes" = json!(refusals(&[JOB, QUERY, READ])))),
)]
async fn describe(
    State(api): State<Arc<Api>>,
    access: Access,
    query: SlotsQuery,
    Parameter(text): Parameter,
) -> Handled {
    let most = query.buckets.unwrap_or(DEFAULT_BUCKETS.into());
    let most = u32::try_from(most).ok().filter(|most| (1..=MAX_BUCKETS).contains(most));
    let most = most.ok_or_else(|| invalid(format!("buckets: must be 1 to {MAX_BUCKETS}")))?;
    let (from, to) = (query.from.unwrap_or(0), query.to.unwrap_or(u64::MAX));
    if from > to {
        return Err(invalid(format!("from: {from} is above to ({to})")));
    }
    let read = move |reads: &dyn Reads| {
        let id = lookup::job_id(reads, &access, &text)?;
        let stored = reads.outcomes(id)?.ok_or_else(|| absent(id))?;
        json(&describe_slots(id, &stored, (from, to), most))
    };
    api.read(read).await
}

/// Retention may have removed it in between.
fn absent(id: JobId) -> Failure {
    lookup::absent(Kind::Job, &id.to_string())
}

fn describe_slots(
    job_id: JobId,
    stored: &StoredOutcomes,
    (from, to): (u64, u64),
    most: u32,
) -> DescribeSlots {
    let slots = &stored.slots;
    let whole = stored.outcomes.tally(slots);
    let first = u32::try_from(from).ok().and_then(|from| slots.at_or_above(from));
    let last = u32::try_from(to).unwrap_or(u32::MAX).min(slots.end().saturating_sub(1));
    let mut buckets = Vec::new();
    if let Some(first) = first.filter(|first| *first <= last) {
        let width = (last - first + 1).div_ceil(most);
        for begin in (first..=last).step_by(width as usize) {
            let end = begin.saturating_add(width - 1).min(last);
            let tally = stored.outcomes.tally_within(slots, begin..=end);
            if tally.total > 0 {
                buckets.push(SlotBucket {
                    first: begin,
                    last: end,
                    completed: tally.completed,
                    failed: tally.failed,
                    unfinished: tally.unfinished(),
                });
            }
        }
    }
    DescribeSlots {
        job_id,
        total: whole.total,
        completed: whole.completed,
        failed: whole.failed,
        unfinished: whole.unfinished(),
        running: stored.running,
        failed_indexes: stored.outcomes.failed_text(MAX_LIST_BYTES),
        buckets,
    }
}

/// Lists the failed indexes of a job; reads nothing if `failed`, their number, is 0.
pub(super) fn failed_indexes(
    reads: &dyn Reads,
    id: JobId,
    failed: u32,
) -> Result<String, StoreError> {
    if failed == 0 {
        return Ok(String::new());
    }
    let stored = reads.outcomes(id)?;
    Ok(stored.map(|stored| stored.outcomes.failed_text(MAX_LIST_BYTES)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use api_types::job::JobStateType;
    use scheduler::outcomes::{Outcomes, SlotOutcome};
    use scheduler::slots::Slots;
    use uuid::Uuid;

    use super::*;

    fn stored(slots: &str, failed: &str) -> StoredOutcomes {
        let slots: Slots = slots.parse().unwrap();
        let failed: Slots = failed.parse().unwrap();
        let mut outcomes = Outcomes::default();
        for index in slots.iter() {
            let failed = failed.contains(index);
            let outcome = if failed { SlotOutcome::Failed } else { SlotOutcome::Completed };
            outcomes.record(&slots, index, outcome);
        }
        let (failed, state) = (failed.len(), JobStateType::Failed);
        StoredOutcomes {
            state,
            completed: slots.len() - failed,
            failed,
            running: 0,
            outcomes,
            slots,
        }
    }

    fn shown(stored: &StoredOutcomes, range: (u64, u64), most: u32) -> Vec<[u32; 4]> {
        let shown = describe_slots(JobId::from_uuid(Uuid::nil()), stored, range, most);
        let count =
            |bucket: &SlotBucket| [bucket.first, bucket.last, bucket.completed, bucket.failed];
        shown.buckets.iter().map(count).collect()
    }

    #[test]
    fn buckets_divide_what_is_asked_for() {
        let all = (0, u64::MAX);
        let few = stored("0-9", "1,3");
        assert_eq!(shown(&few, all, 2), [[0, 4, 3, 2], [5, 9, 5, 0]]);
        assert_eq!(shown(&few, all, 3), [[0, 3, 2, 2], [4, 7, 4, 0], [8, 9, 2, 0]]);
        assert_eq!(shown(&few, (1, 3), 100), [[1, 1, 0, 1], [2, 2, 1, 0], [3, 3, 0, 1]]);
        assert_eq!(shown(&few, (9, 7000), 1), [[9, 9, 1, 0]]);
        assert_eq!(shown(&few, (10, 20), 5), [[0_u32; 4]; 0]);
        assert_eq!(shown(&few, (u64::MAX, u64::MAX), 5), [[0_u32; 4]; 0]);
        // A range without an index of the job is left out.
        assert_eq!(shown(&stored("0-1,98-99", "98"), all, 4), [[0, 24, 2, 0], [75, 99, 1, 1]]);
    }
}
