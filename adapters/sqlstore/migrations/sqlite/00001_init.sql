-- +goose Up
-- Times are milliseconds since 1970 in UTC. Sequences of seqs are compact JSON arrays in text columns. Payloads come
-- back byte for byte.

CREATE TABLE sessions (
    tenant_id        TEXT    NOT NULL,
    session_id       TEXT    NOT NULL,
    created_at       INTEGER NOT NULL,
    create_request   TEXT,
    title            TEXT    NOT NULL DEFAULT '',
    model            TEXT    NOT NULL DEFAULT '',
    system           TEXT    NOT NULL DEFAULT '',
    tools            TEXT,
    metadata         TEXT,
    state            TEXT    NOT NULL,
    state_owner      TEXT    NOT NULL,
    parent_session   TEXT,
    parent_run       TEXT,
    parent_call      TEXT,
    forked_from      TEXT,
    forked_seq       INTEGER,
    version          INTEGER NOT NULL,
    owner            TEXT,
    epoch            INTEGER NOT NULL,
    head_seq         INTEGER NOT NULL,
    head_at          INTEGER,
    head_hash        BLOB    NOT NULL,
    unanswered       TEXT    NOT NULL,
    guides           TEXT    NOT NULL,
    turn_inputs      TEXT    NOT NULL,
    owed             TEXT    NOT NULL,
    open_calls       INTEGER NOT NULL,
    kept_seq         INTEGER NOT NULL,
    legacy_watermark INTEGER NOT NULL,
    active_run_id    TEXT,
    PRIMARY KEY (tenant_id, session_id)
) STRICT;
CREATE INDEX sessions_by_age ON sessions (tenant_id, created_at, session_id);
CREATE INDEX sessions_by_parent ON sessions (tenant_id, parent_session) WHERE parent_session IS NOT NULL;

CREATE TABLE events (
    tenant_id  TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    dedupe_key TEXT,
    payload    TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    hash       BLOB    NOT NULL,
    run_id     TEXT,
    epoch      INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, session_id, seq)
) STRICT;
CREATE UNIQUE INDEX events_by_key ON events (tenant_id, session_id, dedupe_key) WHERE dedupe_key IS NOT NULL;

CREATE TABLE runs (
    run_id         TEXT    NOT NULL PRIMARY KEY,
    tenant_id      TEXT    NOT NULL,
    session_id     TEXT    NOT NULL,
    created_at     INTEGER NOT NULL,
    status         TEXT    NOT NULL,
    reason         TEXT,
    error          TEXT,
    owner          TEXT,
    epoch          INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    available_at   INTEGER NOT NULL,
    parked         INTEGER NOT NULL,
    wait           TEXT,
    signals        INTEGER NOT NULL,
    compact        INTEGER NOT NULL,
    claim_seq      INTEGER,
    cancel_seq     INTEGER,
    next_run_id    TEXT,
    pending_input  INTEGER NOT NULL,
    read_watermark INTEGER NOT NULL,
    ended_epoch    INTEGER NOT NULL,
    ended_outcome  TEXT,
    settled_at     INTEGER
) STRICT;
CREATE UNIQUE INDEX runs_active ON runs (tenant_id, session_id) WHERE status IN ('pending', 'running');
-- The tenant comes first: a claim takes tenants in turn and reads what it takes, however long the queue is.
CREATE INDEX runs_due ON runs (tenant_id, available_at, run_id) WHERE status = 'pending' AND NOT parked;
CREATE INDEX runs_by_owner ON runs (owner) WHERE status = 'running';
CREATE INDEX runs_by_session ON runs (tenant_id, session_id, created_at);

CREATE TABLE processes (
    process_id TEXT    NOT NULL PRIMARY KEY,
    address    TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    draining   INTEGER NOT NULL,
    dead       INTEGER NOT NULL
) STRICT;

CREATE TABLE tool_calls (
    tenant_id     TEXT    NOT NULL,
    session_id    TEXT    NOT NULL,
    call_id       TEXT    NOT NULL,
    assistant_seq INTEGER NOT NULL,
    ordinal       INTEGER NOT NULL,
    name          TEXT    NOT NULL,
    started_epoch INTEGER,
    result_seq    INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, session_id, call_id)
) STRICT;
CREATE INDEX tool_calls_by_message ON tool_calls (tenant_id, session_id, assistant_seq);

-- +goose Down
DROP TABLE tool_calls;
DROP TABLE processes;
DROP TABLE runs;
DROP TABLE events;
DROP TABLE sessions;
