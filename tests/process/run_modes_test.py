# SPDX-License-Identifier: Apache-2.0
"""Each source of truth can be provoked, is named with its reason, and never disturbs the program."""

import run_simulated as sim

HEAD_LINES = 12


class Modes(sim.TestCase):
    def run_program(self, **extra):
        seen = sim.run([str(sim.PROGRAM), "60", "exit"], self.folder, **extra)
        self.assertEqual(seen.stdout, "60 steps, then exit\n", seen.stderr)
        self.assertEqual(seen.status, 3, seen.stderr)
        return seen

    def head_of(self, trace, expected_status):
        finished = sim.gpuidle("report", trace)
        self.assertEqual(finished.returncode, expected_status, finished.stderr + finished.stdout)
        return "\n".join(finished.stdout.splitlines()[:HEAD_LINES])

    def test_cupti_as_sole_subscriber_is_the_usual_source(self):
        head = self.head_of(self.run_program().trace, 0)
        self.assertIn("CUPTI, as its sole subscriber", head)

    def test_a_cupti_that_can_be_shared_is_shared(self):
        seen = self.run_program(SIMGPU_FAULT="cupti_version=130300")
        self.assertIn("CUPTI, beside other subscribers", self.head_of(seen.trace, 0))
        report = sim.gpuidle_json("report", seen.trace)
        self.assertEqual(report["recording"]["source"], "cupti_shared")
        self.assertTrue(report["has_gpu_records"])

    def test_without_the_preload_and_without_cupti_nothing_is_recorded_and_that_is_said(self):
        seen = sim.run([str(sim.PROGRAM), "60", "exit"], self.folder, preload=False,
                       SIMGPU_FAULT="subscribe=39", CUDA_INJECTION64_PATH=str(sim.LIBRARY),
                       GPUIDLE_OUTPUT=str(self.folder / "%p.gpuidle"))
        self.assertEqual((seen.status, seen.stdout), (3, "60 steps, then exit\n"), seen.stderr)
        head = self.head_of(seen.trace, 6)
        self.assertIn("nothing was recorded", head)
        self.assertIn("39", head)
        self.assertIn("not preloaded", " ".join(head.split()))

    def test_loaded_by_the_driver_alone_cupti_is_enough(self):
        seen = sim.run([str(sim.PROGRAM), "60", "exit"], self.folder, preload=False,
                       CUDA_INJECTION64_PATH=str(sim.LIBRARY),
                       GPUIDLE_OUTPUT=str(self.folder / "%p.gpuidle"))
        self.assertEqual((seen.status, seen.stdout), (3, "60 steps, then exit\n"), seen.stderr)
        self.assertIn("CUPTI, as its sole subscriber", self.head_of(seen.trace, 0))

    def test_cupti_taken_by_another_tool_leaves_host_calls_and_says_why(self):
        seen = self.run_program(SIMGPU_FAULT="subscribe=39")
        head = self.head_of(seen.trace, 0)
        self.assertIn("host calls only", head)
        self.assertIn("39", head)

    def test_every_refusal_of_cupti_leaves_host_calls(self):
        for code in ("15", "999"):
            with self.subTest(code=code):
                folder = self.folder / code
                folder.mkdir()
                seen = sim.run([str(sim.PROGRAM), "60", "exit"], folder,
                               SIMGPU_FAULT=f"subscribe={code}")
                self.assertEqual(seen.status, 3, seen.stderr)
                report = sim.gpuidle_json("report", seen.trace)
                self.assertEqual(report["recording"]["source"], "interposition")
                self.assertIn(code, report["recording"]["source_reason"])

    def test_host_calls_alone_never_claim_that_the_device_was_busy(self):
        seen = self.run_program(GPUIDLE_SOURCE="interposition")
        report = sim.gpuidle_json("report", seen.trace)
        self.assertTrue(report["is_proof_only"])
        self.assertFalse(report["has_gpu_records"])
        for device in report["devices"]:
            self.assertEqual(device["any_busy_ns"], 0)
            self.assertGreater(device["not_observed_ns"], 0)
            self.assertEqual(device["idle_ns"] + device["not_observed_ns"], device["wall_ns"])

    def test_off_records_nothing(self):
        seen = self.run_program(GPUIDLE_SOURCE="off")
        for trace in seen.traces:
            report = sim.gpuidle("report", trace, "--json")
            self.assertEqual(report.returncode, 6, report.stdout)

    def test_cupti_without_any_record_reads_as_no_gpu_records(self):
        seen = self.run_program(SIMGPU_FAULT="no_records")
        finished = sim.gpuidle("report", seen.trace)
        self.assertEqual(finished.returncode, 6, finished.stdout)
        self.assertIn("No GPU records", finished.stdout)
        self.assertNotIn("100 %", finished.stdout)

    def test_records_without_or_with_reversed_times_or_dropped_are_counted_as_lost(self):
        for fault, reason in (("zero_timestamps=3", "zero_timestamp"),
                              ("reversed_timestamps=3", "reversed_timestamp"),
                              ("drop_every=5", "cupti_dropped")):
            with self.subTest(fault=fault):
                folder = self.folder / fault
                folder.mkdir()
                seen = sim.run([str(sim.PROGRAM), "60", "exit"], folder, SIMGPU_FAULT=fault)
                self.assertEqual(seen.status, 3, seen.stderr)
                losses = sim.gpuidle_json("report", seen.trace)["losses"]
                self.assertGreater(losses[reason], 0, losses)
                self.assertEqual(sim.gpuidle("report", seen.trace, "--strict").returncode, 3)

    def test_a_flush_that_hangs_does_not_keep_the_program_from_ending(self):
        seen = self.run_program(SIMGPU_FAULT="flush_hangs")
        self.assertEqual(sim.gpuidle("info", seen.trace).returncode, 0)

    def test_a_device_that_cannot_be_used_is_the_programs_own_error(self):
        command = [str(sim.PROGRAM), "60", "exit"]
        without = sim.run(command, self.subfolder("without"), preload=False,
                          SIMGPU_FAULT="cuinit=100")
        seen = sim.run(command, self.subfolder("with"), SIMGPU_FAULT="cuinit=100")
        self.assertEqual(without.status, 9)
        self.assertEqual(seen.status, 9)
        self.assertEqual(seen.stdout, without.stdout)

    def test_a_missing_cupti_is_host_calls_only(self):
        seen = self.run_program(GPUIDLE_CUPTI_LIBRARY="/nonexistent/libcupti.so")
        report = sim.gpuidle_json("report", seen.trace)
        self.assertEqual(report["recording"]["source"], "interposition")
        self.assertIn("/nonexistent/libcupti.so", report["recording"]["source_reason"])


if __name__ == "__main__":
    sim.main()
