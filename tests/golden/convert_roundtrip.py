#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts each recording and compares the reports: a converted file must say what its source says.

Arguments: the gpuidle command, then recordings. Run by ctest (label golden). Only what tells of the
file itself may differ: its format and, for a trace of ours, nothing else. Also checked: what is
there is never overwritten, and a failed conversion leaves no file.
"""

import json
import pathlib
import subprocess
import sys
import tempfile


def run(command, *arguments):
    return subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)


def report_of(command, recording):
    done = run(command, "report", "--json", "--top", "1000", recording)
    if done.returncode not in (0, 6):
        sys.exit(f"report of {recording}: exit {done.returncode}: {done.stderr}")
    report = json.loads(done.stdout)
    del report["recording"]["format"]
    return done.returncode, report


def expect(condition, message):
    if not condition:
        sys.exit(message)


def main():
    command, recordings = sys.argv[1], sys.argv[2:]
    expect(recordings, "no recordings to convert")
    with tempfile.TemporaryDirectory(prefix="gpuidle_convert_") as folder:
        for number, recording in enumerate(recordings):
            output = pathlib.Path(folder, f"{number}.gpuidle")
            done = run(command, "convert", recording, output)
            expect(done.returncode == 0, f"{recording}: exit {done.returncode}: {done.stderr}")
            expect(str(output) in done.stdout, f"{recording}: the output is not named: {done.stdout}")
            source, converted = report_of(command, recording), report_of(command, output)
            expect(source == converted, f"{recording}: the report of the converted file differs")

            before = output.read_bytes()
            again = run(command, "convert", recording, output)
            expect(again.returncode == 1 and again.stdout == "", f"{output} was overwritten")
            expect(before == output.read_bytes(), f"{output} was changed")

        cut = pathlib.Path(folder, "cut.gpuidle")
        ours = [name for name in recordings if name.endswith(".gpuidle")]
        expect(ours, "no trace of ours among the recordings")
        cut.write_bytes(pathlib.Path(ours[0]).read_bytes()[:-300])
        output = pathlib.Path(folder, "abrupt.gpuidle")
        done = run(command, "convert", cut, output)
        expect(done.returncode == 0, f"a trace without an end: exit {done.returncode}")
        _, report = report_of(command, output)
        expect(report["recording"]["end"] == "abrupt", "an abrupt end became a clean one")
        warnings = report["warnings"]
        expect(len(warnings) == len(set(warnings)), f"warnings are repeated: {warnings}")

        damaged = pathlib.Path(folder, "damaged.gpuidle")
        content = bytearray(pathlib.Path(ours[0]).read_bytes())
        content[len(content) * 6 // 10] ^= 0xFF
        damaged.write_bytes(content)
        output = pathlib.Path(folder, "half.gpuidle")
        done = run(command, "convert", damaged, output)
        expect(done.returncode == 1, f"a damaged trace: exit {done.returncode}, expected 1")
        expect(not output.exists(), "half a recording was left")

        broken = pathlib.Path(folder, "broken.sqlite")
        broken.write_bytes(b"SQLite format 3\0 and no more")
        output = pathlib.Path(folder, "none.gpuidle")
        done = run(command, "convert", broken, output)
        expect(done.returncode == 1, f"a broken file: exit {done.returncode}, expected 1")
        expect(not output.exists(), "a failed conversion left a file")
        expect(len(done.stderr.splitlines()) == 1, f"expected one line, found: {done.stderr}")
    print(f"{len(recordings)} recordings report the same after conversion")


if __name__ == "__main__":
    main()
