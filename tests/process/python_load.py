# SPDX-License-Identifier: Apache-2.0
"""A busy Python program whose threads are interrupted anywhere; each line names what it calls.

Run by python_load_test.py with each interpreter that is installed (3.8 syntax); arguments: the probe
library, samples, seconds. Prints a summary; exits with 1 if a frame was wrong.
"""

import ctypes
import functools
import gc
import sys
import threading

library = ctypes.PyDLL(sys.argv[1])
library.probe_prepare.restype = ctypes.c_char_p
library.load_finish.restype = ctypes.c_char_p
waiting = ctypes.CDLL(sys.argv[1])  # lets go of the GIL
waiting.load_finish.restype = ctypes.c_char_p
ended = ctypes.CDLL(sys.argv[1]).load_is_ended


def leaf(n):
    return n * 3 + 1


def recurse(depth):
    return leaf(depth) if depth == 0 else recurse(depth - 1) + 1


def big_frame(a):
    b, c, d, e, f, g, h, i = a, a, a, a, a, a, a, leaf(a)
    return [b, c, d, e, f, g, h, i, leaf(b)]


def generate(n):
    for i in range(n):
        yield leaf(i)


def delegate(n):
    yield from generate(n)


def fail(depth):
    if depth == 0:
        raise ValueError(leaf(depth))
    try:
        fail(depth - 1)
    finally:
        leaf(depth)


class Dying:
    def __init__(self):
        self.value = leaf(1)

    def __del__(self):
        leaf(2)

    def __getattr__(self, name):
        return leaf(3)


def key_of(x):
    return leaf(x)


def fold(a, b):
    return leaf(a) + b


async def later(n):
    return leaf(n)


async def chain(n):
    return await later(n)


def run_coroutine(n):
    try:
        chain(n).send(None)  # chain, and later within
    except StopIteration as stop:
        return stop.value


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda a, b: 0)  # <lambda>
numbers = (ctypes.c_int * 4)(4, 3, 2, 1)
libc = ctypes.CDLL(None)


def fresh_code(n):
    space = {"leaf": leaf}
    exec(compile("def churned(n):\n  return leaf(n)\nchurned(%d)\n" % n, "churn.py", "exec"), space)


def work(n):
    leaf(n)
    recurse(n % 200)
    big_frame(n)
    list(delegate(5))  # delegate and generate
    sum(generate(5))
    try:
        fail(n % 10)
    except ValueError:
        pass
    dying = Dying()  # __init__
    dying.missing  # __getattr__
    del dying  # __del__
    sorted(range(5), key=key_of)
    functools.reduce(fold, range(5))
    run_coroutine(n)
    libc.qsort(numbers, 4, 4, CALLBACK)  # <lambda>
    fresh_code(n)


def feed():
    library.load_join()
    n = 0
    while not ended():
        n += 1
        work(n)
    library.load_leave()


def come_and_go():
    while not ended():
        thread = threading.Thread(target=visit)
        thread.start()
        thread.join()


def visit():
    library.load_join()
    for n in range(20):
        work(n)
    library.load_leave()


def main():
    reason = library.probe_prepare().decode()
    if reason:
        sys.exit("python_load.py: Python frames are off: " + reason)
    gc.disable()  # __del__ comes where a line says so, and nowhere else
    threads = [threading.Thread(target=target) for target in (feed, feed, come_and_go)]
    library.load_start(__file__.encode(), ctypes.c_uint64(int(sys.argv[2])),
                       ctypes.c_double(float(sys.argv[3])))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = (ctypes.c_uint64 * 6)()
    wrong = waiting.load_finish(counts).decode()
    print("%d samples, %d pairs of frames, %d wrong, %d without Python frames, %d unnamed, "
          "%d signals not answered in time" % tuple(counts), wrong)
    sys.exit(1 if counts[2] or counts[0] < 1000 else 0)


if __name__ == "__main__":
    main()
