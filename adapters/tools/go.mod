module github.com/keel-agent/keel/adapters/tools

go 1.26.0

require (
	github.com/bmatcuk/doublestar/v4 v4.10.4
	github.com/google/jsonschema-go v0.4.3
	github.com/keel-agent/keel/domain v0.0.0
	github.com/keel-agent/keel/ports v0.0.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/sys v0.50.0
)

require (
	github.com/go-json-experiment/json v1.27.2 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace (
	github.com/keel-agent/keel/domain => ../../domain
	github.com/keel-agent/keel/ports => ../../ports
)
