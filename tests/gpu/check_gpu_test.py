# SPDX-License-Identifier: Apache-2.0
"""The checks for a real GPU, run on the simulated device: they pass there, and each can fail."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import check_gpu
import gpu_report

BUILD = pathlib.Path(os.environ["GPUIDLE_BUILD_DIR"])
HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77


class SelfCheck(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="gpuidle-gpu-test-")
        self.addCleanup(directory.cleanup)
        self.report = pathlib.Path(directory.name) / "report.txt"

    def check(self, *arguments, **extra):
        return subprocess.run([sys.executable, HERE / "check_gpu.py", BUILD, "--report", self.report,
                               *arguments], env={**os.environ, **extra}, capture_output=True,
                              text=True, timeout=280, check=False)

    def test_on_the_simulated_device_every_check_passes_or_says_why_it_is_skipped(self):
        finished = self.check("--simulated")
        text = self.report.read_text()
        self.assertEqual(finished.returncode, 0, text + finished.stderr)
        self.assertRegex(text, r"\n\d+ passed, 0 failed \(none\)")
        results = re.findall(r"^(passed|skipped: .+|FAILED.*) \([\d.]+ s\)$", text, re.MULTILINE)
        self.assertEqual(len(results), len(re.findall(r"^== ", text, re.MULTILINE)), text)
        # The cost of a launch is measured where the benches were built, attach where there is one.
        self.assertGreaterEqual(results.count("passed"), 7, text)

    def test_without_a_gpu_it_skips_with_the_reason(self):
        finished = self.check(PATH="/nonexistent")
        self.assertEqual(finished.returncode, SKIPPED)
        self.assertIn("no GPU", finished.stdout)
        self.assertFalse(self.report.exists())


class EachCheckCanFail(unittest.TestCase):
    """The judgements, on results that a broken recorder would give."""

    def setUp(self):
        self.module = check_gpu
        self.checks = check_gpu.Checks(BUILD, True, "", pathlib.Path("/nonexistent"))

    def test_lengths_that_are_off_fail(self):
        right = [{"start_ns": 0, "end_ns": 500_000}] * 3
        list(self.checks.lengths(right, 500_000))
        with self.assertRaises(gpu_report.Failure):
            list(self.checks.lengths([{"start_ns": 0, "end_ns": 600_000}] * 3, 500_000))

    def test_kernels_without_their_launch_fail(self):
        kernels = [{"start_ns": 10, "end_ns": 20, "correlation": 1}]
        calls = [{"start_ns": 5, "end_ns": 6, "correlation": 1}]
        list(self.checks.correlations(kernels, calls))
        with self.assertRaises(gpu_report.Failure):
            list(self.checks.correlations(kernels, []))

    def test_other_kernels_or_times_than_those_of_torch_profiler_fail(self):
        kernel = {"type": "activity", "kind": "kernel", "start_ns": 0, "end_ns": 1000}
        list(self.module.agreement({"k": (3, 3000)}, [kernel] * 4))
        for theirs, rows in (({"k": (3, 3000)}, [kernel] * 2), ({"k": (3, 6000)}, [kernel] * 4),
                             ({}, [kernel])):
            with self.assertRaises(gpu_report.Failure):
                list(self.module.agreement(theirs, rows))

    def test_a_profiler_that_sees_less_beside_us_fails(self):
        alone = {"k": (3, 3000), "l": (1, 10)}
        list(self.module.same_kernels(alone, {"k": (3, 2900), "l": (1, 12)}))
        for beside in ({"k": (3, 3000)}, {"k": (2, 3000), "l": (1, 10)}, {}):
            with self.assertRaises(gpu_report.Failure):
                list(self.module.same_kernels(alone, beside))

    def test_the_work_for_torch_runs_where_there_is_torch(self):
        for python in (sys.executable, "/usr/bin/python3"):
            if subprocess.run([python, "-c", "import torch"], capture_output=True,
                              check=False).returncode == 0:
                break
        else:
            self.skipTest("no interpreter with torch")
        work = [python, HERE / "torch_work.py"]
        profiled = subprocess.run([*work, "profiled", "cpu"], capture_output=True, text=True,
                                  check=False)
        self.assertEqual(profiled.returncode, 0, profiled.stderr)
        seen = json.loads(profiled.stdout.splitlines()[-1])
        self.assertTrue(seen and all(count > 0 for count, _ in seen.values()), seen)
        plain = subprocess.run([*work, "plain", "cpu"], capture_output=True, text=True, check=False)
        self.assertEqual((plain.returncode, plain.stdout), (0, "{}\n"), plain.stderr)

    def test_the_script_knows_its_usage_and_its_self_check(self):
        script = HERE.parents[1] / "tools/check-gpu.sh"
        wrong = subprocess.run([script, "--bogus"], capture_output=True, text=True, check=False)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("--self-check", wrong.stderr)
        without = subprocess.run([script], capture_output=True, text=True, check=False,
                                 env={**os.environ, "PATH": "/usr/bin:/bin"})
        if not self.module.has_gpu():
            self.assertEqual(without.returncode, SKIPPED, without.stderr)

    def test_a_check_that_breaks_counts_as_failed_and_the_next_one_is_made(self):
        with tempfile.TemporaryDirectory() as folder:
            report = gpu_report.Report(pathlib.Path(folder) / "r.txt", 60)

            def breaks():
                yield "begun"
                raise ValueError("broken")

            report.check("breaks", breaks)
            report.check("works", lambda: iter(["fine"]))
            self.assertEqual(report.conclude(), 1)
            self.assertEqual((report.failed, report.passed), (["breaks"], ["works"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
