//! The row `progress`: the lease of the process that leads, and the fence of its commits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api_types::Timestamp;
use scheduler::change::Changes;
use tokio_postgres::Row;

use super::link::{Link, SessionId};
use super::row::{self, Columns, bad_record, counter, moment_value};
use super::values::{Param, Step};
use crate::clock::{Reading, Stamp};
use crate::store::{Commit, Exposure, Leader, Progress, SessionSign, StoreError, Term, Write};

/// How far numbers skip after a promotion or a restore: more than any process can have used since.
pub(super) const SKIPPED: i64 = 1 << 32;

/// As followers and the writer read it.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    pub(super) progress: Progress,
    pub(super) beat: i64,
    pub(super) leader: Option<Leader>,
    pub(super) session: SessionSign,
    pub(super) server: Option<Vec<u8>>,
    pub(super) wall: Timestamp,
    pub(super) format: u32,
    pub(super) oldest: u32,
}

/// A session whose start is hidden from this role may be the leader's.
const READ: &str = "
    SELECT p.term, p.began_after, p.last_commit, p.boot_id, p.boot, p.wall, p.moment, p.beat,
        p.address, p.exposure, p.pass_key, p.server, p.format, p.oldest, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint,
        p.pid IS NULL OR EXISTS (SELECT 1 FROM pg_stat_get_activity(p.pid::int) AS a
            WHERE a.backend_start = p.backend_start),
        p.pid IS NULL OR EXISTS (SELECT 1 FROM pg_stat_get_activity(p.pid::int) AS a
            WHERE a.backend_start IS NULL)
    FROM progress AS p WHERE p.one = 1";

pub(super) async fn read(link: &mut Link) -> Result<Lease, StoreError> {
    let rows = link.query(READ, Vec::new()).await?;
    rows.first().ok_or_else(|| bad_record("the row progress is missing")).and_then(of_row)
}

fn of_row(row: &Row) -> Result<Lease, StoreError> {
    let progress = Progress {
        term: Term(u128::from_be_bytes(row.value(0)?)),
        began_after: counter(row, 1)?,
        last_commit: counter(row, 2)?,
        stamp: stamp(row)?,
    };
    let leader = match row.value::<Option<String>>(8)? {
        None => None,
        Some(address) => {
            let (exposure, pass_key) = (exposure(&row.value::<String>(9)?)?, row.value(10)?);
            Some(Leader { address, exposure, pass_key })
        }
    };
    let session = match (row.value(15)?, row.value(16)?) {
        (_, true) => SessionSign::Unknown,
        (true, false) => SessionSign::Present,
        (false, false) => SessionSign::Missing,
    };
    Ok(Lease {
        progress,
        beat: row.value(7)?,
        leader,
        session,
        server: row.value(11)?,
        format: row.value(12)?,
        oldest: row.value(13)?,
        wall: row::time(row, 14)?,
    })
}

/// None as long as nothing was committed.
fn stamp(row: &Row) -> Result<Option<Stamp>, StoreError> {
    let Some(boot_id) = row.value(3)? else { return Ok(None) };
    let reading = Reading { boot_id, boot: counter(row, 4)?, wall: row::time(row, 5)? };
    Ok(Some(Stamp { reading, moment: row::moment(row, 6)? }))
}

const fn exposure_word(exposure: Exposure) -> &'static str {
    match exposure {
        Exposure::OpenLoopback => "open loopback",
        Exposure::Insecure => "insecure",
        Exposure::Protected => "protected",
    }
}

fn exposure(word: &str) -> Result<Exposure, StoreError> {
    [Exposure::OpenLoopback, Exposure::Insecure, Exposure::Protected]
        .into_iter()
        .find(|exposure| exposure_word(*exposure) == word)
        .ok_or_else(|| bad_record(format!("the exposure '{word}'")))
}

/// A null in `term` fails the statement, and so the rest of the transaction, unless the number is the
/// next one of this term. It is also evaluated after waiting for a process that takes over.
const FENCE: &str = "
    UPDATE progress SET
        term = CASE WHEN term = $1::bytea AND last_commit = $2::bigint - 1 THEN term END,
        last_commit = $2::bigint, boot_id = $3::bytea, boot = $4::bigint, wall = $5::bigint,
        moment = $6::bigint, last_seq = greatest(last_seq, $7::bigint),
        last_time = greatest(last_time, $8::bigint), ended_jobs = ended_jobs + $9::bigint,
        pid = $10::bigint, backend_start = $11::timestamptz, server = $12::bytea
    WHERE one = 1";

/// The first statement of each commit. It keeps the last sequence and the latest time apart from the
/// events, which retention removes.
pub(super) fn fence(commit: &Commit<'_>, more_ended: i64, session: &SessionId) -> Step {
    let (last_seq, last_time) = match commit.write {
        Write::Batch { changes, .. } => last_event(changes),
        Write::Removal(_) | Write::Probe => (0, 0),
    };
    let Stamp { reading, moment } = commit.stamp;
    let params = vec![
        Param::bytes(commit.id.term.0.to_be_bytes()),
        Param::number(commit.id.number.cast_signed()),
        Param::bytes(reading.boot_id),
        Param::number(reading.boot.cast_signed()),
        Param::number(reading.wall.0),
        Param::number(moment_value(moment)),
        Param::number(last_seq),
        Param::number(last_time),
        Param::number(more_ended),
        session.pid.clone(),
        session.backend_start.clone(),
        Param::bytes(session.server.as_slice()),
    ];
    Step::new(FENCE, params)
}

/// On another session, the same commit names that one.
pub(super) fn set_session(fence: &mut Step, session: &SessionId) {
    let fields = [&session.pid, &session.backend_start, &Param::bytes(session.server.as_slice())]
        .map(Param::clone);
    fence.params.splice(9.., fields);
}

fn last_event(changes: &Changes) -> (i64, i64) {
    let last_seq = changes.events.iter().map(|event| event.seq.cast_signed()).max();
    let last_time = changes.events.iter().map(|event| event.time.0).max();
    (last_seq.unwrap_or(0), last_time.unwrap_or(0))
}

/// Proves that a number which is present is also replicated; stores nothing but the beat.
pub(super) fn settle(term: Term, number: u64) -> Step {
    let params = vec![Param::bytes(term.0.to_be_bytes()), Param::number(number.cast_signed())];
    Step::new(
        "UPDATE progress SET beat = beat + 1
         WHERE one = 1 AND term = $1::bytea AND last_commit >= $2::bigint",
        params,
    )
}

/// Renews the lease while the writer loads.
pub(super) fn beat(terms: &[Term]) -> Step {
    let terms = Param::byte_strings(terms.iter().map(|term| term.0.to_be_bytes()));
    Step::new(
        "UPDATE progress SET beat = beat + 1 WHERE one = 1 AND term = ANY ($1::bytea[])",
        vec![terms],
    )
}

/// Makes the next takeover skip numbers, and counts why, once.
pub(super) fn forget_server() -> Step {
    Step::new(
        "UPDATE progress SET server = NULL,
            times_went_back = times_went_back + CASE WHEN server IS NULL THEN 0 ELSE 1 END
         WHERE one = 1",
        Vec::new(),
    )
}

/// Begins a new term of the same process. The new term may be there already, if the answer to the
/// first attempt was lost.
pub(super) fn take(former: Term, new: Term) -> Step {
    let params = vec![Param::bytes(former.0.to_be_bytes()), Param::bytes(new.0.to_be_bytes())];
    Step::new(
        "UPDATE progress SET term = $2::bytea, began_after = last_commit
         WHERE one = 1 AND term IN ($1::bytea, $2::bytea)",
        params,
    )
}

/// Another term, which no process has, and no address.
pub(super) fn resign(term: Term, unused: Term) -> Step {
    let params = vec![Param::bytes(term.0.to_be_bytes()), Param::bytes(unused.0.to_be_bytes())];
    Step::new(
        "UPDATE progress SET term = $2::bytea, began_after = last_commit, address = NULL,
            exposure = NULL, pass_key = NULL, pid = NULL, backend_start = NULL
         WHERE one = 1 AND term = $1::bytea",
        params,
    )
}

/// Takes over from what was seen, if it has not changed since; the stamp replaces that one.
pub(super) fn take_over(
    seen: &Lease,
    new: Term,
    me: &Leader,
    session: &SessionId,
    skip: bool,
    stamp: Option<Stamp>,
) -> Step {
    let of_stamp =
        |value: fn(Stamp) -> i64| Param::option(stamp.map(|stamp| value(stamp).to_be_bytes()));
    let params = vec![
        Param::bytes(seen.progress.term.0.to_be_bytes()),
        Param::number(seen.progress.last_commit.cast_signed()),
        Param::number(seen.beat),
        Param::bytes(new.0.to_be_bytes()),
        Param::number(if skip { SKIPPED } else { 0 }),
        Param::bytes(me.address.as_bytes()),
        Param::bytes(exposure_word(me.exposure).as_bytes()),
        Param::bytes(me.pass_key),
        session.pid.clone(),
        session.backend_start.clone(),
        Param::bytes(session.server.as_slice()),
        Param::option(stamp.map(|stamp| stamp.reading.boot_id)),
        of_stamp(|stamp| stamp.reading.boot.cast_signed()),
        of_stamp(|stamp| stamp.reading.wall.0),
        of_stamp(|stamp| moment_value(stamp.moment)),
    ];
    Step::new(
        "UPDATE progress SET term = $4::bytea, began_after = last_commit + $5::bigint,
            last_commit = last_commit + $5::bigint, last_seq = last_seq + $5::bigint,
            beat = beat + 1, address = $6::bytea, exposure = $7::bytea, pass_key = $8::bytea,
            pid = $9::bigint, backend_start = $10::timestamptz, server = $11::bytea,
            boot_id = coalesce($12::bytea, boot_id), boot = coalesce($13::bigint, boot),
            wall = coalesce($14::bigint, wall), moment = coalesce($15::bigint, moment),
            takeovers = takeovers + 1
         WHERE one = 1 AND term = $1::bytea AND last_commit = $2::bigint AND beat = $3::bigint",
        params,
    )
}

/// How long a takeover waits for a commit in flight: the follower polls again afterwards.
pub(super) fn lock_timeout() -> Step {
    Step::new("SET LOCAL lock_timeout = '1s'", Vec::new())
}

/// The term of this process, which the writer and the beat share.
#[derive(Clone)]
pub(super) struct OwnTerm(Arc<Mutex<Terms>>);

#[derive(Clone, Copy)]
struct Terms {
    current: Term,
    /// One that may have begun, if the answer was lost.
    next: Option<Term>,
}

// === impl OwnTerm ===

impl OwnTerm {
    pub(super) fn new(current: Term) -> Self {
        Self(Arc::new(Mutex::new(Terms { current, next: None })))
    }

    fn lock(&self) -> MutexGuard<'_, Terms> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn current(&self) -> Term {
        self.lock().current
    }

    /// The next term, the same one until it has begun.
    pub(super) fn next(&self) -> Term {
        *self.lock().next.get_or_insert_with(new_term)
    }

    pub(super) fn has_begun(&self, current: Term) {
        *self.lock() = Terms { current, next: None };
    }

    /// Those that the row may name while this process leads.
    pub(super) fn all(&self) -> Vec<Term> {
        let Terms { current, next } = *self.lock();
        next.into_iter().chain([current]).collect()
    }
}

/// A term that no other process draws.
pub(super) fn new_term() -> Term {
    #[expect(clippy::disallowed_methods, reason = "terms are not the scheduler's")]
    let term = uuid::Uuid::new_v4();
    Term(term.as_u128())
}
