//! The tables, and the steps that bring an older file up to them.
//!
//! A file says which format it has, and which is the oldest whose releases may open it. A step that
//! adds a table, or a column with a default that is right for rows of an older release, is one that
//! such a release can live with: it names the columns that it writes, and never runs the step
//! again. Any other step sets [`OLDEST`] to the format that it makes, and so does a release that
//! stores a value, a state or a kind of record that the former one cannot read; it may need a step
//! without SQL for that.
//!
//! Jobs and executions have a number (the rowid) in addition to their random ID. Everything
//! that belongs to a job is keyed by that number, so that what is written together lies together
//! and a job's rows can be removed as ranges. Only the two `…_id` indexes and `label` itself are
//! written in random order.
//!
//! On disk, a job costs about 300 bytes of row, 350 bytes in ten indexes, and per label about
//! 3 × (key + value + 40 bytes); an execution about 300 bytes, an event about 150.
//!
//! - `job` changes with every state; `job_spec` holds what never does, so that a state change does
//!   not rewrite it. Former versions of a specification are in `former_spec`.
//! - `label` is in order of IDs, a job's labels side by side; its indexes are in order of creation,
//!   under the key, the key and value, and the key and integer: see `select.rs` for what walks
//!   which. By key and ID it would be walked sooner, and every label of a new job would rewrite
//!   another random page.
//! - `job.name` is null if the service made the name: see `name.rs`. `live` is for partial indexes.

use rusqlite::{Connection, TransactionBehavior};

use super::{
    audit, cluster_load, curves, dependencies, executions, name, nodes, outcomes, outputs, prune,
    records, reruns, results, specs,
};

/// "jobs".
pub(super) const APPLICATION_ID: i32 = 0x6a6f_6273;

/// The format this release writes: one more than the last step's place.
pub(super) const FORMAT: u32 = 29;

/// The oldest format whose releases may open what this one writes.
pub(super) const OLDEST: u32 = results::FORMAT;

/// The first format that has plans in addition to the specifications.
const WITH_PLANS: u32 = 13;

/// The first format that names the oldest one; releases before it open no later file.
const NAMES_THE_OLDEST: u32 = 11;

/// Step `n` brings a file from format `n` to the next.
pub(super) const STEPS: [&str; FORMAT as usize] = [
    FORMAT_1,
    FORMAT_2,
    FORMAT_3,
    FORMAT_4,
    FORMAT_5,
    nodes::STEP,
    FORMAT_7,
    FORMAT_8,
    records::STEP,
    audit::STEP,
    FORMAT_11,
    outputs::STEP,
    specs::STEP,
    nodes::STEP_LEASE,
    specs::STEP_NEWEST,
    executions::STEP_REFUSED,
    audit::STEP_REST,
    name::STEP,
    outputs::STEP_OMITTED,
    curves::STEP,
    cluster_load::STEP,
    prune::STEP,
    nodes::STEP_IDLE,
    outcomes::STEP,
    records::STEP_GROUPS,
    dependencies::STEP,
    reruns::STEP,
    dependencies::STEP_SAME,
    results::STEP,
];

const FORMAT_1: &str = "
CREATE TABLE progress (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    last_commit INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    last_time INTEGER NOT NULL
);
INSERT INTO progress VALUES (1, 0, 0, 0);

CREATE TABLE job (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    create_time INTEGER NOT NULL,
    type INTEGER NOT NULL,
    state INTEGER NOT NULL,
    live INTEGER NOT NULL,
    version INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    modify_time INTEGER NOT NULL,
    started INTEGER NOT NULL,
    slots INTEGER NOT NULL,
    fresh INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    evaluation BLOB NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT,
    message TEXT NOT NULL
);
CREATE UNIQUE INDEX job_id ON job (id);
CREATE INDEX job_time ON job (create_time, id);
CREATE INDEX job_namespace ON job (namespace, create_time, id);
CREATE INDEX job_state ON job (state, create_time, id);
CREATE INDEX job_name ON job (name, create_time, id) WHERE name IS NOT NULL;
CREATE INDEX job_type ON job (type, create_time, id);
CREATE INDEX job_live ON job (number) WHERE live = 1;

CREATE TABLE job_spec (
    job INTEGER PRIMARY KEY,
    json TEXT NOT NULL
);

CREATE TABLE label (
    id BLOB NOT NULL,
    key TEXT NOT NULL,
    create_time INTEGER NOT NULL,
    job INTEGER NOT NULL,
    value TEXT NOT NULL,
    integer INTEGER,
    PRIMARY KEY (id, key)
) WITHOUT ROWID;
CREATE INDEX label_time ON label (key, create_time, id, job, value, integer);
CREATE INDEX label_value ON label (key, value, create_time, id, job);
CREATE INDEX label_integer ON label (key, integer, create_time, id, job)
    WHERE integer IS NOT NULL;

CREATE TABLE execution (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    job INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    create_time INTEGER NOT NULL,
    modify_time INTEGER NOT NULL,
    compute INTEGER NOT NULL,
    desired INTEGER NOT NULL,
    live INTEGER NOT NULL,
    node BLOB NOT NULL,
    session INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    start_time INTEGER NOT NULL,
    cpu_millis INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL,
    disk_bytes INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    foreign_tries INTEGER NOT NULL,
    streak INTEGER NOT NULL,
    avoid BLOB NOT NULL,
    evaluation BLOB NOT NULL,
    previous BLOB,
    next BLOB,
    followup BLOB,
    desired_message TEXT NOT NULL,
    compute_message TEXT NOT NULL
);
CREATE UNIQUE INDEX execution_id ON execution (id);
CREATE INDEX execution_job ON execution (job, slot, create_time, id);
CREATE INDEX execution_live ON execution (number) WHERE live = 1;

CREATE TABLE run_output (
    execution INTEGER PRIMARY KEY,
    exit_code INTEGER NOT NULL,
    stdout_truncated INTEGER NOT NULL,
    stderr_truncated INTEGER NOT NULL,
    stdout TEXT NOT NULL,
    stderr TEXT NOT NULL,
    runner_error TEXT NOT NULL
);

CREATE TABLE published (
    job INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    create_time INTEGER NOT NULL,
    id BLOB NOT NULL,
    result TEXT NOT NULL,
    PRIMARY KEY (job, slot, create_time, id)
) WITHOUT ROWID;

CREATE TABLE pending_slot (
    job INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    evaluation BLOB NOT NULL,
    pinned BLOB,
    attempt INTEGER NOT NULL,
    foreign_tries INTEGER NOT NULL,
    streak INTEGER NOT NULL,
    avoid BLOB NOT NULL,
    due INTEGER,
    previous BLOB,
    PRIMARY KEY (job, slot)
) WITHOUT ROWID;

CREATE TABLE node (
    id BLOB PRIMARY KEY,
    session INTEGER NOT NULL,
    membership TEXT NOT NULL,
    connection TEXT NOT NULL,
    eligibility TEXT NOT NULL,
    message TEXT NOT NULL,
    drain_deadline INTEGER,
    last_heartbeat INTEGER NOT NULL,
    record TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE event (
    seq INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    time INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    previous INTEGER NOT NULL,
    new INTEGER NOT NULL,
    -- Both null on job-level events.
    execution BLOB,
    node BLOB,
    comment TEXT NOT NULL
);
CREATE INDEX event_job ON event (job, seq);

CREATE TABLE idempotency (
    key TEXT NOT NULL,
    create_time INTEGER NOT NULL,
    body_hash BLOB NOT NULL,
    answer TEXT NOT NULL
);
CREATE UNIQUE INDEX idempotency_key ON idempotency (key);
CREATE INDEX idempotency_time ON idempotency (create_time);

-- What a probe writes, for a moment.
CREATE TABLE probe (one INTEGER PRIMARY KEY, filling BLOB NOT NULL);
";

/// What retention needs: the jobs that are over by their end, how many they are, and the numbers of
/// jobs that are gone while rows of theirs are left.
const FORMAT_2: &str = "
CREATE INDEX job_ended ON job (modify_time) WHERE live = 0;
CREATE TABLE removal (job INTEGER PRIMARY KEY);
ALTER TABLE progress ADD COLUMN ended_jobs INTEGER NOT NULL DEFAULT 0;
UPDATE progress SET ended_jobs = (SELECT count(*) FROM job WHERE live = 0);
CREATE TRIGGER ended_job_stored AFTER INSERT ON job WHEN new.live = 0 BEGIN
    UPDATE progress SET ended_jobs = ended_jobs + 1 WHERE one = 1;
END;
CREATE TRIGGER job_ended_or_live AFTER UPDATE OF live ON job WHEN new.live <> old.live BEGIN
    UPDATE progress SET ended_jobs = ended_jobs + old.live - new.live WHERE one = 1;
END;
CREATE TRIGGER ended_job_removed AFTER DELETE ON job WHEN old.live = 0 BEGIN
    UPDATE progress SET ended_jobs = ended_jobs - 1 WHERE one = 1;
END;
";

/// A statement with a trigger copies every page before, which was an eighth of a submission's cost.
const FORMAT_3: &str = "
DROP TRIGGER ended_job_stored;
DROP TRIGGER job_ended_or_live;
DROP TRIGGER ended_job_removed;
";

/// What is due is due by the service's own clock, no longer by the wall clock.
///
/// The service's clock shows the wall time of the last commit, in nanoseconds since 1970, so that
/// the columns that held wall times hold moments as they are. An execution that started was
/// accepted before; when is not known.
const FORMAT_4: &str = "
ALTER TABLE progress ADD COLUMN boot_id BLOB;
ALTER TABLE progress ADD COLUMN boot INTEGER;
ALTER TABLE progress ADD COLUMN wall INTEGER;
ALTER TABLE progress ADD COLUMN moment INTEGER;
UPDATE progress SET boot_id = zeroblob(16), boot = 0, wall = last_time, moment = last_time
WHERE last_commit > 0;

DROP INDEX job_ended;
ALTER TABLE job ADD COLUMN created_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN last_event_time INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN waiting_since INTEGER;
ALTER TABLE job ADD COLUMN ended_at INTEGER;
UPDATE job SET created_at = create_time,
    last_event_time = (SELECT last_time FROM progress WHERE one = 1),
    waiting_since = CASE WHEN state = 1 THEN modify_time END,
    ended_at = CASE WHEN live = 0 THEN modify_time END;
CREATE INDEX job_ended ON job (ended_at) WHERE live = 0;

ALTER TABLE execution ADD COLUMN offered_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE execution ADD COLUMN accepted_at INTEGER;
ALTER TABLE execution ADD COLUMN started_at INTEGER;
UPDATE execution SET offered_at = create_time, started_at = nullif(start_time, 0),
    accepted_at = CASE WHEN start_time > 0 THEN start_time WHEN compute = 3 THEN modify_time END;
ALTER TABLE execution DROP COLUMN start_time;

-- Nodes that were avoided for ever are excluded no longer.
ALTER TABLE execution RENAME COLUMN foreign_tries TO infra_failures;
ALTER TABLE execution RENAME COLUMN streak TO short_runs;
ALTER TABLE execution RENAME COLUMN avoid TO exclusions;
UPDATE execution SET exclusions = x'' WHERE exclusions <> x'';
ALTER TABLE pending_slot RENAME COLUMN foreign_tries TO infra_failures;
ALTER TABLE pending_slot RENAME COLUMN streak TO short_runs;
ALTER TABLE pending_slot RENAME COLUMN avoid TO exclusions;
UPDATE pending_slot SET exclusions = x'' WHERE exclusions <> x'';

-- Null for a node that is well; JSON otherwise.
ALTER TABLE node ADD COLUMN health TEXT;
ALTER TABLE node ADD COLUMN silent_since INTEGER;
UPDATE node SET silent_since = last_heartbeat WHERE connection = 'DISCONNECTED';

-- Where the events of a second begin, at the earliest; see marks.rs.
CREATE TABLE event_mark (second INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
INSERT INTO event_mark (second, seq)
SELECT time / 1000000000 - 1, min(seq) FROM event GROUP BY time / 1000000000;

-- A key belongs to the namespace of the job that it made.
ALTER TABLE idempotency RENAME TO idempotency_3;
CREATE TABLE idempotency (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    stored_at INTEGER NOT NULL,
    body_hash BLOB NOT NULL,
    answer TEXT NOT NULL
);
INSERT INTO idempotency (namespace, key, stored_at, body_hash, answer)
SELECT coalesce((SELECT namespace FROM job WHERE id =
        unhex(replace(substr(json_extract(answer, '$.JobID'), 3), '-', ''))), 'default'),
    key, create_time, body_hash, answer
FROM idempotency_3;
DROP TABLE idempotency_3;
CREATE UNIQUE INDEX idempotency_key ON idempotency (namespace, key);
CREATE INDEX idempotency_time ON idempotency (stored_at);
";

/// An execution whose process has ended frees its CPU, memory and GPUs while it publishes.
const FORMAT_5: &str = "ALTER TABLE execution ADD COLUMN process_ended_at INTEGER;";

/// A term is named with each commit; see [`crate::store::Term`].
const FORMAT_7: &str = "
ALTER TABLE progress ADD COLUMN term INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress ADD COLUMN began_after INTEGER NOT NULL DEFAULT 0;
";

/// What a row of a list shows of a job is in the job's own row: how far its executions are, its
/// priority, and when it first ran. The order of changes has an index.
const FORMAT_8: &str = "
ALTER TABLE job ADD COLUMN start_time INTEGER;
ALTER TABLE job ADD COLUMN running INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN priority INTEGER NOT NULL DEFAULT 50;
UPDATE job SET
    start_time = CASE WHEN started THEN coalesce(
        (SELECT min(e.time) FROM event AS e
         WHERE e.job = job.number AND e.execution IS NOT NULL AND e.new = 5), create_time) END,
    running = (SELECT count(*) FROM execution AS e WHERE e.job = job.number AND e.compute = 5),
    failed = (SELECT count(*) FROM execution AS e WHERE e.job = job.number AND e.compute = 8),
    priority = coalesce(
        (SELECT json_extract(s.json, '$.Priority') FROM job_spec AS s
         WHERE s.job = job.number AND json_valid(s.json)), 50);
ALTER TABLE job DROP COLUMN started;
CREATE INDEX job_modified ON job (modify_time, id);
";

/// Which releases may open the file; see the top of this file.
const FORMAT_11: &str = "
CREATE TABLE format (one INTEGER PRIMARY KEY CHECK (one = 1), oldest INTEGER NOT NULL);
INSERT INTO format VALUES (1, 11);
";

/// Brings the file from `format` to [`FORMAT`], each step in a separate transaction. A file of a
/// later format stays what it is.
pub(super) fn migrate(connection: &mut Connection, format: u32) -> rusqlite::Result<()> {
    for (step, sql) in (1..).zip(STEPS).skip(format as usize) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(sql)?;
        if step == WITH_PLANS {
            specs::fill_plans(&transaction)?;
        }
        if step == outcomes::FORMAT {
            outcomes::derive(&transaction)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", step)?;
        if step >= NAMES_THE_OLDEST {
            transaction.execute("UPDATE format SET oldest = ?1", [OLDEST])?;
        }
        transaction.commit()?;
    }
    Ok(())
}

/// The oldest format whose releases may open this file of a later format.
pub(super) fn oldest(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_row("SELECT oldest FROM format WHERE one = 1", [], |row| row.get(0))
}
