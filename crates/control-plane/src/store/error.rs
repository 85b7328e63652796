//! Why a store did not do what it was asked.

use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the disk that holds {} is full", .path.display())]
    Full { path: PathBuf },
    #[error("{} is not a database of this service; move it away or set another data directory", .path.display())]
    Foreign { path: PathBuf },
    #[error("{} is damaged ({detail}); restore it from a backup, or move it away to start empty", .path.display())]
    Damaged { path: PathBuf, detail: String },
    #[error("{} was written by a newer release (format {found}, this one knows {known}); run that release", .path.display())]
    Newer { path: PathBuf, found: u32, known: u32 },
    /// Nothing was changed.
    #[error("cannot back up the state database to {} before its upgrade, which cannot be undone", .path.display())]
    Backup { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{} is in use by another orchestrator; stop it or set another data directory", .path.display())]
    InUse { path: PathBuf },
    /// Nothing was stored.
    #[error("another process has taken the store over")]
    Fenced,
    /// The commit may have been stored or not, and may yet be.
    #[error("the store cannot be reached; whether it stored the commit is unknown")]
    Unavailable,
    /// What was lost is unknown; the numbers in between are not used again.
    #[error("the database has only {found} of {acknowledged} commits that it had acknowledged")]
    WentBack { acknowledged: u64, found: u64 },
    #[error("commit {came} does not follow commit {last}")]
    CommitGap { came: u64, last: u64 },
    #[error("a stored record cannot be read: {detail}")]
    Record { detail: String },
    /// What it would have found is unknown.
    #[error("a search among all jobs took longer than {} seconds", .limit.as_secs())]
    LongSearch { limit: Duration },
    #[error("{database} cannot be used: {detail}")]
    Unusable { database: String, detail: String },
    #[error("the state database failed")]
    Postgres(#[from] tokio_postgres::Error),
    #[error("the state database failed")]
    Sqlite(#[from] rusqlite::Error),
    #[error("access {}", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
}
