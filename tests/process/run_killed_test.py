# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random moments: every trace reads, and at most the last second is missing.

Usage: run_killed_test.py RUNS.
"""

import concurrent.futures
import random
import signal
import subprocess
import sys
import time

import run_simulated as sim
import run_timeline

RUNS = int(sys.argv.pop()) if len(sys.argv) > 1 and sys.argv[-1].isdigit() else 50
SECOND_NS = 1_000_000_000
# Device times come from the timeline's clock and pass through the clock map.
TOLERANCE_NS = 100_000


def kill_after(folder, delay_s):
    """Runs a long program, kills it; returns the moment of the kill on CLOCK_MONOTONIC."""
    process = subprocess.Popen([str(sim.PROGRAM), "100000", "exit"], cwd=folder,
                               env=sim.environment(folder, True), stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    time.sleep(delay_s)
    killed_ns = sim.monotonic_ns()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, process.returncode
    return killed_ns


def activities_of(trace):
    finished = sim.gpuidle("dump", trace, "--json")
    if finished.returncode != 0:
        raise AssertionError(f"dump exited with {finished.returncode}: {finished.stderr}")
    return [row for row in sim.documents(finished.stdout) if row.get("type") == "activity"]


def check_one(seed):
    """Returns (problems, number of device operations that had to be there)."""
    with sim.folder() as folder:
        killed_ns = kill_after(folder, random.Random(seed).uniform(0.05, 2.2))
        traces = list(folder.glob("*.gpuidle"))
        timelines = list(folder.glob("timeline-*.csv"))
        if not timelines:
            return ([f"run {seed}: a trace without any CUDA"] if traces else []), 0
        must_have = [o for o in run_timeline.read_operations(timelines[0])
                     if o.end_ns < killed_ns - SECOND_NS]
        if not traces:
            return ([f"run {seed}: no trace"] if must_have else []), 0
        problems = []
        info = sim.gpuidle("info", traces[0])
        if info.returncode != 0:
            problems.append(f"run {seed}: info exited with {info.returncode}: {info.stderr}")
        if "abrupt" not in info.stdout:
            problems.append(f"run {seed}: info does not say that the program ended abruptly")
        starts = sorted(row["start_ns"] for row in activities_of(traces[0]))
        missing = [o for o in must_have
                   if not any(abs(s - o.start_ns) < TOLERANCE_NS for s in starts)]
        if missing:
            problems.append(f"run {seed}: {len(missing)} of {len(must_have)} operations that ended "
                            f"over a second before the kill are missing, e.g. {missing[0]}")
        return problems, len(must_have)


class Killed(sim.TestCase):
    def test_killed_programs_leave_readable_traces_without_older_gaps(self):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = list(pool.map(check_one, range(RUNS)))
        problems = [line for lines, _ in results for line in lines]
        self.assertEqual(problems, [])
        # Otherwise no run lived long enough to have had anything to lose.
        self.assertGreater(sum(count for _, count in results), 100)


if __name__ == "__main__":
    sim.main()
