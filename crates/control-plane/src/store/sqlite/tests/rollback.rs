//! A file of a later release that names this one's format: everything works, and stays for the next
//! upgrade. And the backup of a file whose release could not open it any more.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::Connection;

use super::{Backend, Directory, directory};
use crate::store::contract::{Model, Random, load, store_contract};
use crate::store::sqlite::{open, schema};

/// What a later release may do to every table, and to the file.
fn bump(dir: &Path) {
    let connection = Connection::open(dir.join("orchestrator.db")).unwrap();
    let mut statement = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'format'")
        .unwrap();
    let tables = statement.query_map([], |row| row.get(0)).unwrap();
    let tables: Vec<String> = tables.map(Result::unwrap).collect();
    assert!(tables.len() > 10, "{tables:?}");
    for table in tables {
        connection
            .execute_batch(&format!(
                "ALTER TABLE {table} ADD COLUMN later INTEGER;
                 ALTER TABLE {table} ADD COLUMN later_still TEXT NOT NULL DEFAULT 'as before';
                 CREATE INDEX {table}_later ON {table} (later);"
            ))
            .unwrap();
    }
    connection.execute_batch("CREATE TABLE later (one INTEGER PRIMARY KEY)").unwrap();
    connection.pragma_update(None, "user_version", schema::FORMAT + 1).unwrap();
}

fn format(dir: &Path) -> (u32, u32) {
    let connection = Connection::open(dir.join("orchestrator.db")).unwrap();
    let format = connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    (format, schema::oldest(&connection).unwrap())
}

/// An empty file of a later release.
fn later() -> Option<Directory> {
    let directory = directory();
    drop(directory.open());
    bump(directory.path());
    Some(directory)
}

store_contract!(later);

#[test]
fn a_rollback_loses_nothing_and_the_next_upgrade_finds_its_own_format() {
    let directory = directory();
    let mut random = Random(51);
    let (mut store, reads) = directory.open();
    Model::random(&mut random, 200).store(store.as_mut(), &mut random, 1);
    let (jobs, live) = load(store.as_mut());
    drop((store, reads));
    assert_eq!(format(directory.path()), (schema::FORMAT, schema::OLDEST));
    bump(directory.path());
    let (mut store, reads) = directory.open();
    let (jobs_then, live_then) = load(store.as_mut());
    assert_eq!(format!("{jobs_then:?} {live_then:?}"), format!("{jobs:?} {live:?}"));
    drop((store, reads));
    assert_eq!(format(directory.path()), (schema::FORMAT + 1, schema::OLDEST));
}

#[test]
fn what_the_former_release_could_not_open_any_more_is_backed_up() {
    for former in [8, schema::OLDEST - 1] {
        let directory = super::migration::old_file(former);
        let file = directory.path().join("orchestrator.db");
        let backup = directory.path().join(format!("orchestrator-format-{former}.db"));
        let rows = "SELECT (SELECT count(*) FROM job), (SELECT count(*) FROM event)";
        let count = |path: &Path| -> (u32, u32, u32) {
            let connection = Connection::open(path).unwrap();
            let format =
                connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
            let count = connection.query_row(rows, [], |row| Ok((row.get(0)?, row.get(1)?)));
            let (jobs, events) = count.unwrap();
            (format, jobs, events)
        };
        let before = count(&file);
        assert_eq!((before.0, before.1), (former, 5));
        // What a crash left of an earlier attempt is in no one's way.
        fs::write(backup.with_extension("new"), "half").unwrap();
        drop(directory.open());
        assert_eq!(count(&backup), before);
        assert_eq!(count(&file), (schema::FORMAT, before.1, before.2));
        assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!backup.with_extension("new").exists());

        // The way back: the backup in place of the file.
        fs::rename(&backup, &file).unwrap();
        assert_eq!(count(&file), before);
        // The next start finds nothing to upgrade.
        drop(directory.open());
        let written = fs::metadata(&backup).unwrap().modified().unwrap();
        drop(directory.open());
        assert_eq!(fs::metadata(&backup).unwrap().modified().unwrap(), written);
    }
}

#[test]
fn without_a_backup_there_is_no_upgrade() {
    let former = schema::OLDEST - 1;
    let directory = super::migration::old_file(former);
    let file = directory.path().join("orchestrator.db");
    let backup = directory.path().join(format!("orchestrator-format-{former}.db"));
    fs::create_dir(&backup).unwrap();
    let refused = open(directory.path()).err().expect("a directory is in the way").to_string();
    assert!(refused.starts_with("cannot back up the state database to "), "{refused}");
    let connection = Connection::open(&file).unwrap();
    let format: u32 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(format, former, "nothing was changed");
    assert!(!backup.with_extension("new").exists(), "what was copied is gone");
}
