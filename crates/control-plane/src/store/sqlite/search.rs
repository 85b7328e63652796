//! Finds jobs by any part of a name, an ID or a label, among those that people still look for.
//!
//! No index answers this, so candidates are tested one by one: a lookup of the job's row and one in
//! `label` each, 2 µs together. The window bounds that to a fifth of a second. A walk within one
//! namespace also passes the jobs of the others, and ends with the time limit of all searches.

use rusqlite::{Connection, named_params};

use super::row::{self, name_list};
use super::summaries;
use crate::store::select::search::{Window, id_digits};
use crate::store::{FoundJobs, SearchQuery, StoreError};

const IN_NAMESPACE: &str =
    "(:namespaces IS NULL OR namespace IN (SELECT value FROM json_each(:namespaces)))";

const LIVE: &str = "job INDEXED BY job_live WHERE live = 1";
const NEWEST_LIVE: &str = "number DESC";
const ENDED: &str = "job INDEXED BY job_ended WHERE live = 0 AND named = 0";
const NEWEST_ENDED: &str = "ended_at DESC";
/// Those that are over and that live ones depend on have a separate index.
const NAMED: &str = "job INDEXED BY job_named WHERE named > 0 AND live = 0";

/// Live jobs before ended ones, and of each the newest first.
pub(super) fn jobs(
    connection: &Connection,
    query: &SearchQuery,
    window: &Window,
) -> Result<FoundJobs, StoreError> {
    let namespaces = name_list(&query.namespaces)?;
    let text = query.text.to_ascii_lowercase();
    let digits = id_digits(&text).unwrap_or_default();
    let enough = query.limit as usize + 1;
    let kinds = [
        (LIVE, NEWEST_LIVE, window.live),
        (NAMED, NEWEST_LIVE, window.ended),
        (ENDED, NEWEST_ENDED, window.ended),
    ];
    let (mut numbers, mut is_complete) = (Vec::<i64>::new(), true);
    for (jobs, order, newest) in kinds {
        let sql = format!(
            "SELECT j.number
             FROM (SELECT number FROM {jobs} AND {IN_NAMESPACE} ORDER BY {order} LIMIT :newest) AS w
             CROSS JOIN job AS j ON j.number = w.number
             WHERE instr(lower(coalesce({name}, '')), :text) > 0
                OR (:digits <> '' AND instr(lower(hex(j.id)), :digits) > 0)
                OR EXISTS (SELECT 1 FROM label AS t
                           WHERE t.id = j.id AND instr(lower(t.key || '=' || t.value), :text) > 0)
             LIMIT :limit",
            name = summaries::NAME,
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let limit = (enough - numbers.len()) as i64;
        let parameters = named_params! {
            ":namespaces": namespaces, ":newest": newest, ":text": text, ":digits": digits,
            ":limit": limit,
        };
        numbers.extend(row::all(&mut statement, parameters, |row| Ok(row.get::<_, i64>(0)?))?);
        is_complete &= !exceeds(connection, jobs, namespaces.as_deref(), newest)?;
        if numbers.len() == enough {
            break;
        }
    }
    let more = numbers.len() == enough;
    numbers.truncate(query.limit as usize);
    Ok(FoundJobs { jobs: summaries::by_number(connection, &numbers)?, more, is_complete })
}

/// Whether there are more of these jobs than this.
fn exceeds(
    connection: &Connection,
    jobs: &str,
    namespaces: Option<&str>,
    count: u32,
) -> Result<bool, StoreError> {
    let sql =
        format!("SELECT EXISTS (SELECT 1 FROM {jobs} AND {IN_NAMESPACE} LIMIT 1 OFFSET :count)");
    let mut statement = connection.prepare_cached(&sql)?;
    let parameters = named_params! { ":namespaces": namespaces, ":count": count };
    Ok(statement.query_row(parameters, |row| row.get(0))?)
}
