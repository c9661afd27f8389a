#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# intercept_tail_call_test.sh LIBRARY: the library's dlsym hands over to the real one by a jump and
# never by a call, see libgpuidle/intercept/symbol_lookup.cpp.
set -euo pipefail
library="${1:?usage: intercept_tail_call_test.sh LIBRARY}"
command -v objdump >/dev/null || { echo "skipped: no objdump (binutils)"; exit 77; }
code="$(objdump -d --no-show-raw-insn --disassemble=dlsym "$library")"
jumps="$(grep -cE '\b(jmp\s+\*|br\s+x)' <<<"$code" || true)"
calls="$(grep -cE '\b(call\s+\*|blr\s+x)' <<<"$code" || true)"
echo "dlsym of $library: $jumps indirect jumps, $calls indirect calls"
[[ "$jumps" -ge 1 && "$calls" -eq 0 ]]
