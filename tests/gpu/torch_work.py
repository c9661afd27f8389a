# SPDX-License-Identifier: Apache-2.0
"""A small training loop in PyTorch for check_gpu.py: prints its kernels as torch.profiler saw them.

torch_work.py plain|profiled [cpu]    both do the same work; `profiled` prints one JSON line
{name: [count, ns]}. With `cpu` it works there and counts operators, which tests this file without a GPU.
"""

import contextlib
import json
import sys

import torch

STEPS = 30
WARM_UP = 5


def make_step(device):
    torch.manual_seed(0)
    width = 1024 if device.type == "cuda" else 8
    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(),
                                torch.nn.Linear(width, width)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(256, width, device=device)

    def step():
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def kernels_of(profiler, device):
    wanted = getattr(torch.autograd.DeviceType, device.type.upper())
    seen = {}
    for event in profiler.events():
        if event.device_type != wanted or event.name.startswith(("Memcpy", "Memset", "ProfilerStep")):
            continue
        count, total_ns = seen.get(event.name, (0, 0))
        seen[event.name] = (count + 1, total_ns + round(event.time_range.elapsed_us() * 1000))
    return seen


def main():
    is_profiled = sys.argv[1] == "profiled"
    device = torch.device(sys.argv[2] if len(sys.argv) > 2 else "cuda")
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    step = make_step(device)
    for _ in range(WARM_UP):
        step()
    synchronize()
    with (torch.profiler.profile(activities=activities) if is_profiled
          else contextlib.nullcontext()) as profiler:
        for _ in range(STEPS):
            step()
        synchronize()
    for _ in range(WARM_UP):
        step()
    synchronize()
    print(json.dumps(kernels_of(profiler, device) if is_profiled else {}))


if __name__ == "__main__":
    main()
