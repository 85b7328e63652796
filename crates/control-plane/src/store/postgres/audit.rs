//! Records of the audit log.

use api_types::audit::AuditRecord;

use super::reader::{Param, Reader};
use super::row::{Columns, audit_table, from_json, of};
use crate::store::{AuditQuery, Page, StoreError};

pub(super) fn records(
    reader: &mut Reader,
    query: &AuditQuery,
) -> Result<Page<AuditRecord>, StoreError> {
    let (beyond, direction) = if query.reverse { ("<", "DESC") } else { (">", "ASC") };
    let start = if query.reverse { i64::MAX } else { 0 };
    let after = query.after.map_or(start, u64::cast_signed);
    let (user, operation) = (query.user.as_deref(), query.operation.as_deref());
    let (user, operation) = (user.map(str::as_bytes), operation.map(str::as_bytes));
    let mut params = vec![&after as Param<'_>, &query.since.0];
    let mut tests = String::new();
    for (column, value) in [("\"user\"", &user), ("operation", &operation)] {
        if let Some(value) = value {
            params.push(value);
            tests.push_str(&format!(" AND {column} = ${}", params.len()));
        }
    }
    let sql = format!(
        "SELECT record, sequence FROM {} WHERE sequence {beyond} $1 AND time >= $2 {tests}
         ORDER BY sequence {direction} LIMIT {}",
        audit_table(query.chain),
        i64::from(query.limit) + 1
    );
    let items = reader.all(&sql, &params, |row| {
        let (json, sequence): (String, i64) = (row.value(0)?, row.value(1)?);
        of(format_args!("record {sequence} of the audit log"), from_json(&json))
    })?;
    Ok(Page::of(items, query.limit))
}
