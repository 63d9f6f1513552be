# Ringfence. `make` alone lists the targets.
SHELL := /bin/bash
GO ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Without the page of traces that grpc has for browsers, and its text/template, the linker can leave
# out methods that nobody calls: 14 MB of the guard.
#
# Everything but tests with the race detector is compiled as a release is, and so only once.
export GOFLAGS := $(GOFLAGS) -tags=grpcnotrace -trimpath
export CGO_ENABLED := 0

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install the servers that demo and tests need, where they are missing
	@scripts/deps.sh

.PHONY: deps-bench
deps-bench: ## the same, and the proxies that the benchmarks compare the guard with
	@scripts/deps.sh bench

.PHONY: build
build: ## build bin/guard and bin/leader
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/guard ./cmd/leader

# The platforms of a release.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/arm64

.PHONY: dist
dist: ## stripped programs for PLATFORMS, in dist/, with their checksums
	@rm -rf dist && for p in $(PLATFORMS); do \
	  echo "dist/$$p" && GOOS=$${p%/*} GOARCH=$${p#*/} \
	    $(GO) build -ldflags="-s $(if $(VERSION),-X github.com/ringfence/ringfence/internal/version.stamped=v$(VERSION))" \
	    -o dist/$$p/ ./cmd/guard ./cmd/leader || exit 1; \
	done && cd dist && sha256sum */*/* > SHA256SUMS

.PHONY: package
package: PLATFORMS = linux/amd64 linux/arm64
package: dist ## a .deb and an .rpm with systemd units, manual pages and completions, in dist/; VERSION=0.1.0
	@GO="$(GO)" VERSION="$(VERSION)" scripts/package.sh

.PHONY: release
release: ## archives, packages, SBOMs and checksums of a tag, built twice and compared; VERSION=0.1.0
	@GO="$(GO)" scripts/release.sh "$(VERSION)"

.PHONY: demo
demo: deps build ## a paused leader writes: without the guard, and through it
	@$(GO) build -o bin/demo ./cmd/demo && bin/demo -guard bin/guard

# The servers of the tests need the cores, too. What takes longest begins first. make check vets.
TESTFLAGS = -race -vet=off -timeout 25m -p 3 -parallel 4

.PHONY: test
test: deps ## every test, with the race detector, against real servers
	CGO_ENABLED=1 $(GO) test $(TESTFLAGS) ./internal/guard/... ./...
	cd lab && CGO_ENABLED=1 $(GO) test $(TESTFLAGS) ./...

.PHONY: test-fast
test-fast: ## tests that need no server, for the loop of somebody who changes a line; under a minute
	$(GO) test -short ./...

.PHONY: test-modules
test-modules: deps ## tests of the modules beside this one: benchmarks, and the example with River
	cd bench && $(GO) vet ./... && $(GO) test ./...
	cd examples/river && $(GO) vet ./... && $(GO) test ./...
	cd examples/temporal && $(GO) vet . # make test-temporal builds a Temporal server, which takes many minutes

.PHONY: test-temporal
test-temporal: deps ## the example with Temporal, on a server that is built first
	cd examples/temporal && $(GO) test -timeout 30m ./...

.PHONY: deps-drivers
deps-drivers: ## the same as deps, and the drivers of test-drivers (Debian packages, and two from npm)
	@scripts/deps.sh drivers
	@cd cmd/leader/internal/endtoend/testdata/drivers && npm ci --no-audit --no-fund

.PHONY: test-drivers
test-drivers: deps-drivers ## psql, psycopg, JDBC, node-postgres, pg_dump, redis-cli, redis-py, ioredis through a guard, with TLS; examples/sql, redis, celery, quartz; promtool
	RINGFENCE_DRIVERS=required $(GO) test -count 1 -v -run 'Drivers|Promtool|OtherLanguages' ./cmd/leader/internal/endtoend ./cmd/guard ./internal/test/sqlterms

.PHONY: newer-servers
newer-servers: ## Postgres 17, Redis 8, Valkey 8.1 and etcd 3.5 of Debian 13 under /opt/newer, for test-newer; SERVERS=all for Postgres 13, 14, 16 and 18, too
	@scripts/newer-servers.sh $(SERVERS)

.PHONY: test-newer
test-newer: deps ## stores and guards on servers of your own; NEWER_PATHS=/postgres/bin:/redis/bin and PACKAGES for others
	@GO="$(GO)" scripts/test-newer.sh "$(NEWER_PATHS)" $(or $(PACKAGES),./store/... ./internal/marks/... ./internal/guard/...)

.PHONY: lab
lab: build ## build bin/lab, which runs chaos scenarios, and the programs it needs
	cd lab && $(GO) build -o ../bin/lab ./cmd/lab
	cd lab && $(GO) build -o ../bin/lab-worker ./cmd/worker
	cd lab && $(GO) build -o ../bin/lab-flawed-guard ./cmd/flawed-guard

.PHONY: chaos
chaos: deps lab ## every scenario with the guard and without it, and every control; CHAOS="leader-paused --seed 7" for some
	@bin/lab run $(or $(CHAOS),all --compare) && $(if $(CHAOS),true,bin/lab run all --path sql --compare && bin/lab controls)

.PHONY: chaos-smoke
chaos-smoke: deps lab ## six scenarios, one of them with jobs, two with a failover, and five controls, in about three minutes
	@bin/lab run leader-paused old-write-in-flight killed-before-publish job-worker-paused sentinel-primary-frozen --quiet
	@bin/lab run postgres-promoted-twice --coordinator store --quiet
	@bin/lab controls observe-only memory-mark copied-mark believed-registry believed-setting --quiet

.PHONY: chaos-ha
chaos-ha: deps-bench lab ## failovers by Patroni, by hand and by Sentinel: elections in etcd, ZooKeeper, the same Postgres, by SQL; an hour
	@bin/lab run patroni $(HA) --coordinator etcd && bin/lab run patroni $(HA) --coordinator zk
	@bin/lab run patroni $(filter postgres-%,$(HA)) --coordinator store
	@bin/lab run patroni $(filter postgres-%,$(HA)) --path sql
HA = postgres-promoted postgres-promoted-twice postgres-primary-returns sentinel-failover sentinel-primary-killed sentinel-primary-frozen

.PHONY: chaos-long
chaos-long: deps lab ## random faults for five minutes, with the guard and without it, from one seed: hundreds of stale attempts
	@bin/lab run random-mix --time 5m --compare $(CHAOS)

.PHONY: chaos-compose
chaos-compose: lab ## one scenario on several hosts, where a Docker engine answers
	@scripts/chaos-compose.sh $(CHAOS)

.PHONY: screenshot
screenshot: deps ## the pictures of the status page and of the page of jobs in docs/
	cd lab && STATUS_SCREENSHOT=$(CURDIR)/docs/status-page.png $(GO) test -count 1 -run TestScreenshot ./statuspage
	@# STATUS_STATES=DIR go test -run TestStates ./statuspage makes pictures of what somebody on call may see.
	cd lab && JOBS_SCREENSHOT=$(CURDIR)/docs/jobs-page.png $(GO) test -count 1 -run TestScreenshot ./jobspage

.PHONY: deps-model
deps-model: ## the same as deps, and Spin
	@scripts/deps.sh model

.PHONY: model
model: deps-model ## check the models of the protocol exhaustively, and that each of their mutations is found (MODEL=, MUTATION=)
	@scripts/model.sh $(MODEL) $(MUTATION)

.PHONY: fuzz
fuzz: ## fuzz every decoder, 30 s each
	@scripts/fuzz.sh 30s

.PHONY: bench
bench: bench-pg bench-redis bench-takeover bench-memory bench-checkpoint bench-enter bench-election bench-jobs bench-failover ## all nine; about two hours

# The files that a benchmark writes: BENCH_OUT=DIRECTORY gets JSON of each, and a plot where there is one.
bench_json = $(if $(BENCH_OUT),-json $(abspath $(BENCH_OUT))/$(1).json)
bench_out = $(bench_json) $(if $(BENCH_OUT),-plot $(abspath $(BENCH_OUT))/$(1).svg)

.PHONY: bench-pg
bench-pg: deps build ## Postgres: direct, guard, and the proxies of deps-bench; BENCH_ARGS="-rows select -seconds 1" for some
	@cd bench && $(GO) run . postgres $(call bench_out,postgres) $(BENCH_ARGS)

.PHONY: bench-direct
bench-direct: deps build ## the same with direct sessions, and take-overs, on Postgres 17 of newer-servers
	@cd bench && export PATH=$$(cd .. && $(MAKE) -s newer-servers | grep /postgres-17/):$$PATH && \
		$(GO) run . postgres $(call bench_out,direct) $(BENCH_ARGS) && \
		$(GO) run . takeover -rows postgres $(call bench_out,direct-takeover)

.PHONY: bench-redis
bench-redis: deps build ## Redis, the same
	@cd bench && $(GO) run . redis $(call bench_out,redis) $(BENCH_ARGS)

.PHONY: bench-takeover
bench-takeover: deps build ## how long a new leader waits for the end of up to 1,000 older sessions
	@cd bench && $(GO) run . takeover $(call bench_out,takeover) $(BENCH_ARGS)

.PHONY: bench-memory
bench-memory: deps build ## memory of 10,000 idle sessions, growth, logins per second, 100,000 marks
	@cd bench && $(GO) run . memory $(call bench_out,memory) $(BENCH_ARGS)

.PHONY: bench-checkpoint
bench-checkpoint: deps build ## a checkpointed step: no fence, fence, guard, by hand, River
	@cd bench && $(GO) run . checkpoint $(call bench_json,checkpoint) $(BENCH_ARGS)

.PHONY: bench-enter
bench-enter: deps ## pgbench -N with ringfence.enter in every transaction, beside the same without it
	@cd bench && $(GO) run . enter $(call bench_out,enter) $(BENCH_ARGS)

.PHONY: bench-election
bench-election: deps build ## elections with up to 1,000 candidates, a process with 1,000, and an agent with up to 10,000; BENCH_ARGS="-coordinators etcd -sizes 10" for some
	@cd bench && $(GO) run . election $(call bench_json,election) $(BENCH_ARGS)

.PHONY: bench-jobs
bench-jobs: deps build ## jobs: submitted, assigned and done per second, latency, recovery; beside River; BENCH_ARGS="-ways etcd" for some
	@cd bench && $(GO) run . jobs $(call bench_out,jobs) $(BENCH_ARGS)

.PHONY: bench-failover
bench-failover: deps build ## what a failover by Patroni or Sentinel costs a leader that writes: outage, lost writes, way by way; 25 minutes
	@cd bench && $(GO) run . failover $(call bench_json,failover) $(BENCH_ARGS)

MODULES := . lab bench examples/river examples/temporal examples/temporal/devserver

.PHONY: tidy
tidy: ## go mod tidy in every module, after a dependency was added
	@for m in $(MODULES); do (cd $$m && $(GO) mod tidy) || exit 1; done

.PHONY: check
check: ## gofmt, go mod tidy, vet and staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	@for m in $(MODULES); do (cd $$m && $(GO) mod tidy -diff) || { echo "run go mod tidy in $$m"; exit 1; }; done
	$(GO) vet ./... && $(GO) run $(STATICCHECK) ./...
	cd lab && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...
