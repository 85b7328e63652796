//! A session of the writer: its prepared statements, and commits as pipelines.
//!
//! Each statement of a pipeline ends with its own Sync. Only then does the server wait for the next
//! one as it waits for a client, and end the session of a client that was stopped in between.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures_util::TryStreamExt;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, RowStream, Statement};

use super::connection::{Database, Session};
use super::values::{Param, Step};
use crate::store::StoreError;

/// A server refuses a message of 1 GiB, and ends the session.
const MAX_STEP_BYTES: usize = 512 << 20;

/// What the server says of itself, which differs after a promotion and after a restore.
pub(super) const SERVER: &str = "
    convert_to((SELECT system_identifier FROM pg_control_system())::text || '/' ||
        substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) || '/' ||
        'jobs.progress'::regclass::oid::text, 'UTF8')";

/// The session as PostgreSQL shows it to followers, and the server.
fn session() -> String {
    let of_session = "pg_stat_get_activity(pg_backend_pid())";
    format!("SELECT pg_backend_pid()::bigint, a.backend_start, {SERVER} FROM {of_session} AS a")
}

pub(super) struct Link {
    client: Client,
    database: Database,
    statements: HashMap<&'static str, Statement>,
    warned: Arc<AtomicBool>,
    pub(super) session: SessionId,
}

/// The session in which a process commits, and the server that it is on.
#[derive(Debug, Clone)]
pub(super) struct SessionId {
    pub(super) pid: Param,
    pub(super) backend_start: Param,
    pub(super) server: Vec<u8>,
}

/// What became of each part of a pipeline.
pub(super) struct Sent {
    pub(super) begin: Result<(), Error>,
    /// The number of changed rows.
    pub(super) steps: Vec<Result<u64, Error>>,
    pub(super) commit: Result<(), Error>,
    /// A cancelled wait for a standby looks like a commit otherwise.
    pub(super) has_warned: bool,
}

/// A statement that is under way.
type Part<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Bytes as they come, of any type.
struct Raw(Vec<u8>);

// === impl Link ===

impl Link {
    pub(super) async fn open(database: &Database) -> Result<Self, StoreError> {
        let (client, warned) = database.connect_watched(Session::Writer).await?;
        let row =
            client.query_one(&session(), &[]).await.map_err(|error| database.classify(error))?;
        let backend_start: Option<Raw> = row.get(1);
        let session = SessionId {
            pid: Param::number(row.get(0)),
            backend_start: Param::option(backend_start.map(|raw| raw.0)),
            server: row.get(2),
        };
        let (database, statements) = (database.clone(), HashMap::new());
        Ok(Self { client, database, statements, warned, session })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    async fn prepare(&mut self, step: &Step) -> Result<(), Error> {
        if !self.statements.contains_key(step.template.key()) {
            let statement = self.client.prepare(&step.template.sql()).await?;
            self.statements.insert(step.template.key(), statement);
        }
        Ok(())
    }

    /// The rows of a read outside of any commit.
    pub(super) async fn query(
        &mut self,
        text: &'static str,
        params: Vec<Param>,
    ) -> Result<Vec<Row>, StoreError> {
        let step = Step::new(text, params);
        let rows = async {
            self.prepare(&step).await?;
            let params: Vec<_> = step.params.iter().map(|param| param as _).collect();
            self.client.query(&self.statements[step.template.key()], &params).await
        };
        rows.await.map_err(|error| self.database.classify(error))
    }

    /// The rows of a read of any length, as they come.
    pub(super) async fn rows(&self, sql: &str) -> Result<RowStream, StoreError> {
        let no_params: [&(dyn ToSql + Sync); 0] = [];
        let rows = self.client.query_raw(sql, no_params).await;
        rows.map_err(|error| self.database.classify(error))
    }

    /// Reads each of them.
    pub(super) async fn stream(
        &self,
        sql: &str,
        mut read: impl FnMut(&Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut rows = pin!(self.rows(sql).await?);
        while let Some(row) =
            rows.try_next().await.map_err(|error| self.database.classify(error))?
        {
            read(&row)?;
        }
        Ok(())
    }

    /// Statements without parameters or rows.
    pub(super) async fn execute(&self, sql: &str) -> Result<(), StoreError> {
        let done = self.client.batch_execute(sql).await;
        done.map_err(|error| self.database.classify(error))
    }

    /// Sends all steps as one transaction, without waiting in between. It is stored only if no part
    /// failed: a COMMIT after a failure succeeds as well.
    pub(super) async fn send(&mut self, steps: &[Step]) -> Result<Sent, Error> {
        for step in steps {
            self.prepare(step).await?;
        }
        self.warned.store(false, Ordering::Release);
        let mut parts: Vec<Part<'_, Result<u64, Error>>> = Vec::with_capacity(steps.len() + 2);
        let client = &self.client;
        let simple = async |text| client.batch_execute(text).await.map(|()| 0);
        parts.push(Box::pin(simple("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")));
        for step in steps {
            let params: Vec<&(dyn ToSql + Sync)> = step.params.iter().map(|p| p as _).collect();
            let statement = &self.statements[step.template.key()];
            parts.push(Box::pin(async move { client.execute(statement, &params).await }));
        }
        parts.push(Box::pin(simple("COMMIT")));
        let mut results = in_order(parts).await;
        let commit = results.pop().unwrap_or(Ok(0)).map(drop);
        let steps = results.split_off(1);
        let begin = results.remove(0).map(drop);
        let has_warned = self.warned.load(Ordering::Acquire);
        Ok(Sent { begin, steps, commit, has_warned })
    }
}

/// Whether the server takes messages of this size. If one were not sent, the others would be stored
/// without it.
pub(super) fn fits(steps: &[Step]) -> bool {
    steps.iter().all(|step| step.len() <= MAX_STEP_BYTES)
}

/// Runs them concurrently, so that they go out in this order: each sends when it is polled first.
async fn in_order<T>(mut parts: Vec<Part<'_, T>>) -> Vec<T> {
    let mut results: Vec<Option<T>> = parts.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_complete = true;
        for (part, result) in parts.iter_mut().zip(&mut results) {
            if result.is_none() {
                match part.as_mut().poll(context) {
                    Poll::Ready(value) => *result = Some(value),
                    Poll::Pending => is_complete = false,
                }
            }
        }
        if is_complete { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.into_iter().flatten().collect()
}

impl<'a> tokio_postgres::types::FromSql<'a> for Raw {
    fn from_sql(
        _: &tokio_postgres::types::Type,
        raw: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(_: &tokio_postgres::types::Type) -> bool {
        true
    }
}
