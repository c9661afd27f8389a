# SPDX-License-Identifier: Apache-2.0
"""The report of check_gpu.py: what was checked, what came out, in one text file to send back."""

import datetime
import platform
import shutil
import subprocess
import time


class Skip(Exception):
    """A check that this machine cannot make; the text says why."""


class Failure(Exception):
    """A check whose result is not what it must be; the text says what was found and expected."""


def require(condition, text):
    if not condition:
        raise Failure(text)


def output_of(*command):
    """What a command prints; "" if it is not there or fails."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return ""
    return finished.stdout.strip() if finished.returncode == 0 else ""


class Report:
    def __init__(self, path, deadline_s):
        self.file = open(path, "w", encoding="utf-8")
        self.path = path
        self.begin = time.monotonic()
        self.deadline = self.begin + deadline_s
        self.passed, self.failed, self.skipped = [], [], []

    def line(self, text=""):
        print(text, flush=True)
        print(text, file=self.file, flush=True)

    def describe_machine(self, is_simulated):
        self.line("gpuidle GPU check, " + datetime.datetime.now(datetime.timezone.utc).strftime(
            "%Y-%m-%dT%H:%M:%SZ"))
        self.line(f"machine   {platform.platform()}, {platform.machine()}")
        if is_simulated:
            self.line("device    simulated: this run checks the checks, no figure means anything")
            return
        for gpu in output_of("nvidia-smi", "-L").splitlines():
            self.line(f"device    {gpu}")
        fields = "driver_version,compute_cap,memory.total,mig.mode.current,persistence_mode"
        for row in output_of("nvidia-smi", f"--query-gpu={fields}", "--format=csv").splitlines():
            self.line(f"          {row}")

    def check(self, name, function):
        """Runs one check, which returns lines of facts or raises Skip or Failure."""
        self.line()
        self.line(f"== {name}")
        if time.monotonic() > self.deadline:
            self.skipped.append(name)
            self.line("skipped: the time is up")
            return
        begin = time.monotonic()
        try:
            for fact in function():
                self.line(f"  {fact}")
            self.passed.append(name)
            result = "passed"
        except Skip as reason:
            self.skipped.append(name)
            result = f"skipped: {reason}"
        except Failure as reason:
            self.failed.append(name)
            result = f"FAILED: {reason}"
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as reason:
            # A check that breaks must not keep the others from being made.
            self.failed.append(name)
            result = f"FAILED: {type(reason).__name__}: {reason}"
        self.line(f"{result} ({time.monotonic() - begin:.1f} s)")

    def conclude(self):
        self.line()
        self.line(f"{len(self.passed)} passed, {len(self.failed)} failed "
                  f"({', '.join(self.failed) or 'none'}), {len(self.skipped)} skipped "
                  f"({', '.join(self.skipped) or 'none'}), {time.monotonic() - self.begin:.0f} s")
        self.file.close()
        return 1 if self.failed else 0
