#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the house rules that a line of text can break: see RULES below.

Run by ctest (label lint); argument: the repository root. Looks at what git tracks or would add, or
at the whole tree where there is no git.
"""

import pathlib
import re
import subprocess
import sys

MAX_LINES = 600
CODE = {".h", ".cpp", ".c", ".cu", ".cuh", ".def", ".in", ".fbs", ".py", ".sh", ".cmake", ".map"}
HAND_WRITTEN = {".h", ".cpp", ".c", ".cu", ".cuh", ".py", ".sh"}
FORBIDDEN_NAMES = {"util", "utils", "common", "misc", "helper", "helpers", "manager", "core", "data",
                   "stuff"}
# Rooms whose code runs inside other people's programs.
RECORDER = ("libgpuidle/base/", "libgpuidle/record/", "libgpuidle/stacks/", "libgpuidle/intercept/",
            "libgpuidle/cupti/", "libgpuidle/control/", "libgpuidle/session/",
            "libgpuidle/entry.cpp")
# Calls of the C library's functions, not members and declarations that share a name with them.
PROCESS_ENDING = re.compile(
    r"(?<![\w.>:])(?<!void )(std::|::)?(abort|exit|quick_exit|terminate|raise|assert)\s*\(")
# Spelled in pieces, or this file would find itself.
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")


def tracked_files(root):
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, check=False)
    if listed.returncode == 0:
        return [root / name for name in listed.stdout.decode().split("\0") if name]
    return [p for p in root.rglob("*") if p.is_file() and "build" not in p.relative_to(root).parts]


def without_comments(line):
    return re.sub(r'"(\\.|[^"\\])*"', '""', line).split("//")[0]


def check_text(name, path, lines):
    if path.suffix in CODE and not any("SPDX-License-Identifier: Apache-2.0" in line
                                       for line in lines[:2]):
        yield f"{name}:1: the first line is to be the SPDX licence line"
    if path.suffix in HAND_WRITTEN and len(lines) > MAX_LINES:
        yield f"{name}: {len(lines)} lines, at most {MAX_LINES}"
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line):
            yield f"{name}:{number}: finish it or file an issue: {line.strip()}"
        if path.suffix not in (".h", ".cpp"):
            continue
        code = without_comments(line)
        if name.startswith(RECORDER) and re.search(r"\bgetenv\s*\(", code):
            if name != "libgpuidle/base/config.cpp":
                yield f"{name}:{number}: the environment is read in base/config.cpp alone"
        if name.startswith(RECORDER) and PROCESS_ENDING.search(code):
            yield f"{name}:{number}: the recorder never ends the program: {line.strip()}"
        if name.startswith(("libgpuidle/", "tools/")) and re.match(
                r"using\s+namespace\b(?!\s+std::\w*literals)", code):
            yield f"{name}:{number}: no using-directives outside of functions"


def check_names(root, files):
    for path in files:
        for part in path.relative_to(root).with_suffix("").parts:
            if FORBIDDEN_NAMES & set(re.split(r"[-_.]", part)):
                yield f"{path.relative_to(root)}: '{part}' says nothing about what is inside"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = [path for path in tracked_files(root) if path.is_file()]
    errors = list(check_names(root, files))
    checked = 0
    for path in files:
        if path.suffix not in CODE | {".md", ".txt"}:
            continue
        checked += 1
        name = path.relative_to(root).as_posix()
        errors.extend(check_text(name, path, path.read_text(errors="replace").splitlines()))
    print("\n".join(errors))
    if checked == 0 or errors:
        sys.exit(f"{checked} files checked, {len(errors)} errors")
    print(f"{checked} files keep the house rules")


if __name__ == "__main__":
    main()
