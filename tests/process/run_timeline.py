# SPDX-License-Identifier: Apache-2.0
"""Busy, idle and H/A/D of the simulated device from its own timeline file.

An independent second computation, by plain sorting, of what `gpuidle report` says: nothing here
reads a trace. The device is idle between the union of its operations. With t_q the earliest enqueue
of an operation that starts after the gap, H is the part of the gap before t_q (nothing was queued),
the rest is A + D (inside the enqueueing call, or queued and not started); the file does not know
when the enqueueing call returned, so A and D stay together.
"""

import csv
from dataclasses import dataclass

DEVICE_WORK = ("kernel", "memset", "graph")


@dataclass
class Operation:
    device: int
    kind: str
    name: str
    enqueue_ns: int
    start_ns: int
    end_ns: int


@dataclass
class Ledger:
    wall_ns: int
    busy_ns: int
    idle_ns: int
    host_ns: int
    queued_ns: int
    kernels: int
    copies: int
    sets: int


def read_operations(path):
    """Rows of device work, by start; a last line that a kill cut short is left out."""
    text = path.read_text(errors="replace")
    whole = text[: text.rfind("\n") + 1].splitlines()
    operations = []
    for row in csv.DictReader(whole):
        if row["kind"] in DEVICE_WORK or row["kind"].startswith("memcpy"):
            operations.append(
                Operation(int(row["device"]), row["kind"], row["name"], int(row["enqueue_ns"]),
                          int(row["start_ns"]), int(row["end_ns"])))
    return sorted(operations, key=lambda o: (o.start_ns, o.end_ns))


def ledger_of(operations, device=0):
    mine = [o for o in operations if o.device == device]
    if not mine:
        raise AssertionError(f"the timeline has no work on device {device}")
    # Earliest enqueue among an operation and all that start later.
    earliest = [0] * len(mine)
    soonest = None
    for i in range(len(mine) - 1, -1, -1):
        soonest = mine[i].enqueue_ns if soonest is None else min(soonest, mine[i].enqueue_ns)
        earliest[i] = soonest
    covered_until = mine[0].start_ns
    busy = host = queued = 0
    for i, operation in enumerate(mine):
        if operation.start_ns > covered_until:
            boundary = min(max(earliest[i], covered_until), operation.start_ns)
            host += boundary - covered_until
            queued += operation.start_ns - boundary
            covered_until = operation.start_ns
        if operation.end_ns > covered_until:
            busy += operation.end_ns - covered_until
            covered_until = operation.end_ns
    wall = covered_until - mine[0].start_ns
    count = lambda start: sum(o.kind.startswith(start) for o in mine)
    return Ledger(wall, busy, wall - busy, host, queued, count("kernel"), count("memcpy"),
                  count("memset"))
