# SPDX-License-Identifier: Apache-2.0
"""Six planted causes of idleness in one Python training loop, and what each costs.

The device computes for 2 ms a step and then waits for the host, which on each step does one of six
things longer than that. With a file name as argument the program writes there what it measured
itself: for each cause its line, how often it came, for how long it left the device idle, and how uncertain
that is because the program was kept from the processor while it launched. That is the truth that a
report can be held against.
"""

import ctypes
import gc
import json
import multiprocessing
import os
import pickle
import re
import sys
import tempfile
import time

import python_loop

KERNEL_NS = 2_000_000
# Each cause comes until it has cost this much, so that the order of the causes is known.
COSTS_NS = {"preprocess": 420_000_000, "loader": 340_000_000, "checkpoint": 270_000_000,
            "readback": 210_000_000, "log": 150_000_000, "garbage": 80_000_000}


def prepare_batch():
    """Tokenizes as slowly as Python does, in the thread that feeds the device."""
    value = 1
    until = time.monotonic() + 0.028
    while time.monotonic() < until:
        value = sum((value ^ i) * 40503 & 0xFFFF for i in range(3000))  # planted: preprocess
    return value


def load_batches(requests, batches):
    """The worker process: too slow, 26 ms for a batch."""
    while requests.recv_bytes() != b"end":
        time.sleep(0.026)
        batches.send_bytes(b"batch")


class Loader:
    def __init__(self, context):
        requests, self.requests = context.Pipe(duplex=False)
        self.batches, batches = context.Pipe(duplex=False)
        self.worker = context.Process(target=load_batches, args=(requests, batches), daemon=True)
        self.worker.start()

    def next_batch(self):
        self.requests.send_bytes(b"next")
        return self.batches.recv_bytes()  # planted: loader

    def close(self):
        self.requests.send_bytes(b"end")
        self.worker.join()


def save_checkpoint(state, folder):
    path = os.path.join(folder, "checkpoint")
    until = time.monotonic() + 0.030
    with open(path, "wb") as file:
        while time.monotonic() < until:
            file.writelines(pickle.dumps(state, 0) for _ in range(4))  # planted: checkpoint


def read_loss(gpu, loss):
    """Waits for the device, so that nothing is queued while the host does its other work."""
    return gpu.runtime.cudaMemcpy(loss, gpu.buffer, ctypes.c_size_t(4), 2)  # planted: readback


def update_progress():
    """Would cost nothing if the device had work meanwhile."""
    until = time.monotonic() + 0.013
    shown = ""
    while time.monotonic() < until:
        shown = "%d %s" % (len(shown), "step")
    return shown


def read_log(pipe):
    """The log's reader: slow, 64 KiB every 8 ms."""
    while os.read(pipe, 65536):
        time.sleep(0.008)


class Log:
    LINE = b"x" * (4 * 65536) + b"\n"

    def __init__(self, context):
        pipe, self.pipe = os.pipe()
        self.reader = context.Process(target=read_log, args=(pipe,), daemon=True)
        self.reader.start()
        os.close(pipe)

    def write_line(self):
        os.write(self.pipe, self.LINE)  # planted: log


def collect_garbage():
    gc.collect()  # planted: garbage


class Meter:
    """Launches the steps, and charges the time in between to what was done in it."""

    def __init__(self, gpu):
        self.gpu = gpu
        self.costs = {name: {"cost_ns": 0, "count": 0, "uncertain_ns": 0} for name in COSTS_NS}
        self.cause = None
        self.idle_since_ns = 0
        self.uncertain_ns = 0

    def launch(self):
        before_ns = time.monotonic_ns()
        self.gpu.launch_step()
        # The device began somewhere in between.
        uncertain_ns = time.monotonic_ns() - before_ns
        if self.cause is not None:
            cost = self.costs[self.cause]
            cost["cost_ns"] += max(0, before_ns - self.idle_since_ns)
            cost["count"] += 1
            cost["uncertain_ns"] += self.uncertain_ns + uncertain_ns
        self.idle_since_ns = before_ns + KERNEL_NS
        self.uncertain_ns = uncertain_ns
        self.cause = None

    def is_due(self, name):
        return self.costs[name]["cost_ns"] < COSTS_NS[name]


def train(gpu, loader, log, folder):
    # Objects for the collector to look at, and a model's state to be saved.
    state = [float(i) for i in range(20_000)]
    graph = [[i] for i in range(250_000)]
    gc.collect()
    gc.disable()
    loss = (ctypes.c_float * 1)()
    meter = Meter(gpu)
    for _ in range(20):
        meter.launch()
    gpu.synchronize()
    meter.launch()
    while any(map(meter.is_due, COSTS_NS)):
        for cause in filter(meter.is_due, COSTS_NS):
            if cause == "preprocess":
                prepare_batch()
            elif cause == "loader":
                loader.next_batch()
            elif cause == "checkpoint":
                save_checkpoint(state, folder)
            elif cause == "log":
                log.write_line()
            elif cause == "garbage":
                collect_garbage()
            else:
                gpu.check("cudaMemcpy", read_loss(gpu, loss))
                update_progress()
            meter.cause = cause
            meter.launch()
    gpu.synchronize()
    del graph
    return meter.costs


def planted_lines():
    with open(__file__, encoding="utf-8") as source:
        found = ((re.search(r"# planted: (\w+)$", line), number)
                 for number, line in enumerate(source.read().splitlines(), 1))
        return {match.group(1): number for match, number in found if match}


def main():
    # Before CUDA starts: a forked child could not use it.
    context = multiprocessing.get_context("fork")
    loader, log = Loader(context), Log(context)
    python_loop.KERNEL_NS = KERNEL_NS
    with tempfile.TemporaryDirectory() as folder:
        costs = train(python_loop.Gpu(), loader, log, folder)
    loader.close()
    lines = planted_lines()
    truth = [dict(cause=name, line=lines[name], **costs[name]) for name in COSTS_NS]
    truth.sort(key=lambda row: -row["cost_ns"])
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump({"file": os.path.abspath(__file__), "causes": truth}, file, indent=1)
    print("six_causes:", ", ".join(row["cause"] for row in truth))


if __name__ == "__main__":
    main()
