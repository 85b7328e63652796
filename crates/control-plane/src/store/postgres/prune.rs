//! Removes expired jobs and idempotency keys, a bounded number of rows at a time.
//!
//! What is removed, and in which order, is as in SQLite: see its `prune.rs`. Here the rows are read
//! first, those of many jobs together, and removed by their keys in one pipeline: one statement for
//! each job and table would be as many round trips.

mod delete;
mod rows;

use std::collections::{HashMap, HashSet, VecDeque};

use scheduler::time::Moment;

use self::rows::{Doomed, Parts};
use super::known::Known;
use super::link::Link;
use super::row::{Columns, moment_value};
use super::values::{Param, Rows, Step, Template, cells};
use super::write::Written;
use crate::store::budget::PROBE_BYTES;
use crate::store::ended::EndedJobs;
use crate::store::{JOB_ROWS, Removal, Removed, Retention, StoreError};

const BEGUN: &str = "SELECT job FROM removal ORDER BY job LIMIT $1::bigint";

const EXPIRED: &str = "
    SELECT number, namespace FROM job_run
    WHERE live = 0 AND named = 0 AND ended_at < $1::bigint ORDER BY ended_at LIMIT $2::bigint";

const OLDEST_OF_NAMESPACE: &str = "
    SELECT number FROM job_run
    WHERE live = 0 AND named = 0 AND namespace = $1::bytea ORDER BY ended_at LIMIT $2::bigint";

const ENDED: &str = "
    SELECT namespace, count(*) FROM job_run
    WHERE live = 0 AND named = 0 GROUP BY namespace";

const EXPIRED_KEYS: &str = "
    SELECT namespace, key FROM idempotency
    WHERE stored_at < $1::bigint ORDER BY stored_at LIMIT $2::bigint";

const DELETE_KEYS: Template = Template::new(
    "DELETE FROM idempotency AS i USING {rows} AS u (namespace, key)
     WHERE i.namespace = u.namespace AND i.key = u.key",
    "bb",
);

/// Writes as much as a usual commit, in a separate transaction.
pub(super) fn fill() -> Step {
    Step::new(
        "INSERT INTO probe (one, filling) VALUES (1, $1::bytea)
         ON CONFLICT (one) DO UPDATE SET filling = excluded.filling",
        vec![Param::bytes(vec![0; PROBE_BYTES as usize])],
    )
}

pub(super) fn empty() -> Step {
    Step::new("DELETE FROM probe", Vec::new())
}

/// None if nothing is due.
pub(super) async fn prune(
    link: &mut Link,
    known: &mut Known,
    ended: &mut EndedJobs,
    now: Moment,
    removal: Removal,
) -> Result<Option<Written>, StoreError> {
    match removal {
        Removal::Keys { oldest, limit } => keys(link, oldest, limit).await,
        Removal::Jobs { retention, rows } => jobs(link, known, ended, retention, now, rows).await,
    }
}

async fn keys(link: &mut Link, oldest: Moment, limit: u32) -> Result<Option<Written>, StoreError> {
    let bounds = [moment_value(oldest), i64::from(limit) + 1].map(Param::number);
    let expired = link.query(EXPIRED_KEYS, bounds.into()).await?;
    if expired.is_empty() {
        return Ok(None);
    }
    let more = expired.len() > limit as usize;
    let mut rows = Rows::new(DELETE_KEYS);
    let mut count = 0;
    for row in expired.iter().take(limit as usize) {
        let (namespace, key): (Vec<u8>, Vec<u8>) = (row.value(0)?, row.value(1)?);
        rows.push(cells![namespace.as_slice(), key.as_slice()]);
        count += 1;
    }
    let steps = rows.step().into_iter().collect();
    Ok(Some(Written { steps, removed: Removed { count, more }, ..Written::default() }))
}

async fn jobs(
    link: &mut Link,
    known: &mut Known,
    ended: &mut EndedJobs,
    retention: Retention,
    now: Moment,
    rows: u32,
) -> Result<Option<Written>, StoreError> {
    // One more than the budget reaches shows whether more is due.
    let most = rows / JOB_ROWS + 2;
    let doomed = candidates(link, known, ended, retention, now, most).await?;
    if doomed.is_empty() {
        return Ok(None);
    }
    let parts = Parts::read(link, &doomed, rows).await?;
    let removal = delete::Deletions::choose(rows, doomed, parts);
    removal.begun.iter().for_each(|namespace| ended.add(namespace, -1));
    // Their IDs may return as other jobs'.
    known.forget_jobs();
    let more_ended = -i64::try_from(removal.begun.len()).unwrap_or(i64::MAX);
    let count = u32::try_from(removal.begun.len()).unwrap_or(u32::MAX);
    let removed = Removed { count, more: removal.more };
    Ok(Some(Written { steps: removal.steps(rows), more_ended, removed }))
}

/// The jobs to remove, the first one first: those whose removal has begun, the expired ones, and the
/// oldest of whichever namespace has most.
async fn candidates(
    link: &mut Link,
    known: &Known,
    ended: &mut EndedJobs,
    retention: Retention,
    now: Moment,
    most: u32,
) -> Result<Vec<Doomed>, StoreError> {
    let limit = || Param::number(most.into());
    let mut doomed = Vec::new();
    for row in link.query(BEGUN, vec![limit()]).await? {
        doomed.push(Doomed { number: row.value(0)?, namespace: None });
    }
    if let Some(oldest) = retention.oldest(now) {
        let params = vec![Param::number(moment_value(oldest)), limit()];
        for row in link.query(EXPIRED, params).await? {
            doomed.push(Doomed { number: row.value(0)?, namespace: Some(row.value(1)?) });
        }
    }
    let new = doomed.iter().filter(|job| job.namespace.is_some()).count() as u64;
    let ended_jobs = known.ended_jobs.cast_unsigned().saturating_sub(new);
    let too_many = retention.count.map_or(0, |count| ended_jobs.saturating_sub(count));
    if too_many > 0 {
        of_largest(link, ended, too_many, most, &mut doomed).await?;
    }
    doomed.truncate(most as usize);
    Ok(doomed)
}

/// Adds the oldest jobs of the namespaces with most.
async fn of_largest(
    link: &mut Link,
    ended: &mut EndedJobs,
    too_many: u64,
    most: u32,
    doomed: &mut Vec<Doomed>,
) -> Result<(), StoreError> {
    let mut counts = Vec::new();
    if !ended.are_counted() {
        for row in link.query(ENDED, Vec::new()).await? {
            counts.push((row.value(0)?, row.value(1)?));
        }
        ended.largest(|| Ok(counts))?;
    }
    let mut left = ended.clone();
    doomed.iter().filter_map(|job| job.namespace.as_deref()).for_each(|name| left.add(name, -1));
    let taken: HashSet<_> = doomed.iter().map(|job| job.number).collect();
    let mut oldest = HashMap::<String, VecDeque<i64>>::new();
    for _ in 0..too_many {
        if doomed.len() >= most as usize {
            break;
        }
        let Some(namespace) = left.largest(|| Ok(Vec::new()))?.map(str::to_owned) else { break };
        if !oldest.contains_key(&namespace) {
            let params =
                vec![Param::bytes(namespace.as_bytes()), Param::number(2 * i64::from(most))];
            let rows = link.query(OLDEST_OF_NAMESPACE, params).await?;
            let numbers = rows.iter().map(|row| row.value(0)).collect::<Result<Vec<i64>, _>>()?;
            let numbers = numbers.into_iter().filter(|number| !taken.contains(number));
            oldest.insert(namespace.clone(), numbers.collect());
        }
        let Some(number) = oldest.get_mut(&namespace).and_then(VecDeque::pop_front) else { break };
        left.add(&namespace, -1);
        doomed.push(Doomed { number, namespace: Some(namespace) });
    }
    Ok(())
}
