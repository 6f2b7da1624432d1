module github.com/keel-agent/keel/adapters/sqlstore

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/keel-agent/keel/domain v0.0.0
	github.com/keel-agent/keel/ports v0.0.0
	github.com/pressly/goose/v3 v3.30.1
	github.com/uptrace/bun v1.3.0
)

require (
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/jinzhu/inflection v1.0.0 // indirect
	github.com/mfridman/interpolate v0.2.0 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	github.com/sethvargo/go-retry v0.5.0 // indirect
	github.com/tmthrgd/go-hex v0.0.0-20190904060850-447a3041c3bc // indirect
	github.com/vmihailenco/msgpack/v5 v5.4.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace (
	github.com/keel-agent/keel/domain => ../../domain
	github.com/keel-agent/keel/ports => ../../ports
)
