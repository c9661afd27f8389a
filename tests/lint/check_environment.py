#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of gpuidle-environment(7) says what base/config.def says, row by row.

Run by ctest (label lint); argument: the repository root. With --print it writes the table as the
manual should have it.
"""

import ast
import pathlib
import re
import sys

ROW = re.compile(r"GPUIDLE_SETTING\((?P<body>.*?)\)\s*(?=GPUIDLE_SETTING|\Z)", re.S)


def split_arguments(body):
    """Splits at commas outside of strings; adjacent string literals are one."""
    parts = re.findall(r'(?:\s*"(?:\\.|[^"\\])*"\s*)+|[^,"]+', body)
    return [part.strip() for part in parts if part.strip()]


def text_of(argument):
    return "".join(ast.literal_eval(s) for s in re.findall(r'"(?:\\.|[^"\\])*"', argument))


def settings(root):
    source = (root / "libgpuidle/base/config.def").read_text()
    source = "\n".join(l for l in source.splitlines() if not l.startswith("//"))
    for row in ROW.finditer(source):
        kind, _, _, name, default, low, high, unit, choices, text = split_arguments(row.group("body"))
        values = text_of(choices).replace("|", ", ")
        if kind == "number":
            values = f"{low} to {high} {text_of(unit)}"
        elif kind == "flag":
            values = "0, 1"
        elif kind in ("path", "pattern"):
            values = kind
        yield f"GPUIDLE_{name}", values, text_of(default) or "none", text_of(text)


def manual_table(root):
    rows = []
    for variable, values, default, text in settings(root):
        rows += [".TP", f".B {variable}", f"{text}.",
                 f"Values: {values}. Default: {default}."]
    return [line.replace("-", "\\-") for line in rows]


def main():
    root = pathlib.Path(sys.argv[1])
    table = manual_table(root)
    if len(table) < 8:
        sys.exit(f"base/config.def: expected settings, found {len(table) // 4}")
    if "--print" in sys.argv:
        print("\n".join(table))
        return
    manual = (root / "tools/man/gpuidle-environment.7").read_text().splitlines()
    start = manual.index('.\\" table of settings')
    end = manual.index('.\\" end of table')
    if manual[start + 1:end] != table:
        for line in table:
            if line not in manual[start + 1:end]:
                print(f"missing: {line}")
        for line in manual[start + 1:end]:
            if line not in table:
                print(f"not in config.def: {line}")
        sys.exit("tools/man/gpuidle-environment.7 and libgpuidle/base/config.def differ; "
                 "tests/lint/check_environment.py ROOT --print writes the table")
    print(f"{len(table) // 4} settings agree")


if __name__ == "__main__":
    main()
