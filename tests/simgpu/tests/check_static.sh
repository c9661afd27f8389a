#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_static.sh SIMGPU_DIR LIB_DIR WORK_DIR: a program with NVIDIA's static runtime is refused, one
# with our archive or a shared runtime is not. 77 = skipped.
set -e
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo "skipped: nvcc not found"; exit 77; }
mkdir -p "$3"
cd "$3"
printf '__global__ void k() {}\nint main() { k<<<1, 1>>>(); return cudaGetLastError(); }\n' >static.cu
unset NVCC_APPEND_FLAGS NVCC_PREPEND_FLAGS
[ -e vendor ] || "$nvcc" -o vendor static.cu || { echo "skipped: no static runtime"; exit 77; }
"$nvcc" -o archive "-L$2" static.cu
if "$1/refuse_static.sh" vendor 2>message; then echo "vendor's runtime not refused"; exit 1; fi
grep -q 'cudart shared' message
"$1/refuse_static.sh" archive "$2/libcudart.so.13"
LD_LIBRARY_PATH=$2 ./archive
LD_LIBRARY_PATH=$2 ./vendor 2>message && { echo "vendor's runtime ran"; exit 1; }
grep -q 'static CUDA runtime' message
echo "refused as it must be"
