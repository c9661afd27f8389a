#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include against the table "Who may include what" in libgpuidle/README.md.

The table is the rule: what it does not allow is an error. Run by ctest (label lint); argument: the
repository root.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
OURS = ("libgpuidle/", "tools/", "include/", "tests/", "gpuidle/")


def read_table(readme):
    """Maps room -> (allowed rooms and headers of ours, allowed prefixes of outside headers)."""
    rooms = {}
    for line in readme.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 3 or not cells[0].startswith(("libgpuidle/", "tools/", "tests/")):
            continue
        inside = [] if cells[1] == "-" else [entry.strip() for entry in cells[1].split(",")]
        rooms[cells[0]] = (inside, re.findall(r"`([^`]+)`", cells[2]))
    return rooms


def is_allowed_inside(included, room, allowed):
    if included.startswith(room + "/"):
        return True
    if included.startswith("gpuidle/"):
        included = "include/" + included
    for entry in allowed:
        path = entry if entry.startswith("include/") else "libgpuidle/" + entry
        if included == path or (not path.endswith(".h") and included.startswith(path + "/")):
            return True
    return False


def check_file(path, name, room, rooms, outside):
    allowed_inside, allowed_outside = rooms[room]
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        included = found.group(2)
        if included.startswith(OURS):
            if not is_allowed_inside(included, room, allowed_inside):
                yield f"{name}:{number}: {room} may not include {included}"
        elif included.startswith(outside) and not included.startswith(tuple(allowed_outside)):
            yield f"{name}:{number}: {room} is not a door for <{included}>"


def main():
    root = pathlib.Path(sys.argv[1])
    rooms = read_table(root / "libgpuidle/README.md")
    if len(rooms) < 10:
        sys.exit(f"libgpuidle/README.md: expected the include table, found {len(rooms)} rows of it")
    outside = tuple(prefix for _, prefixes in rooms.values() for prefix in prefixes)
    errors = []
    checked = 0
    for top in ("libgpuidle", "tools", "tests/simgpu"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".cuh"):
                continue
            name = path.relative_to(root).as_posix()
            room = next((r for r in rooms if name == r or name.startswith(r + "/")), None)
            if room is None:
                errors.append(f"{name}: its room is not in the table of libgpuidle/README.md")
                continue
            checked += 1
            errors.extend(check_file(path, name, room, rooms, outside))
    print("\n".join(errors))
    if checked == 0 or errors:
        sys.exit(f"{checked} files checked, {len(errors)} errors")
    print(f"{checked} files follow the include table")


if __name__ == "__main__":
    main()
