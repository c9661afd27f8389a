#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# refuse_static.sh PROGRAM...: says which programs cannot run on the simulated device because
# NVIDIA's static CUDA runtime is inside (that runtime authenticates its driver). Such a program has
# device code and no shared runtime, names "/cudart.shm", and lacks the marker of our own runtime.
# Exit status: 0 all can run, 1 one cannot, 2 usage or unreadable file.
[ $# -gt 0 ] || { echo "usage: refuse_static.sh PROGRAM..." >&2; exit 2; }
status=0
for program in "$@"; do
  if ! readelf -h "$program" >/dev/null 2>&1; then
    echo "simgpu: cannot read $program as an ELF file" >&2
    exit 2
  fi
  readelf -SW "$program" | grep -q '\.nv_fatbin' || continue
  readelf -dW "$program" | grep -q 'NEEDED.*libcudart\.so' && continue
  grep -qF /cudart.shm "$program" || continue
  grep -qF SIMGPU_RUNTIME_MARKER "$program" && continue
  echo "simgpu: $program contains NVIDIA's static CUDA runtime and cannot run on the simulated" \
    "device; rebuild it with NVCC_APPEND_FLAGS=\"-cudart shared\"" >&2
  status=1
done
exit $status
