#!/usr/bin/env bash
# Installs the servers that the tests and the demo start: ZooKeeper (with Java), etcd,
# Postgres, Redis and PgBouncer, a second order of texts for Postgres, and the browser
# that looks at the lab's reports.
# `deps.sh bench` installs what the benchmarks compare the guard with, too: HAProxy
# and twemproxy. `deps.sh drivers` installs the drivers with which users reach a guard,
# and promtool, which checks the alerts. `deps.sh model` installs Spin, which checks the
# models, and `deps.sh newer` what newer-servers.sh needs. Only what is missing is installed;
# run it as often as you like.
set -euo pipefail
peers=${1:-}

# find_first CANDIDATE... prints the first candidate that exists: a file, or a
# program on PATH. The caller expands globs.
find_first() {
  local candidate
  for candidate in "$@"; do
    case $candidate in
      /*) [[ -e $candidate ]] && echo "$candidate" && return ;;
      *) command -v "$candidate" && return ;;
    esac
  done
  return 1
}

# need NAME PACKAGE CANDIDATE... reports what is found, and puts the package on
# the list of missing ones otherwise.
missing=()
need() {
  local name=$1 package=$2 where
  shift 2
  if where=$(find_first "$@"); then
    echo "found      $name: $where"
  else
    echo "missing    $name"
    missing+=("$package")
  fi
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "deps: not root and no sudo; run as root: $*" >&2
    exit 1
  fi
}

# The Debian package of Postgres makes and starts a cluster on port 5432. The
# tests do not use it, and do not mind it: their own clusters live in temporary
# directories, on other ports.
apt_install() {
  local packages=("$@") install
  install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}")
  # The package lists are fetched only when they are too old or absent to do it.
  if ! apt-get install -s "${packages[@]}" >/dev/null 2>&1 || ! as_root "${install[@]}"; then
    as_root apt-get update -q
    as_root "${install[@]}"
  fi
}

debian() {
  need zookeeper zookeeper "${ZOOKEEPER_HOME:-/nowhere}/lib" /usr/share/java/zookeeper.jar /opt/zookeeper/lib /usr/local/zookeeper/lib
  need java default-jre-headless "${JAVA_HOME:-/nowhere}/bin/java" java
  need postgres postgresql /usr/lib/postgresql/*/bin/postgres /usr/local/pgsql/bin/postgres postgres
  need "Danish locale" locales /usr/share/i18n/locales/da_DK
  need redis-server redis-server redis-server /usr/bin/redis-server
  need pgbouncer pgbouncer pgbouncer /usr/sbin/pgbouncer
  need etcd etcd-server etcd
  need etcdctl etcd-client etcdctl
  need chromium chromium chromium chromium-browser google-chrome
  if [[ $peers == bench ]]; then
    need haproxy haproxy haproxy /usr/sbin/haproxy
    need twemproxy nutcracker nutcracker /usr/sbin/nutcracker
    need patroni patroni patroni
    need "Patroni's client of etcd" python3-etcd /usr/lib/python3/dist-packages/etcd
  fi
  if [[ $peers == newer ]]; then
    need debootstrap debootstrap debootstrap
    need patchelf patchelf patchelf
  fi
  if [[ $peers == model ]]; then
    need spin spin spin
    need gcc gcc gcc
  fi
  if [[ $peers == drivers ]]; then
    need psql postgresql-client psql
    need redis-cli redis-tools redis-cli
    need psycopg python3-psycopg /usr/lib/python3/dist-packages/psycopg
    need SQLAlchemy python3-sqlalchemy /usr/lib/python3/dist-packages/sqlalchemy
    need Django python3-django /usr/lib/python3/dist-packages/django
    need psycopg2 python3-psycopg2 /usr/lib/python3/dist-packages/psycopg2
    need ruby ruby ruby
    need ruby-pg ruby-pg /usr/lib/ruby/vendor_ruby/pg.rb
    need ActiveRecord ruby-activerecord /usr/share/rubygems-integration/all/specifications/activerecord-*.gemspec
    need php php-cli php
    need php-pgsql php-pgsql /usr/lib/php/*/pdo_pgsql.so
    need redis-py python3-redis /usr/lib/python3/dist-packages/redis
    need JDBC libpostgresql-jdbc-java /usr/share/java/postgresql.jar
    need javac default-jdk-headless javac
    need Spring libspring-jdbc-java /usr/share/java/spring3-jdbc.jar
    need "Spring's transactions" libspring-transaction-java /usr/share/java/spring3-transaction.jar
    need commons-logging libcommons-logging-java /usr/share/java/commons-logging.jar
    need Celery python3-celery /usr/lib/python3/dist-packages/celery
    need Quartz libquartz2-java /usr/share/java/quartz2.jar
    need HikariCP libhikaricp-java /usr/share/java/HikariCP.jar
    need SLF4J libslf4j-java /usr/share/java/slf4j-simple.jar
    need node nodejs node
    need npm npm npm
    need promtool prometheus promtool
  fi
  [[ ${#missing[@]} -eq 0 ]] && return
  apt_install "${missing[@]}"
  printf 'installed  %s\n' "${missing[@]}"
}

macos() {
  command -v brew >/dev/null || { echo "deps: Homebrew is needed: https://brew.sh" >&2; exit 1; }
  local opt
  opt="$(brew --prefix)/opt"
  need zookeeper zookeeper "${ZOOKEEPER_HOME:-/nowhere}/lib" "$opt/zookeeper/libexec/lib"
  need java openjdk "${JAVA_HOME:-/nowhere}/bin/java" "$opt/openjdk/bin/java"
  need postgres postgresql "$opt"/postgresql*/bin/postgres postgres
  need redis-server redis redis-server
  need pgbouncer pgbouncer pgbouncer
  need etcd etcd etcd
  need etcdctl etcd etcdctl
  need chromium google-chrome "/Applications/Google Chrome.app" /Applications/Chromium.app chromium
  if [[ $peers == bench ]]; then
    need haproxy haproxy haproxy
    need twemproxy twemproxy nutcracker
  fi
  [[ ${#missing[@]} -eq 0 ]] && return
  brew install "${missing[@]}"
  printf 'installed  %s\n' "${missing[@]}"
}

case "$(uname -s)" in
  Darwin) macos ;;
  *)
    if command -v apt-get >/dev/null; then
      debian
    else
      echo "deps: this script knows Debian, Ubuntu and macOS. Install by your own means:" >&2
      echo "  ZooKeeper 3.8 or later (set ZOOKEEPER_HOME) with a Java runtime, Postgres server programs" >&2
      echo "  (initdb and postgres on PATH), redis-server, pgbouncer and chromium." >&2
      exit 1
    fi
    ;;
esac
