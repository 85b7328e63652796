//! Foreign, damaged, newer or locked files each prevent the start, with an explanation.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::{Backend, directory};
use crate::store::StoreError;
use crate::store::contract::{Model, Put, Random};
use crate::store::sqlite::{open, schema};

/// The message of the refusal; the file stays unchanged.
fn refusal(dir: &Path) -> String {
    let before = fs::read(file(dir)).unwrap();
    let refused = open(dir).err().expect("the file is refused");
    assert_eq!(fs::read(file(dir)).unwrap(), before, "a refused file was changed");
    refused.to_string()
}

fn file(dir: &Path) -> PathBuf {
    dir.join("orchestrator.db")
}

/// A closed file with some megabytes of jobs.
fn filled() -> super::Directory {
    let directory = directory();
    let mut random = Random(50);
    let (mut store, _) = directory.open();
    Model::random(&mut random, 2000).store(store.as_mut(), &mut random, 1);
    directory
}

#[test]
fn another_programs_database_is_refused() {
    let directory = directory();
    let connection = Connection::open(file(directory.path())).unwrap();
    connection.execute_batch("CREATE TABLE music (title TEXT); PRAGMA user_version = 1").unwrap();
    drop(connection);
    let path = file(directory.path());
    assert_eq!(
        refusal(directory.path()),
        format!(
            "{} is not a database of this service; move it away or set another data directory",
            path.display()
        )
    );
    Connection::open(&path).unwrap().pragma_update(None, "application_id", 7).unwrap();
    assert!(refusal(directory.path()).contains("is not a database of this service"));
}

#[test]
fn a_file_that_is_not_a_database_is_refused() {
    let directory = directory();
    fs::write(file(directory.path()), "dear diary\n".repeat(1000)).unwrap();
    assert_eq!(
        refusal(directory.path()),
        format!(
            "{} is damaged (it is not a database); restore it from a backup, or move it away to \
             start empty",
            file(directory.path()).display()
        )
    );
}

#[test]
fn a_truncated_file_is_refused() {
    let directory = filled();
    let file = fs::OpenOptions::new().write(true).open(file(directory.path())).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length - 8192).unwrap();
    let sentence = refusal(directory.path());
    assert!(sentence.contains("is damaged (") && sentence.contains("restore it"), "{sentence}");
}

#[test]
fn a_file_with_overwritten_pages_is_refused() {
    let directory = filled();
    let mut file = fs::OpenOptions::new().write(true).open(file(directory.path())).unwrap();
    let middle = file.metadata().unwrap().len() / 2 / 4096 * 4096;
    file.seek(SeekFrom::Start(middle)).unwrap();
    file.write_all(&[0x5a; 3 * 4096]).unwrap();
    drop(file);
    let sentence = refusal(directory.path());
    assert!(sentence.contains("is damaged (") && sentence.contains("restore it"), "{sentence}");
}

#[test]
fn a_file_without_its_tables_is_refused() {
    for (loss, sentence) in [
        ("DELETE FROM progress", "is damaged (its progress row is missing)"),
        ("DROP TABLE progress", "is damaged (no such table: progress)"),
    ] {
        let directory = filled();
        let connection = Connection::open(file(directory.path())).unwrap();
        connection.execute_batch(loss).unwrap();
        drop(connection);
        let refusal = refusal(directory.path());
        assert!(refusal.contains(sentence), "{refusal}");
    }
}

#[test]
fn damage_found_while_reading_is_reported() {
    let directory = filled();
    let (store, reads) = open(directory.path()).unwrap();
    let mut writable = fs::OpenOptions::new().write(true).open(file(directory.path())).unwrap();
    let length = writable.metadata().unwrap().len();
    writable.seek(SeekFrom::Start(4096)).unwrap();
    writable.write_all(&vec![0x5a; usize::try_from(length).unwrap() - 4096]).unwrap();
    let query = crate::store::JobQuery { limit: 10, ..Default::default() };
    let found = crate::store::Reads::jobs(reads.as_ref(), &query);
    assert!(matches!(found, Err(StoreError::Damaged { .. })), "{found:?}");
    drop(store);
}

#[test]
fn a_newer_format_that_does_not_name_this_one_is_refused() {
    let newer = schema::FORMAT + 1;
    for naming in [format!("UPDATE format SET oldest = {newer}"), "DROP TABLE format".to_owned()] {
        let directory = filled();
        let connection = Connection::open(file(directory.path())).unwrap();
        connection.pragma_update(None, "user_version", newer).unwrap();
        connection.execute_batch(&naming).unwrap();
        drop(connection);
        let sentence = refusal(directory.path());
        let expected = format!(
            "was written by a newer release (format {newer}, this one knows {}); run that release",
            schema::FORMAT
        );
        assert!(sentence.ends_with(&expected), "{sentence}");
    }
}

#[test]
fn a_second_opener_is_refused_until_the_first_closes() {
    let directory = directory();
    let (store, _reads) = open(directory.path()).unwrap();
    let refused = open(directory.path()).err().unwrap();
    assert!(matches!(&refused, StoreError::InUse { path } if path == directory.path()));
    assert!(refused.to_string().contains("is in use by another orchestrator"), "{refused}");
    drop(store);
    let (mut store, _reads) = open(directory.path()).unwrap();
    assert_eq!(store.last_commit().unwrap(), 0);
}

#[test]
fn an_empty_file_becomes_a_store() {
    let directory = directory();
    fs::write(file(directory.path()), "").unwrap();
    let (mut store, _) = directory.open();
    assert_eq!(store.last_commit().unwrap(), 0);
}

#[test]
fn only_the_owner_may_read_the_files() {
    let directory = directory();
    let (mut store, _reads) = directory.open();
    store.probe().unwrap();
    let mut files = 0;
    for entry in fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", entry.path().display());
        files += 1;
    }
    assert!(files >= 4, "database, log, index of the log and lock: {files}");
}
