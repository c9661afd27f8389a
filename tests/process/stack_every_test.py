# SPDX-License-Identifier: Apache-2.0
"""GPUIDLE_STACK_EVERY: of launches that close no gap, one in so many has its stack, and no other."""

import signal
import subprocess
import time

import run_simulated as sim

PROGRAM = sim.BUILD / "tests/process/life_soak"
EVERY = 10


class StackEvery(sim.TestCase):
    def launches(self, every):
        """Whether each launch of a program that launches all the time has a stack."""
        folder = self.subfolder(f"every{every}")
        with subprocess.Popen([str(PROGRAM)], cwd=folder, stdout=subprocess.DEVNULL,
                              env=sim.environment(folder, True, SIMGPU_DEFAULT_KERNEL="500ns",
                                                  SIMGPU_TIMELINE="",
                                                  GPUIDLE_STACK_EVERY=str(every))) as program:
            time.sleep(0.6)
            program.send_signal(signal.SIGTERM)
            self.assertEqual(program.wait(60), 0)
        rows = sim.documents(sim.gpuidle("dump", "--json", next(folder.glob("*.gpuidle"))).stdout)
        return [row["stack"] != 0 for row in rows
                if row.get("type") == "call" and row["role"] == "launch"]

    def test_one_launch_in_so_many_has_its_stack(self):
        without, with_some = self.launches(0), self.launches(EVERY)
        self.assertGreater(min(len(without), len(with_some)), 5000)
        # A gap is closed where a burst of 200 begins, and where the machine was away for a moment.
        self.assertLess(sum(without), len(without) / 20)
        self.assertGreater(sum(with_some), 0.9 * len(with_some) / EVERY)
        self.assertLess(sum(with_some), len(with_some) / EVERY + len(with_some) / 20)


if __name__ == "__main__":
    sim.main()
