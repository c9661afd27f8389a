#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run_cu.sh SOURCE MODE LIB_DIR WORK_DIR: builds a .cu file with nvcc and runs it on the simulated
# device. MODE is shared, archive (our libcudart_static.a) or per-thread. 77 = skipped.
set -e
source=$1 mode=$2 lib=$3 work=$4
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo "skipped: nvcc not found"; exit 77; }
mkdir -p "$work"
program=$work/$(basename "$source" .cu)-$mode
export NVCC_APPEND_FLAGS= NVCC_PREPEND_FLAGS=
case $mode in
  shared) NVCC_APPEND_FLAGS="-cudart shared" ;;
  archive) NVCC_PREPEND_FLAGS="-L$lib" ;;
  per-thread) NVCC_APPEND_FLAGS="-cudart shared --default-stream per-thread" ;;
esac
# A program is built again only if something it is made of is newer.
if [ ! -e "$program" ] || [ "$source" -nt "$program" ] ||
   { [ "$mode" = archive ] && [ "$lib/libcudart_static.a" -nt "$program" ]; }; then
  "$nvcc" -o "$program" "$source"
fi
LD_LIBRARY_PATH=$lib exec timeout 30 "$program"
