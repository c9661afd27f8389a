#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds, and runs the tests through CTest. May be run again; works as root
# or with sudo.
#   tools/test.sh            every test but the slow ones (release), the unit tests under Address- and
#                            UndefinedBehaviorSanitizer (dev), the recorder's under ThreadSanitizer
#   tools/test.sh slow       what takes long: a million samples of each Python, NVIDIA's own CUPTI of many
#                            releases (fetched), thousands of attaches, a minute of each fuzz target
#   tools/test.sh release    one preset alone: release, dev, tsan or fuzz
set -euo pipefail
cd "$(dirname "$0")/.."

jobs="$(nproc)"
failed=()

# A failing preset does not hide what the others find; the last line names all that failed.
check() {
  local preset="$1" target="$2"
  shift 2
  tools/build.sh "$preset" ${target:+"$target"}
  echo "==> testing build/$preset: $*" >&2
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --parallel "$jobs" "$@" ||
    failed+=("$preset")
}

what="${1:-all}"
case "$what" in
  all | slow | release | dev | tsan | fuzz) ;;
  *)
    echo "test: unknown set '$what'; known: slow, release, dev, tsan, fuzz; none = all but slow" >&2
    exit 2
    ;;
esac

echo "==> packages" >&2
if [[ "$what" == slow ]]; then tools/install-deps.sh slow; else tools/install-deps.sh test; fi
case "$what" in
  all | release) check release "" --label-exclude "^slow$" ;;&
  all | dev) check dev gpuidle_unit_tests --label-regex "^unit$" --label-exclude "^slow$" ;;&
  all | tsan) check tsan gpuidle_recorder_tests --label-regex "^recorder$" --label-exclude "^slow$" ;;&
  slow) check release "" --label-regex "^slow$|^python$" ;;&
  slow | fuzz) check fuzz gpuidle_fuzzers --label-regex "^fuzz$" ;;
esac

if ((${#failed[@]} > 0)); then
  echo "test: failed in ${failed[*]}; the lines above say which tests" >&2
  exit 1
fi
echo "==> all tests passed" >&2
