# SPDX-License-Identifier: Apache-2.0
"""Python frames, names, lines and places are Python's own, with every interpreter found here."""

import subprocess
import unittest

import python_interpreters
import run_simulated as sim

PROBE = sim.BUILD / "tests/process/libpython_probe.so"


class PythonFrames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.interpreters = python_interpreters.require_interpreters()

    def run_with_each(self, program):
        for path, version in self.interpreters.items():
            with self.subTest(python=version, path=path):
                done = subprocess.run(
                    [path, str(sim.SOURCE / "tests/process" / program), str(PROBE)],
                    capture_output=True, text=True, timeout=200, check=False)
                answer = done.stdout.strip() or done.stderr.strip()
                print(f"{version}: {answer[-400:]}", flush=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_stacks_equal_those_of_python_in_every_shape_of_call(self):
        self.run_with_each("python_shapes.py")

    def test_a_code_object_in_the_place_of_a_dead_one_has_its_own_name(self):
        self.run_with_each("python_code_reuse.py")

    def test_every_position_has_the_line_that_python_gives_it(self):
        self.run_with_each("python_line_tables.py")

    def test_a_stack_is_taken_unharmed_while_the_interpreter_ends_and_afterwards(self):
        self.run_with_each("python_ending.py")


if __name__ == "__main__":
    sim.main()
