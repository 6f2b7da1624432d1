-- +goose Up
-- Times are milliseconds since 1970 in UTC. Sequences of seqs are compact JSON arrays in text columns. Payloads are
-- text, never json: they come back byte for byte. Ids compare by bytes, so that every store lists in the same order.

CREATE TABLE sessions (
    tenant_id        text COLLATE "C" NOT NULL,
    session_id       text COLLATE "C" NOT NULL,
    created_at       bigint NOT NULL,
    create_request   text,
    title            text   NOT NULL DEFAULT '',
    model            text   NOT NULL DEFAULT '',
    system           text   NOT NULL DEFAULT '',
    tools            text,
    metadata         text,
    state            text   NOT NULL,
    state_owner      text   NOT NULL,
    parent_session   text COLLATE "C",
    parent_run       text COLLATE "C",
    parent_call      text COLLATE "C",
    forked_from      text COLLATE "C",
    forked_seq       bigint,
    version          bigint NOT NULL,
    owner            text COLLATE "C",
    epoch            bigint NOT NULL,
    head_seq         bigint NOT NULL,
    head_at          bigint,
    head_hash        bytea  NOT NULL,
    unanswered       text   NOT NULL,
    guides           text   NOT NULL,
    turn_inputs      text   NOT NULL,
    owed             text   NOT NULL,
    open_calls       bigint NOT NULL,
    kept_seq         bigint NOT NULL,
    legacy_watermark bigint NOT NULL,
    active_run_id    text COLLATE "C",
    PRIMARY KEY (tenant_id, session_id)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
-- Its predicate always holds. It keeps the index to the queries that say so too: those of a single session would else go
-- by it, as good as the primary key while the table is small, and keep that plan.
CREATE INDEX sessions_by_age ON sessions (tenant_id, created_at, session_id) WHERE created_at > -9223372036854775807;
CREATE INDEX sessions_by_parent ON sessions (tenant_id, parent_session) WHERE parent_session IS NOT NULL;

CREATE TABLE events (
    tenant_id  text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL,
    kind       text   NOT NULL,
    dedupe_key text COLLATE "C",
    payload    text   NOT NULL,
    created_at bigint NOT NULL,
    hash       bytea  NOT NULL,
    run_id     text COLLATE "C",
    epoch      bigint NOT NULL,
    PRIMARY KEY (tenant_id, session_id, seq)
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);
CREATE UNIQUE INDEX events_by_key ON events (tenant_id, session_id, dedupe_key) WHERE dedupe_key IS NOT NULL;

CREATE TABLE runs (
    run_id         text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant_id      text COLLATE "C" NOT NULL,
    session_id     text COLLATE "C" NOT NULL,
    created_at     bigint  NOT NULL,
    status         text    NOT NULL,
    reason         text,
    error          text,
    owner          text COLLATE "C",
    epoch          bigint  NOT NULL,
    attempts       bigint  NOT NULL,
    available_at   bigint  NOT NULL,
    parked         boolean NOT NULL,
    wait           text,
    signals        bigint  NOT NULL,
    compact        boolean NOT NULL,
    claim_seq      bigint,
    cancel_seq     bigint,
    next_run_id    text COLLATE "C",
    pending_input  boolean NOT NULL,
    read_watermark bigint  NOT NULL,
    ended_epoch    bigint  NOT NULL,
    ended_outcome  text,
    settled_at     bigint
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
CREATE UNIQUE INDEX runs_active ON runs (tenant_id, session_id) WHERE status IN ('pending', 'running');
-- The tenant comes first: a claim takes tenants in turn and reads what it takes, however long the queue is.
CREATE INDEX runs_due ON runs (tenant_id, available_at, run_id) WHERE status = 'pending' AND NOT parked;
CREATE INDEX runs_by_owner ON runs (owner) WHERE status = 'running';
CREATE INDEX runs_by_session ON runs (tenant_id, session_id, created_at);

CREATE TABLE processes (
    process_id text COLLATE "C" NOT NULL PRIMARY KEY,
    address    text    NOT NULL,
    started_at bigint  NOT NULL,
    expires_at bigint  NOT NULL,
    draining   boolean NOT NULL,
    dead       boolean NOT NULL
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE tool_calls (
    tenant_id     text COLLATE "C" NOT NULL,
    session_id    text COLLATE "C" NOT NULL,
    call_id       text COLLATE "C" NOT NULL,
    assistant_seq bigint NOT NULL,
    ordinal       bigint NOT NULL,
    name          text   NOT NULL,
    started_epoch bigint,
    result_seq    bigint NOT NULL,
    PRIMARY KEY (tenant_id, session_id, call_id)
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);
-- Likewise, for queries of single calls.
CREATE INDEX tool_calls_by_message ON tool_calls (tenant_id, session_id, assistant_seq) WHERE assistant_seq > 0;

-- +goose Down
DROP TABLE tool_calls;
DROP TABLE processes;
DROP TABLE runs;
DROP TABLE events;
DROP TABLE sessions;
