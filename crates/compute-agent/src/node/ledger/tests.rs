//! Commits survive a restart, and files that are not ledgers are refused.

use agent_core::BootId;
use agent_core::execution::{Effect, Phase};
use api_types::Timestamp;
use api_types::execution::ComputeState;

use super::*;
use crate::testing;

fn offered(number: u32) -> (Execution, StoredReport) {
    let (execution, effects) = Execution::offered(
        testing::execution_id(number.into()),
        testing::work(),
        Ok(vec![number]),
        Timestamp(number.into()),
    );
    let Some(Effect::Report(report)) = effects.into_iter().next() else { panic!("no report") };
    let json = serde_json::to_string(&report).unwrap();
    (execution, StoredReport { position: number.into(), report: *report, json })
}

fn done() -> Phase {
    Phase::Done {
        state: ComputeState::Completed,
        message: String::new(),
        finished_at: Timestamp(9),
        unpublished: false,
        kept_bytes: None,
        outcome: None,
    }
}

#[test]
fn committed_data_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.sqlite");
    let (mut first, first_report) = offered(1);
    let (second, second_report) = offered(2);
    let mut ledger = Ledger::open(&path).unwrap();
    let node_id = ledger.node_id();
    let admitted = vec![(first.id, first.work.clone()), (second.id, second.work.clone())];
    let changed = [(first.id, first.clone()), (second.id, second.clone())].into();
    let reports = vec![first_report.clone(), second_report.clone()];
    ledger.commit(&Batch { admitted, changed, reports, ..Batch::default() }).unwrap();
    first.phase = Phase::Running { started_at: Timestamp(5), boot_id: BootId::from_number(7) };
    first.reported = 2;
    let changed = [(first.id, first.clone())].into();
    let acknowledged = vec![Acknowledgement { execution_id: first.id, sequence: 1 }];
    ledger.commit(&Batch { changed, acknowledged, ..Batch::default() }).unwrap();
    drop(ledger);

    let mut ledger = Ledger::open(&path).unwrap();
    assert_eq!(ledger.node_id(), node_id);
    let contents = ledger.load(&path).unwrap();
    assert_eq!(contents.reports, [second_report]);
    assert_eq!(contents.executions.len(), 2);
    let read = contents.executions.iter().find(|execution| execution.id == first.id).unwrap();
    assert_eq!((&read.phase, read.reported), (&first.phase, 2));
    assert_eq!((&read.work, &read.gpus), (&first.work, &vec![1]));

    ledger.commit(&Batch { forgotten: vec![first.id], ..Batch::default() }).unwrap();
    let contents = ledger.load(&path).unwrap();
    assert_eq!(contents.executions.len(), 1);
    assert_eq!(contents.executions[0].id, second.id);
}

#[test]
fn a_batch_that_cannot_be_written_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.sqlite");
    let mut ledger = Ledger::open(&path).unwrap();
    let (execution, report) = offered(1);
    let admitted = vec![(execution.id, execution.work.clone())];
    let changed = [(execution.id, execution)].into();
    let reports = vec![report];
    // Reports come late in a commit.
    let trigger = "CREATE TEMP TRIGGER refuse BEFORE INSERT ON reports
                   BEGIN SELECT RAISE(ABORT, 'no room'); END";
    ledger.connection.execute_batch(trigger).unwrap();
    ledger.commit(&Batch { admitted, changed, reports, ..Batch::default() }).unwrap_err();
    assert!(ledger.load(&path).unwrap().executions.is_empty());
}

#[test]
fn a_batch_that_is_written_again_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.sqlite");
    let mut ledger = Ledger::open(&path).unwrap();
    let (execution, report) = offered(1);
    let admitted = vec![(execution.id, execution.work.clone())];
    let changed = [(execution.id, execution)].into();
    let reports = vec![report.clone()];
    let batch = Batch { admitted, changed, reports, ..Batch::default() };
    ledger.commit(&batch).unwrap();
    ledger.commit(&batch).unwrap();
    let contents = ledger.load(&path).unwrap();
    assert_eq!(contents.reports, std::slice::from_ref(&report));
    assert_eq!(contents.executions.len(), 1);

    // A new report reuses the number of an acknowledged one.
    let acknowledged =
        vec![Acknowledgement { execution_id: report.report.execution_id, sequence: 1 }];
    let again = StoredReport { position: 2, ..report };
    let reports = vec![again.clone()];
    let batch = Batch { reports, acknowledged, ..Batch::default() };
    ledger.commit(&batch).unwrap();
    ledger.commit(&batch).unwrap();
    assert_eq!(ledger.load(&path).unwrap().reports, [again]);
}

#[test]
fn a_damaged_or_foreign_file_is_refused_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = dir.path().join("garbage.sqlite");
    std::fs::write(&garbage, "this is no database, and long enough to be seen as none").unwrap();
    let foreign = dir.path().join("foreign.sqlite");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap();
    let newer = dir.path().join("newer.sqlite");
    drop(Ledger::open(&newer).unwrap());
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    for (path, reason) in
        [(garbage, "not a database"), (foreign, "not a ledger"), (newer, "format 99")]
    {
        let before = std::fs::read(&path).unwrap();
        let error = Ledger::open(&path).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains(path.to_str().unwrap()), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}

#[test]
fn a_ledger_of_an_earlier_format_is_migrated_without_loss() {
    for (made_older, gpus) in [
        ("ALTER TABLE phases DROP COLUMN gpus; PRAGMA user_version = 1", vec![]),
        ("PRAGMA user_version = 2", vec![1]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.sqlite");
        let mut ledger = Ledger::open(&path).unwrap();
        let node_id = ledger.node_id();
        let (starting, _) = offered(1);
        let (running, _) = offered(2);
        let both = [starting.clone(), running.clone()];
        let admitted = both.iter().map(|one| (one.id, one.work.clone())).collect();
        let changed = both.map(|one| (one.id, one)).into();
        ledger.commit(&Batch { admitted, changed, ..Batch::default() }).unwrap();
        drop(ledger);
        let old = Connection::open(&path).unwrap();
        let write = "UPDATE phases SET phase = ?2 WHERE execution_id = ?1";
        for (id, phase) in
            [(starting.id, r#""Starting""#), (running.id, r#"{"Running":{"started_at":5}}"#)]
        {
            assert_eq!(old.execute(write, params![id.uuid().as_bytes(), phase]).unwrap(), 1);
        }
        old.execute_batch(made_older).unwrap();
        drop(old);
        for _ in 0..2 {
            let ledger = Ledger::open(&path).unwrap();
            assert_eq!(ledger.node_id(), node_id);
            let mut read = ledger.load(&path).unwrap().executions;
            read.sort_by_key(|execution| execution.id);
            let boot_id = BootId::UNKNOWN;
            assert_eq!(read[0].phase, Phase::Starting { boot_id, since: Timestamp::ZERO });
            assert_eq!(read[1].phase, Phase::Running { started_at: Timestamp(5), boot_id });
            assert_eq!(read[0].gpus, gpus);
        }
    }
}

#[test]
fn a_row_that_does_not_read_back_refuses_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.sqlite");
    let mut ledger = Ledger::open(&path).unwrap();
    let (mut execution, _) = offered(1);
    execution.phase = done();
    let admitted = vec![(execution.id, execution.work.clone())];
    let changed = [(execution.id, execution)].into();
    ledger.commit(&Batch { admitted, changed, ..Batch::default() }).unwrap();
    Connection::open(&path).unwrap().execute("UPDATE phases SET phase = '{'", []).unwrap();
    let error = ledger.load(&path).unwrap_err();
    assert!(matches!(error, LedgerError::Unusable { .. }), "{error}");
}

/// A thousand finished executions with inputs of megabytes are read at each start.
#[test]
fn a_finished_execution_keeps_no_long_specification() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.sqlite");
    let mut ledger = Ledger::open(&path).unwrap();
    let bytes = || {
        let count = "SELECT octet_length(work) FROM works";
        Connection::open(&path).unwrap().query_row(count, [], |row| row.get::<_, u32>(0)).unwrap()
    };
    let (mut execution, _) = offered(1);
    let mut work = (*execution.work).clone();
    work.task.env.insert("LONG".to_owned(), "x".repeat(1 << 20));
    execution.work = Arc::new(work);
    let admitted = vec![(execution.id, execution.work.clone())];
    let changed = [(execution.id, execution.clone())].into();
    ledger.commit(&Batch { admitted, changed, ..Batch::default() }).unwrap();
    assert!(bytes() > 1 << 20);
    assert_eq!(ledger.load(&path).unwrap().executions[0].work, execution.work);

    execution.phase = done();
    let changed = [(execution.id, execution.clone())].into();
    ledger.commit(&Batch { changed, ..Batch::default() }).unwrap();
    assert!(bytes() < 10_000, "{} bytes", bytes());
    let read = ledger.load(&path).unwrap().executions;
    assert_eq!((read[0].id, read[0].work.task.env.len()), (execution.id, 0));
    assert_eq!(read[0].work.job_id, execution.work.job_id);
}

#[test]
fn a_full_disk_is_told_from_other_errors() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(&dir.path().join("ledger.sqlite")).unwrap();
    let (execution, _) = offered(1);
    let admitted = vec![(execution.id, execution.work.clone())];
    let batch = || Batch { admitted: admitted.clone(), ..Batch::default() };
    let pages: u32 =
        ledger.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    let limit = |ledger: &Ledger, pages| {
        let limit = format!("PRAGMA max_page_count = {pages}");
        ledger.connection.query_row(&limit, [], |row| row.get::<_, u32>(0)).unwrap();
    };
    limit(&ledger, pages);
    let mut large = testing::plain_work();
    large.task.env.insert("LARGE".to_owned(), "x".repeat(100_000));
    let admitted = vec![(execution.id, Arc::new(large))];
    let error = ledger.commit(&Batch { admitted, ..Batch::default() }).unwrap_err();
    assert!(matches!(error, LedgerError::Full(_)), "{error:?}");
    limit(&ledger, 1 << 20);
    ledger.commit(&batch()).unwrap();
    ledger.connection.execute_batch("DROP TABLE works").unwrap();
    let error = ledger.commit(&batch()).unwrap_err();
    assert!(matches!(error, LedgerError::Write(_)), "{error:?}");
}
