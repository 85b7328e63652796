//! Finds jobs by any part of a name, an ID or a label, among those that people still look for.
//!
//! Candidates are tested one by one, as in SQLite, which bounds them to the same window.

use super::jobs::{NAME, summaries_by_number};
use super::reader::{Param, Reader};
use super::row::{Columns, name_list};
use crate::store::select::search::{Window, id_digits};
use crate::store::{FoundJobs, SearchQuery, StoreError};

const LIVE: &str = "job_run WHERE live = 1";
const ENDED: &str = "job_run WHERE live = 0 AND named = 0";
/// Those that are over and that live ones depend on have a separate index.
const NAMED: &str = "job_run WHERE named > 0 AND live = 0";

/// Live jobs before ended ones, and of each the newest first.
pub(super) fn jobs(
    reader: &mut Reader,
    query: &SearchQuery,
    window: &Window,
) -> Result<FoundJobs, StoreError> {
    let text = query.text.to_ascii_lowercase();
    let digits = id_digits(&text).unwrap_or_default();
    let names = name_list(&query.namespaces);
    // The server has no texts with NUL, and names and labels have none either.
    let (text, is_text) = (text.as_str(), !text.contains('\0'));
    let text = if is_text { text } else { "" };
    let mut params = vec![&text as Param<'_>, &digits, &is_text];
    let mut within = "";
    if let Some(names) = &names {
        params.push(names);
        within = "AND namespace = ANY($4)";
    }
    let enough = query.limit as usize + 1;
    let kinds = [
        (LIVE, "number", window.live),
        (NAMED, "number", window.ended),
        (ENDED, "ended_at", window.ended),
    ];
    let (mut numbers, mut is_complete) = (Vec::<i64>::new(), true);
    for (jobs, order, newest) in kinds {
        let sql = format!(
            "SELECT j.number
             FROM (SELECT number, ended_at FROM {jobs} {within}
                   ORDER BY {order} DESC LIMIT {newest}) AS w
                JOIN job AS j ON j.number = w.number
             WHERE $3 AND (position($1::text IN {name}) > 0
                OR ($2::text <> '' AND position($2::text IN encode(j.id, 'hex')) > 0)
                OR (SELECT 1 FROM label AS t
                    WHERE t.id = j.id AND position($1::text IN {label}) > 0 LIMIT 1) IS NOT NULL)
             ORDER BY w.{order} DESC LIMIT {limit}",
            name = lower(&format!("coalesce({NAME}, ''::bytea)")),
            label = lower("(t.key || '\\x3d'::bytea || t.value)"),
            limit = enough - numbers.len(),
        );
        numbers.extend(reader.all(&sql, &params, |row| row.value::<i64>(0))?);
        is_complete &= !exceeds(reader, jobs, names.as_deref(), newest)?;
        if numbers.len() == enough {
            break;
        }
    }
    let more = numbers.len() == enough;
    numbers.truncate(query.limit as usize);
    Ok(FoundJobs { jobs: summaries_by_number(reader, &numbers)?, more, is_complete })
}

/// The text in these bytes, with ASCII letters in lower case; empty if it has a NUL.
fn lower(bytes: &str) -> String {
    format!(
        "CASE WHEN position('\\x00'::bytea IN {bytes}) > 0 THEN ''
            ELSE lower(convert_from({bytes}, 'UTF8') COLLATE \"C\") END"
    )
}

/// Whether there are more of these jobs than this.
fn exceeds(
    reader: &mut Reader,
    jobs: &str,
    names: Option<&[&[u8]]>,
    count: u32,
) -> Result<bool, StoreError> {
    let exists =
        |within| format!("SELECT EXISTS (SELECT 1 FROM {jobs} {within} OFFSET {count} LIMIT 1)");
    match names {
        None => reader.only(&exists(""), &[], |row| row.value(0)),
        Some(names) => {
            reader.only(&exists("AND namespace = ANY($1)"), &[&names], |row| row.value(0))
        }
    }
}
