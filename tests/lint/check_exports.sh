#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check_exports.sh LIBGPUIDLE.SO ROOT: the preloaded library exports exactly the names that
# intercept/cuda_functions.def lists, the public gpuidle_* functions and the doors below; and it needs
# no library but libc and the loader, so that it cannot bring anything else into other people's
# programs.
set -euo pipefail
library="${1:?usage: check_exports.sh LIBGPUIDLE.SO ROOT}"
root="${2:?usage: check_exports.sh LIBGPUIDLE.SO ROOT}"

# dlsym: programs that look CUDA up at run time; _exit, _Exit: ends that run no destructor;
# InitializeInjection: CUDA_INJECTION64_PATH; __*: asked by the
# sanitizers' runtimes; cupti*: another profiler begins.
doors='dlsym
cuptiSubscribe
cuptiSubscribe_v2
cuptiActivityRegisterCallbacks
_exit
_Exit
InitializeInjection
__asan_default_options
__lsan_default_suppressions
__tsan_default_suppressions'

from_table() {
  # A PAIR also stands for symbol_<suffix>.
  sed -nE \
    -e 's/^GPUIDLE_(RUNTIME|DRIVER)_(FUNCTION|ENTRY)\(([A-Za-z0-9_]+).*/\3/p' \
    -e 's/^GPUIDLE_(RUNTIME|DRIVER)_PAIR\(([A-Za-z0-9_]+), *([A-Za-z0-9_]+).*/\2\n\2_\3/p' \
    "$root/libgpuidle/intercept/cuda_functions.def"
}
allowed="$({ from_table; echo "$doors"; } | sort -u)"
exported="$(nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sed 's/@.*//' |
  grep -v '^gpuidle_' | sort -u || true)"

failed=0
extra="$(comm -13 <(echo "$allowed") <(echo "$exported"))"
absent="$(comm -23 <(echo "$allowed") <(echo "$exported"))"
[[ -z "$extra" ]] || { echo "exported, but in no list:" "$extra"; failed=1; }
[[ -z "$absent" ]] || { echo "in the list, but not exported:" "$absent"; failed=1; }

needed="$(readelf -dW "$library" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p')"
while read -r name; do
  case "$name" in
    libc.so.6 | ld-linux-*.so.* | libdl.so.2 | libpthread.so.0 | librt.so.1 | libm.so.6) ;;
    *) echo "needs $name; allowed are libc and the loader"; failed=1 ;;
  esac
done <<<"$needed"
if readelf -dW "$library" | grep -q TEXTREL; then
  echo "has text relocations"
  failed=1
fi
echo "$(wc -l <<<"$exported") names exported, needs: $(tr '\n' ' ' <<<"$needed")"
exit "$failed"
