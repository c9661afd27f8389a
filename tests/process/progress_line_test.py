#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Work of over a second says how far it is, on a terminal alone, and leaves nothing behind."""

import os
import pty
import subprocess

import run_simulated as sim

LONG_TRACE = sim.BUILD / "tests/process/long_trace"
LEAST_MILLIONS, MOST_MILLIONS = 10, 80  # a second is what one of these takes


class ProgressLine(sim.TestCase):
    def report(self, trace, stderr):
        return subprocess.run([str(sim.TOOL), "report", str(trace)], stdout=subprocess.PIPE,
                              stderr=stderr, check=True, timeout=200).stdout

    def report_on_a_terminal(self, trace):
        """(what came to stdout, what the terminal showed)"""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        with open(theirs, "wb") as terminal:
            shown = self.report(trace, terminal)
            terminal.write(b"END")
            terminal.flush()
            return shown, os.read(ours, 1 << 16).decode().removesuffix("END")

    def test_it_is_shown_on_a_terminal_and_nowhere_else(self):
        trace = self.folder / "long.gpuidle"
        millions, told = LEAST_MILLIONS, ""
        while not told:
            self.assertLessEqual(millions, MOST_MILLIONS, "nothing was ever shown")
            subprocess.run([str(LONG_TRACE), str(trace), str(millions)], check=True)
            on_terminal, told = self.report_on_a_terminal(trace)
            millions *= 2
        self.assertIn("gpuidle: reading ", told)
        self.assertIn(" s, ", told)
        self.assertIn(" %", told)
        self.assertTrue(told.endswith("\r\x1b[K"), repr(told[-80:]))
        with open(self.folder / "stderr", "w+b") as log:
            in_file = self.report(trace, log)
            log.seek(0)
            self.assertEqual(log.read(), b"")
        self.assertEqual(on_terminal, in_file)


if __name__ == "__main__":
    sim.main()
