# SPDX-License-Identifier: Apache-2.0
"""Attaching to a program that was started with nothing: late, in containers, refused, interrupted."""

import ctypes
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import run_simulated as sim
from attach_target import (LONG, NEVER, NOT_NOW, NOT_PERMITTED, attach, blocks_of, running, status,
                           wait_until)

STEP = "Feeder::step"
PLACE = sim.BUILD / "tests/process"
KILLS = int(sys.argv.pop()) if len(sys.argv) > 1 and sys.argv[-1].isdigit() else 20
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WITH_CUDA = "import ctypes; ctypes.CDLL('libcuda.so.1'); "


def maps_of(pid):
    return pathlib.Path(f"/proc/{pid}/maps").read_text()


def children_of(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Injecting(sim.TestCase):
    def program(self, command=None, **options):
        """A program that was started without the recorder and uses CUDA already."""
        context = running(self.folder, command=command, preload=False, **options)
        program = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        wait_until(lambda: "libcuda" in maps_of(program.pid), "CUDA in the program")
        time.sleep(0.3)
        return program

    def busy(self, mode):
        program = self.program(command=[str(PLACE / "attach_program"), mode])
        self.assertEqual(program.process.stdout.readline(), "ready\n")
        return program

    def assert_unharmed(self, program):
        program.process.terminate()
        stdout, _ = program.process.communicate(timeout=60)
        self.assertEqual((stdout, program.process.returncode), ("ok\n", 0))


class Late(Injecting):
    def test_a_program_that_has_long_used_cuda_is_seen_with_its_contexts_and_lines(self):
        program = self.program()
        finished = attach(program, "--duration", "1500ms", "--json")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIn("the recorder was put into process", finished.stderr)
        report = json.loads(finished.stdout)
        self.assertEqual(report["recording"]["source"], "cupti")
        self.assertGreater(report["devices"][0]["kernel_count"], 20)
        self.assertIn(STEP, finished.stdout)
        self.assertTrue(program.is_running())
        self.assertEqual(program.stderr, "")

    def test_the_next_attach_needs_no_ptrace(self):
        program = self.program()
        self.assertEqual(attach(program, "--duration", "300ms").returncode, 0)
        finished = attach(program, "--duration", "300ms")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertNotIn("was put into", finished.stderr)
        self.assertIn(STEP, finished.stdout)
        self.assertIn("2 recordings so far", status(program))

    def test_nothing_but_the_library_stays_in_the_program(self):
        program = self.program()
        descriptors = sorted(os.readlink(f) for f in
                             pathlib.Path(f"/proc/{program.pid}/fd").iterdir())
        self.assertEqual(attach(program, "--duration", "300ms").returncode, 0)
        after = sorted(os.readlink(f) for f in pathlib.Path(f"/proc/{program.pid}/fd").iterdir())
        self.assertEqual(after, descriptors)
        self.assertEqual(sim.gpuidle("repair", program.pid).stdout.count("nothing to put back"), 1)
        state = pathlib.Path(f"/proc/{program.pid}/status").read_text()
        self.assertIn("TracerPid:\t0\n", state)

    def test_its_block_goes_when_it_ends(self):
        program = self.program(command=[str(sim.PROGRAM), "500", "exit"])
        finished = attach(program, "--duration", "60s")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIn("closed in order", finished.stdout)
        self.assertEqual(program.process.wait(60), 3)
        self.assertEqual(blocks_of(program.pid), [])

    def test_a_python_program_is_reported_with_its_lines(self):
        program = self.program(
            command=[sys.executable, str(sim.SOURCE / "examples/python_loop.py")],
            kernels=sim.kernels_file("python_loop"))
        finished = attach(program, "--duration", "700ms")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIn("python_loop.py:", finished.stdout)

    def test_without_cupti_it_is_refused_with_the_reason_and_the_program_runs_on(self):
        program = self.program(SIMGPU_FAULT="subscribe=39")
        finished = attach(program, "--duration", "300ms")
        self.assertEqual(finished.returncode, NOT_NOW, finished.stderr)
        self.assertIn("39", finished.stderr)
        self.assertTrue(program.is_running())
        self.assertEqual((program.stderr, program.traces), ("", []))

    def test_in_a_container_that_does_not_see_the_library(self):
        setup = ("mount -t proc proc /proc && mount -t tmpfs shm /dev/shm && "
                 "mount -t tmpfs tmp /mnt")
        flags = ["--mount", "--pid", "--fork", "--kill-child"]
        probe = subprocess.run(["unshare", *flags, "sh", "-c", setup], capture_output=True,
                               check=False)
        if probe.returncode != 0:
            self.skipTest(f"no namespaces here: {probe.stderr.decode().strip()}")
        hidden = f"{setup} && mount -t tmpfs none {sim.LIBRARY.parent}"
        context = running(self.folder, preload=False, command=[
            "unshare", *flags, "sh", "-c", f"{hidden} && exec {' '.join(LONG)}"])
        with context as program:
            inner = wait_until(lambda: next(iter(children_of(program.pid)), 0), "the inner program")
            wait_until(lambda: "libcuda" in maps_of(inner), "CUDA inside")
            time.sleep(0.5)
            finished = attach(inner, "--duration", "700ms", "-o", "/mnt/%p.gpuidle")
            self.assertEqual(finished.returncode, 0, finished.stderr)
            self.assertIn(STEP, finished.stdout)


class Interrupted(Injecting):
    def test_commands_killed_at_any_moment_leave_the_program_unharmed(self):
        generator = random.Random(11)
        program = self.busy("alloc")
        for number in range(KILLS):
            command = subprocess.Popen(
                [str(PLACE / "attach_cycles"), str(program.pid), "1",
                 str(PLACE / "libattach_probe.so")],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(generator.uniform(0, 0.03))
            command.kill()
            command.wait()
            self.assertTrue(program.is_running(), f"kill {number}")
        # The injector itself goes on to its end when its command is gone.
        wait_until(lambda: "TracerPid:\t0\n" in
                   pathlib.Path(f"/proc/{program.pid}/status").read_text(), "the last injector")
        time.sleep(0.5)
        finished = attach(program, "--duration", "300ms", "--no-report")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assert_unharmed(program)

    def borrowed(self, program):
        """Kills the process that has a thread of the program inside a call."""
        command = subprocess.Popen(
            [str(PLACE / "attach_cycles"), str(program.pid), "1",
             str(PLACE / "libattach_slow_probe.so")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        injector = wait_until(lambda: next(iter(children_of(command.pid)), 0), "the injector")
        wait_until((self.folder / "inside").exists, "the call")
        os.kill(injector, signal.SIGKILL)
        command.wait()

    def test_a_thread_that_a_killed_injector_left_is_put_back_by_repair(self):
        program = self.busy("blocked")
        self.borrowed(program)
        self.assertTrue(program.is_running())
        finished = sim.gpuidle("repair", program.pid)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIn("its borrowed thread was put back", finished.stdout)
        self.assert_unharmed(program)

    def test_and_by_the_next_attach(self):
        program = self.busy("vectors")
        self.borrowed(program)
        finished = attach(program, "--duration", "300ms", "--no-report")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assert_unharmed(program)


class Refused(Injecting):
    def refused(self, finished, code, *sentences):
        self.assertEqual((finished.returncode, finished.stdout), (code, ""), finished.stderr)
        self.assertEqual(finished.stderr.count("\n"), 1, finished.stderr)
        for sentence in sentences:
            self.assertIn(sentence, finished.stderr)

    def test_traced(self):
        program = self.program()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(PTRACE_SEIZE, program.pid, None, None) != 0:
            self.skipTest("ptrace is not allowed here")
        self.refused(attach(program), NOT_NOW, f"is traced by process {os.getpid()}")
        libc.ptrace(PTRACE_INTERRUPT, program.pid, None, None)
        os.waitpid(program.pid, 0x40000000)
        libc.ptrace(PTRACE_DETACH, program.pid, None, None)
        self.assertTrue(program.is_running())

    def test_stopped(self):
        program = self.program()
        program.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: " T " in pathlib.Path(f"/proc/{program.pid}/stat").read_text(), "a stop")
        self.refused(attach(program), NOT_NOW, "is stopped", "kill -CONT")
        self.assertIn(" T ", pathlib.Path(f"/proc/{program.pid}/stat").read_text())

    def test_static(self):
        with running(self.folder, preload=False,
                     command=[str(PLACE / "attach_static_program")]) as program:
            self.assertEqual(program.process.stdout.readline(), "ready\n")
            self.refused(attach(program), NEVER, "is statically linked")

    def test_32_bit(self):
        # pause() for ever, as a program of 32 bits in 100 bytes.
        code = bytes.fromhex("b81d000000cd80ebf7")
        head = (b"\x7fELF\x01\x01\x01" + bytes(9) + bytes.fromhex("020003000100000054800408340000"
                "0000000000000000003400200001000000" "00000000"))
        load = bytes.fromhex("010000000000000000800408008004085d0000005d0000000500000000100000")
        program = self.folder / "program32"
        program.write_bytes((head + load + code).ljust(100, b"\0"))
        program.chmod(0o755)
        try:
            child = subprocess.Popen([str(program)])
        except OSError as error:
            self.skipTest(f"no 32-bit programs here: {error}")
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        time.sleep(0.2)
        if child.poll() is not None:
            self.skipTest("no 32-bit programs here")
        self.refused(attach(child), NEVER, "is a 32-bit program")

    def test_musl(self):
        loader = self.folder / "ld-musl-x86_64.so.1"
        loader.write_bytes(b"x" * 4096)
        script = (WITH_CUDA + "import mmap, time; "
                  f"f = open('{loader}'); "
                  "m = mmap.mmap(f.fileno(), 4096, access=mmap.ACCESS_READ); "
                  "print('ready', flush=True); time.sleep(60)")
        program = self.program(command=[sys.executable, "-c", script])
        self.assertEqual(program.process.stdout.readline(), "ready\n")
        self.refused(attach(program), NEVER, "runs on musl")

    def test_strict_seccomp(self):
        program = self.program(command=[str(PLACE / "attach_program"), "strict"])
        self.assertEqual(program.process.stdout.readline(), "ready\n")
        wait_until(lambda: "Seccomp:\t1" in
                   pathlib.Path(f"/proc/{program.pid}/status").read_text(), "strict mode")
        self.refused(attach(program), NEVER, "strict seccomp mode")
        self.assertTrue(program.is_running())

    def test_no_cuda(self):
        with running(self.folder, preload=False, command=["sleep", "60"]) as program:
            wait_until(lambda: "libc.so" in maps_of(program.pid), "the program")
            self.refused(attach(program), NOT_NOW, "has not loaded libcuda.so")

    def test_undumpable(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to become another user")
        script = ("import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); "
                  "print('ready', flush=True); time.sleep(60)")
        nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        child = subprocess.Popen(["/usr/bin/python3", "-c", script], stdout=subprocess.PIPE,
                                 text=True, cwd="/", **nobody)
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        self.assertEqual(child.stdout.readline(), "ready\n")
        finished = subprocess.run([str(sim.TOOL), "attach", str(child.pid)], capture_output=True,
                                  text=True, timeout=60, check=False, **nobody)
        self.refused(finished, NOT_PERMITTED, "may not be looked into", "undumpable", "as root")


if __name__ == "__main__":
    sim.main()
