# SPDX-License-Identifier: Apache-2.0
"""Hours in small: a program that launches all the time is recorded, left alone and recorded again.

Usage: life_soak_test.py SECONDS. Its memory must stay within bounds once a recording has settled, and
afterwards: the recorder keeps its rings, so it does not go back to what it was. Descriptors must go
back, and what a launch costs between recordings, which is compared in alternation.
"""

import contextlib
import os
import pathlib
import re
import signal
import statistics
import sys
import threading
import time

import attach_target as target
import run_simulated as sim

SECONDS = float(sys.argv.pop()) if len(sys.argv) > 1 and sys.argv[-1].isdigit() else 10
PAIRS = 6
# What a recording adds is bounded (README: what it costs). It is there after the first quarter; what
# may come on top later are buffers that happen to be under way.
MAY_SWING_KIB = 16 * 1024
MAY_ADD_KIB = 64 * 1024
# The simulated CUPTI's own work included, on two processors that the program alone fills.
MAY_COST = 2.5
# What stays when nobody is attached is nothing but noise.
MAY_STAY = 1.5


class Watch:
    """The running program: what it reports of itself, and what the system says of it."""

    def __init__(self, program):
        self.program = program
        self.lines = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.program.process.stdout:
            self.lines.append(line)

    def resident_kib(self):
        status = pathlib.Path(f"/proc/{self.program.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    def descriptors(self):
        """What they stand for; some are only there for a moment."""
        found = []
        for link in pathlib.Path(f"/proc/{self.program.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(re.sub(r"\d+", "N", os.readlink(link)))
        return sorted(found)

    def cost_over(self, seconds):
        """Processor time per launch, in ns, over the coming time."""
        time.sleep(0.3)  # a line that began before
        first = [int(n) for n in self.lines[-1].split()]
        time.sleep(seconds)
        last = [int(n) for n in self.lines[-1].split()]
        return (last[1] - first[1]) / (last[0] - first[0])


class Soak(sim.TestCase):
    def attach(self, program):
        """A recording without a foreseen end."""
        command = target.start_attach(program, "--no-report", "-o", str(self.folder / "%n.gpuidle"))
        target.wait_until(lambda: "recording for a client" in target.status(program), "a recording")
        return command

    def detach(self, command):
        command.send_signal(signal.SIGTERM)  # SIGINT may be ignored, as in a shell's background
        _, stderr = command.communicate(timeout=60)
        self.assertEqual(command.returncode, 0, stderr)

    def test_nothing_grows_and_all_goes_back(self):
        context = target.running(self.folder, command=[str(sim.BUILD / "tests/process/life_soak")],
                                 SIMGPU_DEFAULT_KERNEL="500ns", SIMGPU_TIMELINE="")
        with context as program:
            program.wait_for_block()
            watch = Watch(program)
            target.wait_until(lambda: len(watch.lines) > 5, "the program's first launches")
            time.sleep(SECONDS / 20)
            before_kib, before = watch.resident_kib(), watch.descriptors()
            cost_before = watch.cost_over(SECONDS / 30)

            command = self.attach(program)
            seen_kib, seen = [], []
            for _ in range(20):
                time.sleep(SECONDS / 2 / 20)
                seen_kib.append(watch.resident_kib())
                seen.append(len(watch.descriptors()))
            self.detach(command)

            costs = []
            for _ in range(PAIRS):
                off = watch.cost_over(SECONDS / 30)
                command = self.attach(program)
                on = watch.cost_over(SECONDS / 30)
                self.detach(command)
                costs.append((off, on))
            after_kib = watch.resident_kib()
            target.wait_until(lambda: watch.descriptors() == before, "the descriptors as before")
            program.process.send_signal(signal.SIGTERM)
            self.assertEqual(program.process.wait(60), 0)
            self.assertEqual(program.stderr, "")
            target.wait_until(lambda: watch.lines[-1] == "over\n", "the program's last line")
            traces = program.traces

        ratio = statistics.median(on / off for off, on in costs)
        cost_between = statistics.median(off for off, _ in costs)
        launches = int(watch.lines[-2].split()[0])
        print(f"\n  {launches} launches; resident before {before_kib} KiB, recording "
              f"{min(seen_kib)} to {max(seen_kib)} KiB, after {after_kib} KiB; a launch "
              f"{cost_before:.0f} ns before, {cost_between:.0f} ns between recordings, "
              f"{ratio:.2f} times that in them", flush=True)
        settled_kib = max(seen_kib[:5])
        self.assertLess(max(seen_kib), settled_kib + MAY_SWING_KIB, seen_kib)
        self.assertLess(max(seen_kib), before_kib + MAY_ADD_KIB, seen_kib)
        self.assertLess(after_kib, settled_kib + MAY_SWING_KIB)
        self.assertLessEqual(max(seen), min(seen) + 2, seen)
        self.assertLess(ratio, MAY_COST, costs)
        self.assertLess(cost_between, MAY_STAY * cost_before, costs)
        self.assertEqual(len(traces), 1 + PAIRS)
        for trace in traces:
            info = sim.gpuidle_json("info", trace)
            self.assertEqual(info["recording"]["end"], "clean", trace.name)


if __name__ == "__main__":
    sim.main()
