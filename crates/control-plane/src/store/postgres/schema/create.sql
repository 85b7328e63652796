CREATE SCHEMA IF NOT EXISTS jobs;
SET LOCAL search_path = jobs;

-- One row, which every commit changes: room for its versions keeps it on one page.
CREATE TABLE progress (
    one bigint PRIMARY KEY CHECK (one = 1),
    term bytea NOT NULL,
    began_after bigint NOT NULL,
    last_commit bigint NOT NULL,
    last_seq bigint NOT NULL,
    last_time bigint NOT NULL,
    ended_jobs bigint NOT NULL,
    boot_id bytea,
    boot bigint,
    wall bigint,
    moment bigint,
    beat bigint NOT NULL,
    -- Of the process that leads: where it listens, to whom, and the key of what is passed on to it.
    address bytea,
    exposure bytea,
    pass_key bytea,
    -- The session of its writer, as pg_stat_activity shows it.
    pid bigint,
    backend_start timestamptz,
    -- The system, its timeline, and this table; null to make the next takeover skip numbers.
    server bytea,
    format bigint NOT NULL,
    oldest bigint NOT NULL,
    -- How often another process took over, and how often the server had lost what it acknowledged.
    takeovers bigint NOT NULL DEFAULT 0,
    times_went_back bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10, vacuum_truncate = off);

-- What each orchestrator says of itself every ten seconds, whether it leads or not. Orchestrators of
-- several releases write and read it at the same time, so the rest of it is JSON.
CREATE TABLE member (
    id bytea PRIMARY KEY,
    -- Differs between two processes with the same identity.
    instance bytea NOT NULL,
    -- By the server's clock, in nanoseconds: when the process read this table first, and wrote last.
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    record bytea NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE job (
    number bigint PRIMARY KEY,
    id bytea NOT NULL,
    create_time bigint NOT NULL,
    created_at bigint NOT NULL,
    type bigint NOT NULL,
    priority bigint NOT NULL,
    namespace bytea NOT NULL,
    name bytea,
    stem bytea
);
CREATE UNIQUE INDEX job_id ON job (id);
CREATE INDEX job_time ON job (create_time, id);
CREATE INDEX job_namespace ON job (namespace, create_time, id);
CREATE INDEX job_name ON job (name, create_time, id) WHERE name IS NOT NULL;
CREATE INDEX job_stem ON job (stem, create_time, id) WHERE stem IS NOT NULL;
CREATE INDEX job_type ON job (type, create_time, id);

CREATE TABLE job_run (
    number bigint PRIMARY KEY,
    id bytea NOT NULL,
    create_time bigint NOT NULL,
    namespace bytea NOT NULL,
    state bigint NOT NULL,
    live bigint NOT NULL,
    version bigint NOT NULL,
    revision bigint NOT NULL,
    modify_time bigint NOT NULL,
    start_time bigint,
    slots bigint NOT NULL,
    fresh bigint NOT NULL,
    running bigint NOT NULL,
    completed bigint NOT NULL,
    failed bigint NOT NULL,
    failed_slots bigint NOT NULL,
    named bigint NOT NULL,
    evaluation bytea NOT NULL,
    last_event_time bigint NOT NULL,
    waiting_since bigint,
    ended_at bigint,
    indexes bytea,
    message bytea NOT NULL,
    began_at bigint
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX job_state ON job_run (state, create_time, id);
CREATE INDEX job_modified ON job_run (modify_time, id);
CREATE INDEX job_live ON job_run (number) WHERE live = 1;
CREATE INDEX job_named ON job_run (number) WHERE named > 0;
CREATE INDEX job_ended ON job_run (ended_at) WHERE live = 0 AND named = 0;
CREATE INDEX job_ended_namespace ON job_run (namespace, ended_at) WHERE live = 0 AND named = 0;

CREATE TABLE job_plan (
    job bigint PRIMARY KEY,
    version bigint NOT NULL,
    plan bytea
);

CREATE TABLE job_spec (
    job bigint PRIMARY KEY,
    version bigint NOT NULL,
    json bytea NOT NULL
);

CREATE TABLE former_spec (
    job bigint NOT NULL,
    version bigint NOT NULL,
    json bytea NOT NULL,
    PRIMARY KEY (job, version)
);

CREATE TABLE label (
    id bytea NOT NULL,
    key bytea NOT NULL,
    create_time bigint NOT NULL,
    job bigint NOT NULL,
    value bytea NOT NULL,
    integer bigint,
    PRIMARY KEY (id, key)
);
CREATE INDEX label_time ON label (key, create_time, id, job, value, integer);
CREATE INDEX label_value ON label (key, value, create_time, id, job);
CREATE INDEX label_integer ON label (key, integer, create_time, id, job)
    WHERE integer IS NOT NULL;

CREATE TABLE execution (
    number bigint PRIMARY KEY,
    id bytea NOT NULL,
    job bigint NOT NULL,
    slot bigint NOT NULL,
    create_time bigint NOT NULL,
    modify_time bigint NOT NULL,
    compute bigint NOT NULL,
    desired bigint NOT NULL,
    live bigint NOT NULL,
    session bigint NOT NULL,
    revision bigint NOT NULL,
    version bigint NOT NULL,
    cpu_millis bigint NOT NULL,
    memory_bytes bigint NOT NULL,
    disk_bytes bigint NOT NULL,
    gpus bigint NOT NULL,
    attempt bigint NOT NULL,
    infra_failures bigint NOT NULL,
    short_runs bigint NOT NULL,
    offered_at bigint NOT NULL,
    accepted_at bigint,
    started_at bigint,
    process_ended_at bigint,
    node bytea NOT NULL,
    exclusions bytea NOT NULL,
    refused_by bytea,
    evaluation bytea NOT NULL,
    previous bytea,
    next bytea,
    followup bytea,
    desired_message bytea NOT NULL,
    compute_message bytea NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE UNIQUE INDEX execution_id ON execution (id);
CREATE INDEX execution_job ON execution (job, slot, create_time, id);
CREATE INDEX execution_live ON execution (number) WHERE live = 1;

CREATE TABLE run_output (
    execution bigint PRIMARY KEY,
    exit_code bigint NOT NULL,
    stdout_truncated bigint NOT NULL,
    stderr_truncated bigint NOT NULL,
    stdout bytea NOT NULL,
    stderr bytea NOT NULL,
    runner_error bytea NOT NULL,
    usage bytea,
    stdout_tail bytea NOT NULL,
    stdout_bytes bigint NOT NULL,
    stderr_tail bytea NOT NULL,
    stderr_bytes bigint NOT NULL,
    omitted bytea
);

CREATE TABLE published (
    job bigint NOT NULL,
    slot bigint NOT NULL,
    create_time bigint NOT NULL,
    id bytea NOT NULL,
    result bytea NOT NULL,
    PRIMARY KEY (job, slot, create_time, id)
);

CREATE TABLE output_tail (
    number bigint PRIMARY KEY,
    job bigint NOT NULL,
    execution bigint NOT NULL,
    bytes bigint NOT NULL,
    stdout_offset bigint NOT NULL,
    stderr_offset bigint NOT NULL,
    stdout bytea NOT NULL,
    stderr bytea NOT NULL
);
CREATE UNIQUE INDEX output_tail_execution ON output_tail (job, execution);
CREATE TABLE output_tail_total (job bigint PRIMARY KEY, bytes bigint NOT NULL);

CREATE TABLE usage_curve (execution bigint PRIMARY KEY, curve bytea NOT NULL);

CREATE TABLE pending_slot (
    job bigint NOT NULL,
    slot bigint NOT NULL,
    evaluation bytea NOT NULL,
    pinned bytea,
    attempt bigint NOT NULL,
    infra_failures bigint NOT NULL,
    short_runs bigint NOT NULL,
    exclusions bytea NOT NULL,
    refused_by bytea,
    due bigint,
    previous bytea,
    PRIMARY KEY (job, slot)
);

CREATE TABLE slot_outcome (
    job bigint NOT NULL,
    chunk bigint NOT NULL,
    bits bytea NOT NULL,
    PRIMARY KEY (job, chunk)
);
CREATE TABLE first_failure (job bigint PRIMARY KEY, message bytea NOT NULL);
CREATE TABLE unplaced_slot (
    job bigint NOT NULL,
    slot bigint NOT NULL,
    node bytea NOT NULL,
    PRIMARY KEY (job, slot)
);

CREATE TABLE dependency (
    job bigint NOT NULL,
    named bigint NOT NULL,
    condition bytea NOT NULL,
    same bigint NOT NULL,
    PRIMARY KEY (job, named)
);
CREATE INDEX dependency_named ON dependency (named, job);

CREATE TABLE graph (
    number bigint PRIMARY KEY,
    id bytea NOT NULL,
    namespace bytea NOT NULL,
    name bytea NOT NULL,
    create_time bigint NOT NULL
);
CREATE UNIQUE INDEX graph_id ON graph (id);
CREATE INDEX graph_namespace ON graph (namespace, number);
CREATE TABLE graph_job (
    graph bigint NOT NULL,
    name bytea NOT NULL,
    job bigint NOT NULL,
    PRIMARY KEY (graph, name)
);
CREATE INDEX graph_job_job ON graph_job (job);

CREATE TABLE node (
    id bytea PRIMARY KEY,
    session bigint NOT NULL,
    membership bytea NOT NULL,
    connection bytea NOT NULL,
    eligibility bytea NOT NULL,
    message bytea NOT NULL,
    drain_deadline bigint,
    last_heartbeat bigint NOT NULL,
    silent_since bigint,
    record bytea NOT NULL,
    health bytea,
    history bytea,
    lease bigint NOT NULL,
    told_lease bigint NOT NULL,
    joined_at bigint NOT NULL,
    forgotten bigint NOT NULL,
    idle_since bigint
);

CREATE TABLE event (
    seq bigint PRIMARY KEY,
    job bigint NOT NULL,
    time bigint NOT NULL,
    revision bigint NOT NULL,
    previous bigint NOT NULL,
    new bigint NOT NULL,
    execution bytea,
    node bytea,
    comment bytea NOT NULL
);
CREATE INDEX event_job ON event (job, seq);
CREATE INDEX event_node ON event (node, job, seq) WHERE job <= 0;
CREATE TABLE event_mark (second bigint PRIMARY KEY, seq bigint NOT NULL);

CREATE TABLE record (
    kind bytea NOT NULL,
    key bytea NOT NULL,
    version bigint NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (kind, key)
);

CREATE TABLE audit (
    sequence bigint PRIMARY KEY,
    time bigint NOT NULL,
    "user" bytea NOT NULL,
    operation bytea NOT NULL,
    hash bytea NOT NULL,
    record bytea NOT NULL
);
CREATE TABLE audit_rest (
    sequence bigint PRIMARY KEY,
    time bigint NOT NULL,
    "user" bytea NOT NULL,
    operation bytea NOT NULL,
    hash bytea NOT NULL,
    record bytea NOT NULL
);

CREATE TABLE cluster_load (time bigint PRIMARY KEY, sample bytea NOT NULL);

CREATE TABLE idempotency (
    namespace bytea NOT NULL,
    key bytea NOT NULL,
    stored_at bigint NOT NULL,
    body_hash bytea NOT NULL,
    answer bytea NOT NULL,
    PRIMARY KEY (namespace, key)
);
CREATE INDEX idempotency_time ON idempotency (stored_at);

CREATE TABLE removal (job bigint PRIMARY KEY);

-- What a probe writes, for a moment; it must take the room that it has bytes.
CREATE TABLE probe (one bigint PRIMARY KEY, filling bytea NOT NULL);
ALTER TABLE probe ALTER COLUMN filling SET STORAGE EXTERNAL;

-- The columns that reads are filtered by. Without statistics the planner takes all values for equally
-- rare, and prefers the index that answers most conditions: a query costs the same whatever is
-- stored.
ALTER TABLE job ALTER type SET STATISTICS 0, ALTER namespace SET STATISTICS 0,
    ALTER name SET STATISTICS 0, ALTER stem SET STATISTICS 0;
ALTER TABLE job_run ALTER state SET STATISTICS 0, ALTER namespace SET STATISTICS 0;
ALTER TABLE label ALTER key SET STATISTICS 0, ALTER value SET STATISTICS 0,
    ALTER integer SET STATISTICS 0;
ALTER TABLE event ALTER job SET STATISTICS 0, ALTER node SET STATISTICS 0;

INSERT INTO progress (one, term, began_after, last_commit, last_seq, last_time, ended_jobs, beat,
    format, oldest)
VALUES (1, decode('00000000000000000000000000000000', 'hex'), 0, 0, 0, 0, 0, 0, 29, 29);
