# SPDX-License-Identifier: Apache-2.0
"""Each source of truth can be provoked, is named with its reason, and never disturbs the program."""

import run_simulated as sim

HEAD_LINES = 12
STEPS = 60
COMMAND = [str(sim.PROGRAM), str(STEPS), "exit"]
OTHER_CLIENT = sim.SIMULATED.parent / "libsimgpu_other_client.so"
SHARED = "cupti_version=130300"


class Modes(sim.TestCase):
    def run_beside(self, preload=True, **extra):
        """Runs the program with us; it must do what it does without us. Each call has a folder."""
        number = len(list(self.folder.iterdir()))
        without_us = {name: value for name, value in extra.items()
                      if not name.startswith("GPUIDLE_") and value != str(sim.LIBRARY)}
        without = sim.run(COMMAND, self.subfolder(f"{number}-without"), preload=False, **without_us)
        folder = self.subfolder(f"{number}-with")
        if not preload:
            extra["GPUIDLE_OUTPUT"] = str(folder / "%p.gpuidle")
        seen = sim.run(COMMAND, folder, preload=preload, **extra)
        self.assertEqual((seen.status, seen.stdout), (without.status, without.stdout), seen.stderr)
        self.assertEqual(without.traces, [])
        return seen

    def run_program(self, **extra):
        seen = self.run_beside(**extra)
        self.assertEqual((seen.status, seen.stdout), (3, f"{STEPS} steps, then exit\n"),
                         seen.stderr)
        return seen

    def run_by_driver(self, **extra):
        """Without the preload: the driver alone loads us."""
        return self.run_program(preload=False, CUDA_INJECTION64_PATH=str(sim.LIBRARY), **extra)

    def run_after(self, how, **extra):
        """Another profiler has CUPTI before us; it must see every kernel as if we were not there."""
        seen = self.run_program(CUDA_INJECTION64_PATH=str(OTHER_CLIENT), SIMGPU_OTHER_CLIENT=how,
                                **extra)
        self.assertIn(f"other_client: {STEPS} kernels\n", seen.stderr)
        return seen

    def head_of(self, trace, expected_status):
        finished = sim.gpuidle("report", trace)
        self.assertEqual(finished.returncode, expected_status, finished.stderr + finished.stdout)
        # The lines are folded to the width of the terminal: reasons are compared as one line.
        return " ".join(" ".join(finished.stdout.splitlines()[:HEAD_LINES]).split())

    def assert_host_calls_only(self, seen, reason):
        head = self.head_of(seen.trace, 0)
        self.assertIn("host calls only", head)
        self.assertIn(reason, head)
        recording = sim.gpuidle_json("report", seen.trace)["recording"]
        self.assertEqual(recording["source"], "interposition")
        self.assertIn(reason, recording["source_reason"])

    def assert_shared(self, seen):
        self.assertIn("CUPTI, beside other subscribers", self.head_of(seen.trace, 0))
        report = sim.gpuidle_json("report", seen.trace)
        self.assertEqual(report["recording"]["source"], "cupti_shared")
        self.assertEqual([d["kernel_count"] for d in report["devices"]], [STEPS])

    def test_cupti_as_sole_subscriber_is_the_usual_source(self):
        head = self.head_of(self.run_program().trace, 0)
        self.assertIn("CUPTI, as its sole subscriber", head)

    def test_a_cupti_that_can_be_shared_is_shared(self):
        self.assert_shared(self.run_program(SIMGPU_FAULT=SHARED))

    def test_two_profilers_that_share_cupti_both_see_every_kernel(self):
        self.assert_shared(self.run_after("shared", SIMGPU_FAULT=SHARED))

    def test_a_cupti_whose_sharing_fails_is_used_alone(self):
        seen = self.run_program(SIMGPU_FAULT=SHARED + ",shared_register=999")
        self.assertIn("CUPTI, as its sole subscriber", self.head_of(seen.trace, 0))
        report = sim.gpuidle_json("report", seen.trace)
        self.assertEqual([d["kernel_count"] for d in report["devices"]], [STEPS])

    def test_without_the_preload_and_without_cupti_nothing_is_recorded_and_that_is_said(self):
        head = self.head_of(self.run_by_driver(SIMGPU_FAULT="subscribe=39").trace, 6)
        self.assertIn("nothing was recorded", head)
        self.assertIn("39", head)
        self.assertIn("not preloaded", head)

    def test_loaded_by_the_driver_alone_cupti_is_enough(self):
        self.assertIn("CUPTI, as its sole subscriber", self.head_of(self.run_by_driver().trace, 0))

    def test_every_refusal_of_cupti_leaves_host_calls_and_says_why(self):
        for code in ("39", "15", "999"):
            with self.subTest(code=code):
                seen = self.run_program(SIMGPU_FAULT=f"subscribe={code}")
                self.assert_host_calls_only(seen, f"({code})")

    def test_another_profiler_keeps_cupti_and_leaves_us_host_calls(self):
        for version in ("", SHARED):
            with self.subTest(fault=version):
                seen = self.run_after("v1", SIMGPU_FAULT=version)
                self.assert_host_calls_only(seen, "another profiler or debugger uses CUPTI")

    def test_another_profiler_that_gave_its_name_is_named(self):
        for version in ("", SHARED):
            with self.subTest(fault=version):
                seen = self.run_after("named", SIMGPU_FAULT=version)
                self.assert_host_calls_only(seen, "CUPTI for other_client")

    def test_host_calls_alone_never_claim_that_the_device_was_busy(self):
        seen = self.run_program(GPUIDLE_SOURCE="interposition")
        self.assert_host_calls_only(seen, "GPUIDLE_SOURCE=interposition")
        report = sim.gpuidle_json("report", seen.trace)
        self.assertTrue(report["is_proof_only"])
        self.assertFalse(report["has_gpu_records"])
        for device in report["devices"]:
            self.assertEqual(device["any_busy_ns"], 0)
            self.assertGreater(device["not_observed_ns"], 0)
            self.assertEqual(device["idle_ns"] + device["not_observed_ns"], device["wall_ns"])

    def test_off_records_nothing_and_says_so(self):
        head = self.head_of(self.run_program(GPUIDLE_SOURCE="off").trace, 6)
        self.assertIn("nothing was recorded", head)
        self.assertIn("GPUIDLE_SOURCE=off", head)

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
                seen = self.run_program(SIMGPU_FAULT=fault)
                losses = sim.gpuidle_json("report", seen.trace)["losses"]
                self.assertGreater(losses[reason], 0, losses)
                self.assertEqual(sim.gpuidle("report", seen.trace, "--strict").returncode, 3)

    def test_a_flush_that_hangs_does_not_keep_the_program_from_ending(self):
        seen = self.run_program(SIMGPU_FAULT="flush_hangs")
        self.assertEqual(sim.gpuidle("info", seen.trace).returncode, 0)

    def test_a_device_that_cannot_be_used_is_the_programs_own_error(self):
        self.assertEqual(self.run_beside(SIMGPU_FAULT="cuinit=100").status, 9)

    def test_a_missing_cupti_is_host_calls_only(self):
        seen = self.run_program(GPUIDLE_CUPTI_LIBRARY="/nonexistent/libcupti.so")
        self.assert_host_calls_only(seen, "/nonexistent/libcupti.so")


if __name__ == "__main__":
    sim.main()
