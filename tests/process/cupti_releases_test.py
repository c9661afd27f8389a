# SPDX-License-Identifier: Apache-2.0
"""Older releases of CUPTI, as the simulated device stands in for them, give the same recordings."""

import life_cases as life
import run_simulated as sim

STEPS = 20
COMMAND = [sim.PROGRAM, str(STEPS), "exit"]
OLDER = sim.SIMULATED.parent / "older_cupti"
RELEASES = {"11.8 to 12.1": OLDER / "11.8/libcupti.so.11.8", "12.4": OLDER / "12/libcupti.so.12",
            "13.0.1": sim.SIMULATED / "libcupti.so.13"}


class Releases(life.TestCase):
    def cupti_of(self, seen):
        settings = sim.gpuidle_json("info", seen.trace)["settings"]
        return next(s for s in settings if s.startswith("CUPTI="))[len("CUPTI="):].rsplit(" ", 1)

    def assert_whole(self, seen):
        self.assertEqual(seen.status, 3, seen.stderr)
        self.assert_says_nothing(seen)
        report = sim.gpuidle_json("report", seen.trace)
        self.assertEqual(report["recording"]["source"], "cupti")
        self.assertEqual(report["devices"][0]["kernel_count"], STEPS)
        self.assertEqual(report["losses"]["total"], 0, report["losses"])
        counts = sim.gpuidle_json("info", seen.trace)
        self.assertEqual(counts["activities_by_kind"]["memcpy"], STEPS)
        self.assertEqual(counts["calls_by_role"]["launch"], STEPS)

    def test_every_release_records_every_kernel_copy_and_launch_call(self):
        for version, library in RELEASES.items():
            with self.subTest(version=version):
                seen = self.compare(COMMAND, GPUIDLE_CUPTI_LIBRARY=str(library))
                self.assert_whole(seen)
                self.assertEqual(self.cupti_of(seen), [version, str(library)])

    def test_the_release_that_the_program_has_mapped_is_taken_not_a_second_one(self):
        for version in ("11.8 to 12.1", "12.4"):
            with self.subTest(version=version):
                seen = self.compare(COMMAND, behind=RELEASES[version])
                self.assert_whole(seen)
                self.assertEqual(self.cupti_of(seen), [version, str(RELEASES[version])])

    def test_left_to_choose_the_one_that_fits_driver_and_runtime_is_taken(self):
        path = f"{sim.SIMULATED}:{OLDER}/12:{OLDER}/11.8"
        seen = self.compare(COMMAND, LD_LIBRARY_PATH=path)
        self.assert_whole(seen)
        self.assertEqual(self.cupti_of(seen)[0], "13.0.1")

    def test_refused_releases_leave_host_calls_and_the_program_alone(self):
        for version, words in (("130000", "13.0 Update 1"), ("12", "older than 11.0"),
                               ("150000", "needs a driver of CUDA 15")):
            with self.subTest(version=version):
                seen = self.compare(COMMAND, SIMGPU_FAULT=f"cupti_version={version}")
                recording = sim.gpuidle_json("report", seen.trace)["recording"]
                self.assertEqual(recording["source"], "interposition")
                self.assertIn(words, recording["source_reason"])


if __name__ == "__main__":
    sim.main()
