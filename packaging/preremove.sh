#!/bin/sh
# Stops guard and leaders when the package is removed, and not when it is upgraded (deb: upgrade, rpm: 1).
set -e
case "$1" in
  remove | deconfigure | 0)
    if [ -d /run/systemd/system ]; then
      systemctl stop 'ringfence-leader-*.service' 'ringfence-agent@*' || true
      systemctl disable ringfence-leader-run@.service ringfence-leader-work@.service ringfence-leader-serve@.service \
        ringfence-agent@.socket ringfence-agent@.service || true
      systemctl disable --now $(cd /usr/lib/systemd/system && echo ringfence-guard-*.socket) ringfence-guard.service || true
    fi
    ;;
esac
