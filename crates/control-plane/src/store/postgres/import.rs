//! Copies the database of a data directory into an empty one of PostgreSQL, table by table.
//!
//! Both are locked until the end: the directory as a running orchestrator locks it, and the row that
//! each commit changes. Everything is one transaction. It ends with a comparison: each table is read
//! back in the order of its key, and must have the same rows, as the hash of the bytes that `COPY`
//! carries shows.

mod table;

use std::io::{BufWriter, Read, Write};
use std::path::Path;

use postgres::{Client, Row};
use sha2::{Digest, Sha256};

use self::table::{HEADER, TRAILER, Table};
use super::candidate::PostgresCandidate;
use super::connection::{Database, Session};
use super::link::SERVER;
use super::row::Columns;
use crate::store::sqlite::source::Source;
use crate::store::{Candidate, StoreError};

/// Bytes that are sent or read back at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// A poll gives up after a second, which a busy server may need to create the tables.
const POLLS: usize = 10;

/// The whole copy is one transaction, which a writer's session would have to end within a second.
const BEGIN: &str = "
    BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL idle_in_transaction_session_timeout = 0;
    SET LOCAL statement_timeout = 0;";

/// Tables that are not copied: the first has no counterpart in PostgreSQL, and what the second
/// replaces is copied by itself; the third has no rows.
const NOT_COPIED: [&str; 4] = ["format", "progress", "probe", "member"];

/// Rows whose copy was found equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    pub table: String,
    pub rows: u64,
}

/// Why nothing was copied.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("{database} is in use, or has data already; name an empty database")]
    NotEmpty { database: String },
    #[error("{database} has no place for {column}; migrate with the release that wrote it")]
    UnknownColumn { column: String, database: String },
    #[error(
        "the copy of the table {table} has {copied} of {rows} rows, or differs from it; nothing was kept"
    )]
    Differs { table: String, rows: u64, copied: u64 },
    #[error("copy the table {table}")]
    Copy { table: String, source: std::io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A copy under way.
struct Import<'a> {
    source: Source,
    client: Client,
    database: &'a Database,
}

/// What was sent of one table.
struct Sent {
    rows: u64,
    hash: [u8; 32],
}

/// Copies the database in `dir`, which no orchestrator may use, into this one.
pub fn import(dir: &Path, database: &Database) -> Result<Vec<Imported>, ImportError> {
    let source = Source::open(dir)?;
    prepare(database)?;
    let client = database.connect_blocking(Session::Writer)?;
    // If it fails, the transaction ends with its session.
    Import { source, client, database }.run()
}

/// Creates the tables, as a first poll does.
fn prepare(database: &Database) -> Result<(), StoreError> {
    let mut candidate = PostgresCandidate::new(database.clone())?;
    let polls = std::iter::repeat_with(|| candidate.poll().map(drop)).take(POLLS);
    let answered =
        |polled: &Result<(), StoreError>| !matches!(polled, Err(StoreError::Unavailable));
    let mut polls = polls.skip_while(|polled| !answered(polled));
    polls.next().unwrap_or(Err(StoreError::Unavailable))
}

// === impl Import ===

impl Import<'_> {
    fn run(&mut self) -> Result<Vec<Imported>, ImportError> {
        self.execute(BEGIN)?;
        self.execute("LOCK TABLE jobs.progress IN ACCESS EXCLUSIVE MODE")?;
        let tables = self.tables()?;
        self.check(&tables)?;
        let mut imported = Vec::new();
        for table in &tables {
            let sent = self.copy(table)?;
            self.compare(table, &sent)?;
            tracing::info!(table = table.name, rows = sent.rows, "a table is copied");
            imported.push(Imported { table: table.name.clone(), rows: sent.rows });
        }
        self.copy_progress()?;
        self.execute("COMMIT")?;
        // The sizes of tables, which plans depend on, and which rows every reader sees.
        let tables: Vec<_> = tables.iter().map(|table| format!("jobs.{}", table.name)).collect();
        let vacuumed = self.execute(&format!("VACUUM (ANALYZE) {}", tables.join(", ")));
        if let Err(error) = vacuumed {
            tracing::warn!(%error, "the copy is complete; reads are slow until it is vacuumed");
        }
        Ok(imported)
    }

    fn tables(&mut self) -> Result<Vec<Table>, ImportError> {
        const TABLES: &str = "
            SELECT c.relname::text,
                array(SELECT a.attname::text FROM pg_attribute AS a
                      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                      ORDER BY a.attnum),
                array(SELECT a.attname::text FROM pg_attribute AS a
                      WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
                      ORDER BY array_position(i.indkey::int2[], a.attnum))
            FROM pg_class AS c JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary
            WHERE c.relnamespace = 'jobs'::regnamespace AND c.relkind = 'r'
            ORDER BY c.relname";
        let rows = self.query(TABLES)?;
        let tables =
            rows.iter().map(|row| Table { name: row.get(0), columns: row.get(1), key: row.get(2) });
        Ok(tables.filter(|table| !NOT_COPIED.contains(&table.source())).collect())
    }

    /// Refuses a target that is not empty, and a source with columns that would be left out.
    fn check(&mut self, tables: &[Table]) -> Result<(), ImportError> {
        let database = self.database.name().to_owned();
        let is_copied = |table: &str, column: &str| {
            let mut parts = tables.iter().filter(|part| part.source() == table);
            parts.any(|part| part.columns.iter().any(|name| name == column))
        };
        for (table, column) in self.source.columns()? {
            if !NOT_COPIED.contains(&table.as_str()) && !is_copied(&table, &column) {
                let column = format!("the column {column} of the table {table}");
                return Err(ImportError::UnknownColumn { column, database });
            }
        }
        let rows = tables.iter().map(|table| format!("SELECT FROM jobs.{}", table.name));
        let lead = "SELECT FROM jobs.progress WHERE last_commit > 0 OR address IS NOT NULL";
        let rows: Vec<_> = rows.chain([lead.to_owned()]).collect();
        let sql = format!("SELECT EXISTS ({})", rows.join(" UNION ALL "));
        match self.query(&sql)?.first().is_some_and(|row| row.get(0)) {
            true => Err(ImportError::NotEmpty { database }),
            false => Ok(()),
        }
    }

    fn copy(&mut self, table: &Table) -> Result<Sent, ImportError> {
        let failed = |source| ImportError::Copy { table: table.name.clone(), source };
        let (name, columns) = (&table.name, table.columns());
        let sql = format!("COPY jobs.{name} ({columns}) FROM STDIN (FORMAT binary)");
        let writer = self.client.copy_in(&sql).map_err(|error| self.database.classify(error))?;
        let mut writer = BufWriter::with_capacity(CHUNK_BYTES, writer);
        let (mut rows, mut hash) = (0, Sha256::new());
        let mut send = |bytes: &[u8]| {
            hash.update(bytes);
            writer.write_all(bytes).map_err(failed)
        };
        send(HEADER)?;
        let sql = format!("SELECT {columns} FROM {} ORDER BY {}", table.source(), table.key());
        self.source.scan(&sql, |row| {
            rows += 1;
            send(&table.encode(row)?)
        })?;
        send(&TRAILER)?;
        let writer = writer.into_inner().map_err(|error| failed(error.into_error()))?;
        writer.finish().map_err(|error| self.database.classify(error))?;
        Ok(Sent { rows, hash: hash.finalize().into() })
    }

    /// Reads the copy back, in the same order.
    fn compare(&mut self, table: &Table, sent: &Sent) -> Result<(), ImportError> {
        let name = &table.name;
        let count = self.query(&format!("SELECT count(*) FROM jobs.{name}"))?;
        let copied = count.first().map_or(0, |row| row.get::<_, i64>(0).unsigned_abs());
        let select =
            format!("SELECT {} FROM jobs.{name} ORDER BY {}", table.columns(), table.key());
        let sql = format!("COPY ({select}) TO STDOUT (FORMAT binary)");
        let mut reader =
            self.client.copy_out(&sql).map_err(|error| self.database.classify(error))?;
        let (mut hash, mut chunk) = (Sha256::new(), vec![0; CHUNK_BYTES]);
        loop {
            let read = reader.read(&mut chunk);
            match read.map_err(|source| ImportError::Copy { table: name.clone(), source })? {
                0 => break,
                length => hash.update(&chunk[..length]),
            }
        }
        match copied == sent.rows && <[u8; 32]>::from(hash.finalize()) == sent.hash {
            true => Ok(()),
            false => Err(ImportError::Differs { table: name.clone(), rows: sent.rows, copied }),
        }
    }

    /// What the last commit left. The term stays that of no process, so that any takes over, and
    /// continues with the next number.
    fn copy_progress(&mut self) -> Result<(), ImportError> {
        let mut read = None;
        let select = "SELECT last_commit, last_seq, last_time, ended_jobs, boot_id, boot, wall,
            moment FROM progress";
        self.source.scan(select, |row| {
            let counts: [i64; 4] = [row.value(0)?, row.value(1)?, row.value(2)?, row.value(3)?];
            let times: [Option<i64>; 3] = [row.value(5)?, row.value(6)?, row.value(7)?];
            read = Some((counts, row.value::<Option<Vec<u8>>>(4)?, times));
            Ok::<_, ImportError>(())
        })?;
        let Some((counts, boot_id, [boot, wall, moment])) = read else { return Ok(()) };
        let [last_commit, last_seq, last_time, ended_jobs] = counts;
        let sql = format!(
            "UPDATE jobs.progress SET began_after = $1, last_commit = $1, last_seq = $2,
                last_time = $3, ended_jobs = $4, boot_id = $5, boot = $6, wall = $7, moment = $8,
                server = {SERVER}
             WHERE one = 1"
        );
        let updated = self.client.execute(
            &sql,
            &[&last_commit, &last_seq, &last_time, &ended_jobs, &boot_id, &boot, &wall, &moment],
        );
        updated.map_err(|error| self.database.classify(error))?;
        Ok(())
    }

    fn execute(&mut self, sql: &str) -> Result<(), ImportError> {
        let done = self.client.batch_execute(sql);
        Ok(done.map_err(|error| self.database.classify(error))?)
    }

    fn query(&mut self, sql: &str) -> Result<Vec<Row>, ImportError> {
        let rows = self.client.query(sql, &[]);
        Ok(rows.map_err(|error| self.database.classify(error))?)
    }
}
