//! The tables, in the schema `jobs`, and the steps that bring an older database up to them.
//!
//! Those of `schema/create.sql` are SQLite's, column for column, under the same numbers of formats;
//! see its `schema.rs` for what they are for and when a step raises `oldest`. IDs and texts are
//! `bytea`: they may hold NULs, and their order is that of their bytes. All numbers, and what is true
//! or false, are `bigint`.
//!
//! Two tables are split, because PostgreSQL writes a whole new row for each change:
//!
//! - `job_run` holds the part of a job that changes, under the job's number. It repeats `id`,
//!   `create_time` and `namespace`, which never change, for its indexes.
//! - `job_plan` holds the plan of the newest specification, which a load reads; `job_spec` holds
//!   the specification alone.
//!
//! `progress` is both the lease and the fence. It is never altered, because an older follower reads
//! it while a newer leader migrates the rest. A null `address` says that no process leads. `member` is
//! never altered either: a follower of any release writes its row there, as JSON, and nothing else.

use tokio_postgres::{Client, Error};

use super::link::Link;
use super::values::Param;
use crate::store::{StoreError, Term};

/// The format of the data that this release writes.
pub(super) const FORMAT: u32 = 29;

/// The format of a database that [`CREATE`] has made.
const CREATED: u32 = 29;

/// Step `n` brings a database from format `CREATED + n` to the next.
const STEPS: [&str; (FORMAT - CREATED) as usize] = [];

const FORMATS: Formats<'static> = Formats { created: CREATED, steps: &STEPS, oldest: 29 };

/// How a release brings older databases up to its format.
pub(super) struct Formats<'a> {
    pub(super) created: u32,
    pub(super) steps: &'a [&'a str],
    /// The oldest format whose releases may lead on what this one writes.
    pub(super) oldest: u32,
}

/// The format of the data that this process writes: a test may have it stand for the next release.
pub fn format() -> u32 {
    FORMAT + u32::from(failpoint::next_format().is_some())
}

/// Held while the schema is created: "jobs". Another process waits, and finds it.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1785684595)";

/// What exists once the schema does.
const EXISTS: &str = "SELECT to_regclass('jobs.progress') IS NOT NULL";

const CREATE: &str = include_str!("schema/create.sql");

/// Creates the tables where there are none.
pub(super) async fn create(client: &Client) -> Result<(), Error> {
    if exists(client).await? {
        return Ok(());
    }
    client.batch_execute("BEGIN READ WRITE").await?;
    let created = async {
        client.batch_execute(LOCK).await?;
        match exists(client).await? {
            true => Ok(()),
            false => client.batch_execute(CREATE).await,
        }
    };
    let created = created.await;
    let end = if created.is_ok() { "COMMIT" } else { "ROLLBACK" };
    client.batch_execute(end).await?;
    created
}

async fn exists(client: &Client) -> Result<bool, Error> {
    Ok(client.query_one(EXISTS, &[]).await?.get(0))
}

/// Brings the database from `format` to that of this process in one transaction, which fails if this term is
/// over.
pub(super) async fn migrate(link: &mut Link, format: u32, term: Term) -> Result<(), StoreError> {
    let Some(next) = failpoint::next_format() else {
        return migrate_by(link, format, term, &FORMATS).await;
    };
    let step = format!(
        "CREATE TABLE of_the_next_format (one bigint); SELECT pg_sleep({})",
        next.migration.as_secs()
    );
    let steps = [&STEPS[..], &[&step]].concat();
    let oldest = if next.is_compatible { FORMATS.oldest } else { FORMAT + 1 };
    migrate_by(link, format, term, &Formats { created: CREATED, steps: &steps, oldest }).await
}

pub(super) async fn migrate_by(
    link: &mut Link,
    format: u32,
    term: Term,
    formats: &Formats<'_>,
) -> Result<(), StoreError> {
    let done = format.saturating_sub(formats.created) as usize;
    let Some(steps @ [_, ..]) = formats.steps.get(done..) else { return Ok(()) };
    let to = i64::from(format) + i64::try_from(steps.len()).unwrap_or(0);
    tracing::info!(from = format, to, "upgrading the state database");
    link.execute("BEGIN READ WRITE").await?;
    let fence = "UPDATE progress SET format = $2::bigint, oldest = $3::bigint
        WHERE one = 1 AND term = $1::bytea RETURNING one";
    let params = vec![
        Param::bytes(term.0.to_be_bytes()),
        Param::number(to),
        Param::number(formats.oldest.into()),
    ];
    if link.query(fence, params).await?.is_empty() {
        return Err(StoreError::Fenced);
    }
    for step in steps {
        link.execute(step).await?;
    }
    link.execute("COMMIT").await
}
