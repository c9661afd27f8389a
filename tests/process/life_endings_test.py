# SPDX-License-Identifier: Apache-2.0
"""Every way to end while other threads launch: same status, in time, and a trace that reads."""

import concurrent.futures
import signal

import life_cases as life
import run_simulated as sim

PROGRAM = life.PROGRAMS / "life_endings"
STATUS = {
    "return": 2, "exit": 3, "_exit": 4, "quick_exit": 5, "exit_group": 9, "other_thread": 6,
    "two_exits": 7, "main_thread_first": 8, "atexit_cuda": 10, "atexit_exit": 11,
    "atexit__exit": 12, "handler_exit": 13, "handler__exit": 14, "term": -signal.SIGTERM,
    "int": -signal.SIGINT, "kill": -signal.SIGKILL, "alarm": -signal.SIGALRM,
    "terminate": -signal.SIGABRT,
}


class Endings(life.TestCase):
    def check(self, how):
        seen = self.compare([PROGRAM, how])
        self.assertEqual(seen.status, STATUS[how], seen.stderr)
        self.assertEqual(seen.stdout, "launched\n")
        self.assertTrue(seen.trace.exists())
        # Even what nobody could announce loses less than a flush interval.
        self.assertGreater(sim.gpuidle_json("info", seen.trace)["call_count"], 0)
        return seen

    def test_every_way_to_end_while_threads_launch_keeps_status_time_and_trace(self):
        for how in STATUS:
            with self.subTest(how=how):
                self.check(how)

    def test_an_end_that_the_program_announces_closes_the_trace(self):
        for how in ("return", "exit", "_exit", "main_thread_first", "atexit__exit"):
            with self.subTest(how=how):
                end = sim.gpuidle_json("info", self.check(how).trace)["recording"]["end"]
                self.assertEqual(end, "clean")

    def test_ends_that_race_are_the_same_in_thirty_runs(self):
        races = [how for how in ("two_exits", "_exit", "exit") for _ in range(10)]

        def run_one(job):
            number, how = job
            folder = self.subfolder(f"race-{number}")
            return how, sim.run([str(PROGRAM), how], folder)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for how, seen in pool.map(run_one, enumerate(races)):
                self.assertEqual((seen.status, seen.stdout), (STATUS[how], "launched\n"),
                                 seen.stderr)
                self.assertEqual(sim.gpuidle("info", seen.trace).returncode, 0)


if __name__ == "__main__":
    sim.main()
