# SPDX-License-Identifier: Apache-2.0
"""A Python program that uses the device and has children. fed by life_processes_test.py.

life_family.py HOW    HOW: fork, spawn, forkserver, pool_before, subprocess, preexec, os_fork, cleared
"""

import ctypes
import multiprocessing
import os
import subprocess
import sys

STEPS = 8


def use_device():
    runtime = ctypes.CDLL("libcudart.so.13")
    buffer = ctypes.c_void_p()
    results = [runtime.cudaSetDevice(0),
               runtime.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(4096))]
    for _ in range(STEPS):
        results.append(runtime.cudaMemset(buffer, 0, ctypes.c_size_t(4096)))
    results.append(runtime.cudaDeviceSynchronize())
    return max(results)


def square(number):
    return number * number


def work_on_device(number):
    return number + use_device()


def run_pool(method, function):
    with multiprocessing.get_context(method).Pool(2) as pool:
        print(method, pool.map(function, range(4)), flush=True)


def main():
    how = sys.argv[1]
    if how == "child":
        print("child", use_device(), flush=True)
        return 3
    if how == "pool_before":
        run_pool("fork", work_on_device)
    print("device", use_device(), flush=True)
    if how == "fork":
        run_pool("fork", square)
    elif how in ("spawn", "forkserver"):
        run_pool(how, work_on_device)
    elif how == "os_fork":
        child = os.fork()
        if child == 0:
            os._exit(7)
        print("os.fork", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    elif how in ("subprocess", "preexec", "cleared"):
        environment = {"PATH": "/usr/bin:/bin",
                       "LD_LIBRARY_PATH": os.environ["LD_LIBRARY_PATH"],
                       "SIMGPU_QUIET": "1"} if how == "cleared" else None
        finished = subprocess.run([sys.executable, __file__, "child"], stdout=subprocess.PIPE,
                                  env=environment, check=False,
                                  preexec_fn=(lambda: os.nice(0)) if how == "preexec" else None)
        print(how, finished.returncode, finished.stdout, flush=True)
    print("device", use_device(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
