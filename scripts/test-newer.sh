#!/usr/bin/env bash
# Runs tests on other servers than the installed ones: test-newer.sh FOLDER[:FOLDER...] PACKAGE...
# A folder has the programs of a server: initdb and postgres, redis-server (Valkey's, too), pgbouncer,
# or etcd. A server that is in none of the folders is the installed one, as in `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "test-newer: $*" >&2
  exit 1
}

# show FOLDER PROGRAM... prints the version of the first program, if all are there.
show() {
  local folder=$1 program version
  shift
  for program in "$@"; do
    [[ -x $folder/$program ]] || return 1
  done
  version=$("$folder/$1" --version) || fail "$folder/$1 does not run"
  echo "test-newer: $folder/$1: ${version%%$'\n'*}"
}

[[ -n ${1-} ]] || fail "name the folders of the servers: make test-newer NEWER_PATHS=/folder/bin:/another/bin"
IFS=: read -ra folders <<<"$1:"
for folder in "${folders[@]}"; do
  # With a wrong folder the tests would take the installed servers, and nobody would notice.
  [[ $folder == /* ]] || fail "not an absolute path: '$folder' in $1"
  found=
  show "$folder" postgres initdb && found=yes
  show "$folder" redis-server && found=yes
  show "$folder" pgbouncer && found=yes
  show "$folder" etcd && found=yes
  [[ $found ]] || fail "$folder has no postgres with initdb, no redis-server, no pgbouncer and no etcd"
done

# Without the race detector, which `make test` has. Not from the cache: its results may be of other servers that were in the same folders.
PATH=$1:$PATH exec "${GO:-go}" test -count=1 -p 3 -parallel 4 -timeout 40m "${@:2}"
