//! Graphs in their columns.

use std::collections::BTreeMap;

use api_types::GraphId;
use api_types::dependency::{Condition, Indexes};
use api_types::engine::UnknownWord;
use api_types::job::JobStateType;

use super::{Columns, Id, bad_record, job_state, of, time};
use crate::store::{StoreError, StoredEdge, StoredGraph, StoredGraphJob, StoredGraphSummary};

/// The columns for [`read_summary`].
pub(in crate::store) const SUMMARY: &str =
    "SELECT number, id, namespace, name, create_time FROM graph";

/// The number, namespace, name and creation of a graph, without its jobs.
pub(in crate::store) fn read_graph(
    row: &impl Columns,
    id: GraphId,
) -> Result<(i64, StoredGraph), StoreError> {
    let (jobs, edges) = (Vec::new(), Vec::new());
    let (namespace, name, create_time) = (row.value(1)?, row.value(2)?, time(row, 3)?);
    Ok((row.value(0)?, StoredGraph { id, namespace, name, create_time, jobs, edges }))
}

/// The name within the graph, the ID, the state and the message of a job.
pub(in crate::store) fn read_job(row: &impl Columns) -> Result<StoredGraphJob, StoreError> {
    let job = Id::get(row, 1)?;
    let state = of(job, row.value(2).and_then(job_state))?;
    Ok(StoredGraphJob { name: row.value(0)?, job, state, message: row.value(3)? })
}

/// The job that is waited for, the one that waits, and the condition.
pub(in crate::store) fn read_edge(row: &impl Columns) -> Result<StoredEdge, StoreError> {
    let word: String = row.value(2)?;
    let condition: Condition = word.parse().map_err(|error: UnknownWord| bad_record(error))?;
    let indexes = if row.value(3)? { Indexes::Same } else { Indexes::All };
    Ok(StoredEdge { from: Id::get(row, 0)?, to: Id::get(row, 1)?, condition, indexes })
}

/// A graph without the counts of its jobs.
pub(in crate::store) fn read_summary(row: &impl Columns) -> Result<StoredGraphSummary, StoreError> {
    Ok(StoredGraphSummary {
        number: row.value::<i64>(0)?.cast_unsigned(),
        id: Id::get(row, 1)?,
        namespace: row.value(2)?,
        name: row.value(3)?,
        create_time: time(row, 4)?,
        jobs: BTreeMap::new(),
    })
}

/// A state and how many jobs have it.
pub(in crate::store) fn read_count(row: &impl Columns) -> Result<(JobStateType, u32), StoreError> {
    Ok((job_state(row.value(0)?)?, row.value(1)?))
}
