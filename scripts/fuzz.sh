#!/usr/bin/env bash
# Runs every fuzz target of the module for a while, one after the other: go test takes one target at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-30s}
grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r dir; do
  grep -ohE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | awk '{print $2}' | sort -u | while read -r target; do
    echo "$dir $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir"
  done
done
