#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the folder of Catch2's CMake package where the tests' version (2.13) is not the installed
# one: Ubuntu 24.04 has Catch2 3, whose headers differ. Fetches Debian's package (460 kB) and unpacks
# it into a private folder of the build. Prints nothing where the system has 2.13.
# GPUIDLE_CATCH2_FROM_DEBIAN=1 fetches it in any case. Called by build.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

version=2.13.10-1
sha256=0b32d3017609fecef1ecb0827729c2f3cda61332dd1f50da73ea9066fb4fc7ca
url="http://deb.debian.org/debian/pool/main/c/catch2/catch2_${version}_amd64.deb"

stop() {
  echo "fetch-catch2: $*" >&2
  exit 1
}

installed="$(dpkg-query -W -f '${Version}' catch2 2>/dev/null || true)"
[[ "$installed" == 2.13.* && "${GPUIDLE_CATCH2_FROM_DEBIAN:-0}" != 1 ]] && exit 0

target="$PWD/build/catch2-$version"
if [[ ! -f "$target/complete" ]]; then
  echo "==> fetching Catch2 $version (installed: ${installed:-none})" >&2
  rm -rf "$target"
  mkdir -p "$target"
  python3 - "$url" "$target/catch2.deb" <<'PYTHON' || stop "could not fetch $url"
import sys
import urllib.request

try:
    urllib.request.urlretrieve(sys.argv[1], sys.argv[2])
except OSError as error:
    sys.exit(f"fetch-catch2: {error}")
PYTHON
  echo "$sha256  $target/catch2.deb" | sha256sum --check --status ||
    stop "$url is not the file that was expected (sha256 differs)"
  dpkg-deb --extract "$target/catch2.deb" "$target"
  touch "$target/complete"
fi
echo "$target/usr/lib/cmake/Catch2"
