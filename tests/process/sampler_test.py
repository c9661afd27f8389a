# SPDX-License-Identifier: Apache-2.0
"""A native program keeps the device waiting in known ways; the samples say in which."""

import re

import run_simulated as sim
from sampled import Samples

PROGRAM = sim.BUILD / "tests/process/sampler_program"
STEPS = 20
STEP_MS = 30
# What the feeding thread does -> what it waits for, and the function that waits.
WAITS = {
    "pipe": ("pipe", "wait_in_pipe"),
    "socket": ("local_socket", "wait_in_socket"),
    "poll": ("pipe", "wait_in_poll"),
    "epoll": ("local_socket", "wait_in_epoll"),
    "lock": ("lock", "wait_in_lock"),
    "file": ("local_file", "wait_in_file"),
    "sleep": ("sleep", "wait_in_sleep"),
    "child": ("child_process", "wait_in_child"),
}


class Sampler(sim.TestCase):
    def run_away(self, what, steps=STEPS, step_ms=STEP_MS, **extra):
        folder = self.subfolder(re.sub(r"\W", "_", f"{what}{extra}"))
        command = [str(PROGRAM), what, str(steps), str(step_ms)]
        done = sim.run(command, folder, **extra)
        self.assertEqual(done.status, 0, done.stderr)
        self.assertEqual(done.stdout, f"{what}: {steps} steps, 0 urgent signals\n")
        return done

    def test_what_a_waiting_thread_waits_for_and_where(self):
        for what, (target, function) in WAITS.items():
            with self.subTest(what=what):
                done = self.run_away(what)
                self.assertEqual(done.stderr, "")
                samples = Samples(done.trace)
                waiting = [s for s in samples.of_threads if s["activity"] == "waiting"]
                self.assertGreaterEqual(len(waiting), STEPS // 2, samples.count_of("activity"))
                self.assertGreater(samples.share(lambda s: s["target"] == target, waiting), 0.9,
                                   samples.count_of("target"))
                with_stack = [s for s in waiting if s["stack"]]
                self.assertGreater(len(with_stack), 0.9 * len(waiting))
                named = samples.share(
                    lambda s: any(function in f for f in samples.functions(s)), with_stack)
                self.assertGreater(named, 0.9, [samples.functions(s) for s in with_stack[:3]])

    def test_a_running_thread_is_seen_where_it_runs(self):
        samples = Samples(self.run_away("loop").trace)
        running = [s for s in samples.of_threads if s["activity"] in ("running", "runnable")]
        self.assertGreaterEqual(len(running), STEPS // 2, samples.count_of("activity"))
        with_stack = [s for s in running if s["stack"]]
        self.assertGreater(len(with_stack), 0.8 * len(running))
        named = samples.share(
            lambda s: any("run_in_loop" in f for f in samples.functions(s)), with_stack)
        self.assertGreater(named, 0.95, [samples.functions(s) for s in with_stack[:3]])

    def test_samples_lie_in_order_and_do_not_overlap_for_a_thread(self):
        samples = Samples(self.run_away("sleep", steps=3, step_ms=400).trace)
        rows = samples.of_threads
        self.assertGreater(len(rows), 30)
        for before, after in zip(rows, rows[1:]):
            self.assertLessEqual(before["start_ns"], before["end_ns"])
            self.assertLessEqual(before["end_ns"], after["start_ns"])
        # Counts are of a span that was looked at from its beginning: not of the first of an absence.
        self.assertEqual(sum(1 for s in rows if not s["has_counts"]), 3)
        told = sum(s["end_ns"] - s["start_ns"] for s in rows)
        self.assertGreater(told, 0.9 * 3 * 400e6)

    def test_child_processes_are_looked_at_once_a_second(self):
        samples = Samples(self.run_away("child", steps=1, step_ms=2500).trace)
        children = samples.of_children
        self.assertIn(len(children), (2, 3), children)
        self.assertEqual({s["target"] for s in children}, {"sleep"})
        self.assertEqual({samples.threads[s["thread"]]["name"] for s in children},
                         {"sampler_program"[:15]})

    def test_without_a_rate_nobody_is_looked_at(self):
        done = self.run_away("sleep", GPUIDLE_SAMPLE_RATE="0")
        self.assertEqual((done.stderr, Samples(done.trace).all), ("", []))

    def test_without_stacks_nobody_is_looked_at(self):
        done = self.run_away("sleep", GPUIDLE_STACKS="0")
        self.assertEqual((done.stderr, Samples(done.trace).all), ("", []))

    def test_a_program_that_uses_the_signal_gets_none_and_one_line_says_so(self):
        for what in ("urgent", "urgent_late"):
            with self.subTest(what=what):
                done = self.run_away(what)
                lines = done.stderr.splitlines()
                self.assertEqual(len(lines), 1, done.stderr)
                self.assertIn("the program uses the signal SIGURG itself", lines[0])
                samples = Samples(done.trace)
                running = [s for s in samples.of_threads if s["activity"] != "waiting"]
                self.assertGreater(len(running), STEPS // 2)
                if what == "urgent":
                    self.assertEqual({s["stack"] for s in running}, {0})

    def test_a_thread_that_blocks_the_signal_never_has_it_pending(self):
        done = self.run_away("blocked")
        samples = Samples(done.trace)
        running = [s for s in samples.of_threads if s["activity"] != "waiting"]
        self.assertGreater(len(running), STEPS // 2)
        self.assertEqual({s["stack"] for s in running}, {0})
        self.assertGreaterEqual(samples.head["losses"]["sample_unanswered"], len(running))

    def test_a_program_with_its_own_fault_handler_keeps_it(self):
        done = self.run_away("faults")
        self.assertEqual(done.stderr, "")
        self.assertGreater(len(Samples(done.trace).of_threads), STEPS // 2)

    def test_a_thread_in_the_loader_s_lists_does_not_hang_while_it_is_looked_at(self):
        for what in ("loader", "dlopen"):
            with self.subTest(what=what):
                done = self.run_away(what, steps=30, GPUIDLE_SAMPLE_RATE="1000")
                samples = Samples(done.trace)
                with_stack = [s for s in samples.of_threads if s["stack"]]
                self.assertGreater(len(with_stack), 50, samples.count_of("activity"))


if __name__ == "__main__":
    sim.main()
