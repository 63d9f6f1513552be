#!/usr/bin/env bash
# Makes the release of the tag vVERSION in dist/release: an archive of both programs for each platform, the
# packages, the SBOM of each program, and SHA256SUMS. Everything is built twice, from two clones in different
# folders with a build cache of their own, and the two have to be the same. Usage: scripts/release.sh 0.1.0
set -euo pipefail
cd "$(dirname "$0")/.."
sbom=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
go=${GO:-go}
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/arm64}

fail() {
  echo "release: $*" >&2
  exit 1
}

version=${1:-}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+ ]] || fail "say which version, such as scripts/release.sh 0.1.0"
git rev-parse --verify --quiet "v$version^{commit}" >/dev/null || fail "there is no tag v$version"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "v$version^{commit}")
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C

work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT

# build FOLDER builds everything in a clone at FOLDER.
build() {
  git -c advice.detachedHead=false clone --quiet --no-hardlinks --branch "v$version" . "$1"
  (
    cd "$1"
    export GOCACHE=$1.cache # outside: in the clone it would be a change, and the programs would say so
    make --no-print-directory dist PLATFORMS="$platforms" VERSION="$version" GO="$go"
    if "$go" version -m dist/*/*/* | grep vcs.modified=true; then fail "the programs say that files were changed"; fi
    GO="$go" VERSION=$version scripts/package.sh
    mkdir release && mv dist/*.deb dist/*.rpm release/
    for p in $platforms; do
      in=ringfence_${version}_${p/\//_}
      mkdir "$in"
      cp "dist/$p/guard" "dist/$p/leader" LICENSE CHANGELOG.md "$in/"
      cp -r dist/share "$in/"
      tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw --mtime="@$SOURCE_DATE_EPOCH" -cf - "$in" | gzip -n9 >"release/$in.tar.gz"
    done
    cd release && sha256sum ./* >SHA256SUMS
  )
}
build "$work/one"
build "$work/another/folder"
diff "$work/one/release/SHA256SUMS" "$work/another/folder/release/SHA256SUMS" || fail "two builds of v$version differ"
echo "the same   two builds of $(wc -l <"$work/one/release/SHA256SUMS") files"

rm -rf dist/release && mkdir -p dist/release && mv "$work"/one/release/* dist/release/
GOFLAGS='' GOBIN=$work "$go" install "$sbom"
for p in $platforms; do
  for program in guard leader; do
    "$work/cyclonedx-gomod" bin -json -std -version "v$version" -output "dist/release/${program}_${version}_${p/\//_}.cdx.json" "$work/one/dist/$p/$program"
  done
done
(cd dist/release && sha256sum ./*.deb ./*.rpm ./*.tar.gz ./*.cdx.json >SHA256SUMS)
echo "made       dist/release"
