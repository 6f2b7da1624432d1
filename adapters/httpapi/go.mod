module github.com/keel-agent/keel/adapters/httpapi

go 1.26.0

require (
	github.com/gorilla/mux v1.8.1
	github.com/keel-agent/keel/domain v0.0.0
	github.com/keel-agent/keel/ports v0.0.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/zap v1.28.0
	golang.org/x/sys v0.50.0
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
