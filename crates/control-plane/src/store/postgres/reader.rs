//! A session that reads: statements that are prepared once, and their rows.

use std::collections::HashMap;
use std::time::Duration;

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, accepts, private::BytesMut, to_sql_checked};
use tokio_postgres::{Row, Statement};

use super::connection::{Database, Session};
use crate::store::StoreError;
use crate::store::parameter::Parameter;

/// Prepared statements of a session. There are about forty, and those of job queries depend on the
/// query; beyond this, the one that was not used for the longest time goes.
const PREPARED_STATEMENTS: usize = 128;

/// Each statement is planned once, whatever it compares with, and joins in the order in which it is
/// written. It sorts only what no index has in its order: a walk in order ends with the page, and a
/// bitmap of entries would lose their order.
const PLANS: &str = "
    SET plan_cache_mode = force_generic_plan;
    SET join_collapse_limit = 1;
    SET enable_bitmapscan = off;
    SET enable_sort = off;
    SET enable_incremental_sort = off;";

/// All statements see the same commit.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// The value of a parameter.
pub(super) type Param<'a> = &'a (dyn ToSql + Sync);

pub(super) type Params<'a> = &'a [Param<'a>];

pub(super) struct Reader {
    client: Client,
    database: Database,
    /// How long a statement may take.
    timeout: Duration,
    statements: HashMap<String, Prepared>,
    /// Counts uses of statements.
    uses: u64,
}

struct Prepared {
    statement: Statement,
    last_use: u64,
}

// === impl Reader ===

impl Reader {
    pub(super) fn open(database: &Database, timeout: Duration) -> Result<Self, StoreError> {
        let client = database.connect_blocking(Session::Reader)?;
        let (database, statements) = (database.clone(), HashMap::new());
        let mut reader = Self { client, database, timeout, statements, uses: 0 };
        reader.run(&format!("{PLANS} SET statement_timeout = {};", timeout.as_millis()))?;
        Ok(reader)
    }

    /// Whether the server, or the way to it, has ended this session.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs several statements that see the same commit.
    pub(super) fn snapshot<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.run(BEGIN)?;
        let result = read(self);
        let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = self.run(end);
        result.and_then(|result| ended.map(|()| result))
    }

    pub(super) fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        self.client.batch_execute(sql).map_err(|error| self.classify(error))
    }

    /// Reads rows until `read` returns false.
    pub(super) fn each(
        &mut self,
        sql: &str,
        params: Params<'_>,
        mut read: impl FnMut(&Row) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let statement = self.prepare(sql)?;
        let (database, limit) = (&self.database, self.timeout);
        let fault = |error| classify(database, limit, error);
        let rows = self.client.query_raw(&statement, params.iter().copied());
        let mut rows = rows.map_err(fault)?;
        while let Some(row) = rows.next().map_err(fault)? {
            if !read(&row)? {
                break;
            }
        }
        Ok(())
    }

    /// Every row of the answer, for a reader that reads more for each.
    pub(super) fn rows(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare(sql)?;
        self.client.query(&statement, params).map_err(|error| self.classify(error))
    }

    /// Every row of the answer, read by `read`.
    pub(super) fn all<T>(
        &mut self,
        sql: &str,
        params: Params<'_>,
        read: impl Fn(&Row) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut items = Vec::new();
        self.each(sql, params, |row| {
            items.push(read(row)?);
            Ok(true)
        })?;
        Ok(items)
    }

    /// The only row of the answer, if there is one.
    pub(super) fn one<T>(
        &mut self,
        sql: &str,
        params: Params<'_>,
        read: impl Fn(&Row) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.all(sql, params, read)?.into_iter().next())
    }

    /// The row of an answer that always has one.
    pub(super) fn only<T>(
        &mut self,
        sql: &str,
        params: Params<'_>,
        read: impl Fn(&Row) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.one(sql, params, read)?.ok_or_else(|| {
            let detail = "a row that is always there is missing".to_owned();
            StoreError::Damaged { path: self.database.name().into(), detail }
        })
    }

    /// Those that are prepared, for tests of their plans.
    #[cfg(test)]
    pub(super) fn statements(&self) -> Vec<String> {
        self.statements.keys().cloned().collect()
    }

    fn prepare(&mut self, sql: &str) -> Result<Statement, StoreError> {
        self.uses += 1;
        if let Some(prepared) = self.statements.get_mut(sql) {
            prepared.last_use = self.uses;
            return Ok(prepared.statement.clone());
        }
        if self.statements.len() >= PREPARED_STATEMENTS {
            let oldest = self.statements.iter().min_by_key(|(_, prepared)| prepared.last_use);
            let oldest = oldest.map(|(sql, _)| sql.clone());
            oldest.and_then(|sql| self.statements.remove(&sql));
        }
        let statement = self.client.prepare(sql).map_err(|error| self.classify(error))?;
        let prepared = Prepared { statement: statement.clone(), last_use: self.uses };
        self.statements.insert(sql.to_owned(), prepared);
        Ok(statement)
    }

    fn classify(&self, error: tokio_postgres::Error) -> StoreError {
        classify(&self.database, self.timeout, error)
    }
}

/// A reader's statement is cancelled by its time limit.
fn classify(database: &Database, limit: Duration, error: tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(code) if *code == SqlState::QUERY_CANCELED => StoreError::LongSearch { limit },
        _ => database.classify(error),
    }
}

// === impl Parameter ===

impl ToSql for Parameter {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Integer(value) => value.to_sql(ty, out),
            Self::Text(text) => text.as_bytes().to_sql(ty, out),
            Self::Bytes(bytes) => bytes.to_sql(ty, out),
            Self::Texts(texts) => {
                let texts: Vec<_> = texts.iter().map(String::as_bytes).collect();
                texts.to_sql(ty, out)
            }
        }
    }

    accepts!(INT8, BYTEA, BYTEA_ARRAY);

    to_sql_checked!();
}
