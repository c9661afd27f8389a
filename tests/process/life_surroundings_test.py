# SPDX-License-Identifier: Apache-2.0
"""Machines that lack something: /proc, /dev/shm, room on the disk, descriptors, threads, memory."""

import os

import life_cases as life
import run_simulated as sim

STEPS = 8
COMMAND = [sim.PROGRAM, str(STEPS), "exit"]
# Each line of the host's log is one event.
ONE_LINE = 1


class Surroundings(life.TestCase):
    def lines_of(self, seen):
        return [line for line in seen.stderr.splitlines() if "gpuidle" in line]

    def test_without_proc_the_program_runs_on_and_is_recorded(self):
        prefix = self.namespaces_or_skip("mount -t tmpfs none /proc")
        seen = self.compare(COMMAND, prefix)
        self.assertEqual((seen.status, self.kernels_in(seen)), (3, [STEPS]), seen.stderr)

    def test_without_shared_memory_files_the_program_runs_on_and_is_recorded(self):
        for script in ("mount -t tmpfs -o size=4k none /dev/shm && head -c 4096 /dev/zero "
                       ">/dev/shm/full",
                       "mount -t tmpfs none /dev && mknod /dev/null c 1 3 2>/dev/null || true"):
            with self.subTest(script=script):
                prefix = self.namespaces_or_skip(script)
                seen = self.compare(COMMAND, prefix)
                self.assertEqual((seen.status, self.kernels_in(seen)), (3, [STEPS]), seen.stderr)

    def test_a_read_only_root_is_one_line_and_the_program_runs_on(self):
        prefix = self.namespaces_or_skip("mkdir -p ro && mount -t tmpfs -o ro none ro")
        seen = self.compare(COMMAND, prefix, GPUIDLE_OUTPUT="ro/%p.gpuidle")
        self.assertEqual(len(self.lines_of(seen)), ONE_LINE, seen.stderr)
        self.assertIn("Read-only file system", seen.stderr)

    def test_a_folder_of_another_user_is_one_line_and_the_program_runs_on(self):
        # Root may write anywhere, so the program runs as nobody.
        if os.geteuid() != 0:
            self.skipTest("only root can run a program as another user")
        closed = self.subfolder("closed")
        closed.chmod(0o700)
        self.folder.chmod(0o755)
        seen = self.compare(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                             *COMMAND], GPUIDLE_OUTPUT=str(closed / "%p.gpuidle"),
                            SIMGPU_TIMELINE="")
        if seen.status != 3:
            self.skipTest(f"nobody may not run programs here: {seen.stderr.strip()[:200]}")
        self.assertEqual(len(self.lines_of(seen)), ONE_LINE, seen.stderr)
        self.assertIn("Permission denied", seen.stderr)

    def test_a_disk_that_fills_up_ends_the_recording_not_the_program(self):
        # 8 KiB hold the head of the trace and not the whole of it.
        script = "mkdir -p full && mount -t tmpfs -o size=8k none full"
        keep = "; status=$?; cp full/*.gpuidle . ; exit $status"
        prefix = self.namespaces_or_skip(script)
        seen = self.compare(["sh", "-c", f"{sim.PROGRAM} 300 exit{keep}"], prefix,
                            GPUIDLE_OUTPUT="full/%p.gpuidle", SIMGPU_TIMELINE="")
        self.assertEqual(seen.status, 3, seen.stderr)
        self.assertEqual(len(self.lines_of(seen)), ONE_LINE, seen.stderr)
        self.assertIn("No space left on device", seen.stderr)
        self.assertEqual(sim.gpuidle("info", seen.trace).returncode, 0)

    def test_a_disk_that_is_full_from_the_start_is_one_line(self):
        prefix = self.namespaces_or_skip("mkdir -p full && mount -t tmpfs -o size=4k none full && "
                                         "head -c 4096 /dev/zero >full/up")
        seen = self.compare(COMMAND, prefix, GPUIDLE_OUTPUT="full/%p.gpuidle")
        self.assertEqual((seen.status, len(self.lines_of(seen))), (3, ONE_LINE), seen.stderr)

    def test_with_few_descriptors_the_program_keeps_every_one_it_could_have(self):
        # The program's own files come first: what is left for us may be none.
        for limit in range(3, 12):
            with self.subTest(limit=limit):
                self.compare(COMMAND, ["prlimit", f"--nofile={limit}"], SIMGPU_TIMELINE="")

    def test_where_no_more_threads_are_allowed_the_program_runs_on(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become a user with a limit of its own")
        self.folder.chmod(0o755)
        place = self.subfolder("place")
        place.chmod(0o777)
        prefix = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "prlimit",
                  "--nproc=2"]
        seen = self.compare(COMMAND, prefix, SIMGPU_TIMELINE="",
                            GPUIDLE_OUTPUT=f"{place}/%p.gpuidle")
        self.assertEqual(seen.status, 3, seen.stderr)
        self.assertIn("the system refused a thread", seen.stderr)
        # CUPTI's flushing, the sampler, the drain: a line for each thread that is refused.
        self.assertLessEqual(len(self.lines_of(seen)), 3 * ONE_LINE, seen.stderr)

    def test_closed_standard_streams_stay_closed_and_no_line_lands_in_a_file_of_the_program(self):
        seen = self.compare(["sh", "-c", f"exec 2>&-; exec {sim.PROGRAM} {STEPS} exit"],
                            GPUIDLE_OUTPUT="/nonexistent/%p.gpuidle")
        self.assertEqual((seen.status, seen.stderr), (3, ""))
        seen = self.compare(["sh", "-c", f"exec <&- 2>&-; exec {sim.PROGRAM} {STEPS} exit"])
        self.assertEqual((seen.status, self.kernels_in(seen)), (3, [STEPS]))

    def test_set_by_hand_with_no_other_variable_the_trace_lies_in_the_current_folder(self):
        seen = self.compare(["env", "-u", "GPUIDLE_OUTPUT", *COMMAND])
        self.assertEqual((seen.status, self.kernels_in(seen)), (3, [STEPS]))
        self.assertRegex(seen.trace.name, r"^gpuidle-run_program-\d+\.gpuidle$")


if __name__ == "__main__":
    sim.main()
