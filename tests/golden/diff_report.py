#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two recordings of one training loop, without and with loader workers, compared by gpuidle diff.

Arguments: the gpuidle command, the folder of kept recordings, the folder of other people's
recordings. Run by ctest (label golden). The step times are those of the recordings' own step marks.
"""

import json
import pathlib
import subprocess
import sys

SKIPPED = 77


def expect(condition, message):
    if not condition:
        sys.exit(message)


def diff(command, before, after):
    done = subprocess.run([command, "diff", "--json", str(before), str(after)],
                          capture_output=True, text=True)
    return done, json.loads(done.stdout) if done.stdout else None


def check_sums(found):
    for side in ("before_ns", "after_ns"):
        parts = sum(part[side] for part in found["ledger"].values())
        expect(abs(parts - found["wall"][side]) < 1, f"{side}: parts {parts}, {found['wall']}")


def check_kept(command, kept):
    same = kept / "nsys" / "schema_2.9_a100_saxpy.sqlite"
    done, found = diff(command, same, same)
    expect(done.returncode == 0, done.stderr)
    check_sums(found)
    expect(found["unit"] == "recording" and found["is_significant"] is None, "no steps")
    expect(found["wall"]["change_ns"] == 0, "a recording does not differ from itself")
    expect(all(cause["change_ns"] == 0 for cause in found["causes"]), "nor do its causes")
    done, _ = diff(command, same, kept / "kineto" / "execution_trace_not_kineto.json.gz")
    expect(done.returncode == 5 and not done.stdout, f"no recording: exit {done.returncode}")
    expect(len(done.stderr.splitlines()) == 1, done.stderr)
    done, _ = diff(command, same, kept / "missing")
    expect(done.returncode == 1 and not done.stdout, f"no such file: exit {done.returncode}")


def check_workers(command, recordings):
    before = recordings / "v100_resnet50_workers0_2021-06.json.gz"
    after = recordings / "v100_resnet50_workers4_2021-06.json.gz"
    if not before.exists() or not after.exists():
        print(f"skipped: no {before.name} and {after.name} in {recordings}")
        sys.exit(SKIPPED)
    done, found = diff(command, before, after)
    expect(done.returncode == 0, done.stderr)
    check_sums(found)
    expect(found["unit"] == "step", "both have marked steps")
    means = [found[side]["step_mean_ns"] for side in ("before", "after")]
    expect(abs(means[0] - 174_829_333) < 1 and abs(means[1] - 139_692_000) < 1, f"steps {means}")
    expect(found["is_significant"], f"chance {found['chance_ratio']}")
    compute = found["ledger"]["compute"]
    expect(abs(compute["change_ns"]) < 0.01 * compute["before_ns"], "the same work per step")
    fell = found["causes"][0]
    expect(fell["change_ns"] < -35e6, f"the host's work before a batch fell most: {fell}")
    expect(fell["outcome"] == "came_true", f"and that was predicted: {fell}")
    _, back = diff(command, after, before)
    expect(back["wall"]["change_ns"] == -found["wall"]["change_ns"], "the other way round")
    expect(abs(back["chance_ratio"] - found["chance_ratio"]) < 1e-9, "as likely")


def main():
    command, kept, recordings = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    check_kept(command, kept)
    check_workers(command, recordings)
    print("loader workers: found, predicted, graded")


if __name__ == "__main__":
    main()
