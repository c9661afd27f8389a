# SPDX-License-Identifier: Apache-2.0
"""Run by sampler_python_test.py under the preload: a Python program that keeps the device waiting.

    sampler_python.py EXAMPLES WHAT STEPS MILLISECONDS
"""

import faulthandler
import os
import signal
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import python_loop  # noqa: E402

WHAT, STEPS, SECONDS = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) / 1000


def wait_in_sleep():
    time.sleep(SECONDS)  # line of sleep


def wait_in_event():
    event = threading.Event()
    waker = threading.Timer(SECONDS, event.set)
    waker.start()
    event.wait()  # line of event
    waker.join()


def wait_in_pipe():
    read_end, write_end = os.pipe()
    waker = threading.Timer(SECONDS, os.write, (write_end, b"x"))
    waker.start()
    os.read(read_end, 1)  # line of pipe
    waker.join()
    os.close(read_end)
    os.close(write_end)


def wait_for_gil():
    holder = threading.Thread(target=hold_gil)
    holder.start()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        pass
    holder.join()


def hold_gil():
    # One call of C code that does not let go of the GIL.
    sum(range(int(SECONDS * 60_000_000)))


def run_in_python():
    until = time.monotonic() + SECONDS
    total = 0
    while time.monotonic() < until:
        for i in range(2000):
            total += i * i  # line of python
    return total


AWAY = {"sleep": wait_in_sleep, "event": wait_in_event, "pipe": wait_in_pipe, "gil": wait_for_gil,
        "python": run_in_python}

urgent = []
if "faulthandler" in sys.argv[5:]:
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
if "urgent" in sys.argv[5:]:
    signal.signal(signal.SIGURG, lambda *_: urgent.append(1))
gpu = python_loop.Gpu()
for _ in range(STEPS):
    gpu.launch_step()
    AWAY[WHAT]()
gpu.synchronize()
print(f"{WHAT}: {STEPS} steps, {len(urgent)} urgent signals")
