#!/bin/sh
# The user of guard and leader, before its files are unpacked with its group.
set -e
if ! getent group ringfence >/dev/null; then
  groupadd --system ringfence
fi
if ! getent passwd ringfence >/dev/null; then
  useradd --system --gid ringfence --no-create-home --home-dir /nonexistent \
    --shell /usr/sbin/nologin --comment "Ringfence" ringfence
fi
