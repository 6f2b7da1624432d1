-- +goose Up
-- A heartbeat reads the runs that its process is to stop, however many it has.
CREATE INDEX runs_cancelled ON runs (owner) WHERE status = 'running' AND cancel_seq IS NOT NULL;

-- +goose Down
DROP INDEX runs_cancelled;
