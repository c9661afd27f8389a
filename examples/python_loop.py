# SPDX-License-Identifier: Apache-2.0
"""Planted cause: preprocessing in pure Python between two steps.

Drives the CUDA runtime and driver through ctypes, without any package: real interpreter frames are
on the stack of every CUDA call. The device is idle while tokenize() runs.
"""

import array
import ctypes
import sys

STEPS = 100
TOKENS_PER_BATCH = 60_000
KERNEL_NS = 5_000_000
BATCH_BYTES = TOKENS_PER_BATCH * 4

# Occupies a real GPU for the time that it is given; the simulated device takes its times from
# python_loop.simgpu and only reads the kernel's name.
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry train_step_kernel(.param .u64 duration_ns)
{
  .reg .u64 %rd<4>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [duration_ns];
  mov.u64 %rd2, %globaltimer;
AGAIN:
  mov.u64 %rd3, %globaltimer;
  sub.u64 %rd3, %rd3, %rd2;
  setp.lt.u64 %p1, %rd3, %rd1;
  @%p1 bra AGAIN;
  ret;
}
"""


class Gpu:
    """The few CUDA calls that a training loop needs."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.runtime = load_runtime()
        self.check("cudaSetDevice", self.runtime.cudaSetDevice(0))
        self.check("cudaFree", self.runtime.cudaFree(None))  # creates the context
        self.buffer = ctypes.c_void_p()
        self.check(
            "cudaMalloc",
            self.runtime.cudaMalloc(ctypes.byref(self.buffer), ctypes.c_size_t(BATCH_BYTES)),
        )
        module = ctypes.c_void_p()
        self.check("cuModuleLoadData", self.driver.cuModuleLoadData(ctypes.byref(module), PTX))
        self.kernel = ctypes.c_void_p()
        self.check(
            "cuModuleGetFunction",
            self.driver.cuModuleGetFunction(
                ctypes.byref(self.kernel), module, b"train_step_kernel"
            ),
        )

    @staticmethod
    def check(name, result):
        if result != 0:
            sys.exit(f"{name} failed with CUDA error {result}")

    def copy_to_device(self, batch):
        self.check(
            "cudaMemcpyAsync",
            self.runtime.cudaMemcpyAsync(
                self.buffer, batch, ctypes.c_size_t(BATCH_BYTES), 1, None
            ),
        )

    def launch_step(self):
        duration = ctypes.c_uint64(KERNEL_NS)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(duration))
        self.check(
            "cuLaunchKernel",
            self.driver.cuLaunchKernel(
                self.kernel, 64, 1, 1, 256, 1, 1, 0, None, arguments, None
            ),
        )

    def synchronize(self):
        self.check("cudaDeviceSynchronize", self.runtime.cudaDeviceSynchronize())


def load_runtime():
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    sys.exit("python_loop.py: no libcudart.so.13 or .12 on the library path")


def tokenize(step):
    """Hashes as a slow tokenizer would: some ten milliseconds of pure Python."""
    value = step * 2654435761 & 0xFFFFFFFF
    tokens = array.array("I")
    for _ in range(TOKENS_PER_BATCH):
        value = (value * 1664525 + 1013904223) & 0xFFFFFFFF
        tokens.append(value >> 17)
    return tokens


def feed(gpu, tokens):
    batch = (ctypes.c_uint32 * TOKENS_PER_BATCH).from_buffer(tokens)
    gpu.copy_to_device(batch)
    return batch


def train(gpu):
    checksum = 0
    for step in range(STEPS):
        tokens = tokenize(step)
        batch = feed(gpu, tokens)
        gpu.launch_step()
        checksum += batch[0] + batch[TOKENS_PER_BATCH - 1]
    gpu.synchronize()
    return checksum


def main():
    print(f"python_loop: {STEPS} steps, checksum {train(Gpu())}")


if __name__ == "__main__":
    main()
