#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_faults.sh CUPTI_FAULTS LIB_DIR: each scripted fault has its effect and no other.
program=$1
export LD_LIBRARY_PATH="$2" SIMGPU_QUIET=1
status=0
expect() {
  got=$(SIMGPU_FAULT=$1 "$program")
  case $got in
    $2) ;;
    *) echo "SIMGPU_FAULT=$1: got $got, expected $2"; status=1 ;;
  esac
}
expect "" "version=130001 subscribe=0 launch=0 flushed=1 early=100 records=100 zeros=0 reversed=0 dropped=0"
expect subscribe=39 "* subscribe=39 * records=100 *"
expect subscribe=15 "* subscribe=15 *"
expect subscribe=999 "* subscribe=999 *"
expect cupti_version=18 "version=18 *"
expect no_records "* flushed=1 early=0 records=0 *"
expect zero_timestamps "* records=100 zeros=100 reversed=0 *"
expect zero_timestamps=4 "* records=100 zeros=25 reversed=0 *"
expect reversed_timestamps "* records=100 zeros=0 reversed=100 *"
expect drop_every=10 "* records=90 zeros=0 reversed=0 dropped=10"
expect late_ms=5000 "* flushed=1 early=0 records=100 *"
expect flush_hangs "* flushed=0 *"
expect launch=700 "* launch=700 * records=0 *"
expect cuinit=100 "* launch=100 * records=0 *"
[ $status = 0 ] && echo "all faults as scripted"
exit $status
