# SPDX-License-Identifier: Apache-2.0
"""The program does not notice: same output, same end, and nothing at all without a GPU."""

import shutil
import subprocess
import sys

import run_simulated as sim


class Unnoticed(sim.TestCase):
    def assert_same(self, command, **extra):
        without = sim.run(command, self.subfolder("without"), preload=False, **extra)
        seen = sim.run(command, self.subfolder("with"), **extra)
        self.assertEqual(seen.stdout, without.stdout)
        self.assertEqual(seen.status, without.status, seen.stderr)
        self.assertEqual(seen.stderr, without.stderr)
        return seen

    def test_every_example_prints_the_same_and_ends_the_same(self):
        self.assertIn("python_loop", sim.examples())
        for name, command in sim.examples().items():
            with self.subTest(example=name):
                folder = self.folder / name
                folder.mkdir()
                kernels = sim.kernels_file(name)
                without = sim.run(command, folder, preload=False, kernels=kernels)
                seen = sim.run(command, folder, kernels=kernels)
                self.assertEqual(without.status, 0, without.stderr)
                self.assertEqual(seen.stdout, without.stdout)
                self.assertEqual(seen.status, 0, seen.stderr)
                self.assertEqual(seen.stderr, without.stderr)
                self.assertTrue(seen.trace.exists())

    def test_every_way_to_end_keeps_its_exit_status(self):
        for how in ("return", "exit", "_exit", "abort", "segfault", "thread_exit", "fork"):
            with self.subTest(end=how):
                command = [str(sim.PROGRAM), "8", how]
                folder = self.folder / how
                folder.mkdir()
                without = sim.run(command, folder, preload=False)
                seen = sim.run(command, folder)
                self.assertEqual(seen.stdout, without.stdout)
                self.assertEqual(seen.status, without.status, seen.stderr)
                self.assertTrue(seen.trace.exists())

    def test_gpuidle_run_exits_like_the_program_and_leaves_its_output_alone(self):
        statuses = {"return": 0, "exit": 3, "_exit": 4, "abort": 134, "segfault": 139}
        for how, status in statuses.items():
            with self.subTest(end=how):
                folder = self.folder / how
                folder.mkdir()
                trace = folder / "trace.gpuidle"
                seen = sim.run([str(sim.TOOL), "run", "-o", str(trace), "--", str(sim.PROGRAM), "8",
                                how], folder, preload=False)
                self.assertEqual(seen.status, status, seen.stderr)
                self.assertEqual(seen.stdout, f"8 steps, then {how}\n")
                self.assertEqual(seen.trace, trace)
                self.assertIn("Verdict", seen.stderr)

    def test_gpuidle_run_of_a_program_without_gpu_says_why_there_is_no_trace(self):
        seen = sim.run([str(sim.TOOL), "run", "--", "/bin/true"], self.folder, preload=False)
        self.assertEqual((seen.status, seen.stdout), (0, ""))
        self.assertEqual(len(seen.stderr.splitlines()), 1, seen.stderr)
        self.assertIn("no process used CUDA", seen.stderr)
        self.assertEqual(seen.traces, [])

    def test_a_program_without_gpu_leaves_no_file_and_no_output(self):
        seen = self.assert_same(["/bin/true"])
        self.assertEqual(seen.stdout + seen.stderr, "")
        self.assertEqual(list(seen.folder.iterdir()), [])

    def test_a_program_without_gpu_gets_no_thread_and_no_shared_memory(self):
        script = ("import os; print(len(os.listdir('/proc/self/task')), "
                  "f'.{os.getpid()}.' in ' '.join(os.listdir('/dev/shm')))")  # others have theirs
        seen = sim.run([sys.executable, "-c", script], self.folder)
        self.assertEqual(seen.stdout, "1 False\n", seen.stderr)

    def test_bin_true_makes_no_system_call_that_creates_something(self):
        strace = shutil.which("strace")
        if not strace:
            self.skipTest("strace is not installed")
        log = self.folder / "strace.txt"
        command = [strace, "-f", "-o", str(log), "-E", f"LD_PRELOAD={sim.LIBRARY}", "/bin/true"]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode != 0:
            self.skipTest(f"strace may not trace here: {finished.stderr.strip()}")
        lines = log.read_text().splitlines()
        self.assertTrue(any(str(sim.LIBRARY) in line for line in lines), "the library was not loaded")
        for line in lines:
            self.assertNotRegex(line, r"\b(clone3?|fork|socket|memfd_create|timer_create)\(")
            self.assertNotRegex(line, r"O_CREAT|O_WRONLY|O_RDWR")

    def test_a_program_that_starts_another_gets_a_trace_for_each(self):
        seen = sim.run([str(sim.PROGRAM), "8", "spawn"], self.folder)
        self.assertEqual(seen.stdout.splitlines()[-1], "child ended with 3", seen.stderr)
        self.assertEqual(len(seen.traces), 2)

    def test_an_output_that_cannot_be_written_is_one_line_and_the_program_runs_on(self):
        for output in ("/nonexistent/folder/trace.gpuidle", "/proc/trace.gpuidle"):
            with self.subTest(output=output):
                seen = sim.run([str(sim.PROGRAM), "8", "exit"], self.folder, GPUIDLE_OUTPUT=output)
                self.assertEqual(seen.status, 3)
                lines = [l for l in seen.stderr.splitlines() if "gpuidle" in l]
                self.assertEqual(len(lines), 1, seen.stderr)
                self.assertIn("/trace.gpuidle", lines[0])

    def test_a_file_size_limit_ends_the_recording_not_the_program(self):
        # A write, or the ftruncate of a memory file, beyond RLIMIT_FSIZE raises SIGXFSZ: its default
        # action kills.
        for limit_bytes in (0, 4096):
            with self.subTest(limit_bytes=limit_bytes):
                folder = self.folder / str(limit_bytes)
                folder.mkdir()
                command = ["prlimit", f"--fsize={limit_bytes}", "env", f"LD_PRELOAD={sim.LIBRARY}",
                           f"GPUIDLE_OUTPUT={folder}/%p.gpuidle", str(sim.PROGRAM), "300", "exit"]
                seen = sim.run(command, folder, preload=False, SIMGPU_TIMELINE="")
                self.assertEqual((seen.status, seen.stdout), (3, "300 steps, then exit\n"), seen.stderr)
                self.assertRegex(seen.stderr, r"gpuidle\[.*error: .*File too large")
                if limit_bytes:
                    self.assertEqual(sim.gpuidle("info", seen.trace).returncode, 0)

    def test_without_free_descriptors_the_program_runs_on(self):
        command = ["prlimit", "--nofile=10", "env", f"LD_PRELOAD={sim.LIBRARY}",
                   f"GPUIDLE_OUTPUT={self.folder}/%p.gpuidle", str(sim.PROGRAM), "8", "exit"]
        seen = sim.run(command, self.folder, preload=False)
        self.assertEqual((seen.status, seen.stdout), (3, "8 steps, then exit\n"), seen.stderr)


if __name__ == "__main__":
    sim.main()
