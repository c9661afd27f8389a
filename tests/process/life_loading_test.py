# SPDX-License-Identifier: Apache-2.0
"""CUDA that comes in by unusual doors, and other tools in the chain of preloads."""

import os
import shutil

import life_cases as life
import run_simulated as sim

STEPS = 8
LOADING = life.PROGRAMS / "life_loading"
PLUGIN = life.PROGRAMS / "liblife_plugin.so"
HOOK = life.PROGRAMS / "liblife_dlsym_hook.so"
COMMAND = [sim.PROGRAM, str(STEPS), "exit"]


class Loading(life.TestCase):
    def test_a_library_that_is_opened_late_is_recorded(self):
        for how, kernels in (("plain", STEPS), ("again", 2 * STEPS)):
            with self.subTest(how=how):
                seen = self.compare([LOADING, how, PLUGIN])
                self.assertEqual((seen.status, self.kernels_in(seen)), (3, [kernels]))

    def test_a_library_with_deep_binding_passes_the_hooks_by_and_the_driver_lets_us_in(self):
        seen = self.compare([LOADING, "deepbind", PLUGIN],
                            CUDA_INJECTION64_PATH=str(sim.LIBRARY))
        self.assertEqual((seen.status, self.kernels_in(seen)), (3, [STEPS]))

    def test_cuda_in_a_namespace_of_its_own_runs_with_and_without_the_drivers_door(self):
        for injection in (None, str(sim.LIBRARY)):
            with self.subTest(injection=injection):
                seen = self.compare([LOADING, "namespace", PLUGIN],
                                    CUDA_INJECTION64_PATH=injection)
                self.assertEqual(seen.status, 3)
                if injection:
                    self.assertEqual(self.kernels_in(seen), [STEPS])

    def test_a_program_with_the_static_cuda_runtime_is_recorded(self):
        seen = self.compare([life.PROGRAMS / "life_static_runtime", STEPS, "exit"])
        self.assertEqual((seen.status, self.kernels_in(seen)), (3, [STEPS]))
        self.assert_says_nothing(seen)

    def test_a_dlsym_hook_behind_us_works_on_and_so_do_we(self):
        seen = self.compare([life.PROGRAMS / "life_static_runtime", STEPS, "exit"], behind=HOOK)
        self.assertEqual((seen.status, self.kernels_in(seen)), (3, [STEPS]), seen.stderr)

    def test_a_dlsym_hook_in_front_hides_cuda_from_us_and_the_driver_lets_us_in(self):
        # It finds the C library's dlsym by its version, past ours.
        seen = self.compare([life.PROGRAMS / "life_static_runtime", STEPS, "exit"], in_front=HOOK,
                            CUDA_INJECTION64_PATH=str(sim.LIBRARY))
        self.assertEqual((seen.status, self.kernels_in(seen)), (3, [STEPS]), seen.stderr)

    def test_a_dlsym_hook_counts_the_launches_that_it_counts_without_us(self):
        # The doctor's own program looks every function up by dlsym.
        program = [sim.TOOL, "doctor", "--child=launch"]
        for place in ({"behind": HOOK}, {"in_front": HOOK}):
            with self.subTest(place=list(place)):
                seen = self.compare(program, CUDA_INJECTION64_PATH=str(sim.LIBRARY), **place)
                self.assertEqual((seen.status, self.kernels_in(seen)), (0, [1]), seen.stderr)
                self.assertEqual(seen.stderr, "dlsym hook: 1 launches\n")

    def test_a_preloaded_allocator_works_on(self):
        allocators = [path for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4",
                                        "libtcmalloc.so.4", "libmimalloc.so.2.0")
                      for path in (f"/usr/lib/x86_64-linux-gnu/{name}",
                                   f"/usr/lib/aarch64-linux-gnu/{name}") if os.path.exists(path)]
        if not allocators:
            self.skipTest("no allocator to preload is installed")
        for allocator in allocators:
            with self.subTest(allocator=allocator):
                seen = self.compare(COMMAND, behind=allocator)
                self.assertEqual(self.kernels_in(seen), [STEPS])

    def test_address_and_thread_sanitizer_programs_run_and_are_recorded(self):
        for sanitizer in ("address", "thread"):
            program = life.PROGRAMS / f"life_{sanitizer}_sanitized"
            if not program.exists():
                self.skipTest(f"{program.name} was not built")
            with self.subTest(sanitizer=sanitizer):
                command = [program, STEPS, "exit"]
                without = self.run_timed(command, False)
                if without.status != 3:
                    self.skipTest(f"cannot run here without us: {without.stderr[:300]}")
                seen = self.compare(command)
                self.assertNotIn("Sanitizer", seen.stderr)
                self.assertEqual(self.kernels_in(seen), [STEPS])

    def test_a_program_with_the_rights_of_another_user_runs_without_us(self):
        if os.geteuid() != 0:
            self.skipTest("only root can make a setuid program of another user")
        program = self.folder / "show_user"
        shutil.copy("/usr/bin/id", program)
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
        self.folder.chmod(0o755)
        if os.statvfs(program).f_flag & os.ST_NOSUID:
            self.skipTest("the folder for temporary files is mounted nosuid")
        for injection in (None, str(sim.LIBRARY)):
            seen = self.compare([program], CUDA_INJECTION64_PATH=injection)
            self.assertIn("euid=65534", seen.stdout)
            self.assertEqual((seen.stderr, seen.traces), ("", []))

    def test_a_statically_linked_program_runs_without_us(self):
        seen = self.compare([life.PROGRAMS / "life_static_program"])
        self.assertEqual((seen.status, seen.stdout, seen.stderr), (5, "static\n", ""))


if __name__ == "__main__":
    sim.main()
