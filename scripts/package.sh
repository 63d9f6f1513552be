#!/usr/bin/env bash
# Builds a .deb and an .rpm for each platform in dist/linux, and checks the .deb for this machine: its files, that
# the programs start, that man and the shells take what belongs to them, and how exposed the services are.
set -euo pipefail
cd "$(dirname "$0")/.."
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0
go=${GO:-go}
export VERSION=${VERSION:-0.0.0}
# The time of every file in a package, so that the same commit makes the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

tool=$(mktemp -d)
trap 'rm -rf "$tool"' EXIT

# Manual pages and completions come from the programs themselves. The programs that are packed cannot
# write manual pages.
"$go" build -tags manual -o "$tool/" ./cmd/guard ./cmd/leader
share=dist/share
rm -rf $share
mkdir -p $share/{man,bash,zsh,fish}
for program in guard leader; do
  "$tool/$program" manual $share/man
  "$tool/$program" completion bash >$share/bash/$program
  "$tool/$program" completion zsh >$share/zsh/_$program
  "$tool/$program" completion fish >$share/fish/$program.fish
done
gzip -n9 $share/man/*.1

# Its sources only: the flags of this repository's programs mean nothing to it.
GOFLAGS='' GOBIN=$tool "$go" install "$nfpm"
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
[[ $(stat -c %a "$root/etc/ringfence/guard.env") == 640 && $(stat -c %a "$root/etc/ringfence/leader.env") == 640 ]]
for program in guard leader; do
  "$root/usr/bin/$program" --help >/dev/null
  [[ -e $root/usr/share/man/man1/$program.1.gz ]]
done
if command -v groff >/dev/null; then
  for page in "$root"/usr/share/man/man1/*.1.gz; do
    warnings=$(zcat "$page" | groff -man -Tutf8 -ww -z 2>&1)
    [[ -z $warnings ]] || { echo "$page: $warnings" >&2; exit 1; }
  done
fi
bash -n "$root"/usr/share/bash-completion/completions/*
if command -v systemd-analyze >/dev/null; then
  # What leader runs for somebody may need more than our own programs do.
  exposed() { systemd-analyze security --offline=true --no-pager --threshold="$1" "$root/usr/lib/systemd/system/$2" | tail -1; }
  exposed 20 ringfence-guard.service
  exposed 20 ringfence-leader-serve@.service
  exposed 40 ringfence-leader-run@.service
  exposed 40 ringfence-leader-work@.service
fi
echo "checked    $deb"
