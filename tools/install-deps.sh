#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian or Ubuntu packages that the build needs and that are missing; does nothing,
# and needs no rights, where all are there. `install-deps.sh test` adds what only the tests need,
# `install-deps.sh slow` also PyTorch, in which the slow tests take stacks.
# Called by demo.sh and test.sh; may be run again at any time.
set -euo pipefail

build_packages=(
  build-essential cmake ninja-build binutils python3
  flatbuffers-compiler libflatbuffers-dev libsimdjson-dev libcli11-dev libfmt-dev
  libzstd-dev libdeflate-dev libsqlite3-dev libunwind-dev libdw-dev libelf-dev libboost-dev catch2
)
test_packages=(libbenchmark-dev strace clang clang-format-14)
slow_packages=(python3-torch)

stop() {
  echo "install-deps: $*" >&2
  exit 1
}

command -v dpkg-query >/dev/null ||
  stop "this is neither Debian nor Ubuntu (no dpkg-query); install these yourself:" \
    "${build_packages[*]}"

wanted=("${build_packages[@]}")
[[ "${1:-}" == test || "${1:-}" == slow ]] && wanted+=("${test_packages[@]}")
[[ "${1:-}" == slow ]] && wanted+=("${slow_packages[@]}")
# The wheels of the CUDA toolkit are fetched with pip, and only where there is no toolkit.
[[ "${GPUIDLE_CUDA_FROM_WHEELS:-0}" == 1 ]] || command -v nvcc >/dev/null ||
  [[ -x /usr/local/cuda/bin/nvcc ]] || [[ -x "${CUDA_HOME:-/nonexistent}/bin/nvcc" ]] ||
  wanted+=(python3-pip)
[[ "${GPUIDLE_CUDA_FROM_WHEELS:-0}" == 1 ]] && wanted+=(python3-pip)

missing=()
for package in "${wanted[@]}"; do
  state="$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)"
  [[ "$state" == installed ]] || missing+=("$package")
done

if ((${#missing[@]} > 0)); then
  echo "==> installing ${#missing[@]} packages: ${missing[*]}" >&2
  as_root=()
  if [[ "$(id -u)" != 0 ]]; then
    command -v sudo >/dev/null ||
      stop "root rights or sudo are needed once, to run: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq >&2 || stop "apt-get update failed; see the lines above"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 ||
    stop "apt-get could not install: ${missing[*]}"
fi

# The presets need a newer CMake than Ubuntu 22.04 has.
found="$(cmake --version | sed -n '1s/[^0-9]*//p')"
[[ "$(printf '3.25\n%s\n' "$found" | sort -V | head -n 1)" == 3.25 ]] ||
  stop "CMake 3.25 or newer is needed, found $found; Debian 12 and Ubuntu 24.04 have it"
