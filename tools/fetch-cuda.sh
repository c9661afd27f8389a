#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the root of a CUDA 13 toolkit with nvcc, the runtime's and CUPTI's headers: the installed
# one where there is one, else NVIDIA's own wheels from PyPI, unpacked into a private folder of the build
# (about 140 MB to fetch; nothing of the system's Python is touched).
# GPUIDLE_CUDA_FROM_WHEELS=1 takes the wheels even if a toolkit is installed. Called by demo.sh and
# test.sh; stdout is the path alone.
set -euo pipefail
cd "$(dirname "$0")/.."

cuda_version=13.0
# What each is for: the compiler driver; its front end's headers; its code generator; headers and
# libraries of the runtime; CUPTI's headers; the C++ headers that cuda_fp16.h and others include.
wheels=(nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cupti
  nvidia-cuda-cccl)

stop() {
  echo "fetch-cuda: $*" >&2
  exit 1
}

# The simulated device stands in for CUDA 13's libraries, so an older toolkit does not serve.
has_toolkit() {
  [[ -x "$1/bin/nvcc" && -f "$1/include/cupti.h" ]] &&
    grep -qE 'define CUDA_VERSION +13' "$1/include/cuda.h" 2>/dev/null
}

if [[ "${GPUIDLE_CUDA_FROM_WHEELS:-0}" != 1 ]]; then
  nvcc="$(command -v nvcc || true)"
  [[ -z "$nvcc" ]] || nvcc="$(readlink -f "$nvcc")"
  for root in "${CUDA_HOME:-}" "${nvcc%/bin/nvcc}" /usr/local/cuda; do
    if [[ -n "$root" ]] && has_toolkit "$root"; then
      echo "$root"
      exit 0
    fi
  done
fi

[[ "$(uname -m)" == x86_64 ]] || stop "no CUDA toolkit found, and the wheels are for x86_64 only"
target="$PWD/build/cuda-wheels-$cuda_version"
root="$target/nvidia/cu13"
if [[ ! -f "$target/complete" ]]; then
  echo "==> fetching CUDA $cuda_version from PyPI into ${target#"$PWD"/}" >&2
  python="$(command -v /usr/bin/python3 || command -v python3 || true)"
  "${python:-false}" -m pip --version >/dev/null 2>&1 ||
    stop "python3 with pip is needed to fetch CUDA's wheels; run: apt-get install python3-pip"
  rm -rf "$target"
  mkdir -p "$target"
  "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --no-deps --no-compile --only-binary=:all: --target "$target" \
    "${wheels[@]/%/==${cuda_version}.*}" >&2 ||
    stop "pip could not fetch the wheels (${wheels[*]}); is pypi.org reachable?"
  # nvcc looks for its libraries in lib64 and links -lcudart; wheels have lib and no such link.
  ln -sfn lib "$root/lib64"
  ln -sf libcudart.so.13 "$root/lib/libcudart.so"
  has_toolkit "$root" || stop "the wheels do not hold what was expected in $root"
  touch "$target/complete"
fi
echo "$root"
