//! The durable record of this node's executions, written before any response.
//!
//! One SQLite file in WAL mode with `synchronous=FULL`: a commit that returned survives a crash of
//! the machine. The supervisor is its only user and commits the outcome of many events together, so
//! a batch costs one fsync; an execution costs one row with its work (about 2 kB), one with its
//! phase, and one per unacknowledged report.
//!
//! Rejected: a journal of our own, because the small saving does not justify a format with its own
//! recovery code.

mod schema;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_core::execution::Phase;
use agent_core::{Batch, Contents, Execution, StoredReport};
use api_types::execution::DesiredState;
use api_types::protocol::{Acknowledgement, Work};
use api_types::{ExecutionId, NodeId};
use rusqlite::{Connection, ErrorCode, params};
use serde_json::Value;
use uuid::Uuid;

/// A failed write with less than this free counts as a full disk: file systems refuse in steps of
/// their block and extent sizes, and some reserve a last part.
const NO_ROOM_BYTES: u64 = 4 << 20;

/// A finished execution keeps a specification up to this size as it is: to write it again would cost
/// more than it takes.
const LONG_WORK_BYTES: usize = 64 << 10;

#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("cannot use the ledger {} ({reason}); restore it, or move it away to start as a new node", path.display())]
    Unusable { path: PathBuf, reason: String },
    #[error("cannot write the ledger")]
    Write(#[source] rusqlite::Error),
    #[error("cannot write the ledger: its disk is full")]
    Full(#[source] rusqlite::Error),
}

/// The open ledger.
#[derive(Debug)]
pub(crate) struct Ledger {
    connection: Connection,
    node_id: NodeId,
}

// === impl Ledger ===

impl Ledger {
    /// Opens or creates the ledger. Refuses a file that is not a ledger, and leaves it unchanged.
    pub(crate) fn open(path: &Path) -> Result<Self, LedgerError> {
        schema::open(path)
            .map(|(connection, node_id)| Self { connection, node_id })
            .map_err(|reason| LedgerError::Unusable { path: path.to_owned(), reason })
    }

    /// This node's id, created with the ledger.
    pub(crate) fn node_id(&self) -> NodeId {
        self.node_id
    }

    /// Gives the node another id; only for a ledger without executions, which have the old one.
    pub(crate) fn set_node_id(&mut self, node_id: NodeId) -> Result<(), LedgerError> {
        self.connection
            .execute("UPDATE node SET id = ?1", [node_id.uuid().as_bytes()])
            .map_err(LedgerError::Write)?;
        self.node_id = node_id;
        Ok(())
    }

    pub(crate) fn load(&self, path: &Path) -> Result<Contents, LedgerError> {
        self.read().map_err(|error| LedgerError::Unusable {
            path: path.to_owned(),
            reason: error.to_string(),
        })
    }

    fn read(&self) -> Result<Contents, ReadError> {
        let mut contents = Contents::default();
        let mut statement = self.connection.prepare(
            "SELECT p.execution_id, w.work, p.desired, p.phase, p.reported, p.gpus
             FROM phases p JOIN works w ON w.execution_id = p.execution_id",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let phase: Phase = serde_json::from_str(row.get_ref(3)?.as_str()?)?;
            let work: Work = serde_json::from_str(row.get_ref(1)?.as_str()?)?;
            // A thousand specifications of megabytes would not fit into memory.
            let work = if phase.is_done() { work.outline() } else { work };
            contents.executions.push(Execution {
                id: ExecutionId::from_uuid(Uuid::from_bytes(row.get(0)?)),
                work: Arc::new(work),
                desired: DesiredState::try_from(row.get::<_, u8>(2)?)?,
                phase,
                reported: row.get::<_, i64>(4)?.cast_unsigned(),
                gpus: serde_json::from_str(row.get_ref(5)?.as_str()?)?,
            });
        }
        let mut statement =
            self.connection.prepare("SELECT position, report FROM reports ORDER BY position")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let json: String = row.get(1)?;
            contents.reports.push(StoredReport {
                position: row.get::<_, i64>(0)?.cast_unsigned(),
                report: serde_json::from_str(&json)?,
                json,
            });
        }
        let mut statement = self.connection.prepare("SELECT record FROM ends")?;
        let mut rows = statement.query([])?;
        if let Some(row) = rows.next()? {
            contents.ends = serde_json::from_str(row.get_ref(0)?.as_str()?)?;
        }
        Ok(contents)
    }

    /// Commits the batch atomically and durably. Repeating a batch changes nothing: the supervisor
    /// retries a commit that failed after it became durable.
    pub(crate) fn commit(&mut self, batch: &Batch) -> Result<(), LedgerError> {
        self.write(batch).map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => LedgerError::Full(error),
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if self.has_no_room() => {
                LedgerError::Full(error)
            }
            _ => LedgerError::Write(error),
        })
    }

    fn has_no_room(&self) -> bool {
        let path = self.connection.path().unwrap_or_default();
        rustix::fs::statvfs(path)
            .is_ok_and(|system| system.f_bavail.saturating_mul(system.f_frsize) < NO_ROOM_BYTES)
    }

    fn write(&mut self, batch: &Batch) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut work = transaction.prepare_cached(
                "INSERT OR REPLACE INTO works (execution_id, work) VALUES (?1, ?2)",
            )?;
            for (id, body) in &batch.admitted {
                work.execute(params![id.uuid().as_bytes(), json(&**body)?])?;
            }
            let mut phase = transaction.prepare_cached(
                "INSERT OR REPLACE INTO phases (execution_id, desired, phase, reported, gpus)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            let mut shorten =
                transaction.prepare_cached("UPDATE works SET work = ?2 WHERE execution_id = ?1")?;
            for (id, execution) in &batch.changed {
                if execution.phase.is_done() && is_long(&execution.work) {
                    let outline = json(&execution.work.outline())?;
                    shorten.execute(params![id.uuid().as_bytes(), outline])?;
                }
                phase.execute(params![
                    id.uuid().as_bytes(),
                    u8::from(execution.desired),
                    json(&execution.phase)?,
                    execution.reported.cast_signed(),
                    json(&execution.gpus)?,
                ])?;
            }
            // Before the inserts: a new report may have the number of an earlier, acknowledged
            // one.
            let mut acknowledge = transaction
                .prepare_cached("DELETE FROM reports WHERE execution_id = ?1 AND sequence = ?2")?;
            for Acknowledgement { execution_id, sequence } in &batch.acknowledged {
                acknowledge
                    .execute(params![execution_id.uuid().as_bytes(), sequence.cast_signed()])?;
            }
            let mut report = transaction.prepare_cached(
                "INSERT OR REPLACE INTO reports (position, execution_id, sequence, report)
                 VALUES (?1, ?2, ?3, ?4)",
            )?;
            for StoredReport { position, report: body, json } in &batch.reports {
                report.execute(params![
                    position.cast_signed(),
                    body.execution_id.uuid().as_bytes(),
                    body.sequence.cast_signed(),
                    json,
                ])?;
            }
            let mut forget_phase =
                transaction.prepare_cached("DELETE FROM phases WHERE execution_id = ?1")?;
            let mut forget_work =
                transaction.prepare_cached("DELETE FROM works WHERE execution_id = ?1")?;
            for id in &batch.forgotten {
                forget_phase.execute([id.uuid().as_bytes()])?;
                forget_work.execute([id.uuid().as_bytes()])?;
            }
            if let Some(ends) = &batch.ends {
                transaction.prepare_cached("DELETE FROM ends")?.execute([])?;
                let mut note = transaction.prepare_cached("INSERT INTO ends VALUES (?1)")?;
                note.execute([json(ends)?])?;
            }
        }
        transaction.commit()
    }
}

/// Whether most of a specification is what only a run needs, such as the content of an input.
fn is_long(work: &Work) -> bool {
    let task = &work.task;
    let texts = task.env.values().chain(task.meta.values()).map(String::len);
    let params = [&task.engine.params, &task.publisher.params].into_iter();
    let params = params.chain(task.input_sources.iter().map(|input| &input.source.params));
    let params = params.flat_map(|params| params.values()).map(length);
    texts.chain(params).sum::<usize>() > LONG_WORK_BYTES
}

/// The bytes of all texts in a value.
fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(length).sum(),
        Value::Object(fields) => fields.values().map(length).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// A row that cannot be parsed.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error(transparent)]
    Text(#[from] rusqlite::types::FromSqlError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    State(#[from] api_types::execution::UnknownState),
}

fn json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

#[cfg(test)]
mod tests;
