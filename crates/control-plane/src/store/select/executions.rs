//! Selects the executions of a page of those of one job.

use scheduler::slots::Slots;

use crate::store::parameter::Parameters;
use crate::store::row::Id;
use crate::store::{ExecutionOrder, ExecutionQuery};

/// The numbers of the page's executions and of one more, if there is one. `hint` names the index of
/// their jobs; without, the executions of the job are closed off, or a planner might walk all
/// executions in the order of the page.
pub(in crate::store) fn executions(
    query: &ExecutionQuery,
    hint: Option<&str>,
) -> (String, Parameters) {
    let (beyond, direction) = if query.reverse { ("<", "DESC") } else { (">", "ASC") };
    let key = match query.order {
        ExecutionOrder::ModifyTime => Some("modify_time"),
        ExecutionOrder::CreateTime => Some("create_time"),
        ExecutionOrder::Id => None,
        ExecutionOrder::State => Some("compute"),
        ExecutionOrder::Index => Some("slot"),
    };
    let mut parameters = Parameters::default();
    let job = parameters.bind(query.job.bytes());
    let after = match (query.after, key) {
        (None, _) => String::new(),
        (Some(after), None) => format!("AND id {beyond} {}", parameters.bind(after.id.bytes())),
        (Some(after), Some(key)) => {
            let (value, id) = (parameters.bind(after.key), parameters.bind(after.id.bytes()));
            format!("AND ({key}, id) {beyond} ({value}, {id})")
        }
    };
    let order = match key {
        None => format!("id {direction}"),
        Some(key) => format!("{key} {direction}, id {direction}"),
    };
    let states = match query.states.as_slice() {
        [] => String::new(),
        states => {
            let codes: Vec<_> = states.iter().map(|state| u8::from(*state).to_string()).collect();
            format!("AND compute IN ({})", codes.join(", "))
        }
    };
    let slots = query.slots.as_ref().map(within).unwrap_or_default();
    let of_job = format!("WHERE job = (SELECT number FROM job WHERE id = {job}) {slots}");
    let executions = match hint {
        Some(hint) => format!("execution {hint} {of_job}"),
        None => format!("(SELECT * FROM execution {of_job} OFFSET 0) AS closed WHERE true"),
    };
    let sql = format!(
        "SELECT number FROM {executions} {states} {after} ORDER BY {order} LIMIT {}",
        i64::from(query.limit) + 1
    );
    (sql, parameters)
}

/// Executions of these slots. The outer bounds narrow the walk of the index.
fn within(slots: &Slots) -> String {
    let Some(first) = slots.at_or_above(0) else { return "AND false".to_owned() };
    let last = slots.end() - 1;
    let ranges: Vec<_> = slots
        .ranges()
        .map(|range| format!("slot BETWEEN {} AND {}", range.start(), range.end()))
        .collect();
    let ranges = ranges.join(" OR ");
    format!("AND slot BETWEEN {first} AND {last} AND ({ranges})")
}
