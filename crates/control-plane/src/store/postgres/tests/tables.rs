//! Both databases have the same tables, under the same number of a format.

use std::collections::{BTreeMap, BTreeSet};

use postgres_server::TestDatabase;
use rusqlite::Connection;

use super::lead::{candidate, win};
use crate::store::postgres::schema;
use crate::store::sqlite;

type Tables = BTreeMap<String, BTreeSet<String>>;

fn of_sqlite(connection: &Connection) -> Tables {
    let sql = "SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
        WHERE t.type = 'table'";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    collect(rows.map(Result::unwrap))
}

fn of_postgres(database: &TestDatabase) -> Tables {
    let sql = "SELECT table_name::text, column_name::text FROM information_schema.columns
        WHERE table_schema = 'jobs'";
    let rows = database.admin().query(sql, &[]).unwrap();
    collect(rows.iter().map(|row| (row.get(0), row.get(1))))
}

fn collect(columns: impl Iterator<Item = (String, String)>) -> Tables {
    let mut tables = Tables::new();
    for (table, column) in columns {
        tables.entry(table).or_default().insert(column);
    }
    tables
}

/// Puts the columns of a part back into its table; what both have in common names the row.
fn join(tables: &mut Tables, table: &str, part: &str) {
    let part = tables.remove(part).unwrap();
    tables.get_mut(table).unwrap().extend(part);
}

#[test]
fn the_tables_are_those_of_sqlite() {
    let Some(database) = TestDatabase::new() else { return };
    drop(win(&mut candidate(&database), "a"));
    let directory = tempfile::tempdir().unwrap();
    drop(sqlite::open(directory.path()).unwrap());
    let file = Connection::open(directory.path().join("orchestrator.db")).unwrap();
    let format: u32 = file.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(format, schema::FORMAT, "a new format is one of both databases");
    let (mut expected, mut found) = (of_sqlite(&file), of_postgres(&database));
    join(&mut found, "job", "job_run");
    join(&mut found, "job_spec", "job_plan");
    // SQLite has one orchestrator.
    found.remove("member").unwrap();
    // It names the oldest format too.
    expected.remove("format").unwrap();
    let progress = found.remove("progress").unwrap();
    assert!(progress.is_superset(&expected.remove("progress").unwrap()));
    assert_eq!(found, expected);
}
