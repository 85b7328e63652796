//! The filters of a job query: the test for each, and the indexes that answer it.

use std::collections::{BTreeMap, BTreeSet};

use api_types::JobId;
use api_types::selector::{Requirement, Test};

use super::{Arm, Filter, Selection, Source};
use crate::store::sqlite::row::{Id, job_state_code, job_type_code};
use crate::store::{JobOrder, JobQuery};

/// Values or states whose walks are merged; a larger set is tested on each candidate.
pub(super) const MERGED: usize = 8;

/// The index that a table without rowids is itself: here, by ID and key.
const LABEL_ID: &str = "sqlite_autoindex_label_1";

/// The integers that a selector permits under one key.
#[derive(Default)]
struct Between {
    above: Option<i64>,
    below: Option<i64>,
    answers: Vec<Filter>,
}

// === impl Selection ===

impl Selection<'_> {
    pub(super) fn add_labels(&mut self) {
        for (at, Requirement { key, test }) in self.query.selector.requirements.iter().enumerate() {
            let key = self.parameters.bind(key.clone());
            let answers = vec![Filter::Label(at)];
            let (found, condition) = match test {
                Test::Exists => {
                    let condition = format!("d.key = {key}");
                    self.add_by_id(&condition, &answers);
                    self.sources.push(Source {
                        arms: vec![Arm::label("label_time", condition)],
                        order: Some(JobOrder::CreateTime),
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
                    "(SELECT 1 FROM label AS t WHERE t.id = j.id
                        AND t.key = {key} {condition}) {found}"
                ),
            ));
        }
    }

    fn add_values(&mut self, key: &str, values: &[String], answers: Vec<Filter>) {
        let condition = format!("d.key = {key} AND d.value IN ({})", values.join(", "));
        self.add_by_id(&condition, &answers);
        if (1..=MERGED).contains(&values.len()) {
            let arms = values
                .iter()
                .map(|value| format!("d.key = {key} AND d.value = {value}"))
                .map(|condition| Arm::label("label_value", condition))
                .collect();
            let order = Some(JobOrder::CreateTime);
            self.sources.push(Source { arms, order, countable: true, answers });
        } else {
            self.add_by_time(&condition, &answers);
            let arms = vec![Arm::label("label_value", condition)];
            self.sources.push(Source { arms, order: None, countable: true, answers });
        }
    }

    /// Walks all labels by ID, and tests each.
    fn add_by_id(&mut self, condition: &str, answers: &[Filter]) {
        self.sources.push(Source {
            arms: vec![Arm::label(LABEL_ID, condition.to_owned())],
            order: Some(JobOrder::Id),
            countable: false,
            answers: answers.to_vec(),
        });
    }

    /// Walks the entries of the key by creation, and tests each.
    fn add_by_time(&mut self, condition: &str, answers: &[Filter]) {
        self.sources.push(Source {
            arms: vec![Arm::label("label_time", condition.to_owned())],
            order: Some(JobOrder::CreateTime),
            countable: false,
            answers: answers.to_vec(),
        });
    }

    /// All conditions on the integer under one key combine into one range.
    pub(super) fn add_integers(&mut self) {
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
            self.add_by_id(&condition, &answers);
            self.add_by_time(&condition, &answers);
            let arms = vec![Arm::label("label_integer", condition)];
            self.sources.push(Source { arms, order: None, countable: true, answers });
        }
    }

    /// The name of a job without one is its ID.
    pub(super) fn add_name(&mut self) {
        let Some(text) = &self.query.name else { return };
        let name = self.parameters.bind(text.clone());
        let mut arms = vec![Arm::job("job_name", format!("d.name = {name}"))];
        let mut condition = format!("j.name = {name}");
        if let Some(id) = text.parse::<JobId>().ok().filter(|id| id.to_string() == *text) {
            let id = self.parameters.bind(id.bytes().to_vec());
            arms.push(Arm::job("job_id", format!("d.id = {id} AND d.name IS NULL")));
            condition = format!("({condition} OR (j.name IS NULL AND j.id = {id}))");
        }
        self.filters.push((Filter::Name, condition));
        self.add_by_creation(arms, Filter::Name);
    }

    pub(super) fn add_states(&mut self) {
        let states: BTreeSet<_> =
            self.query.states.iter().map(|state| job_state_code(*state)).collect();
        if states.is_empty() {
            return;
        }
        let states: Vec<_> = states.into_iter().map(|state| self.parameters.bind(state)).collect();
        self.filters.push((Filter::States, format!("j.state IN ({})", states.join(", "))));
        // There are fewer states than can be merged.
        let arms = states.iter().map(|state| Arm::job("job_state", format!("d.state = {state}")));
        self.add_by_creation(arms.collect(), Filter::States);
    }

    pub(super) fn add_type(&mut self) {
        let Some(job_type) = self.query.job_type else { return };
        let code = self.parameters.bind(job_type_code(job_type));
        self.filters.push((Filter::Type, format!("j.type = {code}")));
        let arms = vec![Arm::job("job_type", format!("d.type = {code}"))];
        self.add_by_creation(arms, Filter::Type);
    }

    pub(super) fn add_namespace(&mut self) {
        let Some(namespace) = &self.query.namespace else { return };
        let namespace = self.parameters.bind(namespace.clone());
        self.filters.push((Filter::Namespace, format!("j.namespace = {namespace}")));
        let arms = vec![Arm::job("job_namespace", format!("d.namespace = {namespace}"))];
        self.add_by_creation(arms, Filter::Namespace);
    }

    fn add_by_creation(&mut self, arms: Vec<Arm>, answers: Filter) {
        let (order, answers) = (Some(JobOrder::CreateTime), vec![answers]);
        self.sources.push(Source { arms, order, countable: true, answers });
    }

    /// Of two bounds on the same side only the tighter one is written: the walk of an index begins
    /// there.
    pub(super) fn add_ranges(&mut self) {
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
            self.sources.push(Source::all_jobs(JobOrder::CreateTime));
        }
    }
}
