//! Names, namespaces and IDs of jobs and executions.

use std::collections::{BTreeSet, HashSet};

use api_types::id::IdPrefix;
use api_types::{ExecutionId, JobId};

use super::jobs::NAME;
use super::reader::{Param, Params, Reader};
use super::row::{Columns, Id, name, name_list};
use crate::store::{Namespaces, StoreError, StoredNames};

pub(super) fn find_jobs(
    reader: &mut Reader,
    prefix: IdPrefix,
    namespaces: &Namespaces,
    limit: u32,
) -> Result<Vec<JobId>, StoreError> {
    find(reader, "SELECT j.id FROM job AS j WHERE j.id", prefix, namespaces, limit)
}

/// Executions of a job that is being removed are not found.
pub(super) fn find_executions(
    reader: &mut Reader,
    prefix: IdPrefix,
    namespaces: &Namespaces,
    limit: u32,
) -> Result<Vec<ExecutionId>, StoreError> {
    let select = "SELECT e.id FROM execution AS e JOIN job AS j ON j.number = e.job WHERE e.id";
    find(reader, select, prefix, namespaces, limit)
}

/// In order of the IDs; `select` ends with the ID.
fn find<T: Id>(
    reader: &mut Reader,
    select: &str,
    prefix: IdPrefix,
    namespaces: &Namespaces,
    limit: u32,
) -> Result<Vec<T>, StoreError> {
    let (low, high) = (prefix.low.into_bytes(), prefix.high.into_bytes());
    let (low, high) = (low.as_slice(), high.as_slice());
    let names = name_list(namespaces);
    let mut params = vec![&low as Param<'_>, &high];
    let mut tests = "";
    if let Some(names) = &names {
        params.push(names);
        tests = "AND j.namespace = ANY($3)";
    }
    let sql = format!("{select} BETWEEN $1 AND $2 {tests} ORDER BY id LIMIT {limit}");
    reader.all(&sql, &params, |row| Id::get(row, 0))
}

pub(super) fn namespace_of(reader: &mut Reader, job: JobId) -> Result<Option<String>, StoreError> {
    let sql = "SELECT namespace FROM job WHERE id = $1";
    reader.one(sql, &[&job.bytes().as_slice()], |row| row.value(0))
}

/// In the order in which they are given.
pub(super) fn jobs_within(
    reader: &mut Reader,
    jobs: &[JobId],
    namespaces: &Namespaces,
) -> Result<Vec<JobId>, StoreError> {
    let ids: Vec<_> = jobs.iter().map(|job| job.bytes().to_vec()).collect();
    let names = name_list(namespaces);
    let mut params = vec![&ids as Param<'_>];
    let mut tests = "";
    if let Some(names) = &names {
        params.push(names);
        tests = "AND namespace = ANY($2)";
    }
    let sql = format!("SELECT id FROM job WHERE id = ANY($1) {tests}");
    let within = reader.all(&sql, &params, |row| JobId::get(row, 0))?;
    let within: HashSet<_> = within.into_iter().collect();
    Ok(jobs.iter().copied().filter(|job| within.contains(job)).collect())
}

pub(super) fn has_jobs(reader: &mut Reader, namespace: &str) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM job WHERE namespace = $1)";
    reader.only(sql, &[&namespace.as_bytes()], |row| row.value(0))
}

/// Names of jobs, and indexes of executions, as far as they are stored.
pub(super) fn names(
    reader: &mut Reader,
    jobs: &BTreeSet<JobId>,
    executions: &BTreeSet<ExecutionId>,
) -> Result<StoredNames, StoreError> {
    let mut names = StoredNames::default();
    if !jobs.is_empty() {
        let ids: Vec<_> = jobs.iter().map(|id| id.bytes().to_vec()).collect();
        let sql = format!("SELECT j.id, {NAME} FROM job AS j WHERE j.id = ANY($1)");
        let params: Params<'_> = &[&ids];
        let found = reader.all(&sql, params, |row| {
            let id = JobId::get(row, 0)?;
            Ok((id, name::get(row, 1, id)?))
        })?;
        names.jobs.extend(found);
    }
    if !executions.is_empty() {
        let ids: Vec<_> = executions.iter().map(|id| id.bytes().to_vec()).collect();
        let sql = "SELECT id, slot FROM execution WHERE id = ANY($1)";
        let found =
            reader.all(sql, &[&ids], |row| Ok((ExecutionId::get(row, 0)?, row.value(1)?)))?;
        names.indexes.extend(found);
    }
    Ok(names)
}
