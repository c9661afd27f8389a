# SPDX-License-Identifier: Apache-2.0
"""A library is put into busy programs again and again; none may lock up, crash or lose a bit.

Usage: attach_cycles_test.py CYCLES. The stop times are printed, not judged: on a loaded machine they
are mostly waiting for a processor.
"""

import json
import pathlib
import subprocess
import sys
import unittest

import run_simulated as sim

CYCLES = int(sys.argv.pop()) if len(sys.argv) > 1 and sys.argv[-1].isdigit() else 50
PLACE = sim.BUILD / "tests/process"

PYTHON = """
import hashlib, json, os, signal, sys, threading, time, ctypes
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
faults = []
def work(number):
    while not over.is_set():
        data = [{"key%d" % i: i * 0.5} for i in range(200)]
        if json.loads(json.dumps(data)) != data:
            faults.append(number)
        hashlib.sha256(repr(data).encode()).digest()
        if number % 3 == 0:
            time.sleep(0.001)
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for t in threads:
    t.start()
print("ready", flush=True)
while not over.wait(0.05):
    pass
for t in threads:
    t.join()
print("ok" if not faults else "%d faults" % len(faults), flush=True)
"""


class Cycles(sim.TestCase):
    def cycle(self, command, name):
        program = subprocess.Popen(command, cwd=self.folder,
                                   env=sim.environment(self.folder, preload=False),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), "ready\n")
        descriptors = len(list(pathlib.Path(f"/proc/{program.pid}/fd").iterdir()))
        finished = subprocess.run(
            [str(PLACE / "attach_cycles"), str(program.pid), str(CYCLES),
             str(PLACE / "libattach_probe.so")],
            capture_output=True, text=True, timeout=60 + 5 * CYCLES, check=False)
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        after = len(list(pathlib.Path(f"/proc/{program.pid}/fd").iterdir()))
        program.terminate()
        stdout, stderr = program.communicate(timeout=120)
        self.assertEqual((stdout, stderr, program.returncode), ("ok\n", "", 0))
        self.assertLessEqual(after, descriptors + 1)  # python opens one now and then
        seen = json.loads(finished.stdout)
        print(f"\n  {name}: {CYCLES} cycles, stopped {seen['stopped_median_ns'] / 1e6:.2f} ms median, "
              f"{seen['stopped_max_ns'] / 1e6:.2f} ms at most, {seen['probes']} probes", flush=True)

    def test_four_threads_that_allocate(self):
        self.cycle([str(PLACE / "attach_program"), "alloc"], "four allocating threads")

    def test_vector_registers(self):
        self.cycle([str(PLACE / "attach_program"), "vectors"], "vector registers")

    def test_a_storm_of_the_loader(self):
        self.cycle([str(PLACE / "attach_program"), "loader"], "loader storm")

    def test_calls_that_wait_do_not_notice(self):
        self.cycle([str(PLACE / "attach_program"), "blocked"], "waiting calls")

    def test_python_with_nine_threads(self):
        self.cycle([sys.executable, "-c", PYTHON], "python3, nine threads")


if __name__ == "__main__":
    unittest.TestLoader.sortTestMethodsUsing = None
    sim.main()
