# Every target works on all modules that go.work names, so that a new module needs no change here.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# make run
LISTEN   ?= $(or $(KEEL_LISTEN),127.0.0.1:8420)
STORE    ?= $(or $(KEEL_STORE),sqlite:.keel/keel.db)
PROVIDER ?= $(or $(KEEL_PROVIDER),auto)
AUTH     ?= $(or $(KEEL_AUTH),off)
RUNFLAGS ?=

# make test, race, fuzz. The tests talk to a server that Go's test cache cannot see, hence -count=1.
TESTFLAGS ?= -count=1
FUZZTIME  ?= 20s

# make simulate, histories
SEED  ?= 1
SEEDS ?= 100000

# make order
EVENTS ?= 10000
READERS ?= 20

# make bench: -short, -only NAME,… (go run ./bench -h)
BENCHFLAGS ?=

# make torture: -seed N, -keep, … (go run ./torture -h)
TORTUREFLAGS ?=

GOLANGCI_VERSION := v2.15.0
GOLANGCI = .cache/golangci-lint-$(GOLANGCI_VERSION)-$(shell go env GOVERSION)/golangci-lint

MODULES  = $(or $(patsubst $(CURDIR)/%,./%,$(shell go list -m -f '{{.Dir}}')),$(error go list found no module: see the message above))
PACKAGES = $(addsuffix /...,$(MODULES))

WITH_POSTGRES := scripts/with-postgres.sh
WITH_MCP      := scripts/with-mcp-everything.sh
WITH_PEERS    := scripts/with-bench-peers.sh

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##
## Use
##

.PHONY: run
run: ## serve on loopback with SQLite in .keel/; the fake provider unless the environment names a backend (README)
	@mkdir -p -m 700 .keel
	@[ -x bin/keel ] || echo "building bin/keel; where nothing is cached yet that takes a few minutes, once"
	@go build -o bin/keel ./app/cmd/keel
	@exec bin/keel serve --listen $(LISTEN) --store $(STORE) --provider $(PROVIDER) --auth $(AUTH) $(RUNFLAGS)

.PHONY: build
build: ## build bin/keel
	go build -trimpath -o bin/keel ./app/cmd/keel

.PHONY: graph
graph: ## print the dependency graph of the application in DOT
	@go run ./app/cmd/keel graph

##
## Test
##

.PHONY: test
test: ## test every module, with a throw-away Postgres and an MCP server that npm brings
	@echo "testing $(words $(MODULES)) modules: $(MODULES)"
	@$(WITH_MCP) $(WITH_POSTGRES) go test $(TESTFLAGS) $(PACKAGES)

.PHONY: race
race: ## the short tests of every module under the race detector
	@CGO_ENABLED=1 $(WITH_MCP) $(WITH_POSTGRES) go test -race -short -timeout 30m $(TESTFLAGS) $(PACKAGES)

.PHONY: nginx
nginx: ## the tests behind nginx; installs it as with-postgres does
	@scripts/with-program.sh nginx go test -tags nginx -run 'Nginx$$' $(TESTFLAGS) ./app/e2e

.PHONY: pgbouncer
pgbouncer: ## the tests behind PgBouncer, in transaction mode
	@$(WITH_POSTGRES) scripts/with-program.sh pgbouncer go test -tags pgbouncer -run 'Pooler$$' $(TESTFLAGS) ./app/e2e

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (20s)
	@$(WITH_POSTGRES) $(MAKE) --no-print-directory fuzz-each

.PHONY: fuzz-each
fuzz-each:
	@listing=$$(go test -list '^Fuzz' $(PACKAGES)) || { printf '%s\n' "$$listing"; exit 1; }; \
	targets=$$(awk '/^Fuzz/ { name[n++] = $$1 } /^(ok|\?)/ { for (i = 0; i < n; i++) print $$2 "/" name[i]; n = 0 }' <<<"$$listing"); \
	for target in $$targets; do \
		echo "== $$target"; \
		go test -run '^$$' -fuzz "^$${target##*/}\$$" -fuzztime $(FUZZTIME) "$${target%/*}"; \
	done; \
	echo "fuzzed $$(wc -w <<<"$$targets") targets for $(FUZZTIME) each"

# Those left out hold or count one process, or bring the others themselves.
ONE_PROCESS := TestK19StuckClients|TestK20FrozenProcess|TestK23TwoWriters|TestK30.*WhileTheListenerIsAway|TestK31SigtermAndALostLease

.PHONY: three
three: ## all end-to-end cases again, on three processes that share a Postgres; make test runs a part of them so
	@KEEL_TEST_STORE='three processes' $(WITH_POSTGRES) go test $(TESTFLAGS) ./app/e2e -run '^TestK' -skip '$(ONE_PROCESS)'

.PHONY: differential
differential: ## decode the fixtures of the providers with the official SDKs too, and compare; builds for minutes
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	KEEL_FIXTURES_DIR=$$dir go test -short -count=1 -run '^TestFixtures$$' ./adapters/providers/... >/dev/null; \
	cd adapters/providers/differential && export GOWORK=off KEEL_FIXTURES_DIR=$$dir && go mod tidy -diff && go vet . && go test -count=1 -v .

.PHONY: mutants
mutants: ## plant known bugs one at a time (mutants/bugs); each must make its test fail, MUTANTS=-run=REGEXP for some
	@$(WITH_POSTGRES) go run ./mutants $(MUTANTS)

.PHONY: simulate
simulate: ## play SEEDS (100000) lives of several processes from SEED (1) on, in fake time
	@go test -count=1 -timeout 0 -run '^TestSimulation$$' ./app/runner -seed=$(SEED) -seeds=$(SEEDS)

.PHONY: order
order: ## case K38 at its full size: EVENTS (10000) events, on every store, read by READERS (20) that reconnect at random
	@$(WITH_POSTGRES) go test -count=1 -timeout 0 -run '^TestK38ReadersMissNothing$$' ./app/e2e -order-events=$(EVENTS) -order-readers=$(READERS)

.PHONY: histories
histories: ## hold the requests of all providers against strict backends, over SEEDS (100000) ledgers from SEED (1) on
	@go test -count=1 -timeout 0 -run '^TestAnyHistory$$' ./adapters/providers -seed=$(SEED) -seeds=$(SEEDS)

.PHONY: bench
bench: ## measure beside limits and peers, with a throw-away Postgres, into docs/BENCHMARKS.md; BENCHFLAGS=-short is quick
	@$(WITH_PEERS) $(WITH_POSTGRES) go run ./bench -out docs/BENCHMARKS.md $(BENCHFLAGS)

.PHONY: torture
torture: ## break servers under load for a quarter of an hour and check what is left; TORTUREFLAGS="-seed 7" repeats one
	@$(WITH_POSTGRES) go run ./torture -tier long $(TORTUREFLAGS)

##
## Check
##

.PHONY: verify
verify: check-format check-modules arch lint ## all that a change must pass besides the tests

.PHONY: check-format
check-format:
	@echo "== gofmt"
	@unformatted=$$(find . \( -name node_modules -o -name '.?*' \) -prune -o -name '*.go' -exec gofmt -l {} +); \
	[ -z "$$unformatted" ] || { printf 'not formatted (make fmt):\n%s\n' "$$unformatted"; exit 1; }

# Workspace mode hides a missing require or replace: each module has to stand alone.
.PHONY: check-modules
check-modules:
	@failed=; \
	for module in $(MODULES); do \
		echo "== $$module alone: tidy, build, vet"; \
		(cd $$module && export GOWORK=off && go mod tidy -diff && go build -o /dev/null ./... && go vet ./...) || failed="$$failed $$module"; \
	done; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# Go's test cache does not see the files of the other modules, hence -count=1.
.PHONY: arch
arch: ## who may import whom
	@echo "== architecture"
	@go test -count=1 -run '^TestArch' ./app

.PHONY: lint
lint: $(GOLANGCI) ## golangci-lint, the pinned version
	@echo "== golangci-lint $(GOLANGCI_VERSION)"
	@$(GOLANGCI) run $(PACKAGES)

$(GOLANGCI):
	@echo "building golangci-lint $(GOLANGCI_VERSION) into $(@D), once (about two minutes)"
	@GOFLAGS= GOWORK=off GOBIN=$(CURDIR)/$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

##
## Tidy up
##

.PHONY: fmt
fmt: ## format all Go files
	@find . \( -name node_modules -o -name '.?*' \) -prune -o -name '*.go' -exec gofmt -w {} +

.PHONY: tidy
tidy: ## align the modules' dependencies and tidy each go.mod
	go work sync
	@for module in $(MODULES); do \
		echo "== $$module"; \
		(cd $$module && go mod tidy); \
	done
