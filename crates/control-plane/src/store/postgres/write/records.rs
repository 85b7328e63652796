//! Idempotency keys, records, the audit log and the load of the cluster.
//!
//! Of several changes of one key within a commit the last one counts: a statement changes a row
//! once.

use std::collections::BTreeMap;

use api_types::Timestamp;
use api_types::audit::{AuditChain, AuditRecord};

use super::Writing;
use crate::audit::{AUDIT_RECORDS, CHANGES_KEPT};
use crate::records::{RecordKey, RecordRow};
use crate::store::budget::SURPLUS_AT_ONCE;
use crate::store::postgres::values::{Param, Rows, Step, Template, cells};
use crate::store::row::{bad_record, moment_value};
use crate::store::{IdempotencyRow, LOAD_RETENTION, LoadRow, StoreError};

const KEY: Template = Template::new(
    "INSERT INTO idempotency (namespace, key, stored_at, body_hash, answer) SELECT * FROM {rows}
     ON CONFLICT (namespace, key) DO UPDATE SET stored_at = excluded.stored_at,
        body_hash = excluded.body_hash, answer = excluded.answer",
    "bbnbb",
);

const RECORD: Template = Template::new(
    "INSERT INTO record (kind, key, version, value) SELECT * FROM {rows}
     ON CONFLICT (kind, key) DO UPDATE SET version = excluded.version, value = excluded.value",
    "bbnb",
);

const NO_RECORD: Template = Template::new(
    "DELETE FROM record AS r USING {rows} AS u (kind, key) WHERE r.kind = u.kind AND r.key = u.key",
    "bb",
);

const LOAD: Template = Template::new(
    "INSERT INTO cluster_load (time, sample) SELECT * FROM {rows}
     ON CONFLICT (time) DO UPDATE SET sample = excluded.sample",
    "nb",
);

/// The statements of a chain of the audit log.
struct ChainSql {
    insert: Template,
    remove: &'static str,
}

/// Removal is always of the oldest, so that what stays is a chain without a gap: those up to a
/// sequence, and those before the first that is as new as a time.
macro_rules! chain {
    ($table:literal) => {
        ChainSql {
            insert: Template::new(
                concat!(
                    "INSERT INTO ",
                    $table,
                    " (sequence, time, \"user\", operation, hash, record) SELECT * FROM {rows}"
                ),
                "nnbbbb",
            ),
            remove: concat!(
                "WITH oldest AS (SELECT sequence, time FROM ",
                $table,
                " ORDER BY sequence LIMIT $3::bigint)
                 DELETE FROM ",
                $table,
                " WHERE sequence IN (SELECT sequence FROM oldest)
                    AND (sequence <= $1::bigint OR sequence < coalesce(
                        (SELECT min(sequence) FROM oldest WHERE time >= $2::bigint),
                        9223372036854775807))"
            ),
        }
    };
}

const CHANGES: ChainSql = chain!("audit");
const REST: ChainSql = chain!("audit_rest");

impl Writing<'_> {
    pub(super) fn keys(&mut self, keys: &[IdempotencyRow]) {
        let keys: BTreeMap<_, _> = keys.iter().map(|row| (&row.key, row)).collect();
        let mut rows = Rows::new(KEY);
        for (key, row) in keys {
            rows.push(cells![
                key.namespace.as_str(),
                key.key.as_str(),
                moment_value(row.stored_at),
                &row.body_hash[..],
                row.answer.as_str(),
            ]);
        }
        self.add(rows);
    }

    pub(super) fn records(&mut self, records: &[RecordRow]) {
        let records: BTreeMap<_, _> = records.iter().map(|row| (&row.key, row)).collect();
        let (mut gone, mut rows) = (Rows::new(NO_RECORD), Rows::new(RECORD));
        for (RecordKey { kind, key }, row) in records {
            match &row.value {
                Some(value) => rows.push(cells![kind.word(), key.as_str(), row.version, &**value]),
                None => gone.push(cells![kind.word(), key.as_str()]),
            }
        }
        self.add(gone);
        self.add(rows);
    }

    pub(super) fn audit(&mut self, records: &[AuditRecord]) -> Result<(), StoreError> {
        self.chain(records, AuditChain::Changes, &CHANGES)?;
        self.chain(records, AuditChain::Rest, &REST)
    }

    fn chain(
        &mut self,
        records: &[AuditRecord],
        chain: AuditChain,
        sql: &ChainSql,
    ) -> Result<(), StoreError> {
        let (mut last, mut latest, mut count) = (0, Timestamp::ZERO, 0);
        let mut rows = Rows::new(sql.insert);
        for record in records.iter().filter(|record| record.chain == chain) {
            let time = Timestamp::parse(&record.time).unwrap_or_default();
            (last, latest, count) = (record.sequence, latest.max(time), count + 1);
            rows.push(cells![
                record.sequence,
                time.0,
                record.user.as_str(),
                record.operation.as_str(),
                record.hash.as_str(),
                serde_json::to_string(record).map_err(bad_record)?.as_str(),
            ]);
        }
        self.add(rows);
        let too_many = last.saturating_sub(AUDIT_RECORDS);
        let before = match chain {
            AuditChain::Changes => latest - CHANGES_KEPT,
            AuditChain::Rest => Timestamp::ZERO,
        };
        if count > 0 && (too_many > 0 || before > Timestamp::ZERO) {
            let bounds = [too_many.cast_signed(), before.0, count * i64::from(SURPLUS_AT_ONCE)];
            self.steps.push(Step::new(sql.remove, bounds.map(Param::number).into()));
        }
        Ok(())
    }

    /// Each new row removes the expired ones.
    pub(super) fn loads(&mut self, loads: &[LoadRow]) -> Result<(), StoreError> {
        let samples: BTreeMap<_, _> = loads.iter().map(|row| (row.time, &row.sample)).collect();
        let latest = samples.last_key_value().map(|(time, _)| *time);
        let mut rows = Rows::new(LOAD);
        for (time, sample) in samples {
            let json = serde_json::to_string(sample).map_err(bad_record)?;
            rows.push(cells![time.0, json.as_str()]);
        }
        self.add(rows);
        if let Some(latest) = latest {
            let expired = Param::number((latest - LOAD_RETENTION).0);
            let sql = "DELETE FROM cluster_load WHERE time < $1::bigint";
            self.steps.push(Step::new(sql, vec![expired]));
        }
        Ok(())
    }
}
