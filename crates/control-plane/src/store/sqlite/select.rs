//! Selects the jobs of a page: a [`JobQuery`] becomes SQL that walks one index.
//!
//! A query has filters. Each filter that an index can answer is a [`Source`] of candidates; the
//! other filters are tested on each candidate, at about 1 µs (one lookup of the job's row, one in
//! `label` per requirement). The sources are counted, each up to [`COUNTED`] entries and so in at
//! most 0.05 ms, and then there are two ways:
//!
//! - The smallest source is below that: its candidates are fetched, tested and sorted, so a rare
//!   filter costs only its matches, in any order and wherever the page begins.
//! - None is: the page is walked in its order until it is full, from its start position. Each
//!   filter has an index in order of creation (for `key in (…)` up to [`MERGED`](filters::MERGED)
//!   are merged), and the walk follows the sparsest one ahead of the position, as the time span of
//!   its counted entries shows. By ID, the walk follows the labels of all jobs, at 0.1 µs for each
//!   irrelevant one, or without labels all jobs: IDs are random, so matches are spread evenly, and
//!   a page of `n` costs `n` × jobs ÷ matches steps, at most `n` × jobs ÷ [`COUNTED`] when one
//!   filter alone decides.
//!
//! The remaining slow cases: filters that each match many and together match few, and `!key`, `!=`
//! and `notin` of what nearly every job has, walk past everything that does not match: 1 µs per job
//! in the worst case. `key>n` and `key<n` that match many walk within the key, at 0.1 µs.
//!
//! SQLite's planner does not choose (`INDEXED BY`, `CROSS JOIN`): it would need statistics, and the
//! cost of a query should not change with them.
//!
//! Rejected: bitmaps of jobs per label in memory, which make every combination cheap, but cost
//! memory per distinct label and a longer startup.

mod filters;
mod prefix;

use std::collections::BTreeSet;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::row;
use crate::store::{JobOrder, JobQuery, Namespaces, StoreError};

/// Sources are counted up to this many entries, a cost of every query with two filters. Testing and
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
    /// Bounds of the creation time on `d`, an index entry; in order of creation also the position.
    range: String,
    /// The position in order of IDs.
    id_range: String,
    /// The position in order of changes, as a test on `j`.
    change_range: String,
    /// The same on `d`, an entry of the index in that order.
    change_start: String,
    /// [`COUNTED`], except in tests.
    counted: usize,
}

/// A condition of the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    Namespace,
    Name,
    NamePrefix,
    Type,
    States,
    /// By its index in the selector.
    Label(usize),
}

/// A way to find candidates for the page.
struct Source {
    /// Walks of an index, to be merged; their entries are disjoint.
    arms: Vec<Arm>,
    /// The order of each walk.
    order: Option<JobOrder>,
    /// Every entry of the walk matches the filter, so counting some of them is cheap.
    countable: bool,
    /// Filters that need no test on the candidates.
    answers: Vec<Filter>,
}

/// One walk: a range of an index.
struct Arm {
    index: Index,
    condition: String,
}

#[derive(Debug, Clone, Copy)]
enum Index {
    Job(&'static str),
    Label(&'static str),
}

/// Values for the numbered parameters of a statement, whose parts may be repeated.
#[derive(Default)]
struct Parameters(Vec<Value>);

/// Counted entries of a source.
struct Count {
    entries: usize,
    /// Their span in time, in the direction of the page: the wider, the sparser they are.
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
            change_range: String::new(),
            change_start: "true".to_owned(),
            counted,
        };
        selection.add_labels();
        selection.add_integers();
        selection.add_name();
        selection.add_name_prefix();
        selection.add_states();
        selection.add_type();
        selection.add_namespace();
        selection.add_ranges();
        selection
    }

    /// The numbers of the page's jobs in order, plus one more if there is one.
    pub(super) fn numbers(mut self, connection: &Connection) -> Result<Vec<i64>, StoreError> {
        if self.query.namespaces == Namespaces::Only(BTreeSet::new()) {
            return Ok(Vec::new());
        }
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
            // With nothing left to test, nothing is better than this.
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
        // Another source of the same filter may provide the density of a walk.
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
            None => self.all_jobs(),
        })
    }

    /// Walks all jobs in the order of the page.
    fn all_jobs(&self) -> Source {
        let mut source = Source::all_jobs(self.query.order);
        if self.query.order == JobOrder::ModifyTime {
            for arm in &mut source.arms {
                arm.condition.clone_from(&self.change_start);
            }
        }
        source
    }

    /// Whether walking all jobs by ID fills the page sooner than sorting this many matches.
    ///
    /// The saving is small, and a walk past mismatches is long: only worthwhile when nothing else
    /// is tested, or there are few jobs.
    fn is_dense(&self, connection: &Connection, matches: usize) -> Result<bool, StoreError> {
        match self.query.order {
            JobOrder::CreateTime | JobOrder::ModifyTime => return Ok(false),
            JobOrder::Id => {}
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
        // Outside a range that the index does not contain, the count would walk past irrelevant
        // entries.
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
        let (range, id_range, change_range) = (&self.range, &self.id_range, &self.change_range);
        let arms: Vec<_> = source
            .arms
            .iter()
            .map(|Arm { index, condition }| {
                let (entries, number) = (index.entries(), index.number());
                let modified = match (self.query.order, index) {
                    (JobOrder::CreateTime | JobOrder::Id, _) => "",
                    // Here the planner sees that the index is in this order.
                    (JobOrder::ModifyTime, Index::Job(_)) => ", d.modify_time AS modify_time",
                    (JobOrder::ModifyTime, Index::Label(_)) => ", j.modify_time AS modify_time",
                };
                format!(
                    "SELECT j.number AS number, d.create_time AS create_time, d.id AS id {modified}
                     FROM {entries} CROSS JOIN job AS j ON j.number = {number}
                     WHERE {condition} {range} {id_range} {change_range} {tests}"
                )
            })
            .collect();
        let direction = if self.query.reverse { "DESC" } else { "ASC" };
        let order = match self.query.order {
            JobOrder::CreateTime => format!("create_time {direction}, id {direction}"),
            JobOrder::ModifyTime => format!("modify_time {direction}, id {direction}"),
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
            JobOrder::ModifyTime => "job_modified",
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
}
