//! A model: jobs in plain vectors, and what a query should find among them.

use std::collections::BTreeMap;

use api_types::JobId;
use api_types::Timestamp;
use api_types::job::{JobStateType, JobType, generated_name};
use api_types::selector::{Requirement, Selector, Test};
use scheduler::change::Changes;
use scheduler::time::Moment;

use super::samples::{Put, Random, Sample};
use crate::store::{JobOrder, JobPosition, JobQuery, Namespaces, Store};

const NAMESPACES: [&str; 3] = ["default", "other", "Default"];
const NAMES: [&str; 4] = ["build", "Build", "deploy", "a'b\"c;--"];
const KEYS: [&str; 5] = ["env", "team", "n", "ключ", "a%b_c"];
const VALUES: [&str; 16] = [
    "prod",
    "dev",
    "Prod",
    "",
    "5",
    "05",
    "+5",
    "-3",
    "12",
    "7",
    "x7",
    "9223372036854775807",
    "9223372036854775808",
    "null",
    "prod ",
    "ü",
];
pub(super) const ORDERS: [JobOrder; 3] = [JobOrder::CreateTime, JobOrder::ModifyTime, JobOrder::Id];
/// So few timestamps that many jobs share one.
const MOMENTS: u64 = 20;

pub(in crate::store) struct Model {
    pub jobs: Vec<Sample>,
}

// === impl Model ===

impl Model {
    pub(in crate::store) fn random(random: &mut Random, jobs: usize) -> Self {
        Self { jobs: (0..jobs).map(|_| random_job(random)).collect() }
    }

    /// Stores everything in commits of several sizes, beginning with this number.
    pub(in crate::store) fn store(
        &self,
        store: &mut dyn Store,
        random: &mut Random,
        mut number: u64,
    ) {
        let mut rest = self.jobs.as_slice();
        while !rest.is_empty() {
            let size = usize::try_from(random.below(40)).unwrap() + 1;
            let (now, later) = rest.split_at(size.min(rest.len()));
            let mut changes = Changes::default();
            now.iter().for_each(|sample| sample.add_to(&mut changes));
            store.put(number, &changes, &[]).unwrap();
            number += 1;
            rest = later;
        }
    }

    /// All jobs that the query matches after its position, in its order.
    pub(in crate::store) fn find(&self, query: &JobQuery) -> Vec<JobId> {
        let key = |position: JobPosition| match query.order {
            JobOrder::CreateTime | JobOrder::ModifyTime => (position.time, position.id),
            JobOrder::Id => (Timestamp::ZERO, position.id),
        };
        let mut found: Vec<_> = self
            .jobs
            .iter()
            .filter(|sample| matches(query, sample))
            .map(|sample| key(position(sample, query.order)))
            .collect();
        found.sort_unstable();
        if query.reverse {
            found.reverse();
        }
        found
            .into_iter()
            .skip_while(|at| {
                query.after.map(key).is_some_and(|after| match query.reverse {
                    false => *at <= after,
                    true => *at >= after,
                })
            })
            .map(|(_, id)| id)
            .collect()
    }

    pub(super) fn get(&self, id: JobId) -> &Sample {
        self.jobs.iter().find(|sample| sample.id() == id).expect("the model has what is found")
    }
}

pub(super) fn position(sample: &Sample, order: JobOrder) -> JobPosition {
    order.position(sample.id(), sample.new.create_time, sample.row.modify_time)
}

fn matches(query: &JobQuery, Sample { new, row }: &Sample) -> bool {
    query.namespaces.contain(&new.namespace)
        && query.selector.matches(&new.labels)
        && (query.states.is_empty() || query.states.contains(&row.state))
        && query.job_type.is_none_or(|job_type| job_type == new.job_type)
        && query.name.as_ref().is_none_or(|name| *name == new.name)
        && query.name_prefix.as_ref().is_none_or(|prefix| new.name.starts_with(prefix.as_str()))
        && query.created_after.is_none_or(|after| new.create_time >= after)
        && query.created_before.is_none_or(|before| new.create_time < before)
}

fn random_job(random: &mut Random) -> Sample {
    let mut sample = Sample::job(random);
    let new = &mut sample.new;
    new.create_time = moment(random);
    sample.row.modify_time = moment(random);
    let new = &mut sample.new;
    new.namespace = (*random.pick(&NAMESPACES)).to_owned();
    if random.chance(40) {
        new.name = (*random.pick(&NAMES)).to_owned();
    } else if random.chance(60) {
        let stem = *random.pick(&NAMES);
        new.name = generated_name(stem, new.id);
    }
    new.job_type = *random.pick(JobType::ALL);
    for key in KEYS {
        if random.chance(50) {
            new.labels.insert(key.to_owned(), (*random.pick(&VALUES)).to_owned());
        }
    }
    sample.row.state = *random.pick(JobStateType::ALL);
    let waits = sample.row.state == JobStateType::Queued && random.chance(50);
    sample.row.waiting_since = waits.then_some(Moment(3));
    sample.row.live = !sample.row.state.is_terminal();
    sample
}

fn moment(random: &mut Random) -> Timestamp {
    Timestamp(1_700_000_000_000_000_000 + i64::try_from(random.below(MOMENTS)).unwrap())
}

/// Any filter, order and position.
pub(in crate::store) fn random_query(random: &mut Random, model: &Model) -> JobQuery {
    let mut query =
        JobQuery { limit: 1 + u32::try_from(random.below(12)).unwrap(), ..JobQuery::default() };
    if random.chance(40) {
        let names = (0..random.below(4)).map(|_| (*random.pick(&NAMESPACES)).to_owned());
        query.namespaces = Namespaces::Only(names.collect());
    }
    while random.chance(55) {
        query.selector.requirements.push(random_requirement(random));
    }
    while random.chance(25) {
        query.states.push(*random.pick(JobStateType::ALL));
    }
    if random.chance(15) {
        query.job_type = Some(*random.pick(JobType::ALL));
    }
    if random.chance(15) {
        query.name = Some(random.pick(&model.jobs).new.name.clone());
    }
    if random.chance(15) {
        let name = &random.pick(&model.jobs).new.name;
        let length = usize::try_from(random.below(name.chars().count() as u64 + 1)).unwrap();
        query.name_prefix = Some(name.chars().take(length).collect());
    }
    if random.chance(20) {
        query.created_after = Some(moment(random));
    }
    if random.chance(20) {
        query.created_before = Some(moment(random));
    }
    query.order = *random.pick(&ORDERS);
    query.reverse = random.chance(50);
    if random.chance(60) {
        query.after = Some(match random.chance(80) {
            true => position(random.pick(&model.jobs), query.order),
            false => JobPosition { time: moment(random), id: random.job_id() },
        });
    }
    query
}

fn random_requirement(random: &mut Random) -> Requirement {
    let values = |random: &mut Random, most: u64| -> Vec<String> {
        (0..=random.below(most)).map(|_| (*random.pick(&VALUES)).to_owned()).collect()
    };
    let bound = |random: &mut Random| *random.pick(&[-4, -3, 0, 5, 6, 11, 12, i64::MAX - 1]);
    let test = match random.below(8) {
        0 => Test::Exists,
        1 => Test::Absent,
        2 | 3 => Test::In(values(random, 3)),
        // More values than the store merges.
        4 => Test::In(values(random, 16)),
        5 => Test::NotIn(values(random, 3)),
        6 => Test::Greater(bound(random)),
        _ => Test::Less(bound(random)),
    };
    Requirement { key: (*random.pick(&KEYS)).to_owned(), test }
}

/// A job with these labels.
pub(super) fn labelled(random: &mut Random, labels: &[(&str, &str)]) -> Sample {
    let mut sample = Sample::job(random);
    sample.new.labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect::<BTreeMap<_, _>>();
    sample
}

pub(super) fn equals(key: &str, value: &str) -> Selector {
    let test = Test::In(vec![value.to_owned()]);
    Selector { requirements: vec![Requirement { key: key.to_owned(), test }] }
}
