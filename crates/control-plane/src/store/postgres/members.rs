//! The rows of `member`, over a separate session.

use std::time::Duration;

use tokio::time::timeout;

use super::attempt;
use super::candidate::prepare;
use super::connection::Database;
use super::engine::Engine;
use super::link::Link;
use super::lookup;
use super::row::{Columns, Id, bad_record, counter};
use super::values::{Param, Step};
use crate::records::Record;
use crate::store::{Member, Membership, Roll, SeenMember, StoreError, Term};

/// How long one call may take on a session; the next call then opens another one.
const PATIENCE: Duration = Duration::from_secs(2);

/// The server's clock, which alone says when a member was seen.
const LEAD: &str = "
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint, p.term, p.address,
        p.takeovers, p.times_went_back, p.server
    FROM progress AS p WHERE p.one = 1";

const MEMBERS: &str = "SELECT id, instance, started_at, seen_at, record FROM member ORDER BY id";

const ANNOUNCE: &str = "
    INSERT INTO member (id, instance, started_at, seen_at, record)
    VALUES ($1::bytea, $2::bytea, $3::bigint,
        (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint, $4::bytea)
    ON CONFLICT (id) DO UPDATE SET instance = excluded.instance, started_at = excluded.started_at,
        seen_at = excluded.seen_at, record = excluded.record";

const FORGET: &str = "
    DELETE FROM member
    WHERE seen_at < (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint - $1::bigint";

/// A lost row is written again ten seconds later: it waits for no standby, also when none answers.
const UNREPLICATED: &str = "SET LOCAL synchronous_commit = off";

pub struct PostgresMembership {
    engine: Engine,
    database: Database,
    link: Option<Link>,
    is_prepared: bool,
}

// === impl PostgresMembership ===

impl PostgresMembership {
    /// Connects with the first call.
    pub fn new(database: Database) -> Result<Self, StoreError> {
        Ok(Self { engine: Engine::start()?, database, link: None, is_prepared: false })
    }

    fn run<T>(
        &mut self,
        action: impl AsyncFnOnce(&Database, &mut Link) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let engine = self.engine.clone();
        if !self.is_prepared {
            engine.wait(prepare(&self.database))?;
            self.is_prepared = true;
        }
        let kept = self.link.take().filter(|link| !link.is_closed());
        let (link, result) = engine.wait(async {
            let mut used = None;
            let run = async {
                let link = match kept {
                    Some(link) => link,
                    None => Link::open(&self.database).await?,
                };
                action(&self.database, used.insert(link)).await
            };
            let result = timeout(PATIENCE, run).await.unwrap_or(Err(StoreError::Unavailable));
            (used, result)
        });
        // A call that failed may have left something under way on it.
        self.link = link.filter(|_| result.is_ok());
        result
    }

    fn write(&mut self, text: &'static str, params: Vec<Param>) -> Result<u64, StoreError> {
        self.run(async |database, link| {
            let steps = [Step::new(UNREPLICATED, Vec::new()), Step::new(text, params)];
            attempt::once(database, link, &steps).await
        })
    }
}

impl Membership for PostgresMembership {
    fn roll(&mut self) -> Result<Roll, StoreError> {
        self.run(async |_, link| {
            let rows = link.query(LEAD, Vec::new()).await?;
            let row = rows.first().ok_or_else(|| bad_record("the row progress is missing"))?;
            let mut roll = Roll {
                now: row.value(0)?,
                term: Term(u128::from_be_bytes(row.value(1)?)),
                leader: row.value(2)?,
                takeovers: counter(row, 3)?,
                times_went_back: counter(row, 4)?,
                server: row.value::<Option<String>>(5)?.unwrap_or_default(),
                members: Vec::new(),
            };
            for row in link.query(MEMBERS, Vec::new()).await? {
                match member(&row) {
                    Ok(member) => roll.members.push(member),
                    // That one process cannot be read must not keep the others from one another.
                    Err(error) => tracing::debug!(%error, "a row of member cannot be read"),
                }
            }
            Ok(roll)
        })
    }

    fn announce(&mut self, me: &Member) -> Result<(), StoreError> {
        let record = serde_json::to_vec(&me.record).map_err(bad_record)?;
        let params = vec![
            Param::bytes(me.id.bytes()),
            Param::bytes(me.instance.to_be_bytes()),
            Param::number(me.started_at),
            Param::bytes(record),
        ];
        self.write(ANNOUNCE, params).map(drop)
    }

    fn keys(&mut self) -> Result<Vec<Record>, StoreError> {
        self.run(async |_, link| lookup::cluster_keys(link).await)
    }

    fn forget(&mut self, unseen_for: Duration) -> Result<u64, StoreError> {
        let nanos = i64::try_from(unseen_for.as_nanos()).unwrap_or(i64::MAX);
        self.write(FORGET, vec![Param::number(nanos)])
    }
}

fn member(row: &tokio_postgres::Row) -> Result<SeenMember, StoreError> {
    let record: Vec<u8> = row.value(4)?;
    let member = Member {
        id: Id::get(row, 0)?,
        instance: u128::from_be_bytes(row.value(1)?),
        started_at: row.value(2)?,
        record: serde_json::from_slice(&record).map_err(bad_record)?,
    };
    Ok(SeenMember { member, seen_at: row.value(3)? })
}
