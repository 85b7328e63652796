//! Which jobs belong on a page: a [`JobQuery`] becomes SQL that walks one index.
//!
//! A query has filters, and each filter that some index answers is a [`Source`] of candidates; the
//! other filters are tested on each candidate, at about 1 µs (one look into the job's row, one
//! into `label` per requirement). The sources are counted, each up to [`COUNTED`] entries and so
//! for at most 0.05 ms, and then there are two ways:
//!
//! - The smallest source is below that: its candidates are fetched, tested and sorted, so a filter
//!   that matches rarely costs what it matches, in any order and wherever the page begins.
//! - None is: the page is walked in its order until it is full, from the position after which it
//!   begins. Each filter has an index in order of creation (for `key in (…)` up to
//!   [`MERGED`](filters::MERGED) are merged), and the one is followed that is the sparsest ahead
//!   of the position, which the time tells that its counted entries span. By ID, the labels of all
//!   jobs are followed, at 0.1 µs for each that is not asked for, or without labels all jobs: IDs
//!   are random, so what matches is spread evenly, and a page of `n` costs `n` × jobs ÷ matches
//!   steps, at most `n` × jobs ÷ [`COUNTED`] when one filter alone decides.
//!
//! What this leaves: filters that each match many and together match few, and `!key`, `!=` and
//! `notin` of what nearly every job has, walk past everything that does not match: 1 µs per job
//! in the worst case. `key>n` and `key<n` that match many walk within the key, at 0.1 µs.
//!
//! The choice is not left to SQLite's planner (`INDEXED BY`, `CROSS JOIN`): it would need
//! statistics, and what a query costs should not change with them.
//!
//! Rejected: bitmaps of jobs per label in memory, which make every combination cheap, and cost
//! memory per distinct label and a longer start.

mod filters;

use std::collections::BTreeSet;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::row;
use crate::store::{JobOrder, JobQuery, StoreError};

/// Sources are counted up to here, which every query with two filters pays for. Testing and
/// sorting this many candidates takes about 1.5 ms.
pub(super) const COUNTED: usize = 1000;

/// A query on its way to SQL.
pub(super) struct Selection<'a> {
    query: &'a JobQuery,
    parameters: Parameters,
    /// Each with the condition that tests it on `j`, a job's row.
    filters: Vec<(Filter, String)>,
    /// In order of preference.
    sources: Vec<Source>,
    /// Limits of the creation on `d`, an index entry; in order of creation the position too.
    range: String,
    /// The position in order of IDs.
    id_range: String,
    /// [`COUNTED`], except in tests.
    counted: usize,
}

/// A condition of the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    Namespace,
    Name,
    Type,
    States,
    /// By its place in the selector.
    Label(usize),
}

/// What finds candidates for the page.
struct Source {
    /// Walks of an index, to be merged; none has an entry of another.
    arms: Vec<Arm>,
    /// The order that each walk has.
    order: Option<JobOrder>,
    /// All entries that are walked past answer the filter: some of them are counted cheaply.
    countable: bool,
    /// What need not be tested on the candidates.
    answers: Vec<Filter>,
}

/// One walk: where in which index.
struct Arm {
    index: Index,
    condition: String,
}

#[derive(Debug, Clone, Copy)]
enum Index {
    Job(&'static str),
    Label(&'static str),
}

/// Values for the numbered parameters of a statement, whose parts can be repeated.
#[derive(Default)]
struct Parameters(Vec<Value>);

/// Entries of a source, as far as they were counted.
struct Count {
    entries: usize,
    /// How far in time they lie, in the direction of the page: the farther, the sparser they are.
    reach: Option<i64>,
}

// === impl Selection ===

impl<'a> Selection<'a> {
    pub(super) fn new(query: &'a JobQuery, counted: usize) -> Self {
        let mut selection = Self {
            query,
            parameters: Parameters::default(),
            filters: Vec::new(),
            sources: Vec::new(),
            range: String::new(),
            id_range: String::new(),
            counted,
        };
        selection.add_labels();
        selection.add_integers();
        selection.add_name();
        selection.add_states();
        selection.add_type();
        selection.add_namespace();
        selection.add_ranges();
        selection
    }

    /// The numbers of the page's jobs in order, and of one more if there is one.
    pub(super) fn numbers(mut self, connection: &Connection) -> Result<Vec<i64>, StoreError> {
        let source = self.choose(connection)?;
        let sql = self.sql(&source);
        let mut statement = connection.prepare_cached(&sql)?;
        row::all(&mut statement, params_from_iter(&self.parameters.0), |row| Ok(row.get(0)?))
    }

    /// What [`Self::numbers`] runs, for tests of its plan.
    #[cfg(test)]
    pub(super) fn statement(
        mut self,
        connection: &Connection,
    ) -> Result<(String, Vec<Value>), StoreError> {
        let source = self.choose(connection)?;
        Ok((self.sql(&source), self.parameters.0))
    }

    fn choose(&mut self, connection: &Connection) -> Result<Source, StoreError> {
        let is_walk = |source: &Source| source.order == Some(self.query.order);
        if let Some(at) = self.sources.iter().position(|source| {
            // Without anything left to test, nothing is better than this.
            is_walk(source) && source.countable && source.answers.len() >= self.filters.len()
        }) {
            return Ok(self.sources.swap_remove(at));
        }
        let mut counts = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            counts.push(self.count(connection, source)?);
        }
        let smallest = (0..counts.len()).min_by_key(|at| counts[*at].entries);
        if let Some(at) = smallest.filter(|at| counts[*at].entries < self.counted)
            && !self.is_dense(connection, counts[at].entries)?
        {
            return Ok(self.sources.swap_remove(at));
        }
        // How sparse a walk is, the count of another source of the same filter may tell.
        let sparseness = |walk: &Source| {
            let same = self.sources.iter().zip(&counts).filter(|(s, _)| s.answers == walk.answers);
            same.filter_map(|(_, count)| count.reach).max()
        };
        let sparsest = (0..self.sources.len())
            .rev()
            .filter(|at| is_walk(&self.sources[*at]))
            .max_by_key(|at| sparseness(&self.sources[*at]));
        Ok(match sparsest {
            Some(at) => self.sources.swap_remove(at),
            None => Source::all_jobs(self.query.order),
        })
    }

    /// Whether walking all jobs by ID fills the page sooner than sorting so many matches.
    ///
    /// What is spared is little, and a walk past what does not match is long: it is taken only
    /// when nothing else is tested, or there are not many jobs at all.
    fn is_dense(&self, connection: &Connection, matches: usize) -> Result<bool, StoreError> {
        if matches!(self.query.order, JobOrder::CreateTime) {
            return Ok(false);
        }
        let jobs: i64 = connection
            .prepare_cached("SELECT coalesce(max(number), 0) FROM job")?
            .query_row([], |row| row.get(0))?;
        if self.filters.len() > 1 && jobs.unsigned_abs() > self.counted as u64 {
            return Ok(false);
        }
        let steps = u128::from(jobs.unsigned_abs()) * (u128::from(self.query.limit) + 1);
        Ok(steps < (matches as u128).pow(2))
    }

    /// Counts the source's entries on the page's side of the position, nearest first.
    fn count(&self, connection: &Connection, source: &Source) -> Result<Count, StoreError> {
        let enough = self.counted;
        if !source.countable {
            return Ok(Count { entries: enough, reach: None });
        }
        // Where the range is no part of the index, what lies outside of it would be walked past.
        let by_creation = source.order == Some(JobOrder::CreateTime);
        let range = if by_creation { self.range.as_str() } else { "" };
        let (farthest, direction) =
            if self.query.reverse { ("-min", "DESC") } else { ("max", "ASC") };
        let order =
            if by_creation { format!("ORDER BY d.create_time {direction}") } else { String::new() };
        let mut count = Count { entries: 0, reach: None };
        for Arm { index, condition } in &source.arms {
            let entries = index.entries();
            let sql = format!(
                "SELECT count(*), {farthest}(create_time) FROM
                    (SELECT d.create_time AS create_time FROM {entries}
                     WHERE {condition} {range} {order} LIMIT {enough})"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let known = statement.parameter_count().min(self.parameters.0.len());
            let parameters = params_from_iter(&self.parameters.0[..known]);
            let (entries, reach): (i64, Option<i64>) =
                statement.query_row(parameters, |row| Ok((row.get(0)?, row.get(1)?)))?;
            count.entries += usize::try_from(entries).unwrap_or(enough);
            if by_creation && count.entries >= enough {
                count.reach = reach;
                break;
            }
        }
        Ok(count)
    }

    fn sql(&mut self, source: &Source) -> String {
        let tests: Vec<_> = self
            .filters
            .iter()
            .filter(|(filter, _)| !source.answers.contains(filter))
            .map(|(_, test)| format!(" AND {test}"))
            .collect();
        let tests = tests.concat();
        let (range, id_range) = (&self.range, &self.id_range);
        let arms: Vec<_> = source
            .arms
            .iter()
            .map(|Arm { index, condition }| {
                let (entries, number) = (index.entries(), index.number());
                format!(
                    "SELECT j.number AS number, d.create_time AS create_time, d.id AS id
                     FROM {entries} CROSS JOIN job AS j ON j.number = {number}
                     WHERE {condition} {range} {id_range} {tests}"
                )
            })
            .collect();
        let direction = if self.query.reverse { "DESC" } else { "ASC" };
        let order = match self.query.order {
            JobOrder::CreateTime => format!("create_time {direction}, id {direction}"),
            JobOrder::Id => format!("id {direction}"),
        };
        let limit = self.parameters.bind(i64::from(self.query.limit) + 1);
        format!("{} ORDER BY {order} LIMIT {limit}", arms.join(" UNION ALL "))
    }
}

// === impl Source, Arm, Index ===

impl Source {
    fn all_jobs(order: JobOrder) -> Self {
        let index = match order {
            JobOrder::CreateTime => "job_time",
            JobOrder::Id => "job_id",
        };
        let arms = vec![Arm::job(index, "true".to_owned())];
        Self { arms, order: Some(order), countable: true, answers: Vec::new() }
    }
}

impl Arm {
    fn job(index: &'static str, condition: String) -> Self {
        Self { index: Index::Job(index), condition }
    }

    fn label(index: &'static str, condition: String) -> Self {
        Self { index: Index::Label(index), condition }
    }
}

impl Index {
    fn entries(self) -> String {
        match self {
            Self::Job(index) => format!("job AS d INDEXED BY {index}"),
            Self::Label(index) => format!("label AS d INDEXED BY {index}"),
        }
    }

    const fn number(self) -> &'static str {
        match self {
            Self::Job(_) => "d.number",
            Self::Label(_) => "d.job",
        }
    }
}

// === impl Parameters ===

impl Parameters {
    fn bind(&mut self, value: impl Into<Value>) -> String {
        self.0.push(value.into());
        format!("?{}", self.0.len())
    }

    fn bind_each(&mut self, values: &[String]) -> Vec<String> {
        let distinct: BTreeSet<_> = values.iter().collect();
        distinct.into_iter().map(|value| self.bind(value.clone())).collect()
    }
}
