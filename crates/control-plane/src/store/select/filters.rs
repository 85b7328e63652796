//! The filters of a job query: the test for each, and the indexes that answer it.

use std::collections::{BTreeMap, BTreeSet};

use api_types::JobId;
use api_types::job::GENERATED_DIGITS;
use api_types::selector::{Requirement, Test};

use super::prefix::{generated, ids_with_prefix, prefix_end};
use super::{Arm, Filter, Index, Selection, Source, Walker};
use crate::store::parameter::Parameter;
use crate::store::query::{JobOrder, JobQuery, Namespaces};
use crate::store::row::{Id, job_state_code, job_type_code};

/// Values or states whose walks are merged; a larger set is tested on each candidate.
pub(super) const MERGED: usize = 8;

/// Namespaces whose indexes are merged; a page of more walks the jobs in its order.
const MERGED_NAMESPACES: usize = 8;

/// The values of a requirement, as parts of a statement.
struct Set {
    /// What follows a column that is to be one of them.
    list: String,
    /// Each value, if there are few enough to merge a walk for each.
    each: Vec<String>,
}

/// The integers that a selector permits under one key.
#[derive(Default)]
struct Between {
    above: Option<i64>,
    below: Option<i64>,
    answers: Vec<Filter>,
}

// === impl Selection ===

impl<W: Walker> Selection<'_, W> {
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
                    let values = self.bind_set(values);
                    self.add_values(&key, &values, answers);
                    (true, format!("AND t.value {}", values.list))
                }
                Test::NotIn(values) => {
                    let values = self.bind_set(values);
                    (false, format!("AND t.value {}", values.list))
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

    fn add_values(&mut self, key: &str, values: &Set, answers: Vec<Filter>) {
        let condition = format!("d.key = {key} AND d.value {}", values.list);
        self.add_by_id(&condition, &answers);
        if !values.each.is_empty() {
            let arms = values
                .each
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
            arms: vec![Arm { index: Index::LabelId, condition: condition.to_owned() }],
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
            let unnamed = format!("{{}}.id = {id} AND {{}}.name IS NULL AND {{}}.stem IS NULL");
            arms.push(Arm::job("job_id", unnamed.replace("{}", "d")));
            condition = format!("({condition} OR ({}))", unnamed.replace("{}", "j"));
        }
        // The digits find a generated name among the few jobs whose ID begins with them.
        if let Some((stem, low, high)) = generated(text)
            .filter(|_| text.rsplit('-').next().map(str::len) == Some(GENERATED_DIGITS))
        {
            let generated = self.generated(stem, low, high);
            arms.push(Arm::job("job_id", generated.replace("{}", "d")));
            condition = format!("({condition} OR ({}))", generated.replace("{}", "j"));
        }
        self.filters.push((Filter::Name, condition));
        self.add_by_creation(arms, Filter::Name);
    }

    /// The condition of jobs with this stem and an ID from `low` to `high`, on the row `{}`.
    fn generated(&mut self, stem: &str, low: Vec<u8>, high: Vec<u8>) -> String {
        let stem = self.parameters.bind(stem.to_owned());
        let (low, high) = (self.parameters.bind(low), self.parameters.bind(high));
        format!("{{}}.id BETWEEN {low} AND {high} AND {{}}.stem = {stem}")
    }

    /// Of jobs whose name is their ID, the beginning of that; of generated names the beginning of
    /// the stem, or the whole stem and the beginning of the digits.
    pub(super) fn add_name_prefix(&mut self) {
        let Some(prefix) = &self.query.name_prefix else { return };
        let from = self.parameters.bind(prefix.clone());
        let mut bounds = format!("{{}} >= {from}");
        if let Some(end) = prefix_end(prefix) {
            let end = self.parameters.bind(end);
            bounds.push_str(&format!(" AND {{}} < {end}"));
        }
        // Each a walk of an index, and its condition on the row `{}`; disjoint.
        let mut walks = vec![
            ("job_name", bounds.replace("{}", "{}.name")),
            ("job_stem", bounds.replace("{}", "{}.stem")),
        ];
        if let Some((low, high)) = ids_with_prefix(prefix) {
            let (low, high) = (self.parameters.bind(low), self.parameters.bind(high));
            let unnamed = "{}.name IS NULL AND {}.stem IS NULL";
            walks.push(("job_id", format!("{{}}.id BETWEEN {low} AND {high} AND {unnamed}")));
        }
        if let Some((stem, low, high)) = generated(prefix) {
            walks.push(("job_id", self.generated(stem, low, high)));
        }
        let arm = |(index, on): &(&'static str, String)| Arm::job(index, on.replace("{}", "d"));
        let arms = walks.iter().map(arm).collect();
        let tests: Vec<_> =
            walks.iter().map(|(_, on)| format!("({})", on.replace("{}", "j"))).collect();
        self.filters.push((Filter::NamePrefix, format!("({})", tests.join(" OR "))));
        let answers = vec![Filter::NamePrefix];
        self.sources.push(Source { arms, order: None, countable: true, answers });
    }

    pub(super) fn add_states(&mut self) {
        let states: BTreeSet<_> =
            self.query.states.iter().map(|state| job_state_code(*state)).collect();
        if states.is_empty() {
            return;
        }
        let states: Vec<_> = states.into_iter().map(|state| self.parameters.bind(state)).collect();
        let run = W::RUN;
        self.filters.push((Filter::States, format!("{run}.state IN ({})", states.join(", "))));
        // There are fewer states than can be merged.
        let arm = |state: &String| Arm {
            index: Index::Run("job_state"),
            condition: format!("d.state = {state}"),
        };
        self.add_by_creation(states.iter().map(arm).collect(), Filter::States);
    }

    pub(super) fn add_type(&mut self) {
        let Some(job_type) = self.query.job_type else { return };
        let code = self.parameters.bind(job_type_code(job_type));
        self.filters.push((Filter::Type, format!("j.type = {code}")));
        let arms = vec![Arm::job("job_type", format!("d.type = {code}"))];
        self.add_by_creation(arms, Filter::Type);
    }

    pub(super) fn add_namespace(&mut self) {
        let Namespaces::Only(names) = &self.query.namespaces else { return };
        if names.is_empty() {
            return;
        }
        let names: Vec<_> = names.iter().map(|name| self.parameters.bind(name.clone())).collect();
        self.filters.push((Filter::Namespace, format!("j.namespace IN ({})", names.join(", "))));
        if names.len() > MERGED_NAMESPACES {
            return;
        }
        let arm = |name: &String| Arm::job("job_namespace", format!("d.namespace = {name}"));
        self.add_by_creation(names.iter().map(arm).collect(), Filter::Namespace);
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
                JobOrder::ModifyTime => {
                    let time = self.parameters.bind(after.time.0);
                    let position = format!("modify_time, {{}}id) {beyond} ({time}, {id})");
                    self.change_start = format!("(d.{}", position.replace("{}", "d."));
                    self.change_range = format!(
                        "AND ({0}.{1}",
                        W::RUN,
                        position.replace("{}", &format!("{}.", W::RUN))
                    );
                }
                JobOrder::Id => self.id_range = format!("AND d.id {beyond} {id}"),
                JobOrder::CreateTime => {
                    let limit = if reverse { &mut to } else { &mut from };
                    let is_tighter = match *limit {
                        None => true,
                        Some(to) if reverse => after.time < to,
                        Some(from) => after.time >= from,
                    };
                    if is_tighter {
                        *limit = None;
                        let time = self.parameters.bind(after.time.0);
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

    /// Many values are one parameter, so that one statement serves any number of them.
    fn bind_set(&mut self, values: &[String]) -> Set {
        let distinct: BTreeSet<_> = values.iter().cloned().collect();
        if (1..=MERGED).contains(&distinct.len()) {
            let each: Vec<_> =
                distinct.into_iter().map(|value| self.parameters.bind(value)).collect();
            return Set { list: format!("IN ({})", each.join(", ")), each };
        }
        let values = self.parameters.bind(Parameter::Texts(distinct.into_iter().collect()));
        Set { list: W::is_any(&values), each: Vec::new() }
    }
}
