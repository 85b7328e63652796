//! What a load reads of jobs, slots and nodes, in its columns.

use std::collections::HashSet;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use api_types::JobId;
use api_types::engine::UnknownWord;
use scheduler::change::{Grant, JobRow, LiveJobRow, LoadedPlan, NodeRow, PendingSlotRow};
use scheduler::plan::JobPlan;
use scheduler::slots::Slots;

use super::{
    Cell, Columns, Id, bad_record, counter, from_json, health, job_state, job_type, moment,
    moment_option, node_history, of, time, time_option, tries,
};
use crate::store::StoreError;

/// The columns that [`pending_slot`] reads of `pending_slot AS p` and `job AS j`.
pub(in crate::store) const PENDING_COLUMNS: &str = "j.id, p.slot, p.evaluation, p.pinned,
    p.attempt, p.infra_failures, p.short_runs, p.exclusions, p.refused_by, p.due, p.previous";

/// The columns that [`node`] reads.
pub(in crate::store) const NODE_COLUMNS: &str = "id, session, membership, connection, eligibility,
    message, drain_deadline, last_heartbeat, silent_since, record, health, history, lease,
    told_lease, joined_at, forgotten, idle_since";

/// Texts, each kept once: many jobs wait for the same reason.
#[derive(Default)]
pub(in crate::store) struct Messages(HashSet<Arc<str>>);

/// A live job as a load reads it, with what other rows say of it.
pub(in crate::store) struct LiveJobColumns<'m> {
    pub(in crate::store) messages: &'m mut Messages,
    pub(in crate::store) slots: Slots,
    pub(in crate::store) plan: LoadedPlan,
}

// === impl Messages ===

impl Messages {
    fn shared(&mut self, message: String) -> Arc<str> {
        if let Some(known) = self.0.get(message.as_str()) {
            return Arc::clone(known);
        }
        let message = Arc::from(message);
        self.0.insert(Arc::clone(&message));
        message
    }
}

/// Reads a row whose first 24 columns are these: `id, state, message, version, revision,
/// modify_time, start_time, slots, fresh, completed, evaluation, last_event_time, waiting_since,
/// create_time, created_at, running, failed, indexes, number, type, priority, plan, failed_slots,
/// began_at`.
pub(in crate::store) fn live_job(
    row: &impl Columns,
    more: LiveJobColumns<'_>,
) -> Result<LiveJobRow, StoreError> {
    let id = Id::get(row, 0)?;
    of(id, read_live_job(id, row, more))
}

fn read_live_job(
    id: JobId,
    row: &impl Columns,
    LiveJobColumns { messages, slots, plan }: LiveJobColumns<'_>,
) -> Result<LiveJobRow, StoreError> {
    Ok(LiveJobRow {
        row: JobRow {
            id,
            state: job_state(row.value(1)?)?,
            message: messages.shared(row.value(2)?).into(),
            version: counter(row, 3)?,
            revision: counter(row, 4)?,
            modify_time: time(row, 5)?,
            start_time: time_option(row, 6)?,
            running: row.value(15)?,
            failed: row.value(16)?,
            slots,
            fresh: row.value(8)?,
            completed: row.value(9)?,
            failed_slots: row.value(22)?,
            evaluation: Id::get(row, 10)?,
            last_event_time: time(row, 11)?,
            waiting_since: moment_option(row, 12)?,
            ended_at: None,
            live: true,
        },
        create_time: time(row, 13)?,
        created_at: moment(row, 14)?,
        began_at: moment_option(row, 23)?,
        job_type: job_type(row.value(19)?)?,
        priority: row.value(20)?,
        plan,
    })
}

/// The plan in this column, if this release can read it.
pub(in crate::store) fn plan(
    row: &impl Columns,
    column: usize,
    number: i64,
) -> Result<Option<JobPlan>, StoreError> {
    let Cell::Bytes(bytes) = row.cell(column)? else { return Ok(None) };
    let Ok(text) = str::from_utf8(bytes) else { return Ok(None) };
    let read = JobPlan::from_text(text);
    let read = read.inspect_err(|error| tracing::warn!(number, %error, "a stored plan is damaged"));
    Ok(read.ok())
}

pub(in crate::store) fn pending_slot(row: &impl Columns) -> Result<PendingSlotRow, StoreError> {
    Ok(PendingSlotRow {
        job: Id::get(row, 0)?,
        index: row.value(1)?,
        evaluation: Id::get(row, 2)?,
        pinned: Id::get_option(row, 3)?,
        tries: tries(row, 4)?,
        due: moment_option(row, 9)?,
        previous: Id::get_option(row, 10)?,
    })
}

pub(in crate::store) fn node(row: &impl Columns) -> Result<NodeRow, StoreError> {
    let record: String = row.value(9)?;
    Ok(NodeRow {
        id: Id::get(row, 0)?,
        session: counter(row, 1)?,
        membership: word(row, 2)?,
        connection: word(row, 3)?,
        eligibility: word(row, 4)?,
        message: row.value(5)?,
        drain_deadline: moment_option(row, 6)?,
        last_heartbeat: time(row, 7)?,
        silent_since: moment_option(row, 8)?,
        health: health::read(row.value(10)?)?,
        grant: Grant { lease: seconds(row, 12)?, kept: seconds(row, 13)? },
        joined_at: moment(row, 14)?,
        is_forgotten: row.value(15)?,
        idle_since: time_option(row, 16)?,
        history: node_history::from_text(row.value(11)?)?,
        record: Arc::new(from_json(&record)?),
    })
}

fn seconds(row: &impl Columns, column: usize) -> Result<Duration, StoreError> {
    Ok(Duration::from_secs(counter(row, column)?))
}

fn word<T: FromStr<Err = UnknownWord>>(row: &impl Columns, column: usize) -> Result<T, StoreError> {
    row.value::<String>(column)?.parse().map_err(bad_record)
}
