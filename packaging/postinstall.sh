#!/bin/sh
# A running guard is not restarted: with two of them, the second has to wait for the first.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  if systemctl is-active --quiet ringfence-guard.service; then
    echo "ringfence: the new version takes effect with: systemctl restart ringfence-guard"
  else
    echo "ringfence: put the settings into /etc/ringfence/guard.env, then: systemctl enable --now ringfence-guard"
  fi
fi
