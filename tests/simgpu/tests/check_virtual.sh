#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_virtual.sh SCENARIO LIB_DIR WORK_DIR: the virtual clock gives one timeline for all runs, and
# a killed process leaves whole rows of it.
set -e
program=$1 lib=$2 work=$3
mkdir -p "$work"
export LD_LIBRARY_PATH="$lib" SIMGPU_QUIET=1 SIMGPU_CLOCK=virtual
printf '# durations\n*conv* 2ms\nreduce_* 50us\n' >"$work/kernels"
export SIMGPU_KERNELS="$work/kernels"
SIMGPU_TIMELINE="$work/first.csv" "$program"
SIMGPU_TIMELINE="$work/second.csv" "$program"
cmp "$work/first.csv" "$work/second.csv"
grep -q ',kernel,conv_forward,' "$work/first.csv"
awk -F, '$3 == "kernel" && $7 - $6 != ($4 == "conv_forward" ? 2000000 : 50000) { exit 1 }' \
  "$work/first.csv"
SIMGPU_TIMELINE="$work/killed.csv" "$program" kill || true
awk -F, 'NF != 13 { print "broken row: " $0; exit 1 } END { if (NR < 20) exit 1 }' "$work/killed.csv"
rows=$(wc -l <"$work/killed.csv")
head -n "$rows" "$work/first.csv" | cmp - "$work/killed.csv"
echo "timelines agree"
