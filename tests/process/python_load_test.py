# SPDX-License-Identifier: Apache-2.0
"""Python threads interrupted anywhere, as often as can be: no crash, and no frame that is wrong.

Argument "million": a million samples per interpreter, else for 30 seconds.
"""

import subprocess
import sys
import unittest

import python_interpreters
import run_simulated as sim

PROBE = sim.BUILD / "tests/process/libpython_probe.so"
PROGRAM = sim.SOURCE / "tests/process/python_load.py"
IS_LONG = "million" in sys.argv[1:]
SAMPLES, SECONDS = (1_000_000, 900) if IS_LONG else (1_000_000, 30)


class PythonLoad(unittest.TestCase):
    def test_each_caller_s_line_names_the_function_that_runs_with_each_interpreter(self):
        for path, version in python_interpreters.require_interpreters().items():
            with self.subTest(python=version, path=path):
                done = subprocess.run([path, str(PROGRAM), str(PROBE), str(SAMPLES), str(SECONDS)],
                                      capture_output=True, text=True, timeout=SECONDS + 120,
                                      check=False)
                print(f"{version}: {done.stdout.strip() or done.stderr[-400:]}", flush=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                if IS_LONG:
                    self.assertGreaterEqual(int(done.stdout.split()[0]), SAMPLES)


if __name__ == "__main__":
    sys.argv = [argument for argument in sys.argv if argument != "million"]
    sim.main()
