# SPDX-License-Identifier: Apache-2.0
"""Threads that come and go by the thousand are recorded or counted, and leave no memory behind."""

import re

import life_cases as life
import run_simulated as sim

THREADS = 4000


class Threads(life.TestCase):
    def test_every_launch_of_thousands_of_short_threads_is_recorded_or_counted_as_lost(self):
        seen = self.compare([life.PROGRAMS / "life_threads", THREADS, 8],
                            SIMGPU_DEFAULT_KERNEL="20us")
        self.assertEqual((seen.status, seen.stdout), (0, f"{THREADS} threads\n"), seen.stderr)
        report = sim.gpuidle_json("report", seen.trace)
        self.assertEqual(report["devices"][0]["kernel_count"], THREADS)
        # Threads that begin while all rings are still those of dead ones go without; how many that
        # are depends on how soon the recorder's own thread gets a processor.
        lost = report["losses"]["ring_full"]
        self.assertEqual(report["recording"]["launch_call_count"] + lost, THREADS)
        self.assertLess(lost, THREADS / 2)
        grown = int(re.search(r"grown by (-?\d+) KiB", seen.stderr).group(1))
        # 2,000 threads; what is kept of each is its row in the thread table.
        self.assertLess(grown, 8192)

    def test_a_large_share_of_impossible_times_is_told_once_while_the_program_runs(self):
        seen = self.compare([life.PROGRAMS / "life_threads", THREADS, 8],
                            SIMGPU_DEFAULT_KERNEL="20us", SIMGPU_FAULT="zero_timestamps=2")
        lines = [line for line in seen.stderr.splitlines() if "gpuidle" in line]
        self.assertEqual(len(lines), 1, seen.stderr)
        self.assertRegex(lines[0], r"\d+ of the last \d+ device records have times that cannot be")
        losses = sim.gpuidle_json("report", seen.trace)["losses"]
        self.assertGreaterEqual(losses["zero_timestamp"], THREADS / 2)


if __name__ == "__main__":
    sim.main()
