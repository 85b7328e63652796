//! A data directory is copied whole, or not at all.

use std::sync::Arc;

use api_types::selector::Selector;
use postgres_server::TestDatabase;
use scheduler::change::Changes;
use tempfile::TempDir;

use super::lead::{candidate, win};
use super::opened;
use crate::store::contract::{Model, Put, Random, load, random_query};
use crate::store::postgres::{ImportError, PostgresReads, import};
use crate::store::sqlite::{self, SqliteReads};
use crate::store::{
    EventsQuery, ExecutionOrder, ExecutionQuery, JobQuery, Namespaces, Reads, StoreError,
};

const JOBS: usize = 10_000;

/// A directory with this many jobs, an execution and an event of each.
fn directory(random: &mut Random, jobs: usize) -> (TempDir, Model) {
    let directory = tempfile::tempdir().unwrap();
    let model = Model::random(random, jobs);
    let (mut store, _) = sqlite::open(directory.path()).unwrap();
    for (number, part) in (1..).zip(model.jobs.chunks(JOBS)) {
        let mut changes = Changes::default();
        part.iter().for_each(|sample| sample.add_to(&mut changes));
        store.put(number, &changes, &[]).unwrap();
    }
    let mut changes = Changes::default();
    for (seq, sample) in (1..).zip(&model.jobs) {
        let execution = sample.execution(random, 0);
        changes.executions.insert(execution.id, execution);
        let slot = sample.pending_slot(random, 1);
        changes.pending_slots.insert((sample.id(), 1), Some(slot));
        changes.events.push(sample.event(seq));
    }
    let number = store.last_commit().unwrap() + 1;
    store.put(number, &changes, &[]).unwrap();
    (directory, model)
}

fn open(directory: &TempDir) -> Arc<SqliteReads> {
    sqlite::open(directory.path()).unwrap().1
}

#[test]
fn every_row_is_found_again() {
    found_again(JOBS, 200);
}

#[test]
#[ignore = "long"]
fn every_row_of_a_million_jobs_is_found_again() {
    found_again(1_000_000, 10);
}

/// All reads of the copy are equal to those of its source. A query may walk all of them.
fn found_again(jobs: usize, queries: usize) {
    let Some(database) = TestDatabase::new() else { return };
    let mut random = Random(60);
    let (directory, model) = directory(&mut random, jobs);
    let imported = import(directory.path(), &opened(&database)).unwrap();
    let rows = |name: &str| imported.iter().find(|table| table.table == name).unwrap().rows;
    for table in ["job", "job_run", "job_spec", "job_plan", "execution", "event", "pending_slot"] {
        assert_eq!(rows(table), jobs as u64, "{table}");
    }
    let labels: usize = model.jobs.iter().map(|sample| sample.new.labels.len()).sum();
    assert_eq!(rows("label"), labels as u64);
    let (before, after) = (open(&directory), PostgresReads::open(&opened(&database)).unwrap());
    let mut compared = 0;
    for _ in 0..queries {
        let query = random_query(&mut random, &model);
        let found = [after.jobs(&query), before.jobs(&query)];
        // A search through a million jobs may be given up.
        if !found.iter().any(|found| matches!(found, Err(StoreError::LongSearch { .. }))) {
            let [copied, expected] = found.map(Result::unwrap);
            assert_eq!(copied, expected, "{query:?}");
            let [copied, expected] = [after.summaries(&query), before.summaries(&query)];
            assert_eq!(copied.unwrap(), expected.unwrap(), "{query:?}");
            compared += 1;
        }
        let sample = random.pick(&model.jobs);
        let query = ExecutionQuery {
            job: sample.id(),
            order: ExecutionOrder::Index,
            reverse: false,
            states: Vec::new(),
            slots: None,
            after: None,
            limit: 5,
        };
        assert_eq!(after.executions(&query).unwrap(), before.executions(&query).unwrap());
        assert_eq!(after.outcomes(sample.id()).unwrap(), before.outcomes(sample.id()).unwrap());
    }
    assert!(compared > queries / 4, "{compared} of {queries} queries");
    let mut store = sqlite::open(directory.path()).unwrap().0;
    let last_commit = store.last_commit().unwrap();
    let mut won = win(&mut candidate(&database), "a");
    assert_eq!(won.store.last_commit().unwrap(), last_commit, "no number is skipped");
    let [found, expected] = [won.store.as_mut(), &mut store].map(|store| {
        let (jobs, live) = load(store);
        format!("{jobs:?} {live:?}")
    });
    assert!(found == expected, "another live state is loaded");
    assert_eq!(after.job_totals().unwrap(), before.job_totals().unwrap());
    assert_eq!(after.last_event().unwrap(), before.last_event().unwrap());
    let events = EventsQuery {
        after: 0,
        job: None,
        namespaces: Namespaces::All,
        event_type: None,
        since: api_types::Timestamp::ZERO,
        limit: 20_000,
    };
    assert_eq!(after.events(&events).unwrap(), before.events(&events).unwrap());
}

#[test]
fn a_database_with_data_is_refused() {
    let Some(database) = TestDatabase::new() else { return };
    let (directory, _) = directory(&mut Random(61), 10);
    import(directory.path(), &opened(&database)).unwrap();
    let refused = import(directory.path(), &opened(&database)).unwrap_err();
    assert!(matches!(refused, ImportError::NotEmpty { .. }), "{refused:?}");
    let all = JobQuery { limit: 100, ..JobQuery::default() };
    let reads = PostgresReads::open(&opened(&database)).unwrap();
    assert_eq!(reads.jobs(&all).unwrap().items.len(), 10);
}

#[test]
fn a_directory_in_use_and_one_without_a_database_are_refused() {
    let Some(database) = TestDatabase::new() else { return };
    let (directory, _) = directory(&mut Random(62), 10);
    let store = sqlite::open(directory.path()).unwrap();
    let refused = import(directory.path(), &opened(&database)).unwrap_err();
    assert!(matches!(refused, ImportError::Store(StoreError::InUse { .. })), "{refused:?}");
    drop(store);
    let empty = tempfile::tempdir().unwrap();
    let refused = import(empty.path(), &opened(&database)).unwrap_err();
    assert!(refused.to_string().contains("orchestrator.db"), "{refused}");
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0, "something was created");
    import(directory.path(), &opened(&database)).unwrap();
}

/// Nothing is left out silently.
#[test]
fn a_column_or_a_value_that_has_no_place_is_refused() {
    for (damage, message) in [
        ("ALTER TABLE job ADD COLUMN later INTEGER", "the column later of the table job"),
        ("CREATE TABLE more (one INTEGER)", "the column one of the table more"),
        ("UPDATE event SET revision = 0.5 WHERE seq = 3", "event seq 3: revision is a real number"),
    ] {
        let Some(database) = TestDatabase::new() else { return };
        let (directory, _) = directory(&mut Random(63), 10);
        let file = directory.path().join("orchestrator.db");
        rusqlite::Connection::open(file).unwrap().execute_batch(damage).unwrap();
        let refused = import(directory.path(), &opened(&database)).unwrap_err();
        assert!(refused.to_string().contains(message), "{refused}");
    }
}

/// A trigger in place of a fault of the server or of the network.
#[test]
fn a_copy_that_differs_is_not_kept() {
    let Some(database) = TestDatabase::new() else { return };
    let (source, _) = directory(&mut Random(64), 100);
    let (empty, _) = directory(&mut Random(64), 0);
    import(empty.path(), &opened(&database)).unwrap();
    let mut admin = database.admin();
    let alter = "UPDATE progress SET last_commit = 0;
        CREATE FUNCTION alter_label() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN NEW.value = '\\x21'; RETURN NEW; END $$;
        CREATE TRIGGER altered BEFORE INSERT ON label FOR EACH ROW EXECUTE FUNCTION alter_label()";
    admin.batch_execute(alter).unwrap();
    let refused = import(source.path(), &opened(&database)).unwrap_err();
    assert!(
        matches!(&refused, ImportError::Differs { table, .. } if table == "label"),
        "{refused:?}"
    );
    let jobs = admin.query_one("SELECT count(*) FROM job", &[]).unwrap();
    assert_eq!(jobs.get::<_, i64>(0), 0);
    admin.batch_execute("DROP TRIGGER altered ON label").unwrap();
    import(source.path(), &opened(&database)).unwrap();
    let reads = PostgresReads::open(&opened(&database)).unwrap();
    let selector = Selector::parse("env").unwrap();
    let query = JobQuery { selector, limit: 200, ..JobQuery::default() };
    assert_eq!(reads.jobs(&query).unwrap(), open(&source).jobs(&query).unwrap());
}
