# SPDX-License-Identifier: Apache-2.0
"""Everything that needs a real GPU, in one go; called by tools/check-gpu.sh, which builds first.

check_gpu.py BUILD [--report FILE] [--simulated] [--libraries FOLDERS]

Exit status: 0 all that could be checked holds, 1 something does not, 77 there is no GPU.
With --simulated the same checks run on the simulated device: that tests this file, not a GPU.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from gpu_report import Report, Skip, output_of, require

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
DEADLINE_S = 540
COST_ROUNDS = 5
# A spinning kernel stops at the first reading of a clock that ticks every 32 ns to 1 us, and CUPTI's
# times are interpolated: the length is known to a few microseconds.
LENGTH_TOLERANCE = 0.05
# Sums over kernels of two runs of the same work, whose clocks may differ.
SAME_WORK_TOLERANCE = 0.25


def agreement(theirs, rows):
    """`theirs`: name -> (count, ns) from torch.profiler; `rows` of our trace of the same work, which
    has ten steps more around the 30 that were profiled."""
    kernels = [r for r in rows if r["type"] == "activity" and r["kind"] == "kernel"]
    count = sum(c for c, _ in theirs.values())
    require(count, "torch.profiler saw no kernel without us")
    mean_ns = sum(t for _, t in theirs.values()) / count
    our_mean_ns = sum(k["end_ns"] - k["start_ns"] for k in kernels) / max(len(kernels), 1)
    yield f"torch.profiler: {count} kernels, {mean_ns:.0f} ns each"
    yield f"gpuidle:        {len(kernels)} kernels, {our_mean_ns:.0f} ns each"
    require(len(kernels) >= count, "we saw fewer kernels")
    require(abs(our_mean_ns / mean_ns - 1) < SAME_WORK_TOLERANCE,
            "mean lengths differ by more than 25 %")


def same_kernels(alone, beside):
    """What torch.profiler saw without and with us, each name -> (count, ns)."""
    yield f"torch.profiler alone: {sum(c for c, _ in alone.values())} kernels"
    yield f"torch.profiler beside us: {sum(c for c, _ in beside.values())} kernels"
    require(alone, "torch.profiler saw no kernel without us")
    require({n: c for n, (c, _) in alone.items()} == {n: c for n, (c, _) in beside.items()},
            "torch.profiler does not see the same kernels beside us")


class Checks:
    def __init__(self, build, is_simulated, libraries, folder):
        self.build = build
        self.is_simulated = is_simulated
        self.libraries = libraries
        self.folder = folder
        self.tool = build / "bin/gpuidle"
        self.library = build / "lib/libgpuidle.so"
        self.work = build / "tests/gpu/known_work"
        self.traces = 0

    def environment(self, **extra):
        result = {k: v for k, v in os.environ.items() if not k.startswith(("GPUIDLE_", "SIMGPU_"))}
        if self.is_simulated:
            result["LD_LIBRARY_PATH"] = str(self.build / "simgpu/lib")
            result["SIMGPU_QUIET"] = "1"
            result["SIMGPU_KERNELS"] = str(HERE / "known_work.simgpu")
        elif self.libraries:
            known = result.get("LD_LIBRARY_PATH")
            result["LD_LIBRARY_PATH"] = self.libraries + (f":{known}" if known else "")
        result.update({k: str(v) for k, v in extra.items()})
        return result

    def run(self, *command, timeout=120, **extra):
        return subprocess.run(list(map(str, command)), cwd=self.folder, text=True,
                              env=self.environment(**extra), capture_output=True, timeout=timeout,
                              check=False)

    def record(self, *command, timeout=120, **extra):
        """Runs a program under the recorder; returns it and the trace."""
        self.traces += 1
        trace = self.folder / f"{self.traces}.gpuidle"
        finished = self.run(self.tool, "run", "--no-report", "-o", trace, "--", *command,
                            timeout=timeout, **extra)
        require(finished.returncode == 0,
                f"{command[0]} under gpuidle run ended with {finished.returncode}: "
                f"{finished.stderr[-500:]}")
        require(trace.exists(), f"no trace was written: {finished.stderr[-500:]}")
        return finished, trace

    def json_of(self, command, trace):
        finished = self.run(self.tool, command, "--json", trace)
        require(finished.returncode == 0, f"gpuidle {command} ended with {finished.returncode}: "
                f"{finished.stderr[-300:]}")
        return json.loads(finished.stdout)

    def rows_of(self, trace):
        finished = self.run(self.tool, "dump", "--json", trace)
        require(finished.returncode == 0, f"gpuidle dump ended with {finished.returncode}")
        rows = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
        return [row for row in rows if "type" in row]

    # --- the checks, in the order in which they are made -----------------------------------------

    def doctor(self):
        finished = self.run(self.tool, "doctor")
        yield from finished.stdout.splitlines()
        require(finished.returncode in (0, 3), f"gpuidle doctor ended with {finished.returncode}")

    def known_work(self, how):
        """What is recorded is what was done: kernels, copies, launches, lengths."""
        plain = self.run(self.work, how)
        require(plain.returncode == 0, f"known_work {how} without us: {plain.stderr[-300:]}")
        finished, trace = self.record(self.work, how)
        require(finished.stdout == plain.stdout, "the program printed something else under us")
        truth = json.loads(finished.stdout)
        report = self.json_of("report", trace)
        recording = report["recording"]
        yield f"source {recording['source']} {recording['source_reason']}; end {recording['end']}"
        require(recording["source"] in ("cupti", "cupti_shared"), "CUPTI was not used")
        require(recording["end"] == "clean", "the trace was not closed in order")
        losses = {name: count for name, count in report["losses"].items() if count}
        yield f"losses {losses or 'none'}"
        rows = self.rows_of(trace)
        kernels = [r for r in rows if r["type"] == "activity" and r["kind"] == "kernel"]
        copies = [r for r in rows if r["type"] == "activity" and r["kind"] == "memcpy"]
        launches = [r for r in rows if r["type"] == "call"
                    and r["role"] in ("launch", "graph_launch")]
        yield f"{len(kernels)} kernels, {len(copies)} copies, {len(launches)} launch calls"
        for name, found in (("kernels", kernels), ("copies", copies), ("launches", launches)):
            require(len(found) == truth[name], f"{name}: {len(found)} recorded, {truth[name]} done")
        yield from self.lengths(kernels, truth["kernel_ns"])
        yield from self.correlations(kernels, launches)

    def lengths(self, kernels, expected_ns):
        lengths = sorted(k["end_ns"] - k["start_ns"] for k in kernels)
        yield (f"kernel length: {lengths[0]} to {lengths[-1]} ns, median "
               f"{statistics.median(lengths):.0f} ns, expected {expected_ns or 'short'}")
        if expected_ns:
            error = abs(statistics.median(lengths) / expected_ns - 1)
            require(error < LENGTH_TOLERANCE, f"the median is {error:.1%} off")

    def correlations(self, kernels, launches):
        """Open questions: do ids match with callbacks alone, and do kernels start before their call?"""
        by_id = {call["correlation"]: call for call in launches}
        matched = [(k, by_id[k["correlation"]]) for k in kernels if k["correlation"] in by_id]
        yield f"{len(matched)} of {len(kernels)} kernels have the id of a launch call"
        require(len(matched) == len(kernels), "ids do not match with callbacks alone")
        lead = sorted(k["start_ns"] - c["start_ns"] for k, c in matched)
        early = sum(1 for value in lead if value < 0)
        yield (f"kernel start minus call start: {lead[0]} to {lead[-1]} ns, median "
               f"{statistics.median(lead):.0f} ns, {early} below 0")

    def flush_times(self):
        """Open question: how long does CUPTI's flush take?"""
        _, trace = self.record(self.work, "storm")
        flushes = [r["end_ns"] - r["start_ns"] for r in self.rows_of(trace)
                   if r["type"] == "overhead" and r["name"] == "activity buffer flush"]
        if not flushes:
            raise Skip("CUPTI reports no flush as overhead")
        yield (f"{len(flushes)} flushes, median {statistics.median(flushes) / 1000:.1f} us, "
               f"longest {max(flushes) / 1000:.1f} us")

    def launch_cost(self):
        loop = self.build / "tests/launch_loop"
        if not loop.exists():
            raise Skip(f"{loop.name} was not built")
        subscriber = self.build / "tests/libempty_subscriber.so"
        cases = {"none": {}, "gpuidle": {"LD_PRELOAD": self.library,
                                         "GPUIDLE_OUTPUT": self.folder / "cost-%p.gpuidle"}}
        if subscriber.exists():
            cases["empty CUPTI subscriber"] = {"CUDA_INJECTION64_PATH": subscriber}
        medians = {name: [] for name in cases}
        for _ in range(COST_ROUNDS):
            for name, extra in cases.items():
                finished = self.run(loop, "tight", 20000, **extra)
                require(finished.returncode == 0, f"{name}: {finished.stderr[-300:]}")
                medians[name].append(json.loads(finished.stdout)["median_ns"])
        for name, values in medians.items():
            yield (f"{name}: {statistics.median(values):.0f} ns per launch (median of {COST_ROUNDS} "
                   f"rounds, {min(values)} to {max(values)})")

    def examples(self):
        for name in ("slow_loader", "scalar_readback", "python_loop"):
            program = [sys.executable, HERE.parents[1] / "examples/python_loop.py"]
            if name != "python_loop":
                program = [self.build / "examples" / name]
                if not program[0].exists():
                    raise Skip(f"{name} was not built: no nvcc")
            extra = {}
            if self.is_simulated:
                extra["SIMGPU_KERNELS"] = HERE.parents[1] / f"examples/{name}.simgpu"
            _, trace = self.record(*program, **extra)
            (device,) = [d for d in self.json_of("report", trace)["devices"] if d["kernel_count"]]
            yield (f"{name}: idle {device['idle_ns'] / device['wall_ns']:.1%} of "
                   f"{device['wall_ns'] / 1e9:.2f} s, {device['kernel_count']} kernels")
            parts = (device["compute_ns"] + device["exposed_communication_ns"]
                     + device["exposed_copy_and_set_ns"] + device["idle_ns"]
                     + device["not_observed_ns"])
            require(parts == device["wall_ns"], f"{name}: the ledger does not add up")
            require(device["idle_ns"] > 0, f"{name}: no idle time was found")

    def late_attach(self):
        if " attach " not in self.run(self.tool, "--help").stdout:
            raise Skip("this gpuidle has no attach")
        program = subprocess.Popen([self.work, "seconds", "12"], env=self.environment(),
                                   cwd=self.folder, stdout=subprocess.PIPE, text=True)
        try:
            time.sleep(3)
            trace = self.folder / "attached.gpuidle"
            finished = self.run(self.tool, "attach", program.pid, "--duration", "3s", "-o", trace)
            output, _ = program.communicate(timeout=60)
        finally:
            program.kill()
        require(program.returncode == 0, f"the program ended with {program.returncode}")
        require(finished.returncode == 0,
                f"attach ended with {finished.returncode}: {finished.stderr[-500:]}")
        require(trace.exists(), f"no trace: {finished.stderr[-500:]}")
        device = self.json_of("report", trace)["devices"][0]
        steps = json.loads(output)["kernels"]
        yield f"{device['kernel_count']} kernels in 3 s of a program that made {steps} in 12 s"
        require(device["kernel_count"] > steps / 8, "less was recorded than was done")

    def torch(self):
        """The same work under torch.profiler and under us: the same kernels, about the same times."""
        self.require_torch()
        work = [sys.executable, HERE / "torch_work.py"]
        theirs = json.loads(self.run(*work, "profiled").stdout.splitlines()[-1])
        _, trace = self.record(*work, "plain")
        yield from agreement(theirs, self.rows_of(trace))

    def hand_over(self):
        """torch.profiler inside a recorded program: it works as without us."""
        self.require_torch()
        work = [sys.executable, HERE / "torch_work.py", "profiled"]
        alone = json.loads(self.run(*work).stdout.splitlines()[-1])
        finished, trace = self.record(*work)
        recording = self.json_of("report", trace)["recording"]
        yield f"our source: {recording['source']} {recording['source_reason']}"
        yield from same_kernels(alone, json.loads(finished.stdout.splitlines()[-1]))

    def require_torch(self):
        answer = output_of(sys.executable, "-c", "import torch; print(torch.cuda.is_available())")
        if self.is_simulated:
            raise Skip("PyTorch does not run on the simulated device")
        if answer != "True":
            raise Skip("no PyTorch with CUDA in " + sys.executable)


def has_gpu():
    return output_of("nvidia-smi", "-L").startswith("GPU")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--report", type=pathlib.Path, default=pathlib.Path("gpu-report.txt"))
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--libraries", default="", help="folders of libcudart and libcupti")
    arguments = parser.parse_args()
    if not arguments.simulated and not has_gpu():
        print("skipped: no GPU (nvidia-smi -L lists none)")
        return SKIPPED
    report = Report(arguments.report, DEADLINE_S)
    report.describe_machine(arguments.simulated)
    with tempfile.TemporaryDirectory(prefix="gpuidle-gpu-") as folder:
        checks = Checks(arguments.build.resolve(), arguments.simulated, arguments.libraries,
                        pathlib.Path(folder))
        if not checks.work.exists():
            sys.exit(f"check_gpu: {checks.work} was not built; nvcc is needed")
        report.check("doctor", checks.doctor)
        for how in ("kernels", "graph", "threads", "storm"):
            report.check(f"known work: {how}", lambda how=how: checks.known_work(how))
        report.check("examples", checks.examples)
        report.check("agreement with torch.profiler", checks.torch)
        report.check("hand-over to torch.profiler", checks.hand_over)
        report.check("late attach", checks.late_attach)
        report.check("flush", checks.flush_times)
        report.check("cost of a launch", checks.launch_cost)
    status = report.conclude()
    print(f"the report is {report.path}")
    return status


if __name__ == "__main__":
    sys.exit(main())
