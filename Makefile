# Ringfence. `make` alone lists the targets.
SHELL := /bin/bash
GO ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install the servers that demo and tests need, where they are missing
	@scripts/deps.sh

.PHONY: build
build: ## build bin/guard and bin/leader
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/guard ./cmd/leader

.PHONY: demo
demo: deps build ## a paused leader writes: without the guard, and through it
	@$(GO) build -o bin/demo ./internal/demo && bin/demo -guard bin/guard

.PHONY: test
test: deps ## every test, with the race detector, against real servers
	$(GO) test -race -timeout 20m ./...

.PHONY: fuzz
fuzz: ## fuzz every decoder, 30 s each
	@scripts/fuzz.sh 30s

.PHONY: bench
bench: deps ## take-over, round trips, logins and memory, side by side in one run
	$(GO) test -run '^$$' -bench . -benchtime 20x ./internal/endtoend

.PHONY: bench-checkpoint
bench-checkpoint: deps build ## a checkpointed step: no fence, fence, guard, by hand, River
	@cd bench && $(GO) run . -guard ../bin/guard $(BENCH_ARGS)

.PHONY: check
check: ## gofmt, vet and staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
