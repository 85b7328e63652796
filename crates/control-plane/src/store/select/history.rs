//! Selects the events of a job for a page of its history.

use api_types::history::EventType;

use crate::store::HistoryQuery;
use crate::store::parameter::Parameters;
use crate::store::row::Id;
use crate::store::row::events::EVENT;

/// The events after this sequence; `hint` names the index of their jobs, where that is possible.
pub(in crate::store) fn history(
    query: &HistoryQuery,
    after: u64,
    hint: &str,
) -> (String, Parameters) {
    let mut parameters = Parameters::default();
    let job = parameters.bind(query.job.bytes());
    let after = parameters.bind(after.cast_signed());
    let since = parameters.bind(query.since.0);
    let mut tests = String::new();
    match query.event_type {
        None => {}
        Some(EventType::JobLevel) => tests.push_str(" AND execution IS NULL"),
        Some(EventType::ExecutionLevel) => tests.push_str(" AND execution IS NOT NULL"),
        // They are in no job's history.
        Some(EventType::NodeLevel) => tests.push_str(" AND false"),
    }
    if let Some(execution) = query.execution {
        tests.push_str(&format!(" AND execution = {}", parameters.bind(execution.bytes())));
    }
    if let Some(node) = query.node {
        tests.push_str(&format!(" AND node = {}", parameters.bind(node.bytes())));
    }
    let sql = format!(
        "SELECT {EVENT} {hint}
         WHERE job = (SELECT number FROM job WHERE id = {job}) AND seq > {after}
            AND time >= {since} {tests}
         ORDER BY seq LIMIT {}",
        i64::from(query.limit) + 1
    );
    (sql, parameters)
}
