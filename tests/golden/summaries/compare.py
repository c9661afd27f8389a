#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the report says in short of each recording of the shared collection, against summaries.txt.

    compare.py GPUIDLE FOLDER             compares; exit 1 with the differences, 77 without FOLDER
    compare.py GPUIDLE FOLDER --update    writes summaries.txt anew
"""
import difflib
import json
import pathlib
import subprocess
import sys

KEPT = pathlib.Path(__file__).with_name("summaries.txt")
NO_GPU_RECORDS = 6
PARTS = (("compute", "compute_ns"), ("communication", "exposed_communication_ns"),
         ("copy", "exposed_copy_and_set_ns"), ("idle", "idle_ns"), ("not observed", "not_observed_ns"))


def milliseconds(nanoseconds):
    return f"{nanoseconds / 1e6:.3f} ms"


def ledger(device):
    parts = ", ".join(f"{name} {milliseconds(device[key])}" for name, key in PARTS if device[key])
    return f"device {device['device']}: wall {milliseconds(device['wall_ns'])} = {parts}"


def finding(row):
    saving = row["saving_at_most_ns"]
    place = ""
    if row["places"]:
        first = row["places"][0]
        place = first["call"]
        if first["user_frame_index"] is not None:
            frame = first["stack"][first["user_frame_index"]]
            place = f"{frame['function']}:{frame['line']}"
    return (f"{'likely ' if row['is_likely'] else ''}{row['cause']} ({row['evidence_grade']})"
            f"{' at ' + place if place else ''}, costs {milliseconds(row['cost_ns'])}, saves "
            f"{'an unknown part' if saving is None else 'at most ' + milliseconds(saving)}")


def summary(gpuidle, folder, path):
    done = subprocess.run([gpuidle, "report", "--json", path], capture_output=True, timeout=120,
                          check=False)
    lines = [str(path.relative_to(folder))]
    if done.returncode not in (0, NO_GPU_RECORDS):
        return lines + [f"  exit {done.returncode}"]
    report = json.loads(done.stdout)
    lines += [f"  {ledger(device)}" for device in report["devices"]] or ["  no GPU records"]
    told = report["findings"]
    lines.append(f"  first: {finding(told[0])}" if told else "  first: none")
    if len(told) > 1:
        lines.append("  then: " + ", ".join(row["cause"] for row in told[1:]))
    return lines


def main():
    gpuidle, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if not folder.is_dir():
        print(f"skipped: no shared recordings at {folder}")
        return 77
    lines = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "SOURCES.md"):
        lines += summary(gpuidle, folder, path)
    if sys.argv[3:] == ["--update"]:
        KEPT.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return 0
    kept = KEPT.read_text(encoding="utf-8").splitlines()
    differences = list(difflib.unified_diff(kept, lines, "kept", "now", lineterm="", n=1))
    print("\n".join(differences) or f"{len(kept)} lines agree")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
