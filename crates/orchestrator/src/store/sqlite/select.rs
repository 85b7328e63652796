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
//!   others: `key=value`, `key in (…)` (up to [`MERGED`] values, merged), `key`, a name, states,
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

use std::collections::{BTreeMap, BTreeSet};

use api_types::selector::{Requirement, Test};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::row::{self, Id, job_state_code, job_type_code};
use crate::store::{JobOrder, JobQuery, StoreError};

/// Sources are counted up to here. Testing and sorting this many candidates takes about 3 ms.
pub(super) const COUNTED: usize = 2000;

/// Values or states whose walks are merged; with more, they are tested on each candidate.
const MERGED: usize = 8;

/// The index that a table without rowids is itself.
const LABEL_KEY: &str = "sqlite_autoindex_label_1";

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

/// The integers that a selector permits under one key.
#[derive(Default)]
struct Between {
    above: Option<i64>,
    below: Option<i64>,
    answers: Vec<Filter>,
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

    fn add_labels(&mut self) {
        for (at, Requirement { key, test }) in self.query.selector.requirements.iter().enumerate() {
            let key = self.parameters.bind(key.clone());
            let answers = vec![Filter::Label(at)];
            let (found, condition) = match test {
                Test::Exists => {
                    self.sources.push(Source {
                        arms: vec![Arm::label(LABEL_KEY, format!("d.key = {key}"))],
                        ordered: true,
                        countable: true,
                        answers,
                    });
                    (true, String::new())
                }
                Test::Absent => (false, String::new()),
                Test::In(values) => {
                    let values = self.parameters.bind_each(values);
                    self.add_values(&key, &values, answers);
                    (true, format!("AND t.value IN ({})", values.join(", ")))
                }
                Test::NotIn(values) => {
                    let values = self.parameters.bind_each(values);
                    (false, format!("AND t.value IN ({})", values.join(", ")))
                }
                Test::Greater(bound) => {
                    (true, format!("AND t.integer > {}", self.parameters.bind(*bound)))
                }
                Test::Less(bound) => {
                    (true, format!("AND t.integer < {}", self.parameters.bind(*bound)))
                }
            };
            let found = if found { "IS NOT NULL" } else { "IS NULL" };
            self.filters.push((
                Filter::Label(at),
                format!(
                    "(SELECT 1 FROM label AS t WHERE t.key = {key}
                        AND t.create_time = j.create_time AND t.id = j.id {condition}) {found}"
                ),
            ));
        }
    }

    fn add_values(&mut self, key: &str, values: &[String], answers: Vec<Filter>) {
        let in_index = |condition| Arm::label("label_value", format!("d.key = {key} {condition}"));
        if (1..=MERGED).contains(&values.len()) {
            let arms = values.iter().map(|value| in_index(format!("AND d.value = {value}")));
            let arms = arms.collect();
            self.sources.push(Source { arms, ordered: true, countable: true, answers });
            return;
        }
        let condition = format!("AND d.value IN ({})", values.join(", "));
        let arms = vec![Arm::label(LABEL_KEY, format!("d.key = {key} {condition}"))];
        let walk = Source { arms, ordered: true, countable: false, answers: answers.clone() };
        self.sources.push(walk);
        let arms = vec![in_index(condition)];
        self.sources.push(Source { arms, ordered: false, countable: true, answers });
    }

    /// All that is asked of the integer under one key is one range.
    fn add_integers(&mut self) {
        let mut keys: BTreeMap<&str, Between> = BTreeMap::new();
        for (at, requirement) in self.query.selector.requirements.iter().enumerate() {
            let Requirement { key, test } = requirement;
            match test {
                Test::Greater(bound) => {
                    let between = keys.entry(key).or_default();
                    between.above = between.above.max(Some(*bound));
                    between.answers.push(Filter::Label(at));
                }
                Test::Less(bound) => {
                    let between = keys.entry(key).or_default();
                    between.below = Some(between.below.map_or(*bound, |below| below.min(*bound)));
                    between.answers.push(Filter::Label(at));
                }
                Test::Exists | Test::Absent | Test::In(_) | Test::NotIn(_) => {}
            }
        }
        for (key, Between { above, below, answers }) in keys {
            let mut condition = format!("d.key = {}", self.parameters.bind(key.to_owned()));
            for (sign, bound) in [(">", above), ("<", below)] {
                if let Some(bound) = bound {
                    let bound = self.parameters.bind(bound);
                    condition.push_str(&format!(" AND d.integer {sign} {bound}"));
                }
            }
            self.sources.push(Source {
                arms: vec![Arm::label("label_integer", condition.clone())],
                ordered: false,
                countable: true,
                answers: answers.clone(),
            });
            self.sources.push(Source {
                arms: vec![Arm::label(LABEL_KEY, condition)],
                ordered: true,
                countable: false,
                answers,
            });
        }
    }

    /// A job without a name of its own has its ID for a name.
    fn add_name(&mut self) {
        let Some(text) = &self.query.name else { return };
        let name = self.parameters.bind(text.clone());
        let mut arms = vec![Arm::job("job_name", format!("d.name = {name}"))];
        let mut condition = format!("j.name = {name}");
        if let Some(id) = text.parse::<api_types::JobId>().ok().filter(|id| id.to_string() == *text)
        {
            let id = self.parameters.bind(id.bytes().to_vec());
            arms.push(Arm::job("job_id", format!("d.id = {id} AND d.name IS NULL")));
            condition = format!("({condition} OR (j.name IS NULL AND j.id = {id}))");
        }
        self.filters.push((Filter::Name, condition));
        let answers = vec![Filter::Name];
        self.sources.push(Source { arms, ordered: true, countable: true, answers });
    }

    fn add_states(&mut self) {
        let states: BTreeSet<_> =
            self.query.states.iter().map(|state| job_state_code(*state)).collect();
        if states.is_empty() {
            return;
        }
        let states: Vec<_> = states.into_iter().map(|state| self.parameters.bind(state)).collect();
        self.filters.push((Filter::States, format!("j.state IN ({})", states.join(", "))));
        // There are fewer states than can be merged.
        let arms = states.iter().map(|state| Arm::job("job_state", format!("d.state = {state}")));
        let (arms, answers) = (arms.collect(), vec![Filter::States]);
        self.sources.push(Source { arms, ordered: true, countable: true, answers });
    }

    fn add_type(&mut self) {
        let Some(job_type) = self.query.job_type else { return };
        let code = self.parameters.bind(job_type_code(job_type));
        self.filters.push((Filter::Type, format!("j.type = {code}")));
        let arms = vec![Arm::job("job_type", format!("d.type = {code}"))];
        let answers = vec![Filter::Type];
        self.sources.push(Source { arms, ordered: true, countable: true, answers });
    }

    fn add_namespace(&mut self) {
        let Some(namespace) = &self.query.namespace else { return };
        let namespace = self.parameters.bind(namespace.clone());
        self.filters.push((Filter::Namespace, format!("j.namespace = {namespace}")));
        let arms = vec![Arm::job("job_namespace", format!("d.namespace = {namespace}"))];
        let answers = vec![Filter::Namespace];
        self.sources.push(Source { arms, ordered: true, countable: true, answers });
    }

    /// Of two limits on the same side only the tighter one is written: it is where the walk of an
    /// index begins.
    fn add_ranges(&mut self) {
        let JobQuery { created_after, created_before, order, reverse, after, .. } = *self.query;
        let (mut from, mut to) = (created_after, created_before);
        if let Some(after) = after {
            let id = self.parameters.bind(after.id.bytes().to_vec());
            let beyond = if reverse { "<" } else { ">" };
            match order {
                JobOrder::Id => self.id_range = format!("AND d.id {beyond} {id}"),
                JobOrder::CreateTime => {
                    let limit = if reverse { &mut to } else { &mut from };
                    let is_tighter = match *limit {
                        None => true,
                        Some(to) if reverse => after.create_time < to,
                        Some(from) => after.create_time >= from,
                    };
                    if is_tighter {
                        *limit = None;
                        let time = self.parameters.bind(after.create_time.0);
                        self.range = format!("AND (d.create_time, d.id) {beyond} ({time}, {id})");
                    }
                }
            }
        }
        for (sign, limit) in [(">=", from), ("<", to)] {
            if let Some(limit) = limit {
                let limit = self.parameters.bind(limit.0);
                self.range.push_str(&format!(" AND d.create_time {sign} {limit}"));
            }
        }
        if created_after.is_some() || created_before.is_some() {
            self.sources.push(Source::all_jobs("job_time"));
        }
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
