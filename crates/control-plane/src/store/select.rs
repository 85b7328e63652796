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
//! The planners of databases do not choose: they would need statistics, and the cost of a query
//! should not change with them. How each is kept from it is in its [`Walker`].
//!
//! Rejected: bitmaps of jobs per label in memory, which make every combination cheap, but cost
//! memory per distinct label and a longer startup.

pub(super) mod executions;
mod filters;
pub(super) mod history;
mod prefix;
pub(super) mod search;

use std::collections::BTreeSet;
use std::marker::PhantomData;

use super::error::StoreError;
use super::parameter::{Parameter, Parameters};
use super::query::{JobOrder, JobQuery, Namespaces};

/// Sources are counted up to this many entries, a cost of every query with two filters. Testing and
/// sorting this many candidates takes about 1.5 ms.
pub(super) const COUNTED: usize = 1000;

/// A database that walks the index it is asked for. Statements have numbered parameters, `?1` and so
/// on, of which they may use a part.
pub(super) trait Walker {
    /// The row that holds the state and the last change of the job `j`.
    const RUN: &'static str;

    /// What follows a column that is to be one of the values in the parameter `list`.
    fn is_any(list: &str) -> String;

    /// The table of an index, for entries `d` that are read from that index.
    fn entries(index: Index) -> String;

    /// The statement that finds the numbers of jobs.
    fn statement(walks: &[Walk<'_>], order: &Order) -> String;

    /// Runs it.
    fn numbers(&mut self, sql: &str, parameters: &[Parameter]) -> Result<Vec<i64>, StoreError>;

    /// Runs a statement that returns one row with these two numbers.
    fn pair(
        &mut self,
        sql: &str,
        parameters: &[Parameter],
    ) -> Result<(i64, Option<i64>), StoreError>;
}

/// A walk of an index, and the test of each job that it finds.
pub(super) struct Walk<'a> {
    pub(super) index: Index,
    /// On the entry `d`.
    pub(super) entry: String,
    /// On the job that the entry names; empty, or it begins with `AND`.
    pub(super) tests: &'a str,
    /// Whether the index is in the order of the page.
    pub(super) is_ordered: bool,
}

/// The order of a page.
pub(super) struct Order {
    pub(super) by: JobOrder,
    pub(super) is_reverse: bool,
    /// One more than the page holds.
    pub(super) limit: i64,
}

/// A query on its way to SQL.
pub(super) struct Selection<'a, W> {
    walker: PhantomData<W>,
    query: &'a JobQuery,
    parameters: Parameters,
    /// Each with the condition that tests it on a job: on its row `j`, or on [`Walker::RUN`].
    filters: Vec<(Filter, String)>,
    /// In order of preference.
    sources: Vec<Source>,
    /// Bounds of the creation time on `d`, an index entry; in order of creation also the position.
    range: String,
    /// The position in order of IDs.
    id_range: String,
    /// The position in order of changes, as a test on [`Walker::RUN`].
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

/// An index of jobs, of their runs, or of labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Index {
    Job(&'static str),
    /// Of the part of a job that changes.
    Run(&'static str),
    Label(&'static str),
    /// The labels in order of IDs and keys.
    LabelId,
}

/// Counted entries of a source.
struct Count {
    entries: usize,
    /// Their span in time, in the direction of the page: the wider, the sparser they are.
    reach: Option<i64>,
}

// === impl Selection ===

impl<'a, W: Walker> Selection<'a, W> {
    pub(super) fn new(query: &'a JobQuery, counted: usize) -> Self {
        let mut selection = Self {
            walker: PhantomData,
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
    pub(super) fn numbers(self, walker: &mut W) -> Result<Vec<i64>, StoreError> {
        if self.query.namespaces == Namespaces::Only(BTreeSet::new()) {
            return Ok(Vec::new());
        }
        let (sql, parameters) = self.statement(walker)?;
        walker.numbers(&sql, &parameters)
    }

    /// What [`Self::numbers`] runs.
    pub(super) fn statement(
        mut self,
        walker: &mut W,
    ) -> Result<(String, Vec<Parameter>), StoreError> {
        let source = self.choose(walker)?;
        Ok((self.sql(&source), self.parameters.0))
    }

    fn choose(&mut self, walker: &mut W) -> Result<Source, StoreError> {
        let is_walk = |source: &Source| source.order == Some(self.query.order);
        if let Some(at) = self.sources.iter().position(|source| {
            // With nothing left to test, nothing is better than this.
            is_walk(source) && source.countable && source.answers.len() >= self.filters.len()
        }) {
            return Ok(self.sources.swap_remove(at));
        }
        let mut counts = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            counts.push(self.count(walker, source)?);
        }
        let smallest = (0..counts.len()).min_by_key(|at| counts[*at].entries);
        if let Some(at) = smallest.filter(|at| counts[*at].entries < self.counted)
            && !self.is_dense(walker, counts[at].entries)?
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
    fn is_dense(&self, walker: &mut W, matches: usize) -> Result<bool, StoreError> {
        match self.query.order {
            JobOrder::CreateTime | JobOrder::ModifyTime => return Ok(false),
            JobOrder::Id => {}
        }
        let last = "(SELECT max(number) FROM job)";
        let (jobs, _) = walker.pair(&format!("SELECT coalesce({last}, 0), {last}"), &[])?;
        if self.filters.len() > 1 && jobs.unsigned_abs() > self.counted as u64 {
            return Ok(false);
        }
        let steps = u128::from(jobs.unsigned_abs()) * (u128::from(self.query.limit) + 1);
        Ok(steps < (matches as u128).pow(2))
    }

    /// Counts the source's entries on the page's side of the position, nearest first.
    fn count(&self, walker: &mut W, source: &Source) -> Result<Count, StoreError> {
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
            let entries = W::entries(*index);
            let sql = format!(
                "SELECT count(*), {farthest}(create_time) FROM
                    (SELECT d.create_time AS create_time FROM {entries}
                     WHERE {condition} {range} {order} LIMIT {enough}) AS counted"
            );
            let (entries, reach) = walker.pair(&sql, &self.parameters.0)?;
            count.entries += usize::try_from(entries).unwrap_or(enough);
            if by_creation && count.entries >= enough {
                count.reach = reach;
                break;
            }
        }
        Ok(count)
    }

    fn sql(&self, source: &Source) -> String {
        let tests: Vec<_> = self
            .filters
            .iter()
            .filter(|(filter, _)| !source.answers.contains(filter))
            .map(|(_, test)| format!(" AND {test}"))
            .collect();
        let tests = format!("{} {}", self.change_range, tests.concat());
        let (range, id_range) = (&self.range, &self.id_range);
        let walk = |Arm { index, condition }: &Arm| Walk {
            index: *index,
            entry: format!("{condition} {range} {id_range}"),
            tests: &tests,
            is_ordered: source.order == Some(self.query.order),
        };
        let walks: Vec<_> = source.arms.iter().map(walk).collect();
        let order = Order {
            by: self.query.order,
            is_reverse: self.query.reverse,
            limit: i64::from(self.query.limit) + 1,
        };
        W::statement(&walks, &order)
    }
}

// === impl Source, Arm, Index, Order ===

impl Source {
    fn all_jobs(order: JobOrder) -> Self {
        let index = match order {
            JobOrder::CreateTime => Index::Job("job_time"),
            JobOrder::ModifyTime => Index::Run("job_modified"),
            JobOrder::Id => Index::Job("job_id"),
        };
        let arms = vec![Arm { index, condition: "true".to_owned() }];
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
    /// The number of the job of an entry `d`.
    pub(super) const fn number(self) -> &'static str {
        match self {
            Self::Job(_) | Self::Run(_) => "d.number",
            Self::Label(_) | Self::LabelId => "d.job",
        }
    }
}

impl Order {
    /// The terms of the order, from the columns of its times and of IDs.
    pub(super) fn by(&self, create_time: &str, modify_time: &str, id: &str) -> String {
        let direction = if self.is_reverse { "DESC" } else { "ASC" };
        match self.by {
            JobOrder::CreateTime => format!("{create_time} {direction}, {id} {direction}"),
            JobOrder::ModifyTime => format!("{modify_time} {direction}, {id} {direction}"),
            JobOrder::Id => format!("{id} {direction}"),
        }
    }
}
