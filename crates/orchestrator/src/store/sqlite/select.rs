//! Which jobs belong on a page: a [`JobQuery`] becomes SQL that walks one index.
//!
//! A query has filters, and each filter that some index answers is a [`Source`] of candidates; the
//! other filters are tested on each candidate, at about 1 µs (one look into the job's row, one
//! into `label` per requirement). The sources are counted, each up to [`COUNTED`] entries and so
//! for at most 0.1 ms, and then there are two ways:
//!
//! - The smallest source is below that: its candidates are fetched, tested and sorted, so a filter
//!   that matches rarely costs what it matches, in any order and wherever the page begins.
//! - None is: the page is walked in its order until it is full, from the position after which it
//!   begins. By creation this follows the first source that has that order, labels before all
//!   others: `key=value`, `key in (…)` (up to [`MERGED`](filters::MERGED) values, merged), `key`, a name, states,
//!   a type, a namespace, all jobs. By ID it follows all jobs: IDs are random, so what matches is
//!   spread evenly, and a page of `n` costs `n` × jobs ÷ matches steps, at most `n` × jobs ÷
//!   [`COUNTED`] when one filter alone decides.
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

/// Sources are counted up to here. Testing and sorting this many candidates takes about 3 ms.
pub(super) const COUNTED: usize = 2000;

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
    /// Each walk is in order of creation.
    ordered: bool,
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
        let by_creation = matches!(self.query.order, JobOrder::CreateTime);
        let walk = match self.sources.iter().position(|source| source.ordered) {
            // Without anything left to test, nothing is better than this.
            Some(at) if by_creation && self.sources[at].answers.len() >= self.filters.len() => {
                return Ok(self.sources.swap_remove(at));
            }
            at => at.filter(|_| by_creation),
        };
        let mut smallest = None;
        let mut least = self.counted;
        for (at, source) in self.sources.iter().enumerate() {
            let count = self.count(connection, source)?;
            if count < least {
                (smallest, least) = (Some(at), count);
            }
        }
        match (smallest, walk) {
            (Some(at), _) if !self.is_dense(connection, least)? => Ok(self.sources.swap_remove(at)),
            (_, Some(at)) => Ok(self.sources.swap_remove(at)),
            (_, None) => Ok(Source::all_jobs(if by_creation { "job_time" } else { "job_id" })),
        }
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

    /// Entries of the source, as far as they are counted.
    fn count(&self, connection: &Connection, source: &Source) -> Result<usize, StoreError> {
        if !source.countable {
            return Ok(self.counted);
        }
        // Where the range is no part of the index, what lies outside of it would be walked past.
        let range = if source.ordered { self.range.as_str() } else { "" };
        let mut count = 0;
        for Arm { index, condition } in &source.arms {
            let (entries, enough) = (index.entries(), self.counted);
            let sql = format!(
                "SELECT count(*) FROM
                    (SELECT 1 FROM {entries} WHERE {condition} {range} LIMIT {enough})"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let known = statement.parameter_count().min(self.parameters.0.len());
            let parameters = params_from_iter(&self.parameters.0[..known]);
            let entries: i64 = statement.query_row(parameters, |row| row.get(0))?;
            count += usize::try_from(entries).unwrap_or(enough);
            if count >= enough {
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
    fn all_jobs(index: &'static str) -> Self {
        let arms = vec![Arm::job(index, "true".to_owned())];
        Self { arms, ordered: true, countable: true, answers: Vec::new() }
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
