//! Reads the live records through partial indexes, so that all other stored records cost nothing.

use api_types::job::JobType;
use api_types::{JobId, NodeId};
use rusqlite::{Connection, Row};
use scheduler::change::{Live, LiveJobRow, NodeRow, PendingSlotRow, SlotNode};

use super::row::live::{LiveJobColumns, Messages, NODE_COLUMNS, PENDING_COLUMNS};
use super::row::{self, Columns, Id, counter, job_type_code};
use super::specs::{self, JOIN_NEWEST};
use super::{dependencies, indexes, outcomes};
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
                j.priority, s.plan, j.failed_slots, j.began_at
             FROM job AS j INDEXED BY job_live {JOIN_NEWEST}
             WHERE j.live = 1 ORDER BY j.number"
    ))?;
    let mut messages = Messages::default();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let number = row.value(18)?;
        let plan = specs::plan(connection, row, 21, (number, counter(row, 3)?))?;
        let slots = indexes::slots(connection, number, row.value(7)?, row.value(17)?)?;
        job(row::live::live_job(row, LiveJobColumns { messages: &mut messages, slots, plan })?);
    }
    Ok(())
}

fn live_executions(
    connection: &Connection,
) -> Result<Vec<scheduler::change::ExecutionRow>, StoreError> {
    let columns = row::executions::COLUMNS;
    let mut statement = connection.prepare(&format!(
        "SELECT {columns} FROM execution AS e INDEXED BY execution_live
            CROSS JOIN job AS j ON j.number = e.job
         WHERE e.live = 1 ORDER BY e.number"
    ))?;
    row::all(&mut statement, [], row::executions::read_row)
}

fn pending_slots(connection: &Connection) -> Result<Vec<PendingSlotRow>, StoreError> {
    let mut statement = connection.prepare(&format!(
        "SELECT {PENDING_COLUMNS} FROM pending_slot AS p CROSS JOIN job AS j ON j.number = p.job
         ORDER BY p.job, p.slot"
    ))?;
    row::all(&mut statement, [], row::live::pending_slot)
}

fn nodes(connection: &Connection) -> Result<Vec<NodeRow>, StoreError> {
    let mut statement =
        connection.prepare(&format!("SELECT {NODE_COLUMNS} FROM node ORDER BY id"))?;
    row::all(&mut statement, [], row::live::node)
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
