//! Lists of jobs: every filter and order, stable pages, and odd texts.

use api_types::JobId;
use api_types::job::JobStateType;
use api_types::selector::Test;
use scheduler::change::Changes;
use scheduler::text::Text;

use super::model::{Model, ORDERS, equals, labelled, position, random_query};
use super::samples::{Put, Random, Sample};
use super::{Backend, Reads};
use crate::store::{JobOrder, JobQuery, Namespaces, SearchQuery, StoredSummary};

pub(in crate::store) fn every_job_query_agrees_with_the_model(backend: &impl Backend) {
    let mut random = Random(20);
    let model = Model::random(&mut random, 300);
    let (mut store, reads) = backend.open();
    model.store(store.as_mut(), &mut random, 1);
    let mut found = 0;
    for _ in 0..3000 {
        let query = random_query(&mut random, &model);
        let expected = model.find(&query);
        let page = reads.jobs(&query).unwrap();
        let ids: Vec<_> = page.items.iter().map(|job| job.id).collect();
        let length = expected.len().min(query.limit as usize);
        assert_eq!(ids, expected[..length], "{query:?}");
        assert_eq!(page.more, expected.len() > length, "{query:?}");
        for job in page.items {
            let Sample { new, row } = model.get(job.id);
            assert_eq!((job.state, job.create_time), (row.state, new.create_time));
            assert_eq!(job.spec_json, new.spec_json);
        }
        let page = reads.summaries(&query).unwrap();
        let ids: Vec<_> = page.items.iter().map(|job| job.id).collect();
        assert_eq!((&ids[..], page.more), (&expected[..length], expected.len() > length));
        for job in page.items {
            assert_eq!(job, summary(model.get(job.id)));
        }
        found += length;
    }
    assert!(found > 3000, "the queries find too little to show anything: {found}");
}

pub(in crate::store) fn a_search_finds_any_part_of_a_name_an_id_or_a_label(backend: &impl Backend) {
    let mut random = Random(21);
    let model = Model::random(&mut random, 300);
    let (mut store, reads) = backend.open();
    model.store(store.as_mut(), &mut random, 1);
    let part = |text: &str, random: &mut Random| -> String {
        let characters: Vec<_> = text.chars().collect();
        let begin = usize::try_from(random.below(characters.len() as u64)).unwrap();
        let length = 1 + usize::try_from(random.below(5)).unwrap();
        characters[begin..].iter().take(length).collect()
    };
    let mut found = 0;
    for _ in 0..500 {
        let sample = random.pick(&model.jobs);
        let id = sample.id().to_string();
        let text = match random.below(3) {
            0 => part(&sample.new.name, &mut random),
            1 => id[..7 + usize::try_from(random.below(20)).unwrap()].to_owned(),
            _ => {
                let labels = sample.new.labels.iter().map(|(key, value)| format!("{key}={value}"));
                part(&labels.chain(["none=".to_owned()]).next().unwrap(), &mut random)
            }
        };
        let namespaces = match random.chance(30) {
            true => Namespaces::one(sample.new.namespace.clone()),
            false => Namespaces::All,
        };
        let mut query = SearchQuery { text, namespaces, limit: 1000 };
        let all = reads.search_jobs(&query).unwrap();
        assert!(all.is_complete && !all.more);
        let mut ids: Vec<_> = all.jobs.iter().map(|job| job.id).collect();
        let live = all.jobs.iter().take_while(|job| !job.state.is_terminal()).count();
        assert!(all.jobs[live..].iter().all(|job| job.state.is_terminal()), "live jobs come first");
        let expected: Vec<_> =
            model.jobs.iter().filter(|sample| contains(&query, sample)).collect();
        for job in &all.jobs {
            assert_eq!(*job, summary(model.get(job.id)));
        }
        ids.sort_unstable();
        let mut expected: Vec<_> = expected.into_iter().map(Sample::id).collect();
        expected.sort_unstable();
        assert_eq!(ids, expected, "{query:?}");
        found += ids.len();
        query.limit = 1;
        let first = reads.search_jobs(&query).unwrap();
        assert_eq!(first.jobs.first(), all.jobs.first());
        assert_eq!(first.more, all.jobs.len() > 1);
    }
    assert!(found > 1000, "the searches find too little to show anything: {found}");
}

fn contains(query: &SearchQuery, Sample { new, .. }: &Sample) -> bool {
    let text = query.text.to_ascii_lowercase();
    let holds = |whole: &str| whole.to_ascii_lowercase().contains(&text);
    let digits = text.strip_prefix("j-").unwrap_or(&text).replace('-', "");
    let is_id = digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    query.namespaces.contain(&new.namespace)
        && (holds(&new.name) && new.name != new.id.to_string()
            || is_id && new.id.uuid().simple().to_string().contains(&digits)
            || new.labels.iter().any(|(key, value)| holds(&format!("{key}={value}"))))
}

fn summary(Sample { new, row }: &Sample) -> StoredSummary {
    let is_queued = row.state == JobStateType::Queued && row.waiting_since.is_some();
    StoredSummary {
        id: new.id,
        name: new.name.clone(),
        namespace: new.namespace.clone(),
        job_type: new.job_type,
        priority: new.priority,
        labels: new.labels.clone(),
        state: row.state,
        message: row.message.to_string(),
        version: row.version,
        revision: row.revision,
        create_time: new.create_time,
        modify_time: row.modify_time,
        start_time: row.start_time,
        slots: row.slots.len(),
        running: row.running,
        completed: row.completed,
        failed: row.failed,
        failed_slots: row.failed_slots,
        queued_spec: is_queued.then(|| new.spec_json.to_string()),
    }
}

/// Every job, page after page.
fn walk(reads: &dyn Reads, query: &JobQuery, mut between: impl FnMut(usize)) -> Vec<JobId> {
    let mut query = query.clone();
    let mut ids = Vec::new();
    for page in 0.. {
        let items = reads.jobs(&query).unwrap();
        assert!(items.items.len() <= query.limit as usize);
        assert!(items.items.len() == query.limit as usize || !items.more);
        ids.extend(items.items.iter().map(|job| job.id));
        match items.items.last() {
            Some(last) if items.more => {
                let position = query.order.position(last.id, last.create_time, last.modify_time);
                query.after = Some(position);
            }
            _ => return ids,
        }
        between(page);
    }
    ids
}

pub(in crate::store) fn pages_of_jobs_neither_repeat_nor_skip(backend: &impl Backend) {
    let mut random = Random(21);
    let model = Model::random(&mut random, 200);
    let (mut store, reads) = backend.open();
    model.store(store.as_mut(), &mut random, 1);
    for order in ORDERS {
        for reverse in [false, true] {
            for limit in [1, 7, 199, 200, 201] {
                let query = JobQuery { order, reverse, limit, ..JobQuery::default() };
                assert_eq!(walk(reads.as_ref(), &query, |_| ()), model.find(&query), "{query:?}");
            }
        }
    }
}

/// While pages of running jobs are read, jobs are created and others end: each job that runs
/// throughout is found exactly once.
pub(in crate::store) fn created_and_ended_jobs_do_not_disturb_a_walk(backend: &impl Backend) {
    let mut random = Random(22);
    let (mut store, reads) = backend.open();
    let mut number = 0;
    for order in [JobOrder::CreateTime, JobOrder::Id] {
        for reverse in [false, true] {
            let label = format!("{order:?} {reverse}");
            let mut jobs: Vec<_> = (0..60)
                .map(|_| {
                    let mut sample = labelled(&mut random, &[("walk", &label)]);
                    sample.row.state = JobStateType::Running;
                    sample
                })
                .collect();
            let mut changes = Changes::default();
            jobs.iter().for_each(|sample| sample.add_to(&mut changes));
            number += 1;
            store.put(number, &changes, &[]).unwrap();
            let query = JobQuery {
                selector: equals("walk", &label),
                states: vec![JobStateType::Running],
                order,
                reverse,
                limit: 7,
                ..JobQuery::default()
            };
            let mut gone = Vec::new();
            let found = walk(reads.as_ref(), &query, |page| {
                let mut changes = Changes::default();
                for at in [page, 59 - page] {
                    let job = &mut jobs[at];
                    job.row.state = JobStateType::Completed;
                    changes.jobs.insert(job.id(), job.row.clone());
                    gone.push(job.id());
                    let mut sample = labelled(&mut random, &[("walk", &label)]);
                    sample.row.state = JobStateType::Running;
                    sample.add_to(&mut changes);
                }
                number += 1;
                store.put(number, &changes, &[]).unwrap();
            });
            let mut distinct = found.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), found.len(), "{label}: a job came twice");
            for job in jobs.iter().filter(|job| !gone.contains(&job.id())) {
                assert!(found.contains(&job.id()), "{label}: a job was skipped");
            }
            let positions: Vec<_> = found
                .iter()
                .filter_map(|id| jobs.iter().find(|j| j.id() == *id))
                .map(|sample| (position(sample, order).time, sample.id()))
                .collect();
            let sorted = positions.is_sorted_by(|a, b| if reverse { a > b } else { a < b });
            assert!(sorted, "{label}: out of order");
        }
    }
}

pub(in crate::store) fn odd_texts_read_back(backend: &impl Backend) {
    let mut random = Random(23);
    let texts = [
        "",
        " ",
        "a\0b",
        "\0",
        "日本語",
        "'; DROP TABLE job; --",
        "%_*?",
        "\u{10ffff}",
        "\u{e9}",
        "e\u{301}",
    ];
    let (mut store, reads) = backend.open();
    let mut samples = Vec::new();
    for (number, text) in (1..).zip(texts) {
        let mut sample = labelled(&mut random, &[(text, text)]);
        sample.new.namespace = text.to_owned();
        sample.new.name = text.to_owned();
        sample.new.spec_json = format!("{text}{text}").into();
        sample.row.message = Text::from(text.to_owned());
        store.put(number, &sample.changes(), &[super::key_row(text, 1)]).unwrap();
        samples.push(sample);
    }
    for (text, sample) in texts.iter().zip(&samples) {
        let job = reads.job(sample.id()).unwrap().unwrap();
        assert_eq!((job.message.as_str(), &job.spec_json), (*text, &sample.new.spec_json));
        let by = |query: JobQuery| {
            let page = reads.jobs(&JobQuery { limit: 100, ..query }).unwrap();
            page.items.iter().map(|job| job.id).collect::<Vec<_>>()
        };
        let expected = [sample.id()];
        assert_eq!(by(JobQuery { selector: equals(text, text), ..JobQuery::default() }), expected);
        let name = Some((*text).to_owned());
        assert_eq!(
            by(JobQuery { namespaces: Namespaces::one(*text), ..JobQuery::default() }),
            expected
        );
        assert_eq!(by(JobQuery { name, ..JobQuery::default() }), expected);
        let mut absent = equals(text, text);
        absent.requirements[0].test = Test::Absent;
        assert_eq!(by(JobQuery { selector: absent, ..JobQuery::default() }).len(), texts.len() - 1);
        let key = store.idempotency(&super::key(text), scheduler::time::Moment(0)).unwrap();
        assert_eq!(key, Some(super::key_row(text, 1)));
    }
}
