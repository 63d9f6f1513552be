#!/usr/bin/env bash
# Installs a .deb in a clean Debian root, uses it, removes it, and compares what is left with what was there before.
# It needs root and mmdebstrap, which uses the apt of this host, and the servers of `make deps`. Usage: scripts/try-package.sh dist/ringfence_….deb
set -euo pipefail
deb=$(realpath "$1")
work=$(mktemp -d)
root=$work/root
server= serving=
cleanup() {
  [[ -z $serving ]] || kill "$serving" || true
  [[ -z $server ]] || as "$bin/pg_ctl" stop -D "$work/data" -m immediate >/dev/null || true
  umount "$root/proc" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

mmdebstrap --quiet --variant=minbase bookworm "$root"
mount -t proc proc "$root/proc"
in=(chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin)
inside() { "${in[@]}" "$@"; }
# Neither dpkg's own lists nor a backup of the user database belong to the package.
files() { (cd "$root" && find . -xdev -not -path './proc/*' -not -path './var/lib/dpkg/*' -not -path './var/log/*' -not -path './etc/*-' -not -path './tmp/*' | LC_ALL=C sort); }

files >"$work/before"
cp "$deb" "$root/tmp/ringfence.deb"
inside dpkg -i /tmp/ringfence.deb
files >"$work/installed"
LC_ALL=C comm -13 "$work/before" "$work/installed" | sed 's/^/installed  /'
inside guard version
inside leader version

# A database outside, which the programs inside reach over the loopback interface.
bin=$(pg_config --bindir)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
as() { if [[ $(id -u) -eq 0 ]]; then chmod 755 "$work" && setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; else "$@"; fi; }
install -d -o postgres "$work/data" "$work/socket"
as "$bin/initdb" -D "$work/data" -U postgres -A trust >/dev/null
server=yes
as "$bin/pg_ctl" start -w -D "$work/data" -l "$work/data/log" -o "-p $port -k $work/socket -c listen_addresses=127.0.0.1" >/dev/null
sql() { psql -qAt -h 127.0.0.1 -p "$port" -U "${2:-postgres}" -c "$1" postgres; }
sql 'create role guard login; create role app login; create table entry (n int); grant all on entry to app'

url() { echo "postgres://$1@127.0.0.1:$port/postgres"; }
cat >>"$root/etc/ringfence/guard.env" <<SETTINGS
GUARD_POSTGRES_UPSTREAM=$(url guard)
GUARD_POSTGRES_ADMIN=$(url postgres)
GUARD_POSTGRES_LISTEN=127.0.0.1:$((port + 1))
GUARD_COORDINATOR=$(url guard)
GUARD_POSTGRES_LEADERS=app
SETTINGS
guard=(env GUARD_SETTINGS_FILE=/etc/ringfence/guard.env guard)
inside "${guard[@]}" install
"${in[@]}" "${guard[@]}" serve 2>"$work/guard.log" & # no function, so this is the guard's own process
serving=$!
# shellcheck disable=SC2016 # the command's own shell expands it
inside env LEADER_COORDINATOR="$(url app)" LEADER_STORES="postgres://app@127.0.0.1:$((port + 1))/postgres" LEADER_RAISE_TIMEOUT=1m \
  leader run orders -- sh -c 'echo "leads      $RINGFENCE_RESOURCE under $RINGFENCE_TOKEN"'
inside "${guard[@]}" status
kill -TERM $serving
wait $serving
serving=
inside "${guard[@]}" uninstall
inside "${guard[@]}" uninstall --yes
[[ -z $(sql "select nspname from pg_namespace where nspname ~ '^ringfence'") ]]

inside dpkg --purge ringfence
files >"$work/after"
diff "$work/before" "$work/after" && echo "removed    nothing is left but the user ringfence"
