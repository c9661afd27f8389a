# SPDX-License-Identifier: Apache-2.0
"""Attaching to a program that has the recorder in it: what is seen, how it ends, who is refused."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import run_simulated as sim
import run_timeline
from attach_target import (LONG, NO_PROCESS, NOT_NOW, NOT_PERMITTED, attach, blocks_of, interrupt,
                           is_dormant, running, start_attach, status, wait_until)

STEP = "Feeder::step"
SECOND_NS = 1_000_000_000


class Dormant(sim.TestCase):
    def test_a_program_to_which_nobody_attaches_is_as_without_us(self):
        command = [str(sim.PROGRAM), "40", "exit"]
        without = sim.run(command, self.subfolder("without"), preload=False)
        seen = sim.run(command, self.subfolder("with"), GPUIDLE_START="attach")
        self.assertEqual((seen.status, seen.stdout, seen.stderr),
                         (without.status, without.stdout, without.stderr))
        self.assertEqual(seen.traces, [])

    def test_the_block_goes_with_its_program(self):
        with running(self.folder, command=[str(sim.PROGRAM), "100", "exit"]) as program:
            wait_until(lambda: blocks_of(program.pid), "a control block")
            program.process.wait(60)
            self.assertEqual(blocks_of(program.pid), [])

    def test_a_forked_child_leaves_the_block_of_its_parent(self):
        with running(self.folder, command=[str(sim.PROGRAM), "200", "fork"]) as program:
            program.wait_for_block()
            finished = attach(program, "--duration", "1s")
            self.assertEqual(finished.returncode, 0, finished.stderr)
            stdout, _ = program.process.communicate(timeout=60)
            self.assertEqual(stdout.count("child ended with 5"), 2)
            self.assertEqual(blocks_of(program.pid), [])


class Attached(sim.TestCase):
    def test_what_ran_meanwhile_is_reported_with_its_line(self):
        with running(self.folder) as program:
            program.wait_for_block()
            before_ns = sim.monotonic_ns()
            finished = attach(program, "--duration", "2s", "--json")
            after_ns = sim.monotonic_ns()
            self.assertEqual(finished.returncode, 0, finished.stderr)
            self.assertTrue(program.is_running())
            self.assertEqual(program.stderr, "")
        report = json.loads(finished.stdout)
        recording = report["recording"]
        self.assertEqual((recording["source"], recording["end"]), ("cupti", "clean"))
        start_ns, end_ns = recording["recording_start_ns"], recording["recording_end_ns"]
        self.assertGreaterEqual(start_ns, before_ns)
        self.assertLessEqual(end_ns, after_ns)
        self.assertGreater(end_ns - start_ns, 1.9 * SECOND_NS)
        kernels = [o for o in run_timeline.read_operations(next(self.folder.glob("timeline-*.csv")))
                   if o.kind == "kernel"]
        # At both edges an operation may be half inside.
        inside = sum(1 for o in kernels if o.start_ns > start_ns and o.end_ns < end_ns)
        touching = sum(1 for o in kernels if o.end_ns >= start_ns and o.start_ns <= end_ns)
        self.assertGreater(inside, 50)
        self.assertGreaterEqual(report["devices"][0]["kernel_count"], inside - 1)
        self.assertLessEqual(report["devices"][0]["kernel_count"], touching + 1)
        self.assertIn(STEP, finished.stdout)

    def test_each_attach_has_a_trace_of_its_own_with_stacks(self):
        with running(self.folder) as program:
            program.wait_for_block()
            for count in (1, 2, 3):
                finished = attach(program, "--duration", "600ms")
                self.assertEqual(finished.returncode, 0, finished.stderr)
                self.assertIn(STEP, finished.stdout)
                self.assertIn(str(program.traces[-1]), finished.stderr)
                self.assertEqual(len(program.traces), count)
            self.assertTrue(is_dormant(program))
        for trace in program.traces:
            self.assertEqual(trace.stat().st_mode & 0o777, 0o600)
            losses = sim.gpuidle_json("report", trace)["losses"]
            # One operation may be on the device when the recording ends.
            self.assertLessEqual(losses["total"], 2, losses)

    def test_interrupt_ends_the_recording_and_not_the_program(self):
        with running(self.folder) as program:
            program.wait_for_block()
            command = start_attach(program)
            wait_until(lambda: "recording for a client" in status(program), "the recording")
            time.sleep(0.5)
            finished = interrupt(command)
            self.assertEqual(finished.returncode, 0, finished.stderr)
            self.assertIn("closed in order", finished.stdout)
            self.assertTrue(program.is_running())
            self.assertTrue(is_dormant(program))

    def test_a_recording_without_end_does_not_outlive_its_client(self):
        with running(self.folder) as program:
            program.wait_for_block()
            command = start_attach(program)
            wait_until(lambda: "recording for a client" in status(program), "the recording")
            command.kill()
            command.communicate()
            wait_until(lambda: is_dormant(program), "the recording to end")
            self.assertEqual(sim.gpuidle("report", program.traces[0]).returncode, 0)

    def test_a_recording_with_an_end_goes_on_to_it_without_its_client(self):
        with running(self.folder) as program:
            program.wait_for_block()
            command = start_attach(program, "--duration", "3s")
            wait_until(lambda: "recording for a client" in status(program), "the recording")
            command.kill()
            command.communicate()
            wait_until(lambda: is_dormant(program), "the recording to end")
            recording = sim.gpuidle_json("report", program.traces[0])["recording"]
            length_ns = recording["recording_end_ns"] - recording["recording_start_ns"]
            self.assertGreater(length_ns, 2.9 * SECOND_NS)
            self.assertEqual(recording["end"], "clean")

    def test_a_program_that_ends_meanwhile_is_reported_whole(self):
        with running(self.folder, command=[str(sim.PROGRAM), "300", "exit"]) as program:
            program.wait_for_block()
            finished = attach(program, "--duration", "60s")
            self.assertEqual(finished.returncode, 0, finished.stderr)
            self.assertIn("has ended", finished.stderr)
            self.assertIn("closed in order", finished.stdout)
            self.assertEqual(program.process.wait(60), 3)

    def test_a_program_that_is_killed_meanwhile_is_reported_too(self):
        with running(self.folder) as program:
            program.wait_for_block()
            command = start_attach(program, "--duration", "60s")
            wait_until(lambda: "recording for a client" in status(program), "the recording")
            time.sleep(2.5)
            program.process.kill()
            stdout, stderr = command.communicate(timeout=60)
            self.assertEqual(command.returncode, 0, stderr)
            self.assertIn("abruptly", stdout)

    def test_detach_ends_the_recording_of_another_client(self):
        with running(self.folder) as program:
            program.wait_for_block()
            command = start_attach(program, "--duration", "60s")
            wait_until(lambda: "recording for a client" in status(program), "the recording")
            finished = sim.gpuidle("attach", "--detach", program.pid)
            self.assertEqual(finished.returncode, 0, finished.stderr)
            stdout, stderr = command.communicate(timeout=60)
            self.assertEqual(command.returncode, 0, stderr)
            self.assertIn("closed in order", stdout)
            again = sim.gpuidle("attach", "--detach", program.pid)
            self.assertEqual(again.returncode, NOT_NOW)
            self.assertIn("nothing is being recorded", again.stderr)

    def test_a_program_that_records_itself_is_looked_at_and_goes_on(self):
        with running(self.folder, start="auto") as program:
            program.wait_for_block()
            time.sleep(1.5)
            finished = attach(program, "--duration", "1s")
            self.assertEqual(finished.returncode, 0, finished.stderr)
            self.assertIn("the recording goes on", finished.stderr)
            self.assertIn(STEP, finished.stdout)
            self.assertIn("as its settings say", status(program))
            self.assertEqual(len(program.traces), 1)

    def test_output_goes_where_the_client_says(self):
        folder = self.subfolder("elsewhere")
        with running(self.folder) as program:
            program.wait_for_block()
            finished = subprocess.run(
                [str(sim.TOOL), "attach", str(program.pid), "--duration", "500ms", "-q", "-o",
                 "mine-%p.gpuidle"], cwd=folder, capture_output=True, text=True, timeout=60,
                check=False)
            self.assertEqual((finished.returncode, finished.stderr), (0, ""))
            self.assertEqual([t.name for t in folder.iterdir()], [f"mine-{program.pid}.gpuidle"])
            self.assertEqual(program.traces, [])

    def test_a_python_program_is_reported_with_its_lines(self):
        command = [sys.executable, str(sim.SOURCE / "examples/python_loop.py")]
        with running(self.folder, command=command,
                     kernels=sim.kernels_file("python_loop")) as program:
            program.wait_for_block()
            finished = attach(program, "--duration", "1s")
            self.assertEqual(finished.returncode, 0, finished.stderr)
            self.assertIn("python_loop.py:", finished.stdout)

    def test_without_cupti_host_calls_are_seen(self):
        with running(self.folder, SIMGPU_FAULT="subscribe=39") as program:
            program.wait_for_block()
            finished = attach(program, "--duration", "700ms")
            self.assertIn("host calls only", finished.stdout)
            self.assertEqual(program.stderr, "")

    def test_cupti_is_given_back_when_the_recording_has_ended(self):
        # The simulated CUPTI has one seat: a second subscription only works if it is free again.
        with running(self.folder) as program:
            program.wait_for_block()
            for _ in range(2):
                report = json.loads(attach(program, "--duration", "500ms", "--json").stdout)
                self.assertEqual(report["recording"]["source"], "cupti")


class Refused(sim.TestCase):
    def refused(self, finished, code, *sentences):
        self.assertEqual((finished.returncode, finished.stdout), (code, ""), finished.stderr)
        self.assertEqual(finished.stderr.count("\n"), 1, finished.stderr)
        for sentence in sentences:
            self.assertIn(sentence, finished.stderr)

    def test_no_such_process(self):
        child = subprocess.Popen(["true"])
        child.wait()
        self.refused(attach(child), NO_PROCESS, f"there is no process {child.pid}")

    def test_zombie(self):
        child = subprocess.Popen(["true"])
        wait_until(lambda: " Z " in pathlib.Path(f"/proc/{child.pid}/stat").read_text(), "a zombie")
        self.refused(attach(child), NO_PROCESS, "has ended", "zombie")
        child.wait()

    def test_stopped(self):
        with running(self.folder) as program:
            program.wait_for_block()
            program.process.send_signal(signal.SIGSTOP)
            wait_until(lambda: " T " in pathlib.Path(f"/proc/{program.pid}/stat").read_text(), "it")
            self.refused(attach(program), NOT_NOW, "is stopped", f"kill -CONT {program.pid}")
            self.assertIn(" T ", pathlib.Path(f"/proc/{program.pid}/stat").read_text())
            program.process.send_signal(signal.SIGCONT)
            self.assertEqual(attach(program, "--duration", "300ms").returncode, 0)

    def test_other_user(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to be two users")
        with running(self.folder) as program:
            program.wait_for_block()
            finished = subprocess.run(
                [str(sim.TOOL), "attach", str(program.pid)], capture_output=True, text=True,
                timeout=60, check=False, user=65534, group=65534, extra_groups=[])
            self.refused(finished, NOT_PERMITTED, "belongs to user 0", "as root")

    def test_already_recorded_for_another_client(self):
        with running(self.folder) as program:
            program.wait_for_block()
            first = start_attach(program, "--duration", "60s")
            wait_until(lambda: "recording for a client" in status(program), "the recording")
            self.refused(attach(program), NOT_NOW, "another client", "--detach")
            interrupt(first)

    def test_the_recorder_refuses_and_leaves_no_file(self):
        with running(self.folder, GPUIDLE_SOURCE="off") as program:
            program.wait_for_block()
            self.refused(attach(program), NOT_NOW, "refuses", "GPUIDLE_SOURCE=off")
            self.assertEqual((program.traces, program.stderr), ([], ""))
            self.assertTrue(is_dormant(program))

    def test_an_output_that_cannot_be_written(self):
        with running(self.folder) as program:
            program.wait_for_block()
            self.refused(attach(program, "-o", "/nowhere/at/all.gpuidle"), NOT_NOW,
                         "cannot create /nowhere/at/all.gpuidle", "No such file")
            self.assertEqual(attach(program, "--duration", "300ms").returncode, 0)

    def test_the_recorder_sleeps_because_cuda_has_not_started(self):
        with running(self.folder, command=["sleep", "60"]) as program:
            wait_until(lambda: "libgpuidle" in
                       pathlib.Path(f"/proc/{program.pid}/maps").read_text(), "the preload")
            self.refused(attach(program), NOT_NOW, "has not used CUDA yet")

    def test_usage(self):
        for arguments in ([], ["0"], ["x"], ["1", "--duration", "30"], ["1", "--list"],
                          ["1", "--status", "--detach"], ["1", "-o", "%z"]):
            with self.subTest(arguments=arguments):
                finished = sim.gpuidle("attach", *arguments)
                self.refused(finished, 2, "see 'gpuidle attach --help'")


class Shown(sim.TestCase):
    def test_list_names_gpu_processes_and_counts_the_rest(self):
        with running(self.folder) as program:
            program.wait_for_block()
            finished = sim.gpuidle("attach", "--list")
            self.assertEqual(finished.returncode, 0, finished.stderr)
            row = next(line for line in finished.stdout.splitlines()
                       if line.split()[0] == str(program.pid))
            self.assertIn("'gpuidle attach' can begin", row)
            self.assertRegex(finished.stdout, r"skipped: \d+ without CUDA")

    def test_list_and_status_as_json_say_the_same(self):
        with running(self.folder) as program:
            program.wait_for_block()
            listed = json.loads(sim.gpuidle("attach", "--list", "--json").stdout)
            self.assertEqual((listed["schema"], listed["version"]), ("gpuidle.attach.list", 1))
            row = next(row for row in listed["processes"] if row["pid"] == program.pid)
            self.assertEqual((row["recorder"], row["can_attach"]), ("dormant", True))
            self.assertGreater(listed["skipped"]["without_gpu"], 0)

            asleep = json.loads(sim.gpuidle("attach", "--status", program.pid, "--json").stdout)
            self.assertEqual((asleep["recorder"], asleep["trace"], asleep["recording"]),
                             ("dormant", None, None))
            command = start_attach(program, "--duration", "60s", "--no-report")
            wait_until(lambda: "recording for a client" in status(program), "the recording")
            seen = json.loads(sim.gpuidle("attach", "--status", program.pid, "--json").stdout)
            self.assertEqual((seen["recorder"], seen["recording_count"]), ("recording", 1))
            self.assertEqual(seen["recording"]["started_by"], "client")
            self.assertLessEqual(seen["recording"]["left_ns"], 60_000_000_000)
            self.assertTrue(seen["trace"].endswith(".gpuidle"), seen)
            self.assertEqual(interrupt(command).returncode, 0)

    def test_top_shows_live_shares(self):
        with running(self.folder, start="auto") as program:
            program.wait_for_block()
            time.sleep(3)
            finished = sim.gpuidle("top", program.pid, "--rounds", "3", "--interval", "1s")
            self.assertEqual(finished.returncode, 0, finished.stderr)
            row = finished.stdout.splitlines()[-1].split()
        self.assertEqual(row[:3], [str(program.pid), "run_program", "0"])
        shares = [float(value.lstrip("<>")) for value in row if "." in value]
        # 3 ms asleep, 2 ms busy, and what a loaded machine adds.
        self.assertEqual(len(shares), 4)
        self.assertAlmostEqual(shares[0] + shares[1], 100, delta=0.2)
        self.assertAlmostEqual(shares[2] + shares[3], 100, delta=0.2)
        self.assertGreater(shares[2], 5)
        self.assertGreater(shares[3], 5)

    def test_top_as_json_is_a_document_per_look(self):
        with running(self.folder, start="auto") as program:
            program.wait_for_block()
            time.sleep(3)
            finished = sim.gpuidle("top", program.pid, "--rounds", "2", "--interval", "1s", "--json")
            self.assertEqual(finished.returncode, 0, finished.stderr)
        first, second = [look["processes"][0] for look in sim.documents(finished.stdout)]
        self.assertEqual((first["pid"], first["recorder"]), (program.pid, "recording"))
        then, now = first["devices"][0], second["devices"][0]
        for what in ("busy", "idle"):
            self.assertEqual(then[f"{what}_since_last_look_ns"], then[f"{what}_ns"])
            self.assertEqual(now[f"{what}_since_last_look_ns"],
                             now[f"{what}_ns"] - then[f"{what}_ns"])
        self.assertGreater(now["busy_ns"], then["busy_ns"])

    def test_top_of_a_process_without_recorder(self):
        self.assertEqual(sim.gpuidle("top", os.getpid(), "--rounds", "1").returncode, NO_PROCESS)


class Elsewhere(sim.TestCase):
    """Programs in namespaces of their own, as containers have them."""

    def unshared(self, folder, setup, *flags):
        script = f"{setup}; exec {' '.join(LONG)}"
        command = ["unshare", *flags, "sh", "-c", script]
        probe = subprocess.run(["unshare", *flags, "sh", "-c", setup], capture_output=True,
                               check=False)
        if probe.returncode != 0:
            self.skipTest(f"no namespaces here: {probe.stderr.decode().strip()}")
        return running(folder, command=command)

    def test_in_a_container_with_its_own_processes_and_shared_memory(self):
        setup = ("mount -t proc proc /proc && mount -t tmpfs -o size=1m shm /dev/shm && "
                 "mount -t tmpfs tmp /mnt")
        with self.unshared(self.folder, setup, "--mount", "--pid", "--fork",
                           "--kill-child") as program:
            inner = wait_until(
                lambda: next((int(p) for p in subprocess.run(
                    ["pgrep", "-P", str(program.pid)], capture_output=True, text=True,
                    check=False).stdout.split()), 0), "the program inside")
            # Its number inside is 1: before its mounts are made, the blocks of others are seen.
            blocks = pathlib.Path(f"/proc/{inner}/root/dev/shm")
            wait_until(lambda: list(blocks.glob("gpuidle.*.1.*")),
                       "a control block inside")
            finished = attach(inner, "--duration", "700ms", "-o", "/mnt/%p.gpuidle")
            self.assertEqual(finished.returncode, 0, finished.stderr)
            self.assertIn(STEP, finished.stdout)
            # Its number inside; and the file is not where we would have looked for it.
            self.assertIn("/mnt/1.gpuidle", finished.stderr)
            os.kill(inner, signal.SIGKILL)

    def test_a_full_shared_memory_means_no_block_and_no_signal(self):
        setup = ("mount -t tmpfs -o size=8k shm /dev/shm && "
                 "dd if=/dev/zero of=/dev/shm/full bs=4096 count=2 2>/dev/null")
        with self.unshared(self.folder, setup, "--mount") as program:
            wait_until(lambda: "cannot be attached to" in program.stderr, "the warning")
            self.assertIn("/dev/shm", program.stderr)
            self.assertTrue(program.is_running())
            finished = attach(program)
            self.assertEqual(finished.returncode, NOT_NOW, finished.stderr)


if __name__ == "__main__":
    sim.main()
