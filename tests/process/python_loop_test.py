# SPDX-License-Identifier: Apache-2.0
"""A Python program on the simulated device: the report names the function and line that fed it."""

import re
import unittest

import python_interpreters
import run_simulated as sim

PRETENDER = sim.BUILD / "tests/process/libpython_pretender.so"
PROGRAM = sim.SOURCE / "examples/python_loop.py"


def line_of(text):
    lines = [n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if text in line]
    if len(lines) != 1:
        raise AssertionError(f"{PROGRAM}: expected one line with {text!r}, found {lines}")
    return lines[0]


class PythonLoop(sim.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.interpreters = python_interpreters.require_interpreters()

    def test_the_first_origin_is_the_function_that_keeps_the_device_waiting(self):
        source = PROGRAM.read_text().splitlines()
        body = range(line_of("def tokenize(step):") + 1, line_of("def feed(gpu, tokens):"))
        self.assertIn("tokens.append", "".join(source[body.start - 1:body.stop - 1]))
        for path, version in self.interpreters.items():
            with self.subTest(python=version, path=path):
                folder = self.subfolder(re.sub(r"\W", "_", path))
                done = sim.run([path, str(PROGRAM)], folder,
                               kernels=sim.kernels_file("python_loop"))
                self.assertEqual((done.status, done.stderr), (0, ""))
                report = sim.gpuidle_json("report", done.trace)
                self.assertEqual(report["findings"][0]["cause"], "host.python")
                first = report["idle_origins"][0]
                frame = first["stack"][first["user_frame_index"]]
                self.assertEqual((frame["function"], frame["file"]), ("tokenize", str(PROGRAM)))
                self.assertIn(frame["line"], body)

    def test_without_samples_it_is_the_line_that_closes_the_gap_with_each_interpreter(self):
        # A call over several lines is at its first line from 3.8 on; the call itself ends the gap.
        closing_line = line_of("self.runtime.cudaMemcpyAsync(")
        callers = [("feed", line_of("gpu.copy_to_device(batch)")),
                   ("train", line_of("batch = feed(gpu, tokens)")),
                   ("main", line_of("{train(Gpu())}")),
                   ("<module>", line_of("    main()"))]
        for path, version in self.interpreters.items():
            with self.subTest(python=version, path=path):
                folder = self.subfolder(re.sub(r"\W", "_", path))
                done = sim.run([path, str(PROGRAM)], folder,
                               kernels=sim.kernels_file("python_loop"),
                               GPUIDLE_SAMPLE_RATE="0")
                self.assertEqual((done.status, done.stderr), (0, ""))
                report = sim.gpuidle_json("report", done.trace)
                self.assertEqual(report["warnings"], [])
                first = report["idle_origins"][0]
                user = first["user_frame_index"]
                self.assertIsNotNone(user, first["stack"])
                frame = first["stack"][user]
                self.assertEqual((frame["function"].split(".")[-1], frame["file"], frame["line"]),
                                 ("copy_to_device", str(PROGRAM), closing_line))
                own = [(f["function"], f["line"]) for f in first["stack"]
                       if f["file"] == str(PROGRAM)]
                self.assertEqual(own[1:], callers)

    def test_without_stacks_nothing_of_python_is_looked_at(self):
        path = next(iter(self.interpreters))
        done = sim.run([path, str(PROGRAM)], self.folder,
                       kernels=sim.kernels_file("python_loop"), GPUIDLE_STACKS="0")
        self.assertEqual((done.status, done.stderr), (0, ""))
        report = sim.gpuidle_json("report", done.trace)
        self.assertEqual(report["idle_origins"][0]["stack"], [])

    def test_an_interpreter_that_is_not_supported_is_stood_down_from_with_one_line(self):
        reason = "CPython 3.13.0 (free-threaded): free-threaded builds are not supported"
        done = sim.run([str(sim.PROGRAM), "20", "exit"], self.folder,
                       LD_PRELOAD=f"{sim.LIBRARY}:{PRETENDER}")
        alone = sim.run([str(sim.PROGRAM), "20", "exit"], self.subfolder("alone"), preload=False)
        self.assertEqual((done.status, done.stdout), (alone.status, alone.stdout))
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertIn(f"warning: call stacks are recorded without Python frames: {reason}",
                      lines[0])
        report = sim.gpuidle_json("report", done.trace)
        self.assertEqual(report["warnings"], [f"no Python frames: {reason}"])
        self.assertTrue(report["idle_origins"][0]["stack"])


if __name__ == "__main__":
    sim.main()
