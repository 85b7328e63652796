//! Reads the live records through partial indexes, so that all other stored records cost nothing.
//!
//! All of it is one snapshot. The chunks of outcomes come first, because a job's row may need them,
//! and no other statement runs while rows arrive.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use api_types::JobId;
use api_types::job::JobType;
use futures_util::TryStreamExt;
use scheduler::change::{JobOutcomes, Live, LiveJobRow, LoadedPlan, SlotNode};
use scheduler::outcomes::{Chunk, Outcomes};
use scheduler::slots::Slots;
use scheduler::text::Text;
use tokio_postgres::Row;

use super::connection::Database;
use super::link::Link;
use super::named;
use super::row::executions::{self, COLUMNS};
use super::row::live::{self, LiveJobColumns, Messages, NODE_COLUMNS, PENDING_COLUMNS};
use super::row::{self, Columns, Id, bad_record, counter, indexes};
use super::values::Param;
use crate::store::StoreError;

/// A writer's session may wait for this process, which builds its state from the rows.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SET LOCAL idle_in_transaction_session_timeout = 0";

/// Where most stored jobs are live, walking the three indexes of [`JOBS`] side by side takes a fraction
/// of finding each job in two of them.
const MERGE: &str = "SET LOCAL enable_mergejoin = on";
const NO_MERGE: &str = "SET LOCAL enable_mergejoin = off";

/// Slots whose nodes are read together.
const SLOTS_AT_ONCE: usize = 10_000;

const LAST_SEQ: &str = "SELECT last_seq FROM progress WHERE one = 1";

/// Most live jobs wait, and none of their slots has ended.
const CHUNKS: &str = "
    SELECT r.number, o.chunk, o.bits
    FROM job_run AS r JOIN slot_outcome AS o ON o.job = r.number
    WHERE r.live = 1 AND (r.completed + r.failed_slots > 0 OR r.indexes IS NOT NULL)
    ORDER BY r.number, o.chunk";

const FIRST_FAILURES: &str =
    "SELECT job, message FROM first_failure WHERE job = ANY ($1::bigint[])";

const JOBS: &str = "
    SELECT r.id, r.state, r.message, r.version, r.revision, r.modify_time, r.start_time, r.slots,
        r.fresh, r.completed, r.evaluation, r.last_event_time, r.waiting_since, r.create_time,
        j.created_at, r.running, r.failed, r.indexes, r.number, j.type, j.priority, p.plan,
        r.failed_slots, r.began_at
    FROM job_run AS r JOIN job AS j ON j.number = r.number
        LEFT JOIN job_plan AS p ON p.job = r.number AND p.version = r.version
    WHERE r.live = 1 ORDER BY r.number";

/// Each slot is queried separately, since a daemon's slot may have had thousands of executions.
const SLOT_NODES: &str = "
    SELECT u.job, u.slot, x.node, x.offered_at, p.pinned
    FROM unnest($1::bigint[], $2::bigint[]) AS u (job, slot)
        LEFT JOIN LATERAL (SELECT e.node, e.offered_at FROM execution AS e
            WHERE e.job = u.job AND e.slot = u.slot ORDER BY e.create_time LIMIT 1) AS x ON true
        LEFT JOIN pending_slot AS p ON p.job = u.job AND p.slot = u.slot
    ORDER BY u.job, u.slot";

/// The chunks of outcomes that a load may need, by the number of their job.
pub(super) type Chunks = HashMap<i64, Outcomes>;

/// Live jobs of which other rows are read as well.
#[derive(Default)]
struct Further {
    /// Those in which a slot has ended.
    ended: Vec<(i64, JobId)>,
    /// Ops and daemon jobs.
    per_node: Vec<(i64, JobId, Slots)>,
}

pub(super) async fn load(
    database: &Database,
    link: &mut Link,
    job: &mut dyn FnMut(LiveJobRow),
) -> Result<Live, StoreError> {
    link.execute(BEGIN).await?;
    let live = read(database, link, job).await?;
    link.execute("COMMIT").await?;
    Ok(live)
}

async fn read(
    database: &Database,
    link: &mut Link,
    job: &mut dyn FnMut(LiveJobRow),
) -> Result<Live, StoreError> {
    let rows = link.query(LAST_SEQ, Vec::new()).await?;
    let row = rows.first().ok_or_else(|| bad_record("the row progress is missing"))?;
    let last_seq = counter(row, 0)?;
    let chunks = chunks(link).await?;
    link.execute(MERGE).await?;
    let further = jobs(database, link, &chunks, job).await?;
    link.execute(NO_MERGE).await?;
    let sql = format!(
        "SELECT {COLUMNS} FROM execution AS e JOIN job AS j ON j.number = e.job
         WHERE e.live = 1 ORDER BY e.number"
    );
    let mut executions = Vec::new();
    link.stream(&sql, |row| {
        executions.push(executions::read_row(row)?);
        Ok(())
    })
    .await?;
    let sql = format!(
        "SELECT {PENDING_COLUMNS} FROM pending_slot AS p JOIN job AS j ON j.number = p.job
         ORDER BY p.job, p.slot"
    );
    let mut pending_slots = Vec::new();
    link.stream(&sql, |row| {
        pending_slots.push(live::pending_slot(row)?);
        Ok(())
    })
    .await?;
    let mut nodes = Vec::new();
    link.stream(&format!("SELECT {NODE_COLUMNS} FROM node ORDER BY id"), |row| {
        nodes.push(live::node(row)?);
        Ok(())
    })
    .await?;
    Ok(Live {
        executions,
        pending_slots,
        nodes,
        last_seq,
        covered: covered(link, &further.per_node).await?,
        outcomes: outcomes(link, &further.ended, chunks).await?,
        named: named::kept(link).await?,
    })
}

async fn chunks(link: &mut Link) -> Result<Chunks, StoreError> {
    read_chunks(&link.query(CHUNKS, Vec::new()).await?)
}

/// Reads the columns `job, chunk, bits`.
pub(super) fn read_chunks(rows: &[Row]) -> Result<Chunks, StoreError> {
    let mut chunks = Chunks::new();
    for row in rows {
        let bits: Vec<u8> = row.value(2)?;
        let of_job = chunks.entry(row.value(0)?).or_default();
        of_job.insert(row.value(1)?, Chunk::from(bits.into_boxed_slice()));
    }
    Ok(chunks)
}

/// Of the job with this number, whose columns `slots` and `indexes` these are.
fn slots(
    row: &Row,
    count: usize,
    indexes: usize,
    number: i64,
    chunks: &Chunks,
) -> Result<Slots, StoreError> {
    let chunks = || Ok(chunks.get(&number).cloned().unwrap_or_default());
    indexes::slots(row.value(count)?, row.value(indexes)?, chunks)
}

async fn jobs(
    database: &Database,
    link: &mut Link,
    chunks: &Chunks,
    job: &mut dyn FnMut(LiveJobRow),
) -> Result<Further, StoreError> {
    let mut further = Further::default();
    let mut messages = Messages::default();
    let rows = link.rows(JOBS).await?;
    let mut rows = pin!(rows);
    while let Some(row) = rows.try_next().await.map_err(|error| database.classify(error))? {
        let number = row.value(18)?;
        let plan = match live::plan(&row, 21, number)? {
            Some(plan) => LoadedPlan::Stored(plan),
            None => {
                let spec = specification(database, number, row.value(3)?).await?;
                LoadedPlan::Unreadable { spec }
            }
        };
        let slots = row::of(JobId::get(&row, 0)?, slots(&row, 7, 17, number, chunks))?;
        let live = live::live_job(&row, LiveJobColumns { messages: &mut messages, slots, plan })?;
        if live.row.completed > 0 || live.row.failed_slots > 0 {
            further.ended.push((number, live.row.id));
        }
        if matches!(live.job_type, JobType::Ops | JobType::Daemon) {
            further.per_node.push((number, live.row.id, live.row.slots.clone()));
        }
        job(live);
    }
    Ok(further)
}

/// On another session, because the rows of this one are still coming.
async fn specification(
    database: &Database,
    number: i64,
    version: i64,
) -> Result<Arc<str>, StoreError> {
    let mut link = Link::open(database).await?;
    let sql = "SELECT json FROM job_spec WHERE job = $1::bigint AND version = $2::bigint";
    let rows = link.query(sql, [number, version].map(Param::number).into()).await?;
    let json: Option<Vec<u8>> = rows.first().map(|row| row.value(0)).transpose()?;
    Ok(String::from_utf8_lossy(&json.unwrap_or_default()).into())
}

/// The node of every slot of live ops and daemon jobs: that of the slot's first execution or, where
/// there is none yet, the one that the slot is pinned to.
async fn covered(
    link: &mut Link,
    per_node: &[(i64, JobId, Slots)],
) -> Result<Vec<SlotNode>, StoreError> {
    let ids: HashMap<_, _> = per_node.iter().map(|(number, id, _)| (*number, *id)).collect();
    let slots_of = |(number, _, slots): &(i64, JobId, Slots)| {
        let number = *number;
        slots.iter().map(move |slot| (number, slot)).collect::<Vec<_>>()
    };
    let wanted: Vec<_> = per_node.iter().flat_map(slots_of).collect();
    let mut covered = Vec::new();
    for part in wanted.chunks(SLOTS_AT_ONCE) {
        let jobs = Param::numbers(part.iter().map(|(job, _)| *job));
        let slots = Param::numbers(part.iter().map(|(_, slot)| i64::from(*slot)));
        for row in link.query(SLOT_NODES, vec![jobs, slots]).await? {
            let (job, index) = (ids[&row.value(0)?], row.value(1)?);
            let at = row::moment_option(&row, 3)?;
            let node = match Id::get_option(&row, 2)? {
                None => Id::get_option(&row, 4)?,
                some => some,
            };
            covered.extend(node.map(|node| SlotNode { job, index, node, at }));
        }
    }
    Ok(covered)
}

/// Those of live jobs in which a slot has ended.
async fn outcomes(
    link: &mut Link,
    ended: &[(i64, JobId)],
    mut chunks: Chunks,
) -> Result<Vec<JobOutcomes>, StoreError> {
    let mut first_failures: HashMap<i64, Text> = HashMap::new();
    if !ended.is_empty() {
        let jobs = Param::numbers(ended.iter().map(|(number, _)| *number));
        for row in link.query(FIRST_FAILURES, vec![jobs]).await? {
            first_failures.insert(row.value(0)?, Text::from(row.value::<String>(1)?));
        }
    }
    let mut found = Vec::new();
    for (number, job) in ended {
        let first_failure = first_failures.remove(number);
        let outcomes = chunks.remove(number).unwrap_or_default();
        if first_failure.is_some() || outcomes != Outcomes::default() {
            found.push(JobOutcomes { job: *job, outcomes, first_failure });
        }
    }
    Ok(found)
}
