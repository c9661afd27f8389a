# SPDX-License-Identifier: Apache-2.0
"""A Python program keeps the device waiting; the samples name its lines, with each interpreter."""

import re

import python_interpreters
import run_simulated as sim
from sampled import Samples

PROGRAM = sim.SOURCE / "tests/process/sampler_python.py"
EXAMPLES = sim.SOURCE / "examples"
STEPS = 12
STEP_MS = 40
# What the feeding thread does -> what it waits for, its function.
WAITS = {
    "sleep": ("sleep", "wait_in_sleep"),
    "event": ("lock", "wait_in_event"),
    "pipe": ("pipe", "wait_in_pipe"),
}


def line_of(what):
    lines = PROGRAM.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith(f"# line of {what}"))


class PythonSampler(sim.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.interpreters = python_interpreters.require_interpreters()

    def run_away(self, python, what, *options, steps=STEPS, **extra):
        folder = self.subfolder(re.sub(r"\W", "_", f"{python}{what}{options}"))
        command = [python, str(PROGRAM), str(EXAMPLES), what, str(steps), str(STEP_MS), *options]
        done = sim.run(command, folder, **extra)
        self.assertEqual(done.status, 0, done.stderr)
        self.assertEqual(done.stdout, f"{what}: {steps} steps, 0 urgent signals\n")
        return done

    def own_frames(self, samples, sample):
        return [(f["function"].split(".")[-1], f["line"]) for f in samples.stacks[sample["stack"]]
                if f["file"] == str(PROGRAM)]

    def test_a_waiting_thread_is_seen_at_its_line(self):
        for python, version in self.interpreters.items():
            for what, (target, function) in WAITS.items():
                with self.subTest(python=version, what=what):
                    done = self.run_away(python, what)
                    self.assertEqual(done.stderr, "")
                    samples = Samples(done.trace)
                    waiting = [s for s in samples.of_threads if s["target"] == target]
                    self.assertGreaterEqual(len(waiting), STEPS // 2, samples.count_of("target"))
                    place = (function, line_of(what))
                    here = samples.share(lambda s: place in self.own_frames(samples, s), waiting)
                    self.assertGreater(here, 0.85, [samples.functions(s) for s in waiting[:3]])

    def test_a_running_thread_is_seen_at_its_line(self):
        for python, version in self.interpreters.items():
            with self.subTest(python=version):
                samples = Samples(self.run_away(python, "python", steps=30).trace)
                running = [s for s in samples.of_threads if s["stack"]]
                self.assertGreaterEqual(len(running), 20, samples.count_of("activity"))
                own = [self.own_frames(samples, s) for s in running]
                inside = [frames for frames in own
                          if frames and frames[0][0] == "run_in_python" and
                          frames[-1][0] == "<module>"]
                self.assertGreater(len(inside), 0.9 * len(running), own[:5])
                at_line = sum(1 for f in inside if abs(f[0][1] - line_of("python")) <= 1)
                self.assertGreater(at_line, 0.6 * len(inside))

    def test_a_thread_that_waits_for_the_gil_is_told_so(self):
        for python, version in self.interpreters.items():
            with self.subTest(python=version):
                samples = Samples(self.run_away(python, "gil").trace)
                waits = [s for s in samples.of_threads if s["target"] == "interpreter_lock"]
                self.assertGreater(len(waits), STEPS // 3, samples.count_of("target"))
                here = samples.share(
                    lambda s: any(f[0] == "wait_for_gil" for f in self.own_frames(samples, s)), waits)
                self.assertGreater(here, 0.85, [samples.functions(s) for s in waits[:3]])

    def test_faulthandler_and_an_own_urgent_handler_go_on_as_ever(self):
        python = next(iter(self.interpreters))
        done = self.run_away(python, "python", "faulthandler")
        self.assertEqual(done.stderr, "")
        done = self.run_away(python, "python", "urgent")
        self.assertIn("the program uses the signal SIGURG itself", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    sim.main()
