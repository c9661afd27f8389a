# SPDX-License-Identifier: Apache-2.0
"""What the sampler tests read out of a trace: its samples with their stacks."""

import json

import run_simulated as sim


class Samples:
    """The samples of a trace, by `gpuidle dump --json --tables`."""

    def __init__(self, trace):
        finished = sim.gpuidle("dump", "--json", "--tables", trace)
        if finished.returncode != 0:
            raise AssertionError(f"gpuidle dump exited with {finished.returncode}: {finished.stderr}")
        self.head = None
        self.stacks = {0: []}
        self.threads = {}
        self.all = []
        for line in finished.stdout.splitlines():
            row = json.loads(line)
            if "schema" in row:
                self.head = row
            elif row["type"] == "stack":
                self.stacks[row["id"]] = row["frames"]
            elif row["type"] == "thread":
                self.threads[row["id"]] = row
            elif row["type"] == "sample":
                self.all.append(row)

    @property
    def of_threads(self):
        return [s for s in self.all if not s["is_child_process"]]

    @property
    def of_children(self):
        return [s for s in self.all if s["is_child_process"]]

    def functions(self, sample):
        """Names in its stack, innermost first."""
        return [frame["function"] for frame in self.stacks[sample["stack"]]]

    def share(self, is_so, samples=None):
        """Which part of the samples is so."""
        samples = self.of_threads if samples is None else samples
        return sum(1 for s in samples if is_so(s)) / len(samples) if samples else 0.0

    def count_of(self, key):
        counts = {}
        for sample in self.of_threads:
            counts[sample[key]] = counts.get(sample[key], 0) + 1
        return counts
