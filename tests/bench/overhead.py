#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What libgpuidle costs the program it watches, on the simulated device, as a Markdown table.

Configurations take turns within each round, so that what else the machine does hits all of them
alike; figures are differences or ratios between configurations of the same round, and the table
shows their median over the rounds with the quartiles. See tests/README.md for how to repeat it.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time


def quartiles(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 4], statistics.median(ordered), ordered[(3 * len(ordered)) // 4]


class Bench:
    def __init__(self, build, rounds):
        self.build = pathlib.Path(build)
        self.rounds = rounds
        self.folder = tempfile.TemporaryDirectory(prefix="gpuidle-bench-")
        self.library = self.build / "lib" / "libgpuidle.so"
        self.subscriber = self.build / "tests" / "libempty_subscriber.so"
        self.loop = self.build / "tests" / "launch_loop"
        self.counter = 0

    def environment(self, configuration):
        env = dict(os.environ)
        for name in list(env):
            if name.startswith(("GPUIDLE_", "SIMGPU_")):
                del env[name]
        env["LD_LIBRARY_PATH"] = str(self.build / "simgpu" / "lib")
        env["SIMGPU_QUIET"] = "1"
        env["SIMGPU_DEFAULT_KERNEL"] = "500ns"
        if configuration == "subscriber":
            env["CUDA_INJECTION64_PATH"] = str(self.subscriber)
        elif configuration == "gpuidle":
            self.counter += 1
            env["LD_PRELOAD"] = str(self.library)
            env["GPUIDLE_OUTPUT"] = f"{self.folder.name}/{self.counter}.gpuidle"
        return env

    def run_loop(self, configuration, *arguments):
        output = subprocess.run([self.loop, *map(str, arguments)], env=self.environment(configuration),
                                check=True, capture_output=True, text=True).stdout
        for trace in pathlib.Path(self.folder.name).glob("*.gpuidle"):
            trace.unlink()
        return json.loads(output)

    def added_per_launch(self, *arguments):
        """ns that a launch takes longer than under the empty subscriber."""
        added, base = [], []
        for _ in range(self.rounds):
            subscriber = self.run_loop("subscriber", *arguments)["median_ns"]
            gpuidle = self.run_loop("gpuidle", *arguments)["median_ns"]
            added.append(gpuidle - subscriber)
            base.append(subscriber)
        return quartiles(added), statistics.median(base)

    def slowdown_at_rate(self, count):
        """Shares by which a loop at 100,000 launches/s takes longer: against no tool, and against
        the empty subscriber."""
        work = self.run_loop("none", "paced", count)["rounds"]
        to_none, to_subscriber = [], []
        for _ in range(self.rounds):
            none = self.run_loop("none", "paced", count, work)["total_ns"]
            subscriber = self.run_loop("subscriber", "paced", count, work)["total_ns"]
            gpuidle = self.run_loop("gpuidle", "paced", count, work)["total_ns"]
            to_none.append(gpuidle / none - 1)
            to_subscriber.append(gpuidle / subscriber - 1)
        return quartiles(to_none), quartiles(to_subscriber)

    def added_per_exec(self, count):
        """ms that starting and ending /bin/true takes longer with the library preloaded."""
        def spawn(env):
            start = time.perf_counter()
            for _ in range(count):
                os.waitpid(os.posix_spawn("/bin/true", ["/bin/true"], env), 0)
            return (time.perf_counter() - start) / count * 1e3

        env = dict(os.environ)
        env.pop("LD_PRELOAD", None)
        preloaded = dict(env, LD_PRELOAD=str(self.library))
        added, base = [], []
        for _ in range(self.rounds):
            without = spawn(env)
            added.append(spawn(preloaded) - without)
            base.append(without)
        return quartiles(added), statistics.median(base)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="build folder of the release preset")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    bench = Bench(arguments.build, arguments.rounds)

    print("| what | median | quartiles | target | beside |")
    print("|---|---|---|---|---|")

    def row(what, figures, unit, target, beside, scale=1.0, digits=0):
        low, median, high = (value * scale for value in figures)
        print(f"| {what} | {median:.{digits}f} {unit} | {low:.{digits}f} to {high:.{digits}f} | "
              f"{target} | {beside} |", flush=True)

    added, base = bench.added_per_launch("tight", 50000)
    row("added to a launch that closes no gap, against an empty CUPTI subscriber", added, "ns",
        "<= 60 ns", f"{base:.0f} ns under the empty subscriber")
    added, base = bench.added_per_launch("gap", 5000, 40)
    row("added to a launch that closes a gap, 40 native frames", added, "ns", "<= 1000 ns",
        f"{base:.0f} ns under the empty subscriber")
    added, base = bench.added_per_exec(200)
    row("added to an exec of /bin/true", added, "ms", "<= 0.2 ms", f"{base:.2f} ms without",
        digits=3)
    to_none, to_subscriber = bench.slowdown_at_rate(100000)
    row("slowdown of a loop at 100,000 launches/s, against no tool", to_none, "%", "<= 1 %", "",
        scale=100, digits=2)
    row("the same against an empty CUPTI subscriber", to_subscriber, "%", "", "", scale=100,
        digits=2)


if __name__ == "__main__":
    main()
