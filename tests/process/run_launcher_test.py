# SPDX-License-Identifier: Apache-2.0
"""gpuidle run as a launcher: what goes in, what comes out, and how it ends.

Programs here use no CUDA but where a trace is the point; then they run on the simulated device.
"""

import ast
import signal
import subprocess
import sys

import run_simulated as sim

SHOW_ENVIRONMENT = "import os; print({k: os.environ.get(k) for k in (%s)})"
ANSWER_SIGNALS = """
import signal, sys, time
for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(s, lambda n, _: sys.exit(50 + n))
print("ready", flush=True)
time.sleep(50)
"""


class Launcher(sim.TestCase):
    def environment(self, **extra):
        return sim.environment(self.folder, preload=False, **extra)

    def run_plain(self, command):
        return subprocess.run(command, cwd=self.folder, env=self.environment(), timeout=60,
                              capture_output=True, text=True, check=True)

    def run_tool(self, *arguments, **extra):
        return subprocess.run([str(sim.TOOL), "run", *map(str, arguments)], cwd=self.folder,
                              env=self.environment(**extra), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)

    def test_exit_code_and_output_are_the_programs(self):
        finished = self.run_tool("--", "sh", "-c", "cat; echo out; echo err >&2; exit 7")
        self.assertEqual(finished.returncode, 7)
        self.assertEqual(finished.stdout, "out\n")
        self.assertTrue(finished.stderr.startswith("err\n"), finished.stderr)
        self.assertIn("no trace was written", finished.stderr)

    def test_a_signal_that_ends_the_program_shows_as_128_and_its_number(self):
        self.assertEqual(self.run_tool("--", "sh", "-c", "kill -9 $$").returncode, 128 + 9)

    def test_arguments_after_the_program_are_the_programs(self):
        for mark in ([], ["--"]):
            finished = self.run_tool("-q", *mark, "echo", "-q", "--", "--ring-kib", "x")
            self.assertEqual(finished.stdout, "-q -- --ring-kib x\n")
            self.assertEqual(finished.stderr, "")

    def test_what_cannot_be_started_is_one_line_and_127(self):
        (self.folder / "plain").write_text("not a program\n")
        for program in ("./plain", str(self.folder), "./missing", "no-such-program-anywhere"):
            finished = self.run_tool("--", program)
            self.assertEqual(finished.returncode, 127, program)
            self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)
            self.assertIn("cannot run", finished.stderr)

    def test_a_folder_that_cannot_be_written_is_told_before_the_program_runs(self):
        finished = self.run_tool("-o", "missing/x.gpuidle", "--", "touch", "ran")
        self.assertEqual(finished.returncode, 127)
        self.assertIn("cannot write traces to", finished.stderr)
        self.assertFalse((self.folder / "ran").exists())

    def test_usage_errors_are_one_line_and_2(self):
        for arguments in ((), ("--",), ("--bogus", "true"), ("--ring-kib", "3", "--", "true")):
            finished = self.run_tool(*arguments)
            self.assertEqual(finished.returncode, 2, arguments)
            self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)

    def test_preloads_and_injections_of_the_user_are_kept_and_an_option_beats_a_variable(self):
        names = "'LD_PRELOAD', 'CUDA_INJECTION64_PATH', 'GPUIDLE_RING_KIB'"
        finished = self.run_tool("-q", "--ring-kib", "128", "--", sys.executable, "-c",
                                 SHOW_ENVIRONMENT % names, LD_PRELOAD="libm.so.6",
                                 CUDA_INJECTION64_PATH="/other/tool.so", GPUIDLE_RING_KIB="64")
        values = ast.literal_eval(finished.stdout)
        self.assertEqual(values["LD_PRELOAD"], f"{sim.LIBRARY.resolve()}:libm.so.6")
        self.assertEqual(values["CUDA_INJECTION64_PATH"], "/other/tool.so")
        self.assertEqual(values["GPUIDLE_RING_KIB"], "128")

    def test_the_injection_is_ours_if_nobody_elses(self):
        finished = self.run_tool("-q", "--", "sh", "-c", "echo $CUDA_INJECTION64_PATH")
        self.assertEqual(finished.stdout.strip(), str(sim.LIBRARY.resolve()))

    def test_signals_to_the_launcher_reach_the_program(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process = subprocess.Popen(
                [str(sim.TOOL), "run", "-q", "--", sys.executable, "-c", ANSWER_SIGNALS],
                cwd=self.folder, env=self.environment(), stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(number)
            process.communicate(timeout=30)
            self.assertEqual(process.returncode, 50 + number)

    def test_the_program_finds_signals_as_if_started_without_us(self):
        show = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"]
        self.assertEqual(self.run_tool("-q", "--", *show).stdout, self.run_plain(show).stdout)

    def test_no_descriptor_is_left_open_in_the_program(self):
        show = ["sh", "-c", "ls /proc/self/fd | wc -l"]
        self.assertEqual(self.run_tool("-q", "--", *show).stdout, self.run_plain(show).stdout)

    def test_trace_and_next_command_are_told_and_the_report_goes_to_stderr(self):
        program = [str(sim.PROGRAM), "20", "return"]
        finished = self.run_tool("-o", "run-%p.gpuidle", "--", *program)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertEqual(finished.stdout, self.run_plain(program).stdout)
        (trace,) = self.folder.glob("run-*.gpuidle")
        self.assertIn(f"gpuidle: trace {trace}", finished.stderr)
        self.assertIn("Verdict", finished.stderr)
        self.assertIn(f"gpuidle: next: gpuidle gaps {trace}", finished.stderr)

    def test_only_the_traces_of_this_run_are_told(self):
        program = [str(sim.PROGRAM), "5", "return"]
        first = self.run_tool("--no-report", "-o", "same.gpuidle", "--", *program)
        second = self.run_tool("--no-report", "-o", "same.gpuidle", "--", *program)
        self.assertIn(f"{self.folder}/same.gpuidle ", first.stderr)
        self.assertNotIn(f"{self.folder}/same.gpuidle ", second.stderr)
        self.assertIn(f"{self.folder}/same-1.gpuidle ", second.stderr)
        self.assertNotIn("Verdict", second.stderr)

    def test_a_trace_is_found_although_the_program_changes_its_folder(self):
        (self.folder / "else where").mkdir()
        finished = self.run_tool("--no-report", "--", "sh", "-c",
                                 f"cd 'else where' && exec {sim.PROGRAM} 5 return")
        self.assertEqual(len(sim.Run(finished, self.folder).traces), 1, finished.stderr)
        self.assertIn("gpuidle: trace ", finished.stderr)


if __name__ == "__main__":
    sim.main()
