//! Classifies failures of PostgreSQL: a full disk, a server that cannot be reached, damage, or
//! something unforeseen.

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::store::StoreError;
use crate::store::row::bad_record;

/// What a failure means to callers; see [`StoreError::Unavailable`] for a session that ended.
pub(super) fn classify(name: &str, error: Error) -> StoreError {
    // Without a code, the connection failed.
    let Some(code) = error.code() else { return unavailable(name, &error) };
    match code {
        code if *code == SqlState::DISK_FULL => StoreError::Full { path: name.into() },
        code if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            StoreError::Damaged { path: name.into(), detail: describe(&error) }
        }
        // Of a row that names another one, which is not stored.
        code if *code == SqlState::NOT_NULL_VIOLATION => bad_record(describe(&error)),
        code if is_passing(code) => unavailable(name, &error),
        _ => error.into(),
    }
}

/// Whether the same statement may succeed on another session.
fn is_passing(code: &SqlState) -> bool {
    const CODES: [&SqlState; 8] = [
        &SqlState::TOO_MANY_CONNECTIONS,
        // The server has become a standby, or this was meant for a transaction that has not begun.
        &SqlState::READ_ONLY_SQL_TRANSACTION,
        &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        &SqlState::IN_FAILED_SQL_TRANSACTION,
        &SqlState::QUERY_CANCELED,
        &SqlState::LOCK_NOT_AVAILABLE,
        &SqlState::T_R_DEADLOCK_DETECTED,
        &SqlState::T_R_SERIALIZATION_FAILURE,
    ];
    let text = code.code();
    CODES.contains(&code) || text.starts_with("08") || text.starts_with("57P")
}

fn unavailable(name: &str, error: &Error) -> StoreError {
    tracing::debug!(detail = describe(error), "{name} cannot be reached");
    StoreError::Unavailable
}

/// The words of the server, or what the client found and why.
pub(super) fn describe(error: &Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(error), _) => error.to_string(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
