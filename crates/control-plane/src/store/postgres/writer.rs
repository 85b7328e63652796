//! The writer: it turns each commit into an attempt, and waits a while for its outcome.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use api_types::JobId;
use api_types::dependency::Indexes;
use scheduler::change::{Live, LiveJobRow, NamedJob};
use scheduler::time::Moment;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::attempt::{self, Order, Settled};
use super::connection::Database;
use super::engine::Engine;
use super::known::Known;
use super::link::{Link, fits};
use super::progress::OwnTerm;
use super::values::Step;
use super::write::{self, Written};
use super::{load, lookup, named, progress, prune};
use crate::audit::Chains;
use crate::records::Record;
use crate::store::ended::EndedJobs;
use crate::store::row::bad_record;
use crate::store::{
    Admission, Commit, CommitId, LookupResults, Outcome, Progress, Removed, RequestKey, Store,
    StoreError, Write,
};

/// How long a call waits for the server. After it, the attempt to commit goes on by itself.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

type Finished = (Option<Link>, Result<Settled, StoreError>);

/// The store of the process that leads.
pub struct PostgresStore {
    engine: Engine,
    database: Database,
    /// None when it was lost, or while an attempt has it.
    link: Option<Link>,
    term: OwnTerm,
    /// The last number that this process knows to be stored.
    acknowledged: u64,
    known: Option<Known>,
    ended: EndedJobs,
    pending: Option<Pending>,
    /// [`PATIENCE`], or longer on a machine that is busy with tests.
    pub(super) patience: Duration,
}

/// How long a call may take.
enum Within {
    Patience,
    /// A load: the driver ends it if it stops reading.
    AnyTime,
}

/// An attempt that a caller has given up waiting for.
struct Pending {
    id: CommitId,
    removed: Removed,
    attempt: JoinHandle<Finished>,
}

/// A commit, encoded, and what it removes.
struct Prepared {
    /// The fence is the first.
    steps: Vec<Step>,
    removed: Removed,
}

// === impl PostgresStore ===

impl PostgresStore {
    /// The store of the process that began this term, on the session that it names.
    pub(super) fn new(
        engine: Engine,
        database: Database,
        link: Link,
        term: OwnTerm,
        acknowledged: u64,
    ) -> Self {
        Self {
            engine,
            database,
            link: Some(link),
            term,
            acknowledged,
            known: None,
            ended: EndedJobs::default(),
            pending: None,
            patience: PATIENCE,
        }
    }

    /// Runs a read on the session; one that fails, or is given up, ends it.
    fn run<T>(
        &mut self,
        within: Within,
        action: impl AsyncFnOnce(&Database, &mut Link) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let within = match within {
            Within::Patience => Some(self.patience),
            Within::AnyTime => None,
        };
        let engine = self.engine.clone();
        let (database, link) = (&self.database, self.link.take());
        let (link, result) = engine.wait(async {
            let run = async {
                let mut link = ready(database, link).await?;
                let result = action(database, &mut link).await?;
                Ok((link, result))
            };
            match give_up_after(within, run).await {
                Ok((link, result)) => (Some(link), Ok(result)),
                Err(error) => (None, Err(error)),
            }
        });
        self.link = link;
        result
    }

    /// Stops waiting for an attempt. What it has sent may yet be stored: the row is locked as long
    /// as that is so, and the next statement on it waits.
    fn abandon(&mut self) {
        if self.pending.take().is_some() {
            self.forget();
        }
    }

    fn begin(&mut self, commit: &Commit<'_>) -> Result<Option<Pending>, StoreError> {
        let mut known = self.known.take();
        let mut ended = std::mem::take(&mut self.ended);
        let prepared = self.run(Within::Patience, async |database, link| {
            prepare(database, link, &mut known, &mut ended, commit).await
        })?;
        (self.known, self.ended) = (known, ended);
        let Some(Prepared { steps, removed }) = prepared else { return Ok(None) };
        let order = Order { id: commit.id, steps, acknowledged: self.acknowledged };
        let (database, link) = (self.database.clone(), self.link.take());
        let attempt = self.engine.spawn(attempt::run(database, link, order));
        Ok(Some(Pending { id: commit.id, removed, attempt }))
    }

    /// Waits for an attempt; one that takes longer is kept for the repeat of the commit.
    fn finish(&mut self, mut pending: Pending) -> Result<Outcome, StoreError> {
        let end = Instant::now() + self.patience;
        let attempt = &mut pending.attempt;
        let finished = self.engine.wait(async { timeout_at(end, attempt).await });
        let (link, settled) = match finished {
            Ok(Ok(finished)) => finished,
            // It panicked, so that nothing is known.
            Ok(Err(_)) => (None, Err(StoreError::Unavailable)),
            Err(_) => {
                self.pending = Some(pending);
                return Err(StoreError::Unavailable);
            }
        };
        self.link = link;
        match settled {
            Ok(Settled::Written) => {
                self.acknowledged = pending.id.number;
                Ok(Outcome::Written(pending.removed))
            }
            Ok(Settled::Repeated) => {
                self.acknowledged = self.acknowledged.max(pending.id.number);
                self.forget();
                Ok(Outcome::Repeated)
            }
            Err(error) => {
                self.forget();
                Err(error)
            }
        }
    }

    /// What it knew has come true only if the commit was stored.
    fn forget(&mut self) {
        self.known = None;
        self.ended = EndedJobs::default();
    }
}

impl Store for PostgresStore {
    fn take(&mut self) -> Result<Progress, StoreError> {
        self.abandon();
        self.forget();
        let (former, new) = (self.term.current(), self.term.next());
        let acknowledged = self.acknowledged;
        let progress = self.run(Within::Patience, async |database, link| {
            let steps = [progress::lock_timeout(), progress::take(former, new)];
            let changed = attempt::once(database, link, &steps).await?;
            let progress = progress::read(link).await?.progress;
            if progress.last_commit < acknowledged {
                let found = progress.last_commit;
                return Err(attempt::went_back(database, link, acknowledged, found).await);
            }
            match changed {
                0 => Err(StoreError::Fenced),
                _ => Ok(progress),
            }
        })?;
        self.term.has_begun(progress.term);
        self.acknowledged = progress.last_commit;
        Ok(progress)
    }

    fn progress(&mut self) -> Result<Progress, StoreError> {
        self.run(Within::Patience, async |_, link| Ok(progress::read(link).await?.progress))
    }

    fn load(&mut self, job: &mut dyn FnMut(LiveJobRow)) -> Result<Live, StoreError> {
        self.run(Within::AnyTime, async |database, link| load::load(database, link, job).await)
    }

    fn audit_chains(&mut self) -> Result<Chains, StoreError> {
        self.run(Within::AnyTime, async |_, link| lookup::audit_chains(link).await)
    }

    fn records(&mut self) -> Result<Vec<Record>, StoreError> {
        self.run(Within::AnyTime, async |_, link| lookup::records(link).await)
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<Outcome, StoreError> {
        if let Some(pending) = self.pending.take_if(|pending| pending.id == commit.id) {
            return self.finish(pending);
        }
        self.abandon();
        match self.begin(commit) {
            Ok(Some(pending)) => self.finish(pending),
            Ok(None) => Ok(Outcome::Idle),
            Err(error) => {
                self.forget();
                Err(error)
            }
        }
    }

    fn named(&mut self, jobs: &BTreeMap<JobId, Indexes>) -> Result<Vec<NamedJob>, StoreError> {
        self.run(Within::Patience, async |_, link| named::find(link, jobs).await)
    }

    fn lookup(
        &mut self,
        keys: &[RequestKey],
        oldest: Moment,
        jobs: &[JobId],
    ) -> Result<LookupResults, StoreError> {
        self.run(Within::Patience, async |_, link| {
            let keys = lookup::keys(link, keys, oldest).await?;
            let jobs = lookup::jobs(link, jobs).await?;
            Ok(LookupResults { keys, jobs, ..LookupResults::default() })
        })
    }

    fn resign(&mut self) -> Result<(), StoreError> {
        self.abandon();
        let term = self.term.current();
        self.run(Within::Patience, async |database, link| {
            let steps = [progress::lock_timeout(), progress::resign(term, progress::new_term())];
            attempt::once(database, link, &steps).await
        })?;
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.attempt.abort();
    }
}

/// The session, or another one.
async fn ready(database: &Database, link: Option<Link>) -> Result<Link, StoreError> {
    match link.filter(|link| !link.is_closed()) {
        Some(link) => Ok(link),
        None => Link::open(database).await,
    }
}

async fn give_up_after<T>(
    within: Option<Duration>,
    run: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match within {
        None => run.await,
        Some(within) => {
            timeout_at(Instant::now() + within, run).await.unwrap_or(Err(StoreError::Unavailable))
        }
    }
}

/// Encodes a commit; none if it is a removal and nothing is due.
async fn prepare(
    database: &Database,
    link: &mut Link,
    known: &mut Option<Known>,
    ended: &mut EndedJobs,
    commit: &Commit<'_>,
) -> Result<Option<Prepared>, StoreError> {
    let known = match known {
        Some(known) => known,
        None => known.insert(Known::read(link).await?),
    };
    let Written { steps, more_ended, removed } = match commit.write {
        Write::Batch { .. } => write::encode(link, known, ended, commit.write).await?,
        Write::Probe => {
            attempt::once(database, link, &[prune::fill()]).await?;
            Written { steps: vec![prune::empty()], ..Written::default() }
        }
        // A scan that finds nothing writes nothing, but a fenced writer still learns that it is.
        Write::Removal(removal) => match progress::read(link).await?.progress.admit(commit.id)? {
            Admission::Repeat => Written::default(),
            Admission::New => {
                match prune::prune(link, known, ended, commit.stamp.moment, removal).await? {
                    Some(written) => written,
                    None => return Ok(None),
                }
            }
        },
    };
    let fence = progress::fence(commit, more_ended, &link.session);
    let steps: Vec<_> = std::iter::once(fence).chain(steps).collect();
    known.ended_jobs += more_ended;
    match fits(&steps) {
        true => Ok(Some(Prepared { steps, removed })),
        false => Err(bad_record("a commit is too large for the database")),
    }
}
