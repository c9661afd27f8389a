#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# From a fresh clone to a report: installs what is missing, builds, runs a training loop whose data
# loader is too slow under `gpuidle run`, on the real GPU where there is one and on the simulated
# device otherwise, and prints the report. May be run again; works as root or with sudo.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "==> [1/3] packages" >&2
tools/install-deps.sh
echo "==> [2/3] build" >&2
tools/build.sh release gpuidle_demo
build=build/release
cuda_root="$(tools/fetch-cuda.sh)"

trace="$build/demo.gpuidle"
rm -f "$trace"
if nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  echo "==> [3/3] examples/slow_loader on $(nvidia-smi -L | head -n 1)" >&2
  export LD_LIBRARY_PATH="$cuda_root/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
else
  echo "==> [3/3] examples/slow_loader on the simulated device (no GPU found)" >&2
  export LD_LIBRARY_PATH="$PWD/$build/simgpu/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export SIMGPU_KERNELS="$PWD/examples/slow_loader.simgpu"
fi
"$build/bin/gpuidle" run -o "$trace" -- "$build/examples/slow_loader"
echo "==> done; look closer with: $build/bin/gpuidle gaps $trace" >&2
