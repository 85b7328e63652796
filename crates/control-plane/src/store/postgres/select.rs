//! How PostgreSQL walks an index, without hints.
//!
//! Sessions have no other way to join than to look up the job of each entry, and plan each statement
//! once, for all values. The columns in its conditions have no statistics, so the planner takes all
//! conditions for equally selective, and prefers the index that answers most of them. What else a
//! statement does:
//!
//! - Each walk that is in the order of the page has its own order and limit, or all walks would be
//!   read to their ends before they are merged.
//! - A walk that is not is closed off (`OFFSET 0`), or the planner would walk another index for the
//!   sake of the order.
//! - So is the lookup of an entry's job, or the planner would test all jobs before it walks, if it
//!   takes those that pass for few.

use super::reader::Reader;
use super::row::Columns;
use crate::store::StoreError;
use crate::store::parameter::Parameter;
use crate::store::query::JobOrder;
use crate::store::select::{Index, Order, Walk, Walker};

// === impl Walker ===

impl Walker for Reader {
    const RUN: &'static str = "r";

    fn is_any(list: &str) -> String {
        format!("= ANY({list})")
    }

    fn entries(index: Index) -> String {
        let table = match index {
            Index::Job(_) => "job",
            Index::Run(_) => "job_run",
            Index::Label(_) | Index::LabelId => "label",
        };
        format!("{table} AS d")
    }

    fn statement(walks: &[Walk<'_>], order: &Order) -> String {
        let selects: Vec<_> = walks.iter().map(|walk| select(walk, order)).collect();
        let by = order.by("create_time", "modify_time", "id");
        match selects.as_slice() {
            [one] => one.clone(),
            several => {
                let several = several.join(") UNION ALL (");
                format!("SELECT number FROM (({several})) AS w ORDER BY {by} LIMIT {}", order.limit)
            }
        }
    }

    fn numbers(&mut self, sql: &str, parameters: &[Parameter]) -> Result<Vec<i64>, StoreError> {
        let (sql, parameters) = numbered(sql, parameters);
        let params: Vec<_> = parameters.iter().map(|parameter| *parameter as _).collect();
        self.all(&sql, &params, |row| row.value(0))
    }

    fn pair(
        &mut self,
        sql: &str,
        parameters: &[Parameter],
    ) -> Result<(i64, Option<i64>), StoreError> {
        let (sql, parameters) = numbered(sql, parameters);
        let params: Vec<_> = parameters.iter().map(|parameter| *parameter as _).collect();
        self.only(&sql, &params, |row| Ok((row.value(0)?, row.value(1)?)))
    }
}

fn select(Walk { index, entry, tests, is_ordered }: &Walk<'_>, order: &Order) -> String {
    let number = index.number();
    let is_run = matches!(index, Index::Run(_));
    let modify_time = match (order.by, is_run) {
        (JobOrder::CreateTime | JobOrder::Id, _) => "NULL",
        (JobOrder::ModifyTime, true) => "d.modify_time",
        (JobOrder::ModifyTime, false) => "r.modify_time",
    };
    let entries = <Reader as Walker>::entries(*index);
    let entries = match is_ordered {
        true => entries,
        false => format!("(SELECT * FROM {entries} WHERE {entry} OFFSET 0) AS d"),
    };
    let condition = if *is_ordered { entry } else { "true" };
    let row = |table: &str, name: &str| {
        let lookup = format!("SELECT * FROM {table} AS {name} WHERE {name}.number = {number}");
        format!("JOIN LATERAL ({lookup} OFFSET 0) AS {name} ON true")
    };
    // The entry of a job that is being removed may be left.
    let job = row("job", "j");
    let run = match tests.contains("r.") || modify_time == "r.modify_time" {
        true => row("job_run", "r"),
        false => String::new(),
    };
    let by = order.by("d.create_time", modify_time, "d.id");
    format!(
        "SELECT j.number AS number, d.create_time AS create_time, {modify_time} AS modify_time,
            d.id AS id
         FROM {entries} {job} {run} WHERE {condition} {tests} ORDER BY {by} LIMIT {}",
        order.limit
    )
}

/// The statement with PostgreSQL's numbers of parameters, which allow no gap, and those it uses.
pub(super) fn numbered<'a>(sql: &str, parameters: &'a [Parameter]) -> (String, Vec<&'a Parameter>) {
    let mut parts = sql.split('?');
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    let mut used: Vec<usize> = Vec::new();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        let number: usize = number.parse().expect("parameters are the only question marks");
        let place = used.iter().position(|known| *known == number).unwrap_or_else(|| {
            used.push(number);
            used.len() - 1
        });
        numbered.push_str(&format!("${}{rest}", place + 1));
    }
    (numbered, used.into_iter().map(|number| &parameters[number - 1]).collect())
}
