//! How SQLite walks an index: it is told which (`INDEXED BY`), and in which order to join (`CROSS
//! JOIN`).

use rusqlite::types::{ToSqlOutput, Value};
use rusqlite::{Connection, Statement, ToSql, params_from_iter};

use super::row::{self, Columns};
use crate::store::parameter::Parameter;
use crate::store::select::{Index, Order, Walk, Walker};
use crate::store::{JobOrder, StoreError};

pub(super) struct Sqlite<'c>(pub(super) &'c Connection);

// === impl Walker ===

impl Walker for Sqlite<'_> {
    const RUN: &'static str = "j";

    fn is_any(list: &str) -> String {
        format!("IN (SELECT value FROM json_each({list}))")
    }

    fn entries(index: Index) -> String {
        match index {
            Index::Job(index) | Index::Run(index) => format!("job AS d INDEXED BY {index}"),
            Index::Label(index) => format!("label AS d INDEXED BY {index}"),
            // The index that a table without rowids is itself.
            Index::LabelId => "label AS d INDEXED BY sqlite_autoindex_label_1".to_owned(),
        }
    }

    fn statement(walks: &[Walk<'_>], order: &Order) -> String {
        let select = |Walk { index, entry, tests, .. }: &Walk<'_>| {
            let (entries, number) = (Self::entries(*index), index.number());
            let modified = match (order.by, index) {
                (JobOrder::CreateTime | JobOrder::Id, _) => "",
                // Here the planner sees that the index is in this order.
                (JobOrder::ModifyTime, Index::Job(_) | Index::Run(_)) => {
                    ", d.modify_time AS modify_time"
                }
                (JobOrder::ModifyTime, Index::Label(_) | Index::LabelId) => {
                    ", j.modify_time AS modify_time"
                }
            };
            format!(
                "SELECT j.number AS number, d.create_time AS create_time, d.id AS id {modified}
                 FROM {entries} CROSS JOIN job AS j ON j.number = {number}
                 WHERE {entry} {tests}"
            )
        };
        let selects: Vec<_> = walks.iter().map(select).collect();
        let by = order.by("create_time", "modify_time", "id");
        format!("{} ORDER BY {by} LIMIT {}", selects.join(" UNION ALL "), order.limit)
    }

    fn numbers(&mut self, sql: &str, parameters: &[Parameter]) -> Result<Vec<i64>, StoreError> {
        let mut statement = self.0.prepare_cached(sql)?;
        let parameters = used(&statement, parameters);
        row::all(&mut statement, params_from_iter(parameters), |row| row.value(0))
    }

    fn pair(
        &mut self,
        sql: &str,
        parameters: &[Parameter],
    ) -> Result<(i64, Option<i64>), StoreError> {
        let mut statement = self.0.prepare_cached(sql)?;
        let parameters = used(&statement, parameters);
        row::only(&mut statement, params_from_iter(parameters), |row| {
            Ok((row.value(0)?, row.value(1)?))
        })
    }
}

/// The parameters up to the last that the statement uses: SQLite takes no others.
pub(super) fn used<'p>(statement: &Statement<'_>, parameters: &'p [Parameter]) -> &'p [Parameter] {
    &parameters[..statement.parameter_count().min(parameters.len())]
}

// === impl Parameter ===

impl ToSql for Parameter {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Integer(value) => value.to_sql(),
            Self::Text(text) => text.to_sql(),
            Self::Bytes(bytes) => bytes.to_sql(),
            Self::Texts(texts) => {
                let list: serde_json::Value = texts.iter().cloned().collect();
                Ok(ToSqlOutput::Owned(Value::Text(list.to_string())))
            }
        }
    }
}
