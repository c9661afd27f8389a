#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program without device code drives the runtime and the driver through ctypes."""
import ctypes
import os
import sys

cudart = ctypes.CDLL("libcudart.so.13")
cuda = ctypes.CDLL("libcuda.so.1")


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


def check(result):
    if result != 0:
        sys.exit("CUDA error %d" % result)


register = getattr(cudart, "__cudaRegisterFatBinary")
register.restype = ctypes.c_void_p
register_function = getattr(cudart, "__cudaRegisterFunction")
image = ctypes.c_void_p(register(None))
host = ctypes.create_string_buffer(1)
address = ctypes.c_void_p(ctypes.addressof(host))
register_function(image, address, None, b"python_kernel", -1, None, None, None, None, None)
launch = cudart.cudaLaunchKernel
launch.argtypes = [ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
for _ in range(10):
    check(launch(address, Dim3(1, 1, 1), Dim3(32, 1, 1), None, 0, None))
check(cudart.cudaDeviceSynchronize())

module, function = ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cuModuleLoadData(ctypes.byref(module), b".version 8.0\n.entry driver_kernel() { ret; }"))
check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"driver_kernel"))
check(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, None, None))
check(cuda.cuCtxSynchronize())
with open(os.environ["SIMGPU_TIMELINE"]) as file:
    text = file.read()
assert text.count(",kernel,python_kernel,") == 10, text
assert text.count(",kernel,driver_kernel,") == 1, text
print("ctypes works")
