#!/usr/bin/env bash
# Runs one scenario on docker compose where a Docker engine answers, and says so where none does.
set -euo pipefail
if ! command -v docker >/dev/null || ! docker version >/dev/null 2>&1; then
  echo "chaos-compose: no Docker engine answers here; the scenario on several hosts was not run"
  exit 0
fi
bin/lab run "${@:-leader-paused}" --injector containers
