#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight ranks of one training job as one report, and folders of recordings.

Arguments: the gpuidle command, the folder of kept recordings, the folder of other people's
recordings. Run by ctest (label golden). The eight ranks' figures were computed independently: their
collectives end within 7 us of each other, and each rank takes 3.25 to 3.4 ms from the begin of its
recording to its first one, so that the recordings' begins, 7.5 ms apart, explain who waits there.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77


def expect(condition, message):
    if not condition:
        sys.exit(message)


def report(command, *paths):
    done = subprocess.run([command, "report", "--json", *map(str, paths)], capture_output=True,
                          text=True)
    return done, json.loads(done.stdout) if done.stdout else None


def check_folders(command, kept):
    with tempfile.TemporaryDirectory(prefix="gpuidle_job_") as folder:
        done, _ = report(command, folder)
        expect(done.returncode == 1, f"an empty folder: exit {done.returncode}")
        expect("no recording in this directory" in done.stderr, done.stderr)
        shutil.copy(kept / "kineto" / "a100_event_sync_tiny.json.gz", folder)
        shutil.copy(kept / "nsys" / "schema_2.9_a100_saxpy.sqlite", folder)
        pathlib.Path(folder, "notes.txt").write_text("not a recording\n" * 10)
        done, job = report(command, folder)
        expect(done.returncode == 0, f"a folder: exit {done.returncode}: {done.stderr}")
        expect([rank["rank"] for rank in job["ranks"]] == [0, 1], "two recordings, numbered")
        expect("1 file left out: no recordings" in job["notes"], job["notes"])
        expect(not job["has_known_ranks"], "no rank is recorded")
        expect("no communication kernels" in job["clocks_refused_because"], "nothing to compare")
        expect(job["straggler_rank"] is None, "nobody is blamed")
        done, _ = report(command, folder + "/notes.txt", folder + "/notes.txt")
        expect(done.returncode == 5, f"a named file that is no recording: exit {done.returncode}")
        expect(len(done.stderr.splitlines()) == 1, done.stderr)


def lines_of_findings(command, files, *options):
    done = subprocess.run([command, "report", *options, *map(str, files)], capture_output=True,
                          text=True)
    expect(done.returncode == 0, done.stderr)
    return done.stdout.count(", costs ")


def check_top(command, files):
    expect(lines_of_findings(command, files) == 8, "one finding of each rank unless --top is given")
    expect(lines_of_findings(command, files, "--top", "1") == 8, "--top 1")
    expect(8 < lines_of_findings(command, files, "--top", "2") <= 16, "--top 2 shows more")


def check_ranks(command, recordings):
    files = sorted(recordings.glob("v100_dlrm_ddp8_rank*.json.gz"), reverse=True)
    if len(files) != 8:
        print(f"skipped: no eight ranks in {recordings}")
        sys.exit(SKIPPED)
    done, job = report(command, *files)
    expect(done.returncode == 0, done.stderr)
    ranks = job["ranks"]
    expect([rank["rank"] for rank in ranks] == list(range(8)), "ranks are sorted")
    expect(job["matched_collectives"] == 8, "each rank took part in 8 collectives")
    expect(0 < job["clock_bound_ns"] <= 7000, f"clocks to {job['clock_bound_ns']} ns")
    for rank in ranks:
        parts = (rank["waited_for_late_rank_ns"] + rank["capture_artefact_ns"] +
                 rank["exposed_transfer_ns"] + rank["unmatched_ns"])
        exposed = sum(d["exposed_communication_ns"] for d in rank["devices"])
        expect(parts == rank["exposed_communication_ns"], f"rank {rank['rank']} does not add up")
        expect(exposed == parts, f"rank {rank['rank']}: {parts} ns, ledger {exposed} ns")
    expect(job["waited_for_late_rank_ns"] == sum(r["made_others_wait_ns"] for r in ranks), "blame")
    artefact = {rank["rank"]: rank["capture_artefact_ns"] for rank in ranks}
    expect(artefact[7] == 0, "nobody waits for a recording that began before")
    expect(abs(artefact[1] - 7_493_000) < 50_000, f"rank 1 began 7.49 ms early: {artefact[1]}")
    expect(job["straggler_rank"] is None and job["ranks_late_in_turn"], "no rank alone is late")
    for rank in ranks:
        expect(rank["clock"]["bound_ns"] <= job["clock_bound_ns"], "the job's bound is the largest")
    expect(ranks[0]["clock"]["wall_clock_ahead_of_first_rank_ns"] == 0, "the first is the measure")
    check_top(command, files)
    _, again = report(command, *reversed(files))
    expect(again == job, "the order of the files does not matter")


def main():
    command, kept, recordings = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    check_folders(command, kept)
    check_ranks(command, recordings)
    print("eight ranks are one job")


if __name__ == "__main__":
    main()
