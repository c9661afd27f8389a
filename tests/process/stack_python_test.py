#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Native stacks under the Python interpreters of this machine are those that libgcc walks.

The second test does the same inside PyTorch where an interpreter has it: forward and backward
passes, whose stacks are the deepest in practice.
"""

import os
import pathlib
import subprocess
import unittest

from python_interpreters import interpreters

PROBE = pathlib.Path(os.environ["GPUIDLE_BUILD_DIR"]) / "tests" / "process" / "libstack_probe.so"
CAPTURES = 10000
COMMON = """
import ctypes, functools, sys
probe = ctypes.PyDLL(sys.argv[1])
wanted = int(sys.argv[2])
assert probe.stack_probe_prepare() == 1
seen = {"captures": 0, "different": 0, "deepest": 0}
def look(*_):
    frames = probe.stack_probe_agrees()
    seen["captures"] += 1
    seen["different"] += frames == 0
    seen["deepest"] = max(seen["deepest"], frames)
    return 0
"""
SHAPES = COMMON + """
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(look)
numbers = (ctypes.c_int * 6)(*range(6))
libc = ctypes.CDLL(None)
class Called:
    def __init__(self): look()
    def __getattr__(self, name): return look()
    def __del__(self): look()
def generate():
    yield look()
    yield from (look() for _ in range(2))
def recurse(depth):
    return look() if depth == 0 else recurse(depth - 1)
while seen["captures"] < wanted:
    look()
    recurse(seen["captures"] % 25)
    sorted(range(3), key=look)
    list(map(look, range(3)))
    list(generate())
    Called().missing
    functools.reduce(lambda a, b: look(), range(3))
    eval(compile("look()", "text", "eval"))
    libc.qsort(numbers, 6, 4, compare)
print(seen["captures"], seen["different"], seen["deepest"])
"""
TORCH = COMMON + """
import torch
class Watched(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        look()
        return x * 2
    @staticmethod
    def backward(context, gradient):
        look()
        return gradient * 2
torch.set_num_threads(1)
layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
for layer in layers:
    layer.register_forward_hook(lambda *_: look() or None)  # a result would replace the output
while seen["captures"] < wanted:
    x = torch.ones(4, 8, requires_grad=True)
    x.register_hook(lambda gradient: look() or None)
    layers(Watched.apply(x)).sum().backward()
print(seen["captures"], seen["different"], seen["deepest"])
"""


class PythonStacks(unittest.TestCase):
    def run_captures(self, python, program):
        result = subprocess.run([python, "-c", program, str(PROBE), str(CAPTURES)],
                                capture_output=True, text=True, timeout=250)
        self.assertEqual(result.returncode, 0, result.stderr)
        captures, different, deepest = map(int, result.stdout.split())
        print(f"{python}: {captures} stacks, {different} different, up to {deepest} frames")
        self.assertGreaterEqual(captures, CAPTURES)
        self.assertGreater(deepest, 20)
        self.assertEqual(different, 0)

    def test_stacks_through_callbacks_of_the_interpreter(self):
        found = PYTHONS
        self.assertTrue(found, "no Python interpreter found")
        for python in found:
            with self.subTest(python=python):
                self.run_captures(python, SHAPES)

    def test_stacks_inside_torch(self):
        with_torch = [python for python in PYTHONS
                      if subprocess.run([python, "-c", "import torch"], capture_output=True,
                                        check=False).returncode == 0]
        if not with_torch:
            self.skipTest("no interpreter of this machine can import torch (Debian: python3-torch)")
        for python in with_torch:
            with self.subTest(python=python):
                self.run_captures(python, TORCH)


PYTHONS = list(interpreters())

if __name__ == "__main__":
    unittest.main()
