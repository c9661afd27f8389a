# SPDX-License-Identifier: Apache-2.0
"""Bad input to every command: one line on stderr, nothing on stdout, the documented exit code."""

import gzip
import os
import pathlib
import random

import run_simulated as sim

FAILED, USAGE, INCOMPLETE, WRONG_FORMAT, NO_GPU_RECORDS = 1, 2, 3, 5, 6
READING = ("report", "gaps", "info", "dump")


class BadInput(sim.TestCase):
    @classmethod
    def setUpClass(cls):
        """A whole trace to truncate and to change."""
        with sim.folder() as folder:
            seen = sim.run([str(sim.PROGRAM), "20", "exit"], folder)
            cls.whole_trace = seen.trace.read_bytes()

    def assert_refused(self, command, path, status, *words):
        finished = sim.gpuidle(command, path)
        where = f"gpuidle {command} {path}: {finished.stderr}"
        self.assertEqual(finished.returncode, status, where)
        self.assertEqual(finished.stdout, "", where)
        self.assertEqual(len(finished.stderr.splitlines()), 1, where)
        self.assertTrue(finished.stderr.startswith("gpuidle: "), where)
        self.assertIn(str(path), finished.stderr)
        for word in words:
            self.assertIn(word, finished.stderr)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def test_a_missing_file_is_named(self):
        for command in READING:
            with self.subTest(command=command):
                self.assert_refused(command, self.folder / "missing.gpuidle", FAILED, "No such file")

    def test_a_folder_is_no_recording(self):
        for command in READING:
            with self.subTest(command=command):
                finished = sim.gpuidle(command, self.folder)
                self.assertIn(finished.returncode, (FAILED, WRONG_FORMAT), finished.stderr)
                self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)
                self.assertIn("director", finished.stderr)

    def test_files_of_other_kinds_are_told_what_they_are(self):
        files = {
            "empty": b"",
            "text.gpuidle": b"this is not a recording\n" * 20,
            "sqlite.gpuidle": b"SQLite format 3\0" + bytes(200),
            "binary.gpuidle": random.Random(1).randbytes(5000),
            "elf.gpuidle": pathlib.Path("/bin/true").read_bytes(),
            "gzip.json.gz": gzip.compress(b"nothing that is known here"),
        }
        for name, content in files.items():
            path = self.write(name, content)
            for command in READING:
                with self.subTest(command=command, file=name):
                    finished = sim.gpuidle(command, path)
                    self.assertIn(finished.returncode, (FAILED, WRONG_FORMAT), finished.stderr)
                    self.assertEqual(finished.stdout, "")
                    self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)
                    self.assertIn(name, finished.stderr)

    def test_a_file_that_may_not_be_read_is_told(self):
        if os.geteuid() == 0:
            self.skipTest("root may read everything")
        path = self.write("secret.gpuidle", b"x")
        path.chmod(0)
        for command in READING:
            with self.subTest(command=command):
                self.assert_refused(command, path, FAILED, "Permission denied")

    def test_special_files_do_not_block_and_do_not_crash(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        for path in (fifo, "/dev/null", "/dev/zero", "/proc/self/mem"):
            for command in READING:
                with self.subTest(command=command, file=str(path)):
                    finished = sim.gpuidle(command, path, timeout=20)
                    self.assertIn(finished.returncode, (FAILED, WRONG_FORMAT), finished.stderr)
                    self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)

    def test_a_truncated_trace_is_read_as_far_as_it_goes_or_refused_in_one_line(self):
        whole = self.whole_trace
        for length in sorted({*range(0, 64, 7), *range(64, len(whole), max(1, len(whole) // 40))}):
            path = self.write("truncated.gpuidle", whole[:length])
            for command in READING:
                with self.subTest(command=command, length=length):
                    finished = sim.gpuidle(command, path)
                    self.assertIn(finished.returncode, (0, FAILED, WRONG_FORMAT, 6), finished.stderr)
                    if finished.returncode in (FAILED, WRONG_FORMAT):
                        self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)

    def test_damage_in_the_middle_is_a_warning_and_fails_only_with_strict(self):
        content = bytearray(self.whole_trace)
        middle = len(content) // 2
        content[middle:middle + 400] = bytes(400)
        path = self.write("damaged.gpuidle", bytes(content))
        for command in READING:
            with self.subTest(command=command):
                told = sim.gpuidle(command, path)
                # So short a trace has one chunk of device records, and it is the one that is hit.
                judges = command in ("report", "gaps")
                self.assertEqual(told.returncode, NO_GPU_RECORDS if judges else 0, told.stderr)
                self.assertIn("damage", told.stdout + told.stderr)
                strict = sim.gpuidle(command, path, "--strict")
                self.assertEqual(strict.returncode, NO_GPU_RECORDS if judges else INCOMPLETE,
                                 strict.stderr)
                self.assertEqual(strict.stdout, told.stdout)

    def test_a_newer_major_version_is_refused_with_both_versions(self):
        content = bytearray(self.whole_trace)
        content[12] = 9  # the header's major version: 8 bytes magic, then header size
        path = self.write("newer.gpuidle", bytes(content))
        for command in READING:
            with self.subTest(command=command):
                self.assert_refused(command, path, WRONG_FORMAT, "9", "1")

    def test_wrong_command_lines_are_one_line_that_names_the_help(self):
        for arguments in ((), ("nonsense",), ("report",), ("report", "--nonsense", "x"),
                          ("gaps", "x", "--top", "-1"), ("run",)):
            with self.subTest(arguments=arguments):
                finished = sim.gpuidle(*arguments)
                self.assertEqual(finished.returncode, USAGE, finished.stderr)
                self.assertEqual(finished.stdout, "")
                self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)
                self.assertIn("--help", finished.stderr)

    def test_a_program_that_cannot_be_started_is_127_and_one_line(self):
        finished = sim.gpuidle("run", "--", str(self.folder / "missing-program"))
        self.assertEqual(finished.returncode, 127, finished.stderr)
        self.assertIn("missing-program", finished.stderr)


if __name__ == "__main__":
    sim.main()
