//! What all connections to the file have in common.

use rusqlite::Connection;
use rusqlite::config::DbConfig;

/// Specifications may hold secrets in `Env`, so only the owner may read the files.
pub(super) const FILE_MODE: u32 = 0o600;

/// Cached prepared statements; the writer has about thirty, readers build theirs per query.
const PREPARED_STATEMENTS: usize = 64;

/// Compiles each statement once. By default, SQLite fits some plans to what is bound, a LIMIT for one,
/// and compiles such a statement again whenever it is bound: that took a quarter of the time in which
/// jobs are removed.
pub(super) fn keep_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(PREPARED_STATEMENTS);
    Ok(())
}
