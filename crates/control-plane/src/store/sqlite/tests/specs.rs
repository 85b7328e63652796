//! Specifications and their plans: versions, the upgrade, and what damage leaves.

use std::sync::Arc;

use api_types::engine::EngineType;
use api_types::job::{JobSpec, JobType, RetryPolicy, Task};
use rusqlite::{Connection, params};
use scheduler::change::{Changes, LoadedPlan};
use scheduler::plan::JobPlan;
use scheduler::time::Moment;

use super::migration::{job_id, old_file};
use super::{Backend, Directory, directory};
use crate::store::contract::{Put, Random, Sample, load};
use crate::store::{LiveExecutionsQuery, Namespaces, Retention};

/// The last format of a former release.
const FORMER: u32 = 8;

/// The last format with all versions of a specification in one table.
const TOGETHER: u32 = 14;

fn connection(directory: &Directory) -> Connection {
    Connection::open(directory.path().join("orchestrator.db")).unwrap()
}

fn spec(namespace: &str) -> JobSpec {
    JobSpec {
        name: "odd".to_owned(),
        namespace: namespace.to_owned(),
        job_type: JobType::Batch,
        priority: 50,
        count: 3,
        max_running: 0,
        constraints: Vec::new(),
        meta: [("large".to_owned(), "x".repeat(100_000))].into(),
        labels: Default::default(),
        retry_policy: RetryPolicy::default_for(JobType::Batch),
        max_failed: 0,
        concurrency_groups: Vec::new(),
        on_conflict: api_types::job::OnConflict::Queue,
        depends_on: Vec::new(),
        tasks: vec![Task::new("main", EngineType::Docker)],
    }
}

#[test]
fn an_execution_keeps_the_specification_that_it_was_offered_with() {
    let mut random = Random(160);
    let mut sample = Sample::job(&mut random);
    let mut changes = sample.changes();
    let first = sample.execution(&mut random, 0);
    changes.executions.insert(first.id, first.clone());
    let directory = directory();
    let (mut store, reads) = directory.open();
    store.put(1, &changes, &[]).unwrap();

    let second_json = r#"{"Name":"second"}"#;
    connection(&directory)
        .execute(
            "INSERT INTO former_spec (job, version, json) SELECT job, version, json FROM job_spec",
            [],
        )
        .unwrap();
    connection(&directory)
        .execute(
            "UPDATE job_spec SET version = 2, plan = ?1, json = ?2",
            params![JobPlan::from_spec(&spec("second")).unwrap().to_text(), second_json],
        )
        .unwrap();
    sample.row.version = 2;
    let second = sample.execution(&mut random, 1);
    let mut changes = Changes::default();
    changes.jobs.insert(sample.id(), sample.row.clone());
    changes.executions.insert(second.id, second.clone());
    store.put(2, &changes, &[]).unwrap();

    assert_eq!(&*reads.job(sample.id()).unwrap().unwrap().spec_json, second_json);
    let of = |version| reads.specification(sample.id(), version).unwrap();
    assert_eq!(of(1).as_ref(), Some(&sample.new.spec_json));
    assert_eq!(of(2).as_deref(), Some(second_json));
    assert_eq!(of(3), None);
    let namespaces = Namespaces::All;
    let query =
        LiveExecutionsQuery { namespaces, node: None, reverse: false, after: None, limit: 9 };
    let live = reads.live_executions(&query).unwrap().items;
    let live: Vec<_> =
        live.iter().map(|live| (live.execution.row.version, &*live.spec_json)).collect();
    assert_eq!(live, [(1, &*sample.new.spec_json), (2, second_json)]);

    let (jobs, live) = load(store.as_mut());
    let LoadedPlan::Stored(plan) = &jobs[0].plan else { panic!("{:?}", jobs[0].plan) };
    assert_eq!(*plan, JobPlan::from_spec(&spec("second")).unwrap(), "that of the newest");
    assert_eq!(live.executions, [first, second]);

    (sample.row.live, sample.row.ended_at) = (false, Some(Moment(1)));
    let mut changes = Changes::default();
    changes.jobs.insert(sample.id(), sample.row.clone());
    store.put(3, &changes, &[]).unwrap();
    store.prune(Moment(9), &Retention { age: None, count: Some(0) }, 1000).unwrap();
    let left: u32 = connection(&directory)
        .query_row(
            "SELECT (SELECT count(*) FROM job_spec) + (SELECT count(*) FROM former_spec)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(left, 0, "every version goes with its job");
}

#[test]
fn an_upgrade_keeps_every_version() {
    let directory = old_file(TOGETHER);
    connection(&directory)
        .execute_batch(
            "INSERT INTO job_spec (job, version, plan, json) VALUES
                (1, 2, NULL, '2'), (1, 3, 'of the third', '3');
             UPDATE job SET version = 3 WHERE number = 1;",
        )
        .unwrap();
    let (_store, reads) = directory.open();
    let first = reads.job(job_id(1)).unwrap().unwrap();
    assert_eq!((first.version, &*first.spec_json), (3, "3"));
    let of = |version| reads.specification(job_id(1), version).unwrap();
    assert_eq!([1, 2, 3].map(of).map(Option::unwrap_or_default), ["{}", "2", "3"].map(Arc::from));
    assert_eq!(&*reads.job(job_id(2)).unwrap().unwrap().spec_json, "{}");
    let plan: String = connection(&directory)
        .query_row("SELECT plan FROM job_spec WHERE job = 1", [], |row| row.get(0))
        .unwrap();
    assert_eq!(plan, "of the third");
}

#[test]
fn an_upgrade_gives_live_jobs_their_plans_and_outlives_damage() {
    let directory = old_file(FORMER);
    let json = serde_json::to_string(&spec("team")).unwrap();
    let file = connection(&directory);
    file.execute("UPDATE job_spec SET json = ?1 WHERE job IN (1, 3)", [&json]).unwrap();
    file.execute("UPDATE job_spec SET json = x'ff00' WHERE job = 2", []).unwrap();
    drop(file);
    let (mut store, _) = directory.open();
    let (jobs, _) = load(store.as_mut());
    let LoadedPlan::Stored(plan) = &jobs[0].plan else { panic!("{:?}", jobs[0].plan) };
    assert_eq!(*plan, JobPlan::from_spec(&spec("team")).unwrap());
    assert!(matches!(jobs[1].plan, LoadedPlan::Unreadable { .. }), "{:?}", jobs[1].plan);
    let planned: Vec<i64> = connection(&directory)
        .prepare("SELECT job FROM job_spec WHERE plan IS NOT NULL")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(planned, [1], "only live jobs need one");
}

#[test]
fn whatever_a_row_of_specifications_holds_the_start_reads_all_jobs() {
    for damage in [
        "UPDATE job_spec SET plan = 'x'",
        "UPDATE job_spec SET plan = NULL, json = x'ff'",
        "UPDATE job_spec SET plan = 7, json = 7",
        "UPDATE job_spec SET version = 9",
        "DELETE FROM job_spec",
    ] {
        let mut random = Random(161);
        let samples = [Sample::job(&mut random), Sample::job(&mut random)];
        let mut changes = Changes::default();
        samples.iter().for_each(|sample| sample.add_to(&mut changes));
        let directory = directory();
        let (mut store, reads) = directory.open();
        store.put(1, &changes, &[]).unwrap();
        connection(&directory).execute(&format!("{damage} WHERE job = 1"), []).unwrap();
        let (jobs, _) = load(store.as_mut());
        let [damaged, whole] = jobs.as_slice() else { panic!("{damage}: {jobs:?}") };
        assert!(matches!(whole.plan, LoadedPlan::Stored(_)), "{damage}: {:?}", whole.plan);
        assert!(matches!(damaged.plan, LoadedPlan::Unreadable { .. }), "{damage}");
        for job in &jobs {
            assert!(reads.job(job.row.id).unwrap().is_some(), "{damage}: it can be described");
        }
    }
}
