//! Prints the cost of commits, and compares the cost of pages.
//!
//! `ORCHESTRATOR_STORE_JOBS=1000000 cargo test --release -p control-plane speed -- --nocapture`
//! measures at full size.

use std::time::{Duration, Instant};

use api_types::Timestamp;
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::selector::Selector;
use rusqlite::{Connection, StatementStatus, params_from_iter};
use scheduler::change::{Changes, EventSubject};

use super::{Backend, Directory, directory};
use crate::store::contract::{Put, Random, Sample, load};
use crate::store::select::{COUNTED, Selection};
use crate::store::sqlite::select::{Sqlite, used};
use crate::store::{JobOrder, JobPosition, JobQuery, Namespaces, Store};

/// How many jobs the larger store holds.
fn many() -> u64 {
    let jobs = std::env::var("ORCHESTRATOR_STORE_JOBS").ok();
    jobs.map_or(10_000, |jobs| jobs.parse().unwrap())
}

/// The `n`th job: three labels, and 1.5 KB of specification.
fn job(random: &mut Random, n: u64) -> Sample {
    let mut sample = Sample::job(random);
    sample.new.create_time = Timestamp(1_700_000_000_000_000_000 + i64::try_from(n).unwrap());
    sample.row.modify_time = sample.new.create_time;
    sample.new.spec_json = format!("{{{}}}", "x".repeat(1500)).into();
    let env = if random.chance(60) { "prod" } else { "dev" };
    for (key, value) in
        [("env", env), ("team", &format!("team-{}", n % 100)), ("n", &n.to_string())]
    {
        sample.new.labels.insert(key.to_owned(), value.to_owned());
    }
    if n.is_multiple_of(500) {
        sample.new.labels.insert("rare".to_owned(), "yes".to_owned());
    }
    if !n.is_multiple_of(100) {
        (sample.row.state, sample.row.live) = (JobStateType::Completed, false);
    }
    sample
}

/// Commits this many jobs in groups; returns the duration of the commits.
fn store_jobs(store: &mut dyn Store, jobs: u64, group: u64) -> Duration {
    let mut random = Random(80);
    let mut took = Duration::ZERO;
    let mut n = 0;
    let mut number = store.last_commit().unwrap();
    while n < jobs {
        let mut changes = Changes::default();
        for _ in 0..group.min(jobs - n) {
            job(&mut random, n).add_to(&mut changes);
            n += 1;
        }
        number += 1;
        let start = Instant::now();
        store.put(number, &changes, &[]).unwrap();
        took += start.elapsed();
    }
    took
}

fn rate(count: u64, took: Duration) -> u64 {
    let micros = u64::try_from(took.as_micros()).unwrap().max(1);
    count * 1_000_000 / micros
}

#[test]
fn commits_of_many_rows_are_fast() {
    for group in [1, 64, 512] {
        let directory = directory();
        let (mut store, _) = directory.open();
        let jobs = (group * 20).min(4096);
        let took = store_jobs(store.as_mut(), jobs, group);
        println!("jobs of 3 labels and 1.5 KB in groups of {group}: {}/s", rate(jobs, took));
        assert_eq!(store.last_commit().unwrap(), jobs / group);
    }
    for group in [64, 512] {
        let directory = directory();
        let (mut store, _) = directory.open();
        let took = store_reports(store.as_mut(), group);
        let rows = 4 * 2 * group;
        println!("execution + event in groups of {group}: {} rows/s", rate(rows, took));
        assert_eq!(load(store.as_mut()).1.last_seq, 4 * group);
    }
}

/// Four states of this many executions, each with its event.
fn store_reports(store: &mut dyn Store, group: u64) -> Duration {
    let mut random = Random(81);
    let mut changes = Changes::default();
    let samples: Vec<_> = (0..group).map(|n| job(&mut random, n)).collect();
    samples.iter().for_each(|sample| sample.add_to(&mut changes));
    store.put(1, &changes, &[]).unwrap();
    let mut executions: Vec<_> =
        samples.iter().map(|sample| sample.execution(&mut random, 0)).collect();
    let mut took = Duration::ZERO;
    let mut seq = 0;
    let states = [
        ComputeState::New,
        ComputeState::AskForBidAccepted,
        ComputeState::BidAccepted,
        ComputeState::Completed,
    ];
    for (number, state) in (2..).zip(states) {
        let mut changes = Changes::default();
        for (sample, execution) in samples.iter().zip(&mut executions) {
            execution.compute = state;
            changes.executions.insert(execution.id, execution.clone());
            seq += 1;
            let mut event = sample.event(seq);
            let (id, node) = (execution.id, execution.node);
            event.subject =
                EventSubject::Execution { job: sample.id(), id, node, previous: state, new: state };
            changes.events.push(event);
        }
        let start = Instant::now();
        store.put(number, &changes, &[]).unwrap();
        took += start.elapsed();
    }
    took
}

/// Ten for each live job.
fn store_executions(store: &mut dyn Store) {
    let mut random = Random(82);
    let mut changes = Changes::default();
    for job in load(store).0 {
        let mut sample = Sample::job(&mut random);
        sample.new.id = job.row.id;
        for index in 0..10 {
            let execution = sample.execution(&mut random, index);
            changes.executions.insert(execution.id, execution);
        }
    }
    let number = store.last_commit().unwrap() + 1;
    store.put(number, &changes, &[]).unwrap();
}

struct Filled {
    directory: Directory,
    connection: Connection,
    jobs: u64,
}

fn filled(jobs: u64) -> Filled {
    let directory = directory();
    let (mut store, _) = directory.open();
    let took = store_jobs(store.as_mut(), jobs, 512);
    println!("{jobs} jobs: {}/s", rate(jobs, took));
    store_executions(store.as_mut());
    drop(store);
    let start = Instant::now();
    let (mut store, _) = directory.open();
    let (jobs_live, live) = load(store.as_mut());
    let (live, executions) = (jobs_live.len() as u64, live.executions.len() as u64);
    let took = start.elapsed();
    println!("open and load {live} of {jobs} jobs and {executions} executions: {took:?}");
    assert_eq!((live, executions), (jobs / 100, jobs / 10));
    let connection = Connection::open(directory.path().join("orchestrator.db")).unwrap();
    connection.pragma_update(None, "cache_size", -65536).unwrap();
    Filled { directory, connection, jobs }
}

/// Steps of SQLite's virtual machine for the page, which do not depend on the hardware.
fn steps(filled: &Filled, query: &JobQuery) -> i32 {
    let selection = Selection::new(query, COUNTED);
    let (sql, parameters) = selection.statement(&mut Sqlite(&filled.connection)).unwrap();
    let mut statement = filled.connection.prepare(&sql).unwrap();
    let used = used(&statement, &parameters);
    let mut rows = statement.query(params_from_iter(used)).unwrap();
    while rows.next().unwrap().is_some() {}
    drop(rows);
    statement.get_status(StatementStatus::VmStep)
}

/// Pages in the middle of both orders, in both directions.
fn pages(filled: &Filled, labels: &str) -> Vec<JobQuery> {
    let labels = labels.replace("MIDDLE", &(filled.jobs / 2).to_string());
    let labels = labels.replace("LAST", &(filled.jobs - 20).to_string());
    let middle = Timestamp(1_700_000_000_000_000_000 + i64::try_from(filled.jobs / 2).unwrap());
    let id = api_types::JobId::from_uuid(uuid::Uuid::from_u128(u128::MAX / 2));
    let mut queries = Vec::new();
    for order in [JobOrder::CreateTime, JobOrder::ModifyTime, JobOrder::Id] {
        for reverse in [false, true] {
            for after in [None, Some(JobPosition { time: middle, id })] {
                queries.push(JobQuery {
                    namespaces: Namespaces::one("default"),
                    selector: Selector::parse(&labels).unwrap(),
                    order,
                    reverse,
                    after,
                    limit: 10,
                    ..JobQuery::default()
                });
            }
        }
    }
    queries
}

/// The largest cost of a page: a third of examining every job of the smaller size, and at full size
/// testing and sorting as many candidates as are counted, a hundred steps each.
fn most_steps(jobs: u64) -> i32 {
    if jobs <= 10_000 { 30_000 } else { 100 * i32::try_from(COUNTED).unwrap() }
}

#[test]
fn a_page_among_many_jobs_does_not_scan_all_of_them() {
    let (few, many) = (filled(1000), filled(many()));
    let reads = many.directory.open().1;
    for labels in [
        "",
        "env=prod",
        "env=prod,team=team-7",
        "env in (prod,dev)",
        "team in (team-1,team-2,team-3)",
        "team=team-7",
        "rare",
        "rare=yes,env!=prod",
        "env",
        "env!=prod",
        "!rare",
        "team notin (team-1)",
        "n=MIDDLE",
        "n>LAST",
        "n<20",
    ] {
        let cost = |filled: &Filled| {
            pages(filled, labels).iter().map(|query| steps(filled, query)).max().unwrap()
        };
        let (before, now) = (cost(&few), cost(&many));
        let start = Instant::now();
        let queries = pages(&many, labels);
        for query in &queries {
            reads.jobs(query).unwrap();
            reads.summaries(query).unwrap();
        }
        let took = start.elapsed() / u32::try_from(queries.len()).unwrap();
        println!("{labels:40} {before:8} {now:8} steps, {took:?} a page");
        assert!(now <= most_steps(many.jobs), "{labels}: {now} steps among {} jobs", many.jobs);
    }
}
