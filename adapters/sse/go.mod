module github.com/keel-agent/keel/adapters/sse

go 1.26

require (
	github.com/keel-agent/keel/domain v0.0.0
	github.com/keel-agent/keel/ports v0.0.0
	github.com/stretchr/testify v1.12.1
	github.com/tmaxmax/go-sse v0.12.0
	go.uber.org/goleak v1.3.0
	go.uber.org/zap v1.28.0
)

require (
	github.com/go-json-experiment/json v1.27.2 // indirect
	go.uber.org/multierr v1.10.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace (
	github.com/keel-agent/keel/domain => ../../domain
	github.com/keel-agent/keel/ports => ../../ports
)
