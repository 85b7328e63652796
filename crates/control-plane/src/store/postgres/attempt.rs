//! The attempt to store one commit, which lasts until its outcome is known.
//!
//! Only three things are known for sure: all statements succeeded without a warning, so it is
//! stored; the fence refused it; or a statement failed, and so all of it. After anything else the
//! same commit is sent again on another session, where the fence either lets it pass or finds its
//! number. A number that is found proves nothing: a standby may lack it. So a later write is waited
//! for, which is replicated after it.

use std::time::Duration;

use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use super::connection::Database;
use super::fault::classify;
use super::link::{Link, Sent};
use super::progress;
use super::values::Step;
use crate::store::{Admission, CommitId, StoreError};

/// Between two attempts to reach the server.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A commit, encoded.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) id: CommitId,
    /// The fence is the first.
    pub(super) steps: Vec<Step>,
    /// The last number that this process knows to be stored.
    pub(super) acknowledged: u64,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    Written,
    /// The number was there already.
    Repeated,
}

/// What one pipeline shows.
enum Shown {
    Written,
    /// The fence did not let it pass.
    Refused,
    Failed(StoreError),
    Unknown,
}

/// Returns the session too, if it can still be used.
pub(super) async fn run(
    database: Database,
    mut link: Option<Link>,
    mut order: Order,
) -> (Option<Link>, Result<Settled, StoreError>) {
    loop {
        let mut at = match link.take() {
            Some(link) => link,
            None => match Link::open(&database).await {
                Ok(link) => link,
                Err(StoreError::Unavailable) => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                    continue;
                }
                Err(error) => return (None, Err(error)),
            },
        };
        progress::set_session(&mut order.steps[0], &at.session);
        match send(&database, &mut at, &order.steps).await {
            Shown::Written => return (Some(at), Ok(Settled::Written)),
            Shown::Refused => match refused(&database, &mut at, &order).await {
                Ok(true) => return (Some(at), Ok(Settled::Repeated)),
                Ok(false) | Err(StoreError::Unavailable) => {}
                Err(error) => return (Some(at), Err(error)),
            },
            Shown::Failed(error) => return (None, Err(error)),
            Shown::Unknown => {}
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// One transaction that is not a commit of the step's. Returns the number of rows that its last step
/// changed; what it has stored is unknown if it cannot be reached.
pub(super) async fn once(
    database: &Database,
    link: &mut Link,
    steps: &[Step],
) -> Result<u64, StoreError> {
    let sent = link.send(steps).await.map_err(|error| database.classify(error))?;
    let Sent { begin, steps, commit, has_warned } = sent;
    let classify = |error| database.classify(error);
    begin.map_err(classify)?;
    let changed: Vec<_> = steps.into_iter().collect::<Result<_, _>>().map_err(classify)?;
    commit.map_err(classify)?;
    match has_warned {
        true => Err(StoreError::Unavailable),
        false => Ok(changed.last().copied().unwrap_or(0)),
    }
}

async fn send(database: &Database, link: &mut Link, steps: &[Step]) -> Shown {
    let sent = match link.send(steps).await {
        Ok(sent) => sent,
        // Before anything was sent.
        Err(error) => return failed(database, error),
    };
    let _ = failpoint::reach_blocking("commit.sent");
    shown(database, sent)
}

fn shown(database: &Database, sent: Sent) -> Shown {
    let Sent { begin, steps, commit, has_warned } = sent;
    if let Err(error) = begin {
        // The session is read-only, so that the rest has failed too.
        return failed(database, error);
    }
    let mut steps = steps.into_iter();
    match steps.next() {
        Some(Err(error)) if is_fence(&error) => return Shown::Refused,
        Some(Ok(0)) => {
            let detail = "the row progress is missing".to_owned();
            return Shown::Failed(StoreError::Damaged { path: database.name().into(), detail });
        }
        Some(Err(error)) => return failed(database, error),
        Some(Ok(_)) | None => {}
    }
    if let Some(error) = steps.find_map(Result::err) {
        return failed(database, error);
    }
    match commit {
        Ok(()) if !has_warned => Shown::Written,
        Ok(()) | Err(_) => Shown::Unknown,
    }
}

fn failed(database: &Database, error: Error) -> Shown {
    let is_over = error.as_db_error().is_none_or(|error| {
        matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
    });
    match classify(database.name(), error) {
        StoreError::Unavailable => Shown::Unknown,
        _ if is_over => Shown::Unknown,
        error => Shown::Failed(error),
    }
}

fn is_fence(error: &Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        *error.code() == SqlState::NOT_NULL_VIOLATION
            && error.table() == Some("progress")
            && error.column() == Some("term")
    })
}

/// Whether the number is stored for good; false if the commit may be sent again.
async fn refused(database: &Database, link: &mut Link, order: &Order) -> Result<bool, StoreError> {
    let found = progress::read(link).await?.progress;
    if found.last_commit < order.acknowledged {
        return Err(went_back(database, link, order.acknowledged, found.last_commit).await);
    }
    match found.admit(order.id)? {
        Admission::New => Ok(false),
        Admission::Repeat => {
            let step = progress::settle(order.id.term, order.id.number);
            Ok(once(database, link, &[step]).await? > 0)
        }
    }
}

/// The server has lost what it acknowledged, as after the promotion of a standby that was behind:
/// the next leader must not use these numbers again.
pub(super) async fn went_back(
    database: &Database,
    link: &mut Link,
    acknowledged: u64,
    found: u64,
) -> StoreError {
    tracing::error!(
        acknowledged,
        found,
        "the database has lost commits that it had acknowledged; the next orchestrator skips their numbers"
    );
    // Where that fails, the next process sees that the server is another one, or an operator must.
    let _ = once(database, link, &[progress::forget_server()]).await;
    StoreError::WentBack { acknowledged, found }
}
