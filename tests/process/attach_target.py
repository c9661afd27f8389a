# SPDX-License-Identifier: Apache-2.0
"""What the attach_*_test.py drivers share: a running program and the command that attaches to it."""

import contextlib
import pathlib
import signal
import subprocess
import time

import run_simulated as sim

NO_PROCESS, NOT_PERMITTED, NOT_NOW, NEVER = 7, 8, 9, 10
LONG = [str(sim.PROGRAM), "100000", "exit"]


def blocks_of(pid):
    return list(pathlib.Path("/dev/shm").glob(f"gpuidle.*.{pid}.*"))


def wait_until(condition, what, timeout_s=30):
    """Waits for something that has to come; a test that waits in vain fails."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    raise AssertionError(f"waited {timeout_s} s for {what}")


class Program:
    """A program under the preload that runs until the end of the test."""

    def __init__(self, folder, command=None, start="attach", preload=True, **extra):
        if preload:
            extra["GPUIDLE_START"] = start
        self.folder = folder
        self.errors = (folder / "stderr.txt").open("w")
        self.process = subprocess.Popen(
            command or LONG, cwd=folder, env=sim.environment(folder, preload, **extra),
            stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.pid = self.process.pid

    def wait_for_block(self):
        wait_until(lambda: blocks_of(self.pid) or self.process.poll() is not None, "a control block")
        return self

    @property
    def traces(self):
        return sorted(self.folder.glob("*.gpuidle"), key=lambda t: t.stat().st_mtime_ns)

    @property
    def stderr(self):
        return (self.folder / "stderr.txt").read_text()

    def is_running(self):
        return self.process.poll() is None

    def end(self):
        if self.is_running():
            self.process.kill()
        self.process.communicate()
        self.errors.close()


@contextlib.contextmanager
def running(folder, **options):
    program = Program(folder, **options)
    try:
        yield program
    finally:
        program.end()


def attach(program, *arguments, timeout=60):
    pid = getattr(program, "pid", program)
    return sim.gpuidle("attach", pid, *arguments, timeout=timeout)


def start_attach(program, *arguments):
    return subprocess.Popen([str(sim.TOOL), "attach", str(program.pid), *arguments],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def status(program):
    return sim.gpuidle("attach", "--status", program.pid).stdout


def is_dormant(program):
    return "dormant" in status(program)


def interrupt(command):
    command.send_signal(signal.SIGINT)
    stdout, stderr = command.communicate(timeout=60)
    return subprocess.CompletedProcess(command.args, command.returncode, stdout, stderr)
