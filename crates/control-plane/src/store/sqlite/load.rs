//! Reads the live records through partial indexes, so that all other stored records cost nothing.

use std::collections::HashSet;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use api_types::engine::UnknownWord;
use api_types::job::JobType;
use api_types::{JobId, NodeId};
use rusqlite::{Connection, Row};
use scheduler::change::{Grant, JobRow, Live, LiveJobRow, NodeRow, PendingSlotRow, SlotNode};

use super::row::{self, Id, bad_record, counter, job_state, job_type, job_type_code};
use super::specs::{self, JOIN_NEWEST};
use super::{dependencies, executions, health, indexes, nodes as node_history, outcomes};
use crate::store::StoreError;

pub(super) fn load(
    connection: &mut Connection,
    job: &mut dyn FnMut(LiveJobRow),
) -> Result<Live, StoreError> {
    let connection = connection.transaction()?;
    let last_seq = super::events::last_event(&connection)?;
    live_jobs(&connection, job)?;
    Ok(Live {
        executions: live_executions(&connection)?,
        pending_slots: pending_slots(&connection)?,
        nodes: nodes(&connection)?,
        last_seq,
        covered: covered(&connection)?,
        outcomes: outcomes::load(&connection)?,
        named: dependencies::load(&connection)?,
    })
}

fn live_jobs(connection: &Connection, job: &mut dyn FnMut(LiveJobRow)) -> Result<(), StoreError> {
    let mut statement = connection.prepare(&format!(
        "SELECT j.id, j.state, j.message, j.version, j.revision, j.modify_time, j.start_time,
                j.slots, j.fresh, j.completed, j.evaluation, j.last_event_time, j.waiting_since,
                j.create_time, j.created_at, j.running, j.failed, j.indexes, j.number, j.type,
                j.priority, s.plan, j.failed_slots
             FROM job AS j INDEXED BY job_live {JOIN_NEWEST}
             WHERE j.live = 1 ORDER BY j.number"
    ))?;
    let mut messages = HashSet::new();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let version = counter(row, 3)?;
        job(LiveJobRow {
            row: JobRow {
                id: Id::get(row, 0)?,
                state: job_state(row.get(1)?)?,
                message: shared(&mut messages, row.get(2)?).into(),
                version,
                revision: counter(row, 4)?,
                modify_time: row::time(row, 5)?,
                start_time: row::time_option(row, 6)?,
                running: row.get(15)?,
                failed: row.get(16)?,
                slots: indexes::slots(connection, row.get(18)?, row.get(7)?, row.get(17)?)?,
                fresh: row.get(8)?,
                completed: row.get(9)?,
                failed_slots: row.get(22)?,
                evaluation: Id::get(row, 10)?,
                last_event_time: row::time(row, 11)?,
                waiting_since: row::moment_option(row, 12)?,
                ended_at: None,
                live: true,
            },
            create_time: row::time(row, 13)?,
            created_at: row::moment(row, 14)?,
            job_type: job_type(row.get(19)?)?,
            priority: row.get(20)?,
            plan: specs::plan(connection, row, 21, (row.get(18)?, version))?,
        });
    }
    Ok(())
}

/// The same text, kept once: many jobs wait for the same reason.
fn shared(messages: &mut HashSet<Arc<str>>, message: Arc<str>) -> Arc<str> {
    if let Some(known) = messages.get(&message) {
        return Arc::clone(known);
    }
    messages.insert(Arc::clone(&message));
    message
}

fn live_executions(
    connection: &Connection,
) -> Result<Vec<scheduler::change::ExecutionRow>, StoreError> {
    let columns = executions::COLUMNS;
    let mut statement = connection.prepare(&format!(
        "SELECT {columns} FROM execution AS e INDEXED BY execution_live
            CROSS JOIN job AS j ON j.number = e.job
         WHERE e.live = 1 ORDER BY e.number"
    ))?;
    row::all(&mut statement, [], executions::read_row)
}

fn pending_slots(connection: &Connection) -> Result<Vec<PendingSlotRow>, StoreError> {
    let mut statement = connection.prepare(
        "SELECT j.id, p.slot, p.evaluation, p.pinned, p.attempt, p.infra_failures,
            p.short_runs, p.exclusions, p.refused_by, p.due, p.previous
         FROM pending_slot AS p CROSS JOIN job AS j ON j.number = p.job
         ORDER BY p.job, p.slot",
    )?;
    row::all(&mut statement, [], |row| {
        Ok(PendingSlotRow {
            job: Id::get(row, 0)?,
            index: row.get(1)?,
            evaluation: Id::get(row, 2)?,
            pinned: Id::get_option(row, 3)?,
            tries: row::tries(row, 4)?,
            due: row::moment_option(row, 9)?,
            previous: Id::get_option(row, 10)?,
        })
    })
}

fn nodes(connection: &Connection) -> Result<Vec<NodeRow>, StoreError> {
    let mut statement = connection.prepare(
        "SELECT id, session, membership, connection, eligibility, message, drain_deadline,
            last_heartbeat, silent_since, record, health, history, lease, told_lease,
            joined_at, forgotten, idle_since
         FROM node ORDER BY id",
    )?;
    row::all(&mut statement, [], |row| {
        let record: String = row.get(9)?;
        Ok(NodeRow {
            id: Id::get(row, 0)?,
            session: counter(row, 1)?,
            membership: word(row, 2)?,
            connection: word(row, 3)?,
            eligibility: word(row, 4)?,
            message: row.get(5)?,
            drain_deadline: row::moment_option(row, 6)?,
            last_heartbeat: row::time(row, 7)?,
            silent_since: row::moment_option(row, 8)?,
            health: health::read(row.get(10)?)?,
            grant: Grant { lease: seconds(row, 12)?, kept: seconds(row, 13)? },
            joined_at: row::moment(row, 14)?,
            is_forgotten: row.get(15)?,
            idle_since: row::time_option(row, 16)?,
            history: node_history::from_text(row.get(11)?)?,
            record: Arc::new(serde_json::from_str(&record).map_err(bad_record)?),
        })
    })
}

fn seconds(row: &Row<'_>, column: usize) -> Result<Duration, StoreError> {
    Ok(Duration::from_secs(counter(row, column)?))
}

fn word<T: FromStr<Err = UnknownWord>>(row: &Row<'_>, column: usize) -> Result<T, StoreError> {
    row.get::<_, String>(column)?.parse().map_err(bad_record)
}

/// The node of every slot of live ops and daemon jobs: that of the slot's first execution or, where
/// there is none yet, the one that the slot is pinned to.
///
/// Each slot is queried separately, since a daemon's slot may have had thousands of executions.
fn covered(connection: &Connection) -> Result<Vec<SlotNode>, StoreError> {
    let mut per_node = connection.prepare(
        "SELECT number, id, slots, indexes FROM job INDEXED BY job_live
         WHERE live = 1 AND type IN (?1, ?2) ORDER BY number",
    )?;
    let mut slot_node = connection.prepare(
        "SELECT node, offered_at FROM execution INDEXED BY execution_job
         WHERE job = ?1 AND slot = ?2 ORDER BY create_time LIMIT 1",
    )?;
    let mut pinned = connection.prepare(
        "SELECT pinned, NULL FROM pending_slot WHERE job = ?1 AND slot = ?2 AND pinned NOT NULL",
    )?;
    let types = [job_type_code(JobType::Ops), job_type_code(JobType::Daemon)];
    let per_node = row::all(&mut per_node, types, |row| {
        let slots = indexes::slots(connection, row.get(0)?, row.get(2)?, row.get(3)?)?;
        Ok((row.get::<_, i64>(0)?, JobId::get(row, 1)?, slots))
    })?;
    let mut covered = Vec::new();
    for (number, job, slots) in per_node {
        for index in slots.iter() {
            let key = [number, i64::from(index)];
            let read = |row: &Row<'_>| Ok((NodeId::get(row, 0)?, row::moment_option(row, 1)?));
            let found = match row::one(&mut slot_node, key, read)? {
                None => row::one(&mut pinned, key, read)?,
                some => some,
            };
            covered.extend(found.map(|(node, at)| SlotNode { job, index, node, at }));
        }
    }
    Ok(covered)
}
