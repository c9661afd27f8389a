#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exceptions of a recorded program are libgcc's, whatever the recorder has opened for itself.

The dynamic linker says with LD_DEBUG=bindings whom it asks for _Unwind_RaiseException. The program
starts CUDA before it throws, so that the recorder is awake; it is an interpreter, which does not
need libgcc_s itself.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["GPUIDLE_BUILD_DIR"])
LIBRARY = BUILD / "lib" / "libgpuidle.so"
THROWER = BUILD / "tests" / "process" / "libstack_throw.so"
SIMGPU = BUILD / "simgpu" / "lib"
PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
assert ctypes.CDLL(sys.argv[1]).stack_throw() == 42
print("libunwind" in open("/proc/self/maps").read())
"""
BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol "
                     r"[`'](_Unwind_\w+)'")


class Exceptions(unittest.TestCase):
    def run_program(self, preload):
        with tempfile.TemporaryDirectory() as folder:
            env = {name: value for name, value in os.environ.items()
                   if not name.startswith(("GPUIDLE_", "SIMGPU_", "LD_"))}
            env.update(LD_LIBRARY_PATH=str(SIMGPU), LD_DEBUG="bindings", SIMGPU_QUIET="1",
                       LD_DEBUG_OUTPUT=f"{folder}/bindings", GPUIDLE_OUTPUT=f"{folder}/t.gpuidle")
            if preload:
                env["LD_PRELOAD"] = str(LIBRARY)
            result = subprocess.run([sys.executable, "-c", PROGRAM, str(THROWER)], env=env,
                                    capture_output=True, text=True, timeout=120)
            self.assertEqual(result.returncode, 0, result.stderr)
            if preload:
                self.assertTrue(pathlib.Path(env["GPUIDLE_OUTPUT"]).exists(), "nothing recorded")
            bindings = "".join(path.read_text(errors="replace")
                               for path in pathlib.Path(folder).glob("bindings.*"))
        found = [(pathlib.Path(user).name, pathlib.Path(giver).name, name)
                 for user, giver, name in BINDING.findall(bindings)]
        return result.stdout.splitlines(), found

    def test_exceptions_bind_to_libgcc_under_the_preload(self):
        output, bindings = self.run_program(preload=True)
        self.assertEqual(output[0], "caught: on purpose")
        self.assertEqual(output[1], "True", "libunwind is not open: nothing would be shown")
        givers = {giver for user, giver, name in bindings
                  if name == "_Unwind_RaiseException" and user.startswith("libstdc++")}
        self.assertEqual(givers, {"libgcc_s.so.1"}, bindings)
        # Nobody but libunwind itself gets any of these names from it.
        for user, giver, name in bindings:
            if giver.startswith("libunwind"):
                self.assertTrue(user.startswith("libunwind"), (user, giver, name))

    def test_libraries_of_the_program_are_bound_as_without_it(self):
        _, without = self.run_program(preload=False)
        _, preloaded = self.run_program(preload=True)
        of_the_program = {user for user, _, _ in without}
        self.assertIn("libstdc++.so.6", of_the_program)
        self.assertEqual({binding for binding in preloaded if binding[0] in of_the_program},
                         set(without))


if __name__ == "__main__":
    if subprocess.run(["sh", "-c", "ldconfig -p | grep -q libunwind.so.8"], check=False).returncode:
        print("skipped: libunwind.so.8 is not installed")
        sys.exit(77)
    unittest.main()
