//! A process that watches the lead, and may take it over.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::connection::{Database, Session, check_server};
use super::engine::Engine;
use super::link::Link;
use super::progress::{self, Lease, OwnTerm};
use super::reads::PostgresReads;
use super::row::Columns;
use super::writer::PostgresStore;
use super::{attempt, schema};
use crate::clock::Stamp;
#[cfg(test)]
use crate::store::Progress;
use crate::store::{Beat, Candidate, Hold, Leader, Sighting, StoreError, Won};

/// How long one call may take on a connection; then another one is used.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the first poll on an empty database may take: a slow disk syncs a file for each table.
const CREATION_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a migration may take: it reads and writes whole tables.
const MIGRATION_TIMEOUT: Duration = Duration::from_hours(1);

pub struct PostgresCandidate {
    engine: Engine,
    database: Database,
    link: Option<Link>,
    /// Connections that it has used.
    connections: u64,
    /// Whether the schema is known to exist.
    is_prepared: bool,
    /// What the last poll has read.
    last: Option<Lease>,
    /// The highest number seen in any poll.
    highest: u64,
}

/// Keeps the lead on a session of its own while the writer's is busy.
struct PostgresBeat {
    engine: Engine,
    database: Database,
    link: Option<Link>,
    term: OwnTerm,
}

// === impl PostgresCandidate ===

impl PostgresCandidate {
    /// Connects with the first poll.
    pub fn new(database: Database) -> Result<Self, StoreError> {
        Ok(Self {
            engine: Engine::start()?,
            database,
            link: None,
            connections: 0,
            is_prepared: false,
            last: None,
            highest: 0,
        })
    }

    /// The store of the process whose term the last poll has read.
    #[cfg(test)]
    pub(super) fn into_store(mut self) -> Option<PostgresStore> {
        let (link, last) = (self.link.take()?, self.last.take()?);
        let Progress { term, last_commit, .. } = last.progress;
        let term = OwnTerm::new(term);
        Some(PostgresStore::new(self.engine, self.database, link, term, last_commit))
    }

    fn run<T>(
        &mut self,
        within: Duration,
        action: impl AsyncFnOnce(&Database, &mut Link) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let engine = self.engine.clone();
        let (link, result) = engine.wait(async {
            let mut link = None;
            let run = async {
                let ready = link.insert(self.connected().await?);
                action(&self.database, ready).await
            };
            let result = timeout(within, run).await.unwrap_or(Err(StoreError::Unavailable));
            (link, result)
        });
        // A call that failed may have left something under way on it.
        self.link = link.filter(|_| result.is_ok());
        result
    }

    async fn connected(&mut self) -> Result<Link, StoreError> {
        if let Some(link) = self.link.take().filter(|link| !link.is_closed()) {
            return Ok(link);
        }
        self.connections += 1;
        Link::open(&self.database).await
    }

    /// Creates the schema if there is none.
    fn prepare(&mut self) -> Result<(), StoreError> {
        if !self.is_prepared {
            self.engine.clone().wait(prepare(&self.database))?;
            self.is_prepared = true;
        }
        Ok(())
    }
}

impl Candidate for PostgresCandidate {
    fn poll(&mut self) -> Result<Sighting, StoreError> {
        self.prepare()?;
        let lease = self.run(PATIENCE, async |_, link| progress::read(link).await)?;
        self.highest = self.highest.max(lease.progress.last_commit);
        let sighting = sighting(&lease, self.connections);
        self.last = Some(lease);
        Ok(sighting)
    }

    fn take_over(
        &mut self,
        seen: &Sighting,
        me: &Leader,
        stamp: Option<Stamp>,
    ) -> Result<Option<Won>, StoreError> {
        let Some(last) = self.last.clone().filter(|last| is_same(last, seen)) else {
            return Ok(None);
        };
        if self.link.as_ref().is_none_or(Link::is_closed) {
            // Another connection may be to a server that lacks what the leader renewed last.
            return Ok(None);
        }
        let known = schema::format();
        if last.format > known && last.oldest > known {
            let (path, found) = (self.database.name().into(), last.format);
            return Err(StoreError::Newer { path, found, known });
        }
        let reads = PostgresReads::open(&self.database)?;
        let (highest, term) = (self.highest, progress::new_term());
        let taken = self.run(2 * PATIENCE, async |database, link| {
            let skip = must_skip(&last, highest, &link.session.server);
            if skip {
                tracing::warn!(
                    last_commit = last.progress.last_commit,
                    "the database was promoted or restored; numbers that it may have lost are skipped"
                );
            }
            let take_over = progress::take_over(&last, term, me, &link.session, skip, stamp);
            attempt::once(database, link, &[progress::lock_timeout(), take_over]).await
        })?;
        if taken == 0 {
            return Ok(None);
        }
        // It locks the row until it ends, so that no other process takes over in the meantime.
        let progress = self.run(MIGRATION_TIMEOUT, async |_, link| {
            schema::migrate(link, last.format, term).await?;
            warn_of_loss(link).await?;
            Ok(progress::read(link).await?.progress)
        })?;
        let Some(link) = self.link.take() else { return Err(StoreError::Unavailable) };
        let (engine, database) = (self.engine.clone(), self.database.clone());
        let own = OwnTerm::new(term);
        let beat = PostgresBeat {
            engine: engine.clone(),
            database: database.clone(),
            link: None,
            term: own.clone(),
        };
        let store = PostgresStore::new(engine, database, link, own, progress.last_commit);
        Ok(Some(Won {
            store: Box::new(store),
            reads: Arc::new(reads),
            hold: Hold::Lease(Box::new(beat)),
            progress,
        }))
    }
}

/// Creates the schema if there is none.
pub(super) async fn prepare(database: &Database) -> Result<(), StoreError> {
    let create = async {
        let (client, _) = database.connect_watched(Session::Writer).await?;
        check_server(&client, database.name()).await?;
        schema::create(&client).await.map_err(|error| database.classify(error))
    };
    timeout(CREATION_TIMEOUT, create).await.unwrap_or(Err(StoreError::Unavailable))
}

/// Says what an outage of the database may cost.
async fn warn_of_loss(link: &mut Link) -> Result<(), StoreError> {
    let sql = "SELECT current_setting('fsync') = 'off',
        current_setting('synchronous_standby_names') = ''";
    for row in link.query(sql, Vec::new()).await? {
        if row.value(0)? {
            tracing::warn!(
                "fsync is off in PostgreSQL: a crash of its machine may destroy the state"
            );
        }
        if row.value(1)? {
            tracing::warn!(
                "PostgreSQL has no synchronous standby: the promotion of another one may lose what \
                 was acknowledged last"
            );
        }
    }
    Ok(())
}

/// Whether numbers that another server had given away may be missing here.
fn must_skip(last: &Lease, highest: u64, server: &[u8]) -> bool {
    let found = last.progress.last_commit;
    found < highest || (found > 0 && last.server.as_deref() != Some(server))
}

fn sighting(lease: &Lease, connection: u64) -> Sighting {
    Sighting {
        term: lease.progress.term,
        last_commit: lease.progress.last_commit,
        beat: lease.beat.cast_unsigned(),
        stamp: lease.progress.stamp,
        leader: lease.leader.clone(),
        session: lease.session,
        connection,
        wall: lease.wall,
        format: lease.format,
        oldest: lease.oldest,
    }
}

fn is_same(lease: &Lease, seen: &Sighting) -> bool {
    let Lease { progress, beat, .. } = lease;
    (progress.term, progress.last_commit, beat.cast_unsigned())
        == (seen.term, seen.last_commit, seen.beat)
}

// === impl PostgresBeat ===

impl Beat for PostgresBeat {
    fn beat(&mut self) -> Result<(), StoreError> {
        let link = self.link.take().filter(|link| !link.is_closed());
        let beats = async {
            let mut link = match link {
                Some(link) => link,
                None => Link::open(&self.database).await?,
            };
            let step = progress::beat(&self.term.all());
            let changed = attempt::once(&self.database, &mut link, &[step]).await?;
            Ok((link, changed))
        };
        let beats =
            async { timeout(PATIENCE, beats).await.unwrap_or(Err(StoreError::Unavailable)) };
        let (link, changed) = self.engine.wait(beats)?;
        self.link = Some(link);
        if changed == 0 { Err(StoreError::Fenced) } else { Ok(()) }
    }
}
