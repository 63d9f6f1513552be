#!/usr/bin/env bash
# Runs one scenario on docker compose, and the tests of what the lab does to containers, where a Docker engine answers, and
# says so where none does.
set -euo pipefail
if ! command -v docker >/dev/null || ! docker version >/dev/null 2>&1; then
  echo "chaos-compose: no Docker engine answers here; nothing was run on several hosts"
  exit 0
fi
bin/lab run "${@:-leader-paused}" --injector containers
(cd lab && RINGFENCE_CONTAINERS=1 go test -timeout 45m ./containers)
