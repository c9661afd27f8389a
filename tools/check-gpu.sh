#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks on a real GPU what cannot be checked without one, in under ten minutes once it is built, and
# writes one report file. For a bare Debian 12 or Ubuntu 24.04 with the NVIDIA driver; a CUDA toolkit
# is fetched where there is none. PyTorch is looked at where python3 has it.
#   tools/check-gpu.sh [REPORT]              default: gpu-report.txt
#   tools/check-gpu.sh --self-check [REPORT] the same checks on the simulated device: tests this script
# Exit status: 0 all holds, 1 something does not, 2 usage, 77 there is no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

simulated=()
if [[ "${1:-}" == --self-check ]]; then
  simulated=(--simulated)
  shift
fi
if [[ $# -gt 1 || "${1:-}" == -* ]]; then
  sed -n '4,10s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
report="${1:-gpu-report.txt}"
if [[ ${#simulated[@]} == 0 ]] && ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  echo "check-gpu: no GPU: nvidia-smi -L lists none; --self-check runs without one" >&2
  exit 77
fi

echo "==> [1/3] packages" >&2
tools/install-deps.sh
# A build that is there already can be named, so that this script can be tested without building.
build="${GPUIDLE_CHECK_BUILD:-build/release}"
if [[ -z "${GPUIDLE_CHECK_BUILD:-}" ]]; then
  echo "==> [2/3] build" >&2
  tools/build.sh release gpuidle_gpu_checks
fi
cuda_root="$(tools/fetch-cuda.sh)"
echo "==> [3/3] checks" >&2
exec python3 tests/gpu/check_gpu.py "$build" --report "$report" \
  --libraries "$cuda_root/lib64:$cuda_root/extras/CUPTI/lib64" "${simulated[@]}"
