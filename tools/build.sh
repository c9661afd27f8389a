#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh PRESET [TARGET...]: finds or fetches the CUDA toolkit, configures build/PRESET and builds
# the targets (all without any). Called by demo.sh and test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

stop() {
  echo "build: $*" >&2
  exit 1
}

preset="${1:?usage: tools/build.sh PRESET [TARGET...]}"
shift
cuda_root="$(tools/fetch-cuda.sh)"
catch2="$(tools/fetch-catch2.sh)"
mkdir -p build
log="build/configure-$preset.log"
echo "==> configuring build/$preset (CUDA toolkit: $cuda_root)" >&2
cmake --preset "$preset" -DGPUIDLE_CUDA_INCLUDE_DIR="$cuda_root/include" \
  -DGPUIDLE_NVCC="$cuda_root/bin/nvcc" ${catch2:+-DCatch2_DIR="$catch2"} >"$log" 2>&1 || {
  tail -n 20 "$log" >&2
  stop "CMake could not configure $preset; the whole log is $log"
}
echo "==> building build/$preset" >&2
cmake --build --preset "$preset" ${1:+--target} "$@" >&2 ||
  stop "build/$preset did not build; the lines above say why"
