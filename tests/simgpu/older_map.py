#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the linker's version script of an older libcupti: that of the newest, under its own name
and without the functions that came later.

older_map.py NEWEST.map NAME OUT ABSENT...    an entry of ABSENT that ends in * stands for all that begin so
"""

import fnmatch
import sys


def main():
    newest, name, out, *absent = sys.argv[1:]
    lines = open(newest, encoding="utf-8").read().splitlines()
    assert lines[0].endswith("{"), lines[0]
    kept = [f"{name} {{"] + [
        line for line in lines[1:]
        if not any(fnmatch.fnmatch(line.strip(" ;"), pattern) for pattern in absent)]
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(kept) + "\n")


if __name__ == "__main__":
    main()
