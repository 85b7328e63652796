//! What the requests of one turn need to know.

use std::collections::{HashMap, HashSet};

use api_types::JobId;
use scheduler::time::Moment;

use super::link::Link;
use super::row::{self, Columns, Id, bad_record, moment_value};
use super::values::Param;
use crate::audit::{Chain, Chains};
use crate::records::{Record, RecordKind};
use crate::store::{IdempotencyRow, RequestKey, StoreError};

const KEYS: &str = "
    SELECT i.namespace, i.key, i.stored_at, i.body_hash, i.answer
    FROM unnest($1::bytea[], $2::bytea[]) AS u (namespace, key)
        JOIN idempotency AS i ON i.namespace = u.namespace AND i.key = u.key
    WHERE i.stored_at >= $3::bigint";

const JOBS: &str = "SELECT j.id FROM unnest($1::bytea[]) AS u (id) JOIN job AS j ON j.id = u.id";

const RECORDS: &str = "SELECT kind, key, version, value FROM record ORDER BY kind, key";

/// A follower of an older release may not know all kinds.
const CLUSTER_KEYS: &str = "SELECT kind, key, version, value FROM record
    WHERE kind = convert_to('key', 'UTF8') ORDER BY kind, key";

const CHANGES: &str = "SELECT sequence, hash FROM audit ORDER BY sequence DESC LIMIT 1";

const REST: &str = "SELECT sequence, hash FROM audit_rest ORDER BY sequence DESC LIMIT 1";

/// The rows of these keys that are not older than this.
pub(super) async fn keys(
    link: &mut Link,
    keys: &[RequestKey],
    oldest: Moment,
) -> Result<HashMap<RequestKey, IdempotencyRow>, StoreError> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let params = vec![
        Param::byte_strings(keys.iter().map(|key| &key.namespace)),
        Param::byte_strings(keys.iter().map(|key| &key.key)),
        Param::number(moment_value(oldest)),
    ];
    let mut found = HashMap::new();
    for row in link.query(KEYS, params).await? {
        let key = RequestKey { namespace: row.value(0)?, key: row.value(1)? };
        let stored = IdempotencyRow {
            key: key.clone(),
            stored_at: row::moment(&row, 2)?,
            body_hash: row.value(3)?,
            answer: row.value(4)?,
        };
        found.insert(key, stored);
    }
    Ok(found)
}

/// Those of the IDs that jobs have.
pub(super) async fn jobs(link: &mut Link, ids: &[JobId]) -> Result<HashSet<JobId>, StoreError> {
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let ids = Param::byte_strings(ids.iter().map(|id| id.bytes()));
    link.query(JOBS, vec![ids]).await?.iter().map(|row| Id::get(row, 0)).collect()
}

pub(super) async fn records(link: &mut Link) -> Result<Vec<Record>, StoreError> {
    found(link, RECORDS).await
}

/// The keys of the cluster alone.
pub(super) async fn cluster_keys(link: &mut Link) -> Result<Vec<Record>, StoreError> {
    found(link, CLUSTER_KEYS).await
}

async fn found(link: &Link, sql: &str) -> Result<Vec<Record>, StoreError> {
    let mut records = Vec::new();
    link.stream(sql, |row| {
        let word: String = row.value(0)?;
        let kind = RecordKind::of_word(&word)
            .ok_or_else(|| bad_record(format!("a record of the unknown kind '{word}'")))?;
        let (key, version) = (kind.key(row.value::<String>(1)?), row::counter(row, 2)?);
        records.push(Record { key, version, value: row.value::<String>(3)?.into() });
        Ok(())
    })
    .await?;
    Ok(records)
}

/// Where the chains of the audit log end.
pub(super) async fn audit_chains(link: &mut Link) -> Result<Chains, StoreError> {
    Ok(Chains { changes: end(link, CHANGES).await?, rest: end(link, REST).await? })
}

async fn end(link: &mut Link, sql: &'static str) -> Result<Chain, StoreError> {
    let rows = link.query(sql, Vec::new()).await?;
    let Some(row) = rows.first() else { return Ok(Chain::default()) };
    Ok(Chain { sequence: row::counter(row, 0)?, hash: row.value(1)? })
}
