-- +goose Up
CREATE TABLE settings (
    tenant_id text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    revision  bigint NOT NULL,
    document  text   NOT NULL,
    PRIMARY KEY (tenant_id, name)
);

-- +goose Down
DROP TABLE settings;
