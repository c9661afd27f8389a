# SPDX-License-Identifier: Apache-2.0
"""What the run_*_test.py drivers share: programs on the simulated device, with and without us.

Paths come from ctest through the environment (see CMakeLists.txt). SkipTest is raised, and ctest
shows "skipped", where a part cannot run on this machine.
"""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ.get("GPUIDLE_BUILD_DIR", "build/release")).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = BUILD / "lib/libgpuidle.so"
TOOL = BUILD / "bin/gpuidle"
SIMULATED = BUILD / "simgpu/lib"
PROGRAM = BUILD / "tests/process/run_program"
SKIPPED = 77


def examples():
    """Name -> command of every example that was built."""
    commands = {
        "slow_loader": [str(BUILD / "examples/slow_loader")],
        "scalar_readback": [str(BUILD / "examples/scalar_readback")],
        "python_loop": [sys.executable, str(SOURCE / "examples/python_loop.py")],
    }
    return {name: c for name, c in commands.items() if pathlib.Path(c[-1]).exists()}


def kernels_file(example):
    return str(SOURCE / f"examples/{example}.simgpu")


class Run:
    """A finished or killed program and what it left in its folder."""

    def __init__(self, process, folder):
        self.status = process.returncode
        self.stdout = process.stdout
        self.stderr = process.stderr
        self.folder = folder

    @property
    def traces(self):
        return sorted(self.folder.glob("*.gpuidle"))

    @property
    def trace(self):
        traces = self.traces
        if len(traces) != 1:
            raise AssertionError(
                f"expected one trace, found {[t.name for t in traces]}; stderr:\n{self.stderr}")
        return traces[0]

    @property
    def timeline(self):
        return next(self.folder.glob("timeline-*.csv"))


def environment(folder, preload, kernels=None, **extra):
    """The environment of a program on the simulated device, with nothing of the caller's GPUIDLE_*."""
    result = {k: v for k, v in os.environ.items() if not k.startswith(("GPUIDLE_", "SIMGPU_"))}
    result["LD_LIBRARY_PATH"] = str(SIMULATED)
    result["SIMGPU_QUIET"] = "1"
    result["SIMGPU_TIMELINE"] = str(folder / "timeline-%p.csv")
    result["SIMGPU_DEFAULT_KERNEL"] = "2ms"
    if kernels:
        result["SIMGPU_KERNELS"] = kernels
    if preload:
        result["LD_PRELOAD"] = str(LIBRARY)
        result["GPUIDLE_OUTPUT"] = str(folder / "%p.gpuidle")
    result.update({k: v for k, v in extra.items() if v is not None})
    return result


def run(command, folder, preload=True, timeout=120, **extra):
    return Run(
        subprocess.run(command, cwd=folder, env=environment(folder, preload, **extra),
                       capture_output=True, text=True, timeout=timeout, check=False),
        folder)


def gpuidle(*arguments, timeout=120):
    """Runs the tool; returns the finished process."""
    return subprocess.run([str(TOOL), *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, check=False)


def documents(text):
    """The JSON documents that follow each other in what a command printed."""
    decoder = json.JSONDecoder()
    space = re.compile(r"\s*")
    found, at = [], 0
    while at < len(text):
        document, end = decoder.raw_decode(text, at)
        found.append(document)
        at = space.match(text, end).end()
    return found


def gpuidle_json(*arguments):
    finished = gpuidle(*arguments, "--json")
    if finished.returncode != 0:
        raise AssertionError(f"gpuidle {' '.join(map(str, arguments))} --json exited with "
                             f"{finished.returncode}: {finished.stderr}")
    return json.loads(finished.stdout)


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="gpuidle-process-") as name:
        yield pathlib.Path(name)


class TestCase(unittest.TestCase):
    """A test with a folder of its own, removed afterwards."""

    maxDiff = None

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="gpuidle-process-")
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)

    def subfolder(self, name):
        path = self.folder / name
        path.mkdir()
        return path


def monotonic_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def main():
    """Like unittest.main(), but says "skipped" to ctest if nothing but skipped tests ran."""
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    if result.wasSuccessful() and result.testsRun == len(result.skipped):
        sys.exit(SKIPPED)
    sys.exit(0 if result.wasSuccessful() else 1)
