# brokerd: `make` lists the targets. Everything that a target needs is put
# under .cache/ by itself; nothing is installed on the machine, except that
# `make conformance` installs Node.js where it is missing and it may, and wants
# Python 3 with pip, and a Java development kit with Maven.

SHELL := /bin/bash
.DEFAULT_GOAL := help

GO       ?= go
CACHE    := $(CURDIR)/.cache
LINTER   := $(CACHE)/tools/golangci-lint
LOADGEN  := $(CACHE)/tools/loadgen
PREVIOUS := $(CACHE)/previous/brokerd
CLOCKS   := $(CACHE)/clocks/brokerd
NATS     := $(CACHE)/tools/nats-server
NATSVERSION := v2.15.2
# What the programs say that they were built from. Without git they know their release, and in an archive
# that git made (`git archive`) its commit, too.
BUILD    := -X github.com/brokerd/brokerd/internal/build
GIT      := $(if $(wildcard .git),git,false) # the repository of these sources, not one around them
TAG       = $(shell $(GIT) describe --tags --match 'v[0-9]*' --always --dirty 2>/dev/null)
COMMIT    = $(shell $(GIT) rev-parse HEAD 2>/dev/null)
DATE      = $(shell TZ=UTC0 $(GIT) log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
VERSION  ?=
STAMP     = $(BUILD).version=$(VERSION) $(BUILD).tag=$(TAG) $(BUILD).commit=$(COMMIT) $(BUILD).date=$(DATE)

# Packages whose code starts no goroutine, and whose tests compute much.
SEQUENTIAL := $(addprefix github.com/brokerd/brokerd/,internal/arch test/model pkg/seq pkg/channel pkg/position)

# Knobs.
ARGS     ?=
DIST     ?= $(CURDIR)/dist
PLATFORMS ?= linux/amd64,linux/arm64
FUZZTIME ?= 1m
ROUNDS   ?= 100
SEED     ?= 0
SEEDS    ?= 500
FIRST    ?= 1
SOAK     ?= 30m
GAPS     ?= 20
NODES    ?= 1
BENCH    ?= .
BENCHTIME ?= 1s
NSQD     ?=

.PHONY: help build dist dist-test alerts alerts-live manifests nights otlp s3 run cluster cluster-clean test check fmt format lint arch unit race sim model mutation fuzz conformance \
	crash chaos hostile soak bench bench-failover bench-nsqd bench-peers bench-growth golden cover install-tools clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/brokerd and bin/brokerctl
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(STAMP)' -o bin/ ./cmd/brokerd ./cmd/brokerctl

dist: ## .deb, .rpm, archives, lists of their modules and checksums, in dist/ (PLATFORMS=linux/amd64 VERSION=1.2.3)
	cd tools/package && $(GO) run . -root $(CURDIR) -out $(DIST) -platforms '$(PLATFORMS)' -stamp '$(STAMP)'

dist-test: ## build packages of two versions; install, run, upgrade, remove in a clean Debian (ARGS=-short: below a directory; -try: where a clean one cannot be made)
	test/dist.sh $(ARGS)

.PHONY: boot-test
boot-test: ## boot a Debian with systemd in a container, and do to the service what happens to one (ARGS=-try: where one can be booted)
	test/boot.sh $(ARGS)

alerts: ## check the rules of Prometheus, and that each alert fires (needs promtool, which it installs where it may)
	test/alerts.sh

alerts-live: build ## fire the alerts for real: a Prometheus scrapes three nodes in trouble (90 s; ARGS="-only disk -v")
	test/alerts.sh live $(ARGS)

manifests: ## render deploy/kubernetes and check it against the types of Kubernetes
	cd tools/manifests && $(GO) vet . && $(GO) test -count=1 .

nights: ## the incidents of docs/operations/runbooks.md, each cured with the commands of its runbook
	$(GO) test -count 1 -v -run '^TestNight|^TestRunbooks' ./test/blackbox

.PHONY: vulncheck
vulncheck: ## fail if a program can reach a known vulnerability; warn where the database cannot be asked
	cd tools/vulncheck && $(GO) vet . && $(GO) test -count=1 . && $(GO) run . -root $(CURDIR)

otlp: build ## send spans to the OTLP receiver of the OpenTelemetry Collector, and check them
	cd tools/otlp && $(GO) vet . && $(GO) test -count=1 .

s3: build ## back up to the S3 service of others (Versity gateway, which it builds), and restore
	cd tools/s3 && $(GO) vet . && $(GO) test -count=1 .

run: build ## build, then serve on 127.0.0.1 (ARGS="--data-dir ...")
	./bin/brokerd $(ARGS)

cluster: build ## three nodes on loopback, and how to use them (ARGS="-nodes 5")
	@$(GO) build -o $(CACHE)/cluster ./tools/cluster
	@set -m; $(CACHE)/cluster $(ARGS); exit $$? # a process group of its own: Ctrl-C stops the nodes, not make

cluster-clean: ## remove what the nodes of make cluster keep
	rm -rf brokerd-cluster

test: ## everything that the CI runs, with a summary at the end
	@test/all.sh

check: fmt lint arch ## formatting, vet, linters, the rules of the house

fmt: $(LINTER)
	@out=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	  if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	@$(LINTER) fmt --diff ./...

format: $(LINTER) ## write the sources as `make check` wants them
	$(LINTER) fmt ./...

lint: $(LINTER)
	$(GO) vet ./...
	$(LINTER) run ./...
	cd tools/loadgen && $(GO) vet ./...
	cd tools/package && $(GO) vet ./...

arch:
	$(GO) test ./internal/arch/
	@$(GO) test -count=1 -v -run '^TestCommitMessages$$' ./internal/arch/ # the cache does not know of new commits

unit:
	$(GO) test ./...

race: ## all Go tests, with the race detector where there is more than one goroutine
	@GO=$(GO) test/race.sh $(CACHE)/again.txt $(filter-out $(SEQUENTIAL),$(shell $(GO) list ./...))
	$(GO) test -vet off $(SEQUENTIAL)
	$(GO) test -run Address ./pkg/cluster
	cd tools/loadgen && $(GO) test -race ./...
	cd tools/package && $(GO) test ./...

sim: ## simulate SEEDS (500) clusters and replicas in virtual time, from seed FIRST (1) on
	@mkdir -p $(CACHE) && rm -f $(CACHE)/sim-late.txt
	$(GO) test -count 1 -timeout 4h ./test/sim/replica -sim.seeds $(SEEDS) -sim.first $(FIRST)
	$(GO) test -count 1 -timeout 4h ./test/sim -sim.seeds $(SEEDS) -sim.first $(FIRST) -sim.late $(CACHE)/sim-late.txt
	$(GO) test -count 1 -timeout 4h ./test/sim -run TestBrokersLoseNothing -sim.trash -sim.seeds 20
	@! test -e $(CACHE)/sim-late.txt || cat $(CACHE)/sim-late.txt

model: ## search the model of replication in larger bounds, for minutes
	$(GO) test ./test/model -run TheRulesAreEnough -large -timeout 2h -v

mutation: ## plant mistakes into the sources: a test must find each (ARGS="-only Epoch")
	$(GO) run ./test/mutation $(ARGS)

fuzz: ## every fuzz target for FUZZTIME (1m)
	@test/fuzz.sh $(FUZZTIME)

conformance: build ## client suites and the README's examples, against bin/brokerd (NODES=3: one of a cluster)
	$(GO) run ./test/conformance -cache $(CACHE)/conformance -nodes $(NODES)

crash: build ## kill -9 in a loop of ROUNDS (100) under load; check every message (SEED=N: as in that run)
	$(GO) run ./test/cluster -scenarios crash -rounds $(ROUNDS) -seed $(SEED)

.PHONY: previous
previous: ## build the release before this one, for mixed-versions of make chaos
	@test/previous.sh $(PREVIOUS)

.PHONY: clocks
clocks: ## build brokerd with a wall clock that can be set, for other-clocks of make chaos
	CGO_ENABLED=0 $(GO) build -trimpath -tags fakeclock -o $(CLOCKS) ./cmd/brokerd

chaos: build previous clocks ## a cluster of processes: kills, pauses, cuts, restarts (ARGS="-scenarios kill-leader -v")
	$(GO) run ./test/cluster -seed $(SEED) -previous $(PREVIOUS) -clocks $(CLOCKS) $(ARGS)

hostile: build ## hostile clients against a broker with 512 MiB, beside one that behaves (ARGS="-for 1s -slack 50 -only deflate")
	$(GO) run ./test/hostile $(ARGS)

soak: build previous clocks ## crash and chaos for SOAK (30m) each, with longer pauses; deletions and restores in SEEDS simulations
	$(GO) run ./test/cluster -scenarios crash -for $(SOAK)
	$(GO) run ./test/cluster -for $(SOAK) -pause 30s -previous $(PREVIOUS) -clocks $(CLOCKS)
	$(GO) test -count 1 -timeout 4h ./test/sim -run TestBrokersLoseNothing -sim.seeds $(SEEDS) -sim.trash

bench-failover: build ## how long a publisher waits when a leader goes away (GAPS=20 rounds each)
	$(GO) run ./test/cluster -failover $(GAPS)

bench: ## the micro benchmarks (BENCH=pattern BENCHTIME=1s)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) ./...

bench-nsqd: build $(LOADGEN) ## side by side with NSQD=/path/to/nsqd, as a table
	@test -x "$(NSQD)" || { echo "usage: make bench-nsqd NSQD=/path/to/nsqd"; exit 2; }
	cd tools/loadgen && $(GO) run ./sidebyside -loadgen $(LOADGEN) -brokerd $(CURDIR)/bin/brokerd -nsqd $(abspath $(NSQD)) $(ARGS)

bench-peers: build $(LOADGEN) $(NATS) ## clusters of three beside NATS JetStream, into docs/performance.md
	cd tools/loadgen && $(GO) run ./sidebyside -loadgen $(LOADGEN) -brokerd $(CURDIR)/bin/brokerd -nats-server $(NATS) \
	  -write $(CURDIR)/docs/performance.md -section peers $(ARGS)

bench-growth: build $(LOADGEN) ## from one topic to 10,000, beside BEFORE=/path/to/brokerd, into docs/performance.md (ARGS=-cluster)
	@test -x "$(BEFORE)" || { echo "usage: make bench-growth BEFORE=/path/to/brokerd"; exit 2; }
	cd tools/loadgen && $(GO) run ./sidebyside -loadgen $(LOADGEN) -brokerd $(CURDIR)/bin/brokerd -before $(abspath $(BEFORE)) \
	  -write $(CURDIR)/docs/performance.md -section $(if $(findstring -cluster,$(ARGS)),growth-cluster,growth) $(ARGS)

.PHONY: bench-features
bench-features: build $(LOADGEN) ## dedup ids, keys, order, filters and traces beside a topic without (ARGS="-cluster -only backlog")
	cd tools/loadgen && $(GO) run ./sidebyside -loadgen $(LOADGEN) -brokerd $(CURDIR)/bin/brokerd -features $(ARGS)

.PHONY: bench-client
bench-client: build $(LOADGEN) ## pkg/client beside go-nsq, each in a process of its own, on the same load
	cd tools/loadgen && $(GO) run ./sidebyside -loadgen $(LOADGEN) -brokerd $(CURDIR)/bin/brokerd -clients -messages 300000 $(ARGS)

golden: ## write the golden files anew; read the diff
	@grep -rl 'brokerd/internal/golden"' --include='*_test.go' . | xargs -r -n1 dirname | sort -u | \
	  while read -r dir; do $(GO) test "$$dir" -update || exit 1; done

cover: ## coverage of the Go tests, in coverage.html
	$(GO) test -coverpkg=./... -coverprofile=coverage.out ./...
	@$(GO) tool cover -func=coverage.out | tail -n 1
	@$(GO) tool cover -html=coverage.out -o coverage.html

install-tools: $(LINTER) $(LOADGEN) ## build the pinned tools into .cache/tools

$(LINTER): tools/lint/go.mod
	@mkdir -p $(@D)
	cd tools/lint && $(GO) build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(LOADGEN): $(shell find tools/loadgen pkg/client -name '*.go' -o -name 'go.*' 2>/dev/null)
	@mkdir -p $(@D)
	cd tools/loadgen && $(GO) build -o $@ .

$(NATS): Makefile
	@mkdir -p $(@D)
	GOBIN=$(@D) $(GO) install github.com/nats-io/nats-server/v2@$(NATSVERSION)
	@touch $@

clean: ## remove what was built, the tools and caches included
	rm -rf bin dist .cache coverage.out coverage.html
