# SPDX-License-Identifier: Apache-2.0
"""Stacks are taken while the interpreter ends, after it has ended, in forked children and in
threads that come and go.

Run by python_frames_test.py with each interpreter that is installed (3.8 syntax, standard library
only); argument: the probe library. The exit status is the answer: a wrong read ends the process.
"""

import atexit
import ctypes
import os
import sys
import threading
import time

library = ctypes.CDLL(sys.argv[1])
library.probe_prepare.restype = ctypes.c_char_p


class AtTheVeryEnd:
    def __del__(self):
        library.probe_take(0, None)


def short_lived_threads():
    for _ in range(200):
        thread = threading.Thread(target=library.probe_take, args=(0, None))
        thread.start()
        thread.join()
    kind = ctypes.CFUNCTYPE(None)
    for _ in range(50):
        library.probe_call_on_new_thread(kind(lambda: library.probe_take(0, None)))


def forked():
    child = os.fork()
    if child == 0:
        words = ctypes.c_int()
        library.probe_take(0, ctypes.byref(words))
        os._exit(0 if words.value > 0 else 3)
    _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit(f"python_ending.py: the forked child ended with status {status}")


def daemon():
    while True:
        library.probe_take(0, None)


def main():
    reason = library.probe_prepare().decode()
    if reason:
        sys.exit(f"python_ending.py: Python frames are off: {reason}")
    short_lived_threads()
    forked()
    for _ in range(2):
        threading.Thread(target=daemon, daemon=True).start()
    atexit.register(library.probe_take, 0, None)
    # The C library's own list runs when the interpreter is gone.
    take = ctypes.cast(library.probe_take, ctypes.c_void_p)
    if ctypes.CDLL(None).on_exit(take, None) != 0:
        sys.exit("python_ending.py: on_exit() refused")
    sys.modules["at_the_very_end"] = AtTheVeryEnd()
    time.sleep(0.1)
    print("stacks were taken to the end")


if __name__ == "__main__":
    main()
