# SPDX-License-Identifier: Apache-2.0
"""Children made in every way: the parent's recording stays whole, each GPU process gets its own."""

import sys

import life_cases as life
import run_simulated as sim

STEPS = 8
PROGRAM = life.PROGRAMS / "life_processes"
FAMILY = sim.SOURCE / "tests/process/life_family.py"


class Processes(life.TestCase):
    def family(self, how, traces):
        seen = self.compare([sys.executable, FAMILY, how])
        self.assertEqual(seen.status, 0, seen.stderr)
        self.assertEqual(len(seen.traces), traces, seen.stderr)
        self.assert_says_nothing(seen)

    def test_a_vfork_child_that_leaves_or_becomes_another_program_leaves_the_parent_whole(self):
        seen = self.compare([PROGRAM, "vfork"])
        self.assertEqual(self.kernels_in(seen), [2 * STEPS, 2 * STEPS])
        self.assert_says_nothing(seen)

    def test_programs_started_by_posix_spawn_system_and_popen_get_traces_of_their_own(self):
        for how in ("posix_spawn", "system", "popen"):
            with self.subTest(how=how):
                seen = self.compare([PROGRAM, how])
                self.assertEqual(self.kernels_in(seen), [2 * STEPS, 2 * STEPS])
                self.assert_says_nothing(seen)

    def test_a_child_made_past_the_c_library_forgets_the_recording(self):
        seen = self.compare([PROGRAM, "raw_fork"])
        self.assertEqual(self.kernels_in(seen), [2 * STEPS])
        self.assert_says_nothing(seen)

    def test_workers_forked_before_cuda_are_recorded_each_for_itself(self):
        seen = self.compare([PROGRAM, "fork_before"])
        self.assertEqual(self.kernels_in(seen), [STEPS] * 4)
        self.assert_says_nothing(seen)

    def test_a_daemon_of_two_forks_is_recorded_although_its_parents_are_gone(self):
        seen = self.compare([PROGRAM, "daemon"])
        self.assertEqual(self.kernels_in(seen), [STEPS])

    def test_a_program_that_becomes_another_one_leaves_two_traces_of_one_pid(self):
        seen = self.compare([PROGRAM, "exec"])
        # exec runs no handler: what was not yet written of the first program, up to a second, is gone.
        self.assertEqual((seen.status, len(seen.traces)), (3, 2))
        self.assertEqual(self.kernels_in(seen)[1], 2 * STEPS)
        ends = {sim.gpuidle_json("info", trace)["recording"]["end"] for trace in seen.traces}
        self.assertEqual(len(ends), 2, ends)

    def test_an_exec_that_fails_is_not_noticed(self):
        seen = self.compare([PROGRAM, "exec_fails"])
        self.assertEqual(self.kernels_in(seen), [2 * STEPS])

    def test_workers_of_multiprocessing_fork_are_not_recorded_and_not_disturbed(self):
        self.family("fork", traces=1)

    def test_workers_of_multiprocessing_spawn_and_forkserver_are_recorded(self):
        for how in ("spawn", "forkserver"):
            with self.subTest(how=how):
                seen = self.compare([sys.executable, FAMILY, how])
                self.assertEqual(seen.status, 0, seen.stderr)
                # Of two workers one may do all the work.
                self.assertIn(len(seen.traces), (2, 3), seen.stderr)
                self.assert_says_nothing(seen)

    def test_a_pool_that_is_forked_before_cuda_is_recorded(self):
        seen = self.compare([sys.executable, FAMILY, "pool_before"])
        self.assertIn(len(seen.traces), (2, 3), seen.stderr)
        self.assert_says_nothing(seen)

    def test_children_of_subprocess_are_recorded_with_and_without_a_preexec_function(self):
        for how in ("subprocess", "preexec"):
            with self.subTest(how=how):
                self.family(how, traces=2)

    def test_a_child_with_a_cleared_environment_runs_unrecorded(self):
        self.family("cleared", traces=1)

    def test_a_child_of_os_fork_that_leaves_by_os_exit_is_not_noticed(self):
        self.family("os_fork", traces=1)


if __name__ == "__main__":
    sim.main()
