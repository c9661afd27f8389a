# SPDX-License-Identifier: Apache-2.0
"""gpuidle doctor: what is found is true, what is missing is named, and the exit status follows."""

import json
import shutil
import subprocess

import run_simulated as sim

# On a machine without a driver these are what there is to say.
WITHOUT_DEVICE = {"driver": "broken", "devices": "note", "trial": "note"}


class Doctor(sim.TestCase):
    def ask(self, simulated=True, prefix=(), **extra):
        # Not the caller's: looking at every interpreter that a version manager offers takes seconds.
        extra.setdefault("PATH", "/usr/bin:/bin")
        environment = sim.environment(self.folder, preload=False, **extra)
        if not simulated:
            environment.pop("LD_LIBRARY_PATH")
        command = [*prefix, str(sim.TOOL), "doctor", "--json"]
        finished = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True,
                                  text=True, timeout=120, check=False)
        self.assertEqual(finished.stderr, "")
        answer = json.loads(finished.stdout)
        self.assertEqual((answer["schema"], answer["version"]), ("gpuidle.doctor", 1))
        checks = {check["name"]: check for check in answer["checks"]}
        self.assertEqual(len(checks), len(answer["checks"]))
        rank = ["ok", "note", "limited", "broken"]
        worst = max((check["finding"] for check in checks.values()), key=rank.index)
        self.assertEqual(answer["finding"], worst)
        self.assertEqual(finished.returncode, {"broken": 1, "limited": 3}.get(worst, 0))
        return checks

    def assert_check(self, checks, name, finding, *words):
        check = checks[name]
        self.assertEqual(check["finding"], finding, check)
        for word in words:
            self.assertIn(word, check["found"] + " " + check["remedy"])

    def test_on_the_simulated_device_everything_that_concerns_it_works(self):
        checks = self.ask()
        self.assert_check(checks, "system", "ok", "Linux")
        self.assert_check(checks, "recorder", "ok", "libgpuidle.so", "can be preloaded")
        self.assert_check(checks, "driver", "ok", "libcuda.so.1", "CUDA 13")
        self.assert_check(checks, "devices", "ok", "Simulated CUDA Device")
        self.assert_check(checks, "cupti", "ok", "libcupti.so.13", "CUPTI 13")
        self.assert_check(checks, "trial", "ok", "in the trace")
        self.assertEqual(list(self.folder.glob("*.gpuidle")), [])

    def test_without_a_driver_nothing_can_be_recorded_and_it_says_what_is_missing(self):
        checks = self.ask(simulated=False)
        if checks["driver"]["finding"] == "ok":
            self.skipTest("this machine has a driver")
        for name, finding in WITHOUT_DEVICE.items():
            self.assert_check(checks, name, finding)
        self.assertNotEqual(checks["driver"]["remedy"], "")

    def test_a_driver_without_a_device_or_with_another_fault_is_named_by_its_error(self):
        for code, words in ((100, ("no device", "--gpus all")), (803, ("different versions",)),
                            (46, ("CUDA error 46",))):
            with self.subTest(code=code):
                checks = self.ask(SIMGPU_FAULT=f"cuinit={code}")
                self.assert_check(checks, "driver", "broken", f"CUDA error {code}", *words)
                self.assert_check(checks, "trial", "note", "not made")

    def test_a_cupti_that_refuses_us_means_host_calls_only(self):
        for code in (39, 35):
            with self.subTest(code=code):
                checks = self.ask(SIMGPU_FAULT=f"subscribe={code}")
                self.assert_check(checks, "trial", "limited", "only host calls", f"({code})")

    def test_a_cupti_that_delivers_nothing_is_told_from_one_that_works(self):
        checks = self.ask(SIMGPU_FAULT="no_records")
        self.assert_check(checks, "trial", "limited", "0 kernels are in the trace")

    def test_releases_of_cupti_that_must_not_be_used_are_named(self):
        for version, word in (("130000", "13.0 Update 1"), ("140000", "needs a driver of CUDA 14")):
            with self.subTest(version=version):
                checks = self.ask(SIMGPU_FAULT=f"cupti_version={version}")
                self.assert_check(checks, "cupti", "limited", word)
                self.assert_check(checks, "trial", "limited", "only host calls", word)

    def test_a_missing_cupti_is_told_with_the_remedy(self):
        checks = self.ask(GPUIDLE_CUPTI_LIBRARY="/nonexistent/libcupti.so")
        self.assert_check(checks, "cupti", "limited", "no libcupti", "GPUIDLE_CUPTI_LIBRARY")
        self.assert_check(checks, "trial", "limited", "/nonexistent/libcupti.so")

    def test_a_kernel_that_cannot_be_launched_is_the_drivers_own_error(self):
        checks = self.ask(SIMGPU_FAULT="launch=719")
        self.assert_check(checks, "trial", "broken", "cuLaunchKernel failed with CUDA error 719")

    def test_other_tools_in_the_environment_are_named(self):
        checks = self.ask(CUDA_INJECTION64_PATH="/opt/nsys/libToolsInjection64.so",
                          KINETO_USE_DAEMON="1")
        self.assert_check(checks, "other_tools", "limited", "libToolsInjection64.so",
                          "KINETO_USE_DAEMON=1")

    def test_a_place_for_traces_that_cannot_be_written_is_told(self):
        checks = self.ask(GPUIDLE_OUTPUT="/nonexistent/%p.gpuidle")
        self.assert_check(checks, "output", "broken", "/nonexistent/")

    def test_a_recorder_that_is_not_there_is_told(self):
        checks = self.ask(GPUIDLE_LIBRARY="/nonexistent/libgpuidle.so")
        self.assert_check(checks, "recorder", "broken", "/nonexistent/libgpuidle.so")

    def test_interpreters_are_asked_and_judged_by_what_they_say(self):
        binaries = self.subfolder("bin")
        answers = {"python3": "cpython 3 7 1 final 0 0 /opt/old/python3",
                   "python3.12": "cpython 3 12 4 final 0 0 /opt/good/python3.12",
                   "python3.13": "cpython 3 13 1 final 0 1 /opt/free/python3.13",
                   "python3.14": "not an answer"}
        for name, answer in answers.items():
            script = binaries / name
            script.write_text(f"#!/bin/sh\necho '{answer}'\n")
            script.chmod(0o755)
        checks = self.ask(PATH=str(binaries))
        self.assert_check(checks, "python", "limited", "frames can be read of "
                          "/opt/good/python3.12 3.12.4", "/opt/old/python3 3.7.1 is neither",
                          "/opt/free/python3.13 3.13.1 is a free-threaded build")
        self.assertNotIn("3.14", checks["python"]["found"])

    def test_text_says_what_json_says_and_ends_with_the_conclusion(self):
        environment = sim.environment(self.folder, preload=False, SIMGPU_FAULT="subscribe=39")
        finished = subprocess.run([str(sim.TOOL), "doctor"], cwd=self.folder, env=environment,
                                  capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((finished.returncode, finished.stderr), (3, ""))
        lines = finished.stdout.splitlines()
        self.assertEqual(lines[-1], "Recordings will lack something; see what is limited.")
        self.assertTrue(any(line.startswith("limited  trial") for line in lines), finished.stdout)
        self.assertLessEqual(max(map(len, lines)), 200)

    def test_it_leaves_nothing_behind(self):
        place = self.subfolder("tmp")
        self.ask(TMPDIR=str(place))
        self.assertEqual(list(place.iterdir()), [])

    def test_a_setting_that_is_switched_off_by_the_user_is_told(self):
        checks = self.ask(GPUIDLE_SOURCE="off")
        self.assert_check(checks, "trial", "broken", "GPUIDLE_SOURCE=off")

    def test_without_proc_it_still_answers(self):
        unshare = shutil.which("unshare")
        prefix = [str(unshare), "--mount", "--map-root-user", "sh", "-c",
                  'mount -t tmpfs none /proc && exec "$@"', "sh"]
        if unshare is None or subprocess.run([*prefix, "true"], check=False,
                                             capture_output=True).returncode != 0:
            self.skipTest("no mount namespace here")
        checks = self.ask(prefix=prefix, GPUIDLE_LIBRARY=str(sim.LIBRARY))
        self.assert_check(checks, "container", "limited", "/proc")


if __name__ == "__main__":
    sim.main()
