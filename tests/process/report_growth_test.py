#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A report of ten times the events takes at most eleven times the time, and no more memory."""

import os
import subprocess

import run_simulated as sim

LONG_TRACE = sim.BUILD / "tests/process/long_trace"
RUNS = 3
MIB = 1024  # ru_maxrss counts KiB


class ReportGrowth(sim.TestCase):
    def cost(self, trace):
        """(seconds on the CPU, KiB at the peak) of one report, the least of some runs."""
        seconds, kib = [], []
        for _ in range(RUNS):
            with open(os.devnull, "wb") as nowhere:
                child = subprocess.Popen([str(sim.TOOL), "report", str(trace)], stdout=nowhere)
                _, status, usage = os.wait4(child.pid, 0)
                child.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(child.returncode, 0)
            seconds.append(usage.ru_utime + usage.ru_stime)
            kib.append(usage.ru_maxrss)
        return min(seconds), min(kib)

    def test_time_grows_with_the_trace_and_memory_does_not(self):
        costs = {}
        for millions in (1, 10):
            trace = self.folder / f"{millions}.gpuidle"
            subprocess.run([str(LONG_TRACE), str(trace), str(millions)], check=True)
            costs[millions] = self.cost(trace)
            trace.unlink()
        (short_s, short_kib), (long_s, long_kib) = costs[1], costs[10]
        print(f"1 million activities: {short_s:.2f} s on the CPU, {short_kib / MIB:.0f} MiB; "
              f"10 million: {long_s:.2f} s, {long_kib / MIB:.0f} MiB; "
              f"ratio of the times {long_s / short_s:.1f}", flush=True)
        self.assertLessEqual(long_s, 11 * short_s)
        # The whole of the longer file is about 60 MB larger.
        self.assertLessEqual(long_kib, short_kib + 16 * MIB)


if __name__ == "__main__":
    sim.main()
