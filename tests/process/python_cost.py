# SPDX-License-Identifier: Apache-2.0
"""Prints what a merged stack costs here, and the Python part of it: walk, names and merge.

Run by hand with any interpreter from 3.8: python_cost.py libpython_probe.so. Asserts nothing.
"""

import ctypes
import sys

PYTHON_FRAMES = 10
ROUNDS = 400

library = ctypes.CDLL(sys.argv[1])
library.probe_prepare.restype = ctypes.c_char_p
library.probe_cost.restype = ctypes.c_double
library.probe_recorder_cost.restype = ctypes.c_double


def measure(depth, calls_through_c):
    if depth > 0:
        if calls_through_c > 0:
            return next(map(measure, [depth - 1], [calls_through_c - 1]))
        return measure(depth - 1, 0)
    words, native = ctypes.c_int(), ctypes.c_int()
    cost = library.probe_cost(ROUNDS, ctypes.byref(words), ctypes.byref(native))
    whole = library.probe_recorder_cost(ROUNDS, ctypes.byref(words))
    return whole, cost, native.value, words.value


def main():
    reason = library.probe_prepare().decode()
    if reason:
        sys.exit(f"python_cost.py: Python frames are off: {reason}")
    for calls_through_c in (0, 3, 7):
        # <module>, main() and measure() of depth 0 are three of the frames.
        costs = []
        for _ in range(5):
            costs.append(measure(PYTHON_FRAMES - 3, calls_through_c))
        whole, cost, native, words = min(costs)
        version = sys.version.split()[0]
        print(f"CPython {version}: {PYTHON_FRAMES} Python and {native} native frames,"
              f" {words} words kept: {whole:.0f} ns in all, {cost:.0f} ns for Python")


if __name__ == "__main__":
    main()
