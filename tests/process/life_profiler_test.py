# SPDX-License-Identifier: Apache-2.0
"""A profiler that the program itself starts later works as without us, and the hand-over is told."""

import life_cases as life
import run_simulated as sim

STEPS = 20
PROGRAM = life.PROGRAMS / "life_late_client"


class Profiler(life.TestCase):
    def test_a_profiler_that_comes_later_sees_what_it_sees_without_us(self):
        for how in ("subscribes", "registers"):
            for fault in ("", "cupti_version=130300"):
                with self.subTest(how=how, fault=fault):
                    seen = self.compare([PROGRAM, how], SIMGPU_FAULT=fault)
                    self.assertEqual((seen.status, seen.stdout),
                                     (0, f"the profiler saw {STEPS} kernels\n"), seen.stderr)
                    self.assert_says_nothing(seen)

    def test_what_was_recorded_before_stays_and_what_comes_after_is_not_called_idle(self):
        for how in ("subscribes", "registers"):
            with self.subTest(how=how):
                seen = self.compare([PROGRAM, how])
                report = sim.gpuidle_json("report", seen.trace)
                (device,) = report["devices"]
                self.assertEqual(device["kernel_count"], STEPS)
                self.assertEqual(report["losses"]["total"], 0, report["losses"])
                self.assertTrue(any("life_late_client" in w for w in report["warnings"]), report)
                rows = sim.gpuidle_json("info", seen.trace)
                self.assertEqual(rows["unobserved_count"], 1)
                # The hooks go on where CUPTI's callbacks end, once the recorder's own thread has
                # seen it.
                self.assertGreater(rows["launch_call_count"], 2 * STEPS)

    def test_a_child_that_profiles_itself_does_not_touch_what_its_parent_enabled(self):
        seen = self.compare(["sh", "-c", f"{PROGRAM} subscribes & {PROGRAM} registers; wait"])
        self.assertEqual(len(seen.traces), 2)


if __name__ == "__main__":
    sim.main()
