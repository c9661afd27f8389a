#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compares what `gpuidle info` and `gpuidle dump` say about each golden trace with what lies beside
# it. Arguments: the gpuidle command, this folder. With a third argument "update": writes it anew.
set -eu
command=$1
folder=$2
status=0
for trace in "$folder"/trace-*.gpuidle; do
  for view in info "info --json" "dump --tables" "dump --json --tables"; do
    expected=${trace%.gpuidle}.$(echo "$view" | tr -d ' -').txt
    # The words of $view are options; the trace is named without its folder, as in the file.
    # shellcheck disable=SC2086
    if [ "${3:-}" = update ]; then
      "$command" $view "$trace" > "$expected"
    elif ! "$command" $view "$trace" | diff -u "$expected" -; then
      echo "gpuidle $view $trace: not as in $expected" >&2
      status=1
    fi
  done
done
exit $status
