#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check_format.sh ROOT: our C++ is as clang-format 14 would write it. Other versions format
# differently, so where 14 is missing the check is skipped (77).
set -euo pipefail
cd "${1:?usage: check_format.sh ROOT}"

format="$(command -v clang-format-14 || command -v clang-format || true)"
if [[ -z "$format" ]] || ! "$format" --version | grep -q 'version 14\.'; then
  echo "skipped: clang-format 14 is not installed"
  exit 77
fi
mapfile -t files < <(find libgpuidle tools tests examples include \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) | sort)
((${#files[@]} > 0)) || { echo "no sources found in $PWD"; exit 1; }
wrong=0
for file in "${files[@]}"; do
  if ! "$format" --dry-run --Werror "$file" >/dev/null 2>&1; then
    echo "$file: run clang-format-14 -i on it"
    wrong=$((wrong + 1))
  fi
done
echo "${#files[@]} files checked, $wrong to be formatted"
((wrong == 0))
