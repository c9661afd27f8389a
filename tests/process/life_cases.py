# SPDX-License-Identifier: Apache-2.0
"""What the life_*_test.py drivers share: a program with and without us must be the same program."""

import shutil
import subprocess
import time

import run_simulated as sim

# What the recorder may add to a program's life, its last flush included.
ALLOWED_S = 2.0
PROGRAMS = sim.BUILD / "tests/process"


class TestCase(sim.TestCase):
    def setUp(self):
        super().setUp()
        self.runs = 0

    def run_timed(self, command, preload, prefix=(), **extra):
        self.runs += 1
        folder = self.subfolder(f"run-{self.runs}")
        begin = time.monotonic()
        if prefix:
            # What runs in front (unshare, mount, env) is not the program: only that gets us.
            settings = sim.environment(folder, preload, **extra)
            own = [f"{name}={settings.pop(name)}" for name in ("LD_PRELOAD",) if name in settings]
            process = subprocess.run([*prefix, "env", *own, *map(str, command)], cwd=folder,
                                     env=settings, capture_output=True, text=True, timeout=120,
                                     check=False)
            seen = sim.Run(process, folder)
        else:
            seen = sim.run(list(map(str, command)), folder, preload=preload, **extra)
        seen.wall_s = time.monotonic() - begin
        return seen

    def compare(self, command, prefix=(), behind=None, in_front=None, **extra):
        """Runs a command without and with the preload; it must print the same, end the same, take
        2 s more at most, and leave only traces that can be read. `in_front` and `behind` are other
        libraries in the chain of preloads. Returns the run with us."""
        without_us = {name: value for name, value in extra.items()
                      if not name.startswith("GPUIDLE_") and value != str(sim.LIBRARY)}
        others = [str(path) for path in (in_front, behind) if path]
        if others:
            without_us["LD_PRELOAD"] = ":".join(others)
            extra["LD_PRELOAD"] = ":".join(str(path) for path in (in_front, sim.LIBRARY, behind)
                                           if path)
        without = self.run_timed(command, False, prefix, **without_us)
        seen = self.run_timed(command, True, prefix, **extra)
        self.assertEqual(seen.stdout, without.stdout, seen.stderr)
        self.assertEqual(seen.status, without.status, seen.stderr)
        self.assertLess(seen.wall_s, without.wall_s + ALLOWED_S)
        self.assertEqual(without.traces, [])
        for trace in seen.traces:
            finished = sim.gpuidle("info", trace)
            self.assertEqual(finished.returncode, 0, finished.stderr)
        return seen

    def kernels_in(self, seen):
        """Kernels of each trace, fewest first."""
        return sorted(sum(d["kernel_count"] for d in sim.gpuidle_json("report", t)["devices"])
                      for t in seen.traces)

    def assert_says_nothing(self, seen):
        lines = [line for line in seen.stderr.splitlines() if "gpuidle" in line]
        self.assertEqual(lines, [])

    def namespaces_or_skip(self, script):
        """The words to put in front of a program so that it runs behind `script` in a mount
        namespace of its own."""
        unshare = shutil.which("unshare")
        if unshare is None:
            self.skipTest("unshare is not installed")
        prefix = [unshare, "--mount", "--map-root-user", "sh", "-c", script + ' && exec "$@"', "sh"]
        tried = subprocess.run([*prefix, "true"], cwd=self.folder, capture_output=True, text=True,
                               check=False)
        if tried.returncode != 0:
            self.skipTest(f"no mount namespace here: {tried.stderr.strip()}")
        return prefix
