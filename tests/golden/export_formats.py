#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports each recording in every format and reads the result back with independent parsers.

Arguments: the gpuidle command, then recordings. Run by ctest (label golden). Whatever the format,
the idle time in it must be the report's, to the nanosecond, and nothing may be written twice, half
or over what is there. Perfetto's protobuf is read by the few lines below, and by Perfetto's own
definitions where Python's package `perfetto` is installed.
"""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2
except ImportError:
    perfetto_trace_pb2 = None

FORMATS = ("chrome", "perfetto", "speedscope", "folded")


def run(command, *arguments):
    return subprocess.run([command, *map(str, arguments)], capture_output=True)


def expect(condition, message):
    if not condition:
        sys.exit(message)


def fields(message):
    """(field, value) of a protobuf message: int for varints and fixed64, bytes for the rest."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        field, kind = key >> 3, key & 7
        if kind == 0:
            yield field, varint()
        elif kind == 1:
            yield field, int.from_bytes(message[at:at + 8], "little")
            at += 8
        elif kind == 2:
            length = varint()
            expect(at + length <= len(message), "a protobuf field leads out of its message")
            yield field, message[at:at + length]
            at += length
        else:
            sys.exit(f"unexpected protobuf wire type {kind}")


def perfetto_slices(content):
    """(track name chain, slice name, start, end), matched as a viewer does it."""
    tracks, names, events = {}, {}, []
    for field, packet in fields(content):
        expect(field == 1, f"a trace has packets only, found field {field}")
        one = collections.defaultdict(list)
        for number, value in fields(packet):
            one[number].append(value)
        expect(one[10] == [1], "every packet belongs to the one sequence")
        for interned in one[12]:
            for number, entry in fields(interned):
                entry = dict(fields(entry))
                if number == 2:
                    expect(entry[1] not in names, "a name is told once")
                    names[entry[1]] = entry[2].decode()
        for descriptor in one[60]:
            track = dict(fields(descriptor))
            name = track.get(2, b"")
            for holder in (3, 4):
                if holder in track:
                    name = dict(fields(track[holder])).get(6 if holder == 3 else 5, b"")
            expect(track[1] not in tracks, "a track is told once")
            expect(5 not in track or track[5] in tracks, "a track's parent comes first")
            tracks[track[1]] = (name.decode(), track.get(5))
        for event in one[11]:
            event = dict(fields(event))
            expect(event[11] in tracks, "an event is on a known track")
            expect(event[9] == 2 or event[10] in names, "an event has a known name")
            events.append((one[8][0], event[9], event[11], event.get(10)))
    open_slices, slices = collections.defaultdict(list), []
    for at, kind, track, name in sorted(events, key=lambda event: event[0]):
        if kind == 1:
            open_slices[track].append((names[name], at))
        elif kind == 2:
            expect(open_slices[track], "an end has its begin")
            name, start = open_slices[track].pop()
            parent = tracks[track][1]
            slices.append((tracks[parent][0], tracks[track][0], name, start, at))
    expect(not any(open_slices.values()), "every slice ends")
    return slices


def chrome_slices(content):
    document = json.loads(content)
    groups, rows, slices = {}, {}, []
    for event in document["traceEvents"]:
        if event["name"] == "process_name":
            groups[event["pid"]] = event["args"]["name"]
        elif event["name"] == "thread_name":
            rows[event["pid"], event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X":
            start = round(event["ts"] * 1000)
            expect(start >= 0, "times count from the begin of the recording")
            slices.append((groups[event["pid"]], rows[event["pid"], event["tid"]], event["name"],
                           start, start + round(event["dur"] * 1000)))
    return slices


def idle_by_device(slices):
    idle = collections.Counter()
    for group, row, name, start, end in slices:
        if row == "idle gaps" and name.startswith("idle: "):
            idle[int(group.split()[1])] += end - start
    return idle


def speedscope_idle(content):
    document = json.loads(content)
    frames = document["shared"]["frames"]
    expect(document["$schema"] == "https://www.speedscope.app/file-format-schema.json", "schema")
    idle = collections.Counter()
    for profile in document["profiles"]:
        expect(profile["type"] == "sampled" and profile["unit"] == "nanoseconds", "profile kind")
        expect(len(profile["samples"]) == len(profile["weights"]), "a weight for each sample")
        expect(all(0 <= i < len(frames) for sample in profile["samples"] for i in sample), "frames")
        expect(profile["endValue"] == sum(profile["weights"]), "the end is the sum of the weights")
        idle[int(profile["name"].split()[1].rstrip(","))] += sum(profile["weights"])
    return idle


def folded_idle(content):
    idle = collections.Counter()
    for line in content.decode().splitlines():
        stack, weight = line.rsplit(" ", 1)
        frames = stack.split(";")
        expect(len(frames) >= 4 and all(frames), f"a frame is empty: {line}")
        idle[int(frames[0].split()[1])] += int(weight)
    return idle


def check(command, recording, folder):
    done = run(command, "report", "--json", recording)
    expect(done.returncode == 0, f"report of {recording}: exit {done.returncode}")
    report = json.loads(done.stdout)
    want = {d["device"]: d["idle_ns"] for d in report["devices"] if d["idle_ns"] > 0}
    content = {}
    for form in FORMATS:
        output = pathlib.Path(folder, form)
        output.unlink(missing_ok=True)
        done = run(command, "export", recording, "--to", form, "-o", output)
        expect(done.returncode == 0, f"{recording} as {form}: exit {done.returncode}: {done.stderr}")
        content[form] = output.read_bytes()
        again = run(command, "export", recording, "--to", form, "-o", output)
        expect(again.returncode == 1 and not again.stdout, f"{output} was overwritten")
        expect(content[form] == output.read_bytes(), f"{output} was changed")
        piped = run(command, "export", recording, "--to", form, "-o", "-")
        expect(piped.stdout == content[form], f"{recording} as {form}: standard output differs")
    chrome, perfetto = chrome_slices(content["chrome"]), perfetto_slices(content["perfetto"])
    found = {"chrome": idle_by_device(chrome), "perfetto": idle_by_device(perfetto),
             "speedscope": speedscope_idle(content["speedscope"]),
             "folded": folded_idle(content["folded"])}
    for form, idle in found.items():
        expect(dict(idle) == want, f"{recording} as {form}: idle {dict(idle)}, report {want}")
    expect(len(chrome) == len(perfetto), f"{recording}: {len(chrome)} slices, {len(perfetto)}")
    drawn = sum(1 for s in chrome if s[1].startswith("stream "))
    expect(drawn == report["activity_count"] - report["ignored_record_count"],
           f"{recording}: {drawn} operations drawn of {report['activity_count']}")
    if perfetto_trace_pb2 is not None:
        trace = perfetto_trace_pb2.Trace()
        trace.ParseFromString(content["perfetto"])
        begins = sum(1 for p in trace.packet if p.track_event.type == 1)
        expect(begins == len(perfetto), "Perfetto's own definitions read as many slices")


def main():
    command, recordings = sys.argv[1], sys.argv[2:]
    expect(recordings, "no recordings to export")
    with tempfile.TemporaryDirectory(prefix="gpuidle_export_") as folder:
        for recording in recordings:
            check(command, recording, folder)
        broken = pathlib.Path(folder, "broken.sqlite")
        broken.write_bytes(b"SQLite format 3\0 and no more")
        for form in FORMATS:
            output = pathlib.Path(folder, "none")
            done = run(command, "export", broken, "--to", form, "-o", output)
            expect(done.returncode == 1, f"a broken file: exit {done.returncode}, expected 1")
            expect(not output.exists(), "a failed export left a file")
            expect(len(done.stderr.splitlines()) == 1, f"expected one line: {done.stderr}")
        done = run(command, "export", recordings[0], "--to", "pdf", "-o", output)
        expect(done.returncode == 2, f"an unknown format: exit {done.returncode}, expected 2")
        full = run(command, "export", recordings[0], "--to", "chrome", "-o", "/dev/full")
        expect(full.returncode == 1, f"an output that exists: exit {full.returncode}, expected 1")
    print(f"{len(recordings)} recordings read back in {len(FORMATS)} formats"
          + ("" if perfetto_trace_pb2 else "; Perfetto's own definitions are not installed"))


if __name__ == "__main__":
    main()
