#!/usr/bin/env bash
# Builds a .deb and an .rpm for each platform in dist/linux, and checks the .deb for this machine:
# its files, that the programs start, and how exposed the service is.
set -euo pipefail
cd "$(dirname "$0")/.."
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0
export VERSION=${VERSION:-0.0.0}

# Its sources only: the flags of this repository's programs mean nothing to it.
tool=$(mktemp -d)
trap 'rm -rf "$tool"' EXIT
GOFLAGS='' GOBIN=$tool "${GO:-go}" install "$nfpm"
for dir in dist/linux/*/; do
  ARCH=$(basename "$dir")
  export ARCH
  for kind in deb rpm; do
    "$tool/nfpm" package --config packaging/nfpm.yaml --packager $kind --target dist/
  done
done
(cd dist && sha256sum ./*.deb ./*.rpm >SHA256SUMS.packages)

command -v dpkg-deb >/dev/null || exit 0
deb=dist/ringfence_${VERSION}_$(dpkg --print-architecture).deb
root=$tool/root
dpkg-deb --extract "$deb" "$root"
"$root/usr/bin/guard" -h >/dev/null
"$root/usr/bin/leader" -h >/dev/null
[[ $(stat -c %a "$root/etc/ringfence/guard.env") == 640 ]]
unit=$root/usr/lib/systemd/system/ringfence-guard.service
if command -v systemd-analyze >/dev/null; then
  systemd-analyze security --offline=true --no-pager --threshold=20 "$unit" | tail -1
fi
echo "checked    $deb"
