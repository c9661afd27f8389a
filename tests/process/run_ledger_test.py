# SPDX-License-Identifier: Apache-2.0
"""The report's figures agree with the simulated device's own timeline, and name the planted cause."""

import pathlib

import run_simulated as sim
import run_timeline

# The timeline is exact; the report's device times come through the clock map.
TOLERANCE_RATIO = 0.01


class Ledger(sim.TestCase):
    def assert_close(self, found_ns, true_ns, wall_ns, what):
        self.assertLessEqual(abs(found_ns - true_ns), TOLERANCE_RATIO * wall_ns,
                             f"{what}: report {found_ns} ns, timeline {true_ns} ns")

    def check_device(self, device, truth):
        wall_ns = truth.wall_ns
        self.assert_close(device["wall_ns"], wall_ns, wall_ns, "wall")
        self.assert_close(device["any_busy_ns"], truth.busy_ns, wall_ns, "busy")
        self.assert_close(device["idle_ns"], truth.idle_ns, wall_ns, "idle")
        # H ends where the call was entered, the timeline's where the operation was queued inside it.
        split = device["idle_split"]
        slack_ns = TOLERANCE_RATIO * wall_ns
        self.assertLessEqual(split["nothing_queued_ns"], truth.host_ns + slack_ns)
        self.assertGreaterEqual(split["nothing_queued_ns"] + split["being_queued_ns"],
                                truth.host_ns - slack_ns)
        self.assertLessEqual(split["queued_not_started_ns"], truth.queued_ns + slack_ns)
        self.assertEqual(split["not_known_ns"], 0)
        self.assertEqual(device["not_observed_ns"], 0)
        self.assertEqual(device["kernel_count"], truth.kernels)
        self.assertEqual(device["copy_count"], truth.copies)
        self.assertEqual(device["set_count"], truth.sets)
        self.assertEqual(device["any_busy_ns"] + device["idle_ns"] + device["not_observed_ns"],
                         device["wall_ns"])

    def check_example(self, name, planted):
        if name not in sim.examples():
            self.skipTest(f"{name} was not built: no nvcc")
        # Copies that move no data take no time inside their call.
        seen = sim.run(sim.examples()[name], self.folder, kernels=sim.kernels_file(name),
                       SIMGPU_MOVE_DATA="0")
        self.assertEqual(seen.status, 0, seen.stderr)
        report = sim.gpuidle_json("report", seen.trace)
        self.assertEqual(report["recording"]["source"], "cupti")
        self.assertEqual(report["recording"]["end"], "clean")
        self.assertEqual(report["losses"]["total"], 0, report["losses"])
        self.assertEqual(len(report["devices"]), 1)
        device = report["devices"][0]
        truth = run_timeline.ledger_of(run_timeline.read_operations(seen.timeline))
        self.check_device(device, truth)
        # Gaps of milliseconds: here the time inside the call must not matter either.
        split = device["idle_split"]
        self.assert_close(split["nothing_queued_ns"], truth.host_ns, truth.wall_ns, "H")
        self.assert_close(split["being_queued_ns"] + split["queued_not_started_ns"],
                          truth.queued_ns, truth.wall_ns, "A + D")
        first = report["idle_origins"][0]
        self.assertGreater(first["idle_ns"], 0.5 * report["devices"][0]["idle_ns"])
        self.assertIsNotNone(first["user_frame_index"], first)
        frame = first["stack"][first["user_frame_index"]]
        self.assertIn(planted, frame["function"])
        self.assertGreater(frame["line"], 0)
        return frame

    def test_a_slow_loader_is_named_by_the_function_that_waits_for_it(self):
        self.check_example("slow_loader", "BatchQueue::next_to_device")

    def test_a_scalar_readback_is_named_by_the_function_that_reads(self):
        self.check_example("scalar_readback", "read_loss")

    def test_a_host_program_without_nvcc_has_exact_figures(self):
        seen = sim.run([str(sim.PROGRAM), "60", "exit"], self.folder)
        report = sim.gpuidle_json("report", seen.trace)
        self.check_device(report["devices"][0],
                          run_timeline.ledger_of(run_timeline.read_operations(seen.timeline)))
        frames = report["idle_origins"][0]["stack"]
        self.assertTrue(any("Feeder::step" in frame["function"] for frame in frames), frames)

    def test_records_that_are_lost_never_make_the_device_look_idler_than_it_was(self):
        for fault in ("zero_timestamps=3", "reversed_timestamps=5", "drop_every=4"):
            with self.subTest(fault=fault):
                seen = sim.run([str(sim.PROGRAM), "60", "exit"], self.subfolder(fault),
                               SIMGPU_FAULT=fault)
                report = sim.gpuidle_json("report", seen.trace)
                self.assertGreater(report["losses"]["total"], 0)
                self.assertGreater(report["launch_without_record_count"], 0)
                device = report["devices"][0]
                truth = run_timeline.ledger_of(run_timeline.read_operations(seen.timeline))
                slack_ns = TOLERANCE_RATIO * truth.wall_ns
                print(f"{fault}: idle {device['idle_ns']} of truly {truth.idle_ns} ns, "
                      f"not observed {device['not_observed_ns']} ns", flush=True)
                self.assertLessEqual(device["idle_ns"], truth.idle_ns + slack_ns)
                self.assertLessEqual(device["any_busy_ns"], truth.busy_ns + slack_ns)
                self.assertGreater(device["not_observed_ns"], 0)
                self.assertEqual(device["any_busy_ns"] + device["idle_ns"] +
                                 device["not_observed_ns"], device["wall_ns"])

    def test_a_python_loop_is_named_by_the_line_of_the_script(self):
        frame = self.check_example("python_loop", "tokenize")
        self.assertEqual(pathlib.Path(frame["file"]).name, "python_loop.py")

    def test_every_end_but_a_kill_keeps_every_operation(self):
        for how in ("return", "exit", "_exit", "thread_exit", "fork"):
            with self.subTest(end=how):
                folder = self.folder / how
                folder.mkdir()
                seen = sim.run([str(sim.PROGRAM), "20", how], folder)
                report = sim.gpuidle_json("report", seen.trace)
                self.assertEqual(report["recording"]["end"], "clean")
                operations = run_timeline.read_operations(seen.timeline)
                device = report["devices"][0]
                self.assertEqual(device["kernel_count"] + device["copy_count"], len(operations))

    def test_a_crash_is_told_and_loses_at_most_the_last_second(self):
        for how in ("abort", "segfault"):
            with self.subTest(end=how):
                folder = self.folder / how
                folder.mkdir()
                seen = sim.run([str(sim.PROGRAM), "400", how], folder)
                report = sim.gpuidle_json("report", seen.trace)
                self.assertEqual(report["recording"]["end"], "abrupt")
                last_ns = max(o.end_ns for o in run_timeline.read_operations(seen.timeline))
                self.assertGreater(report["devices"][0]["window_end_ns"], last_ns - 1_000_000_000)


if __name__ == "__main__":
    sim.main()
