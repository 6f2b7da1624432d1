-- +goose Up
CREATE TABLE settings (
    tenant_id TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    revision  INTEGER NOT NULL,
    document  TEXT    NOT NULL,
    PRIMARY KEY (tenant_id, name)
) STRICT;

-- +goose Down
DROP TABLE settings;
