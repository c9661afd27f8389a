# SPDX-License-Identifier: Apache-2.0
"""Every position of every code object in some modules: our line decoder against Python's own.

Run by python_frames_test.py with each interpreter that is installed (3.8 syntax, standard library
only); argument: the probe library. Prints a summary; exits with 1 if a line differed.
"""

import ctypes
import dis
import importlib
import sys
import types

MODULES = ("argparse", "ast", "asyncio.base_events", "dataclasses", "decimal", "inspect", "logging",
           "os", "re", "subprocess", "tarfile", "typing", "unittest.mock")
FEW = 1000

library = ctypes.CDLL(sys.argv[1])
library.probe_line.restype = ctypes.c_uint32
library.probe_line.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_int,
                               ctypes.c_int)


def codes_in(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


def spans_of(code):
    """(begin, end, line or 0) of all instructions, in bytes."""
    if hasattr(code, "co_lines"):
        return [(begin, end, line or 0) for begin, end, line in code.co_lines()]
    starts = list(dis.findlinestarts(code))
    ends = [begin for begin, _ in starts[1:]] + [len(code.co_code)]
    return [(begin, end, line) for (begin, line), end in zip(starts, ends)]


def main():
    minor = sys.version_info[1]
    positions = 0
    wrong = []
    for name in MODULES:
        module = importlib.import_module(name)
        with open(module.__file__, encoding="utf-8") as source:
            whole = compile(source.read(), module.__file__, "exec")
        for code in codes_in(whole):
            table = code.co_linetable if minor >= 10 else code.co_lnotab
            for begin, end, line in spans_of(code):
                for position in range(begin, end, 2):
                    positions += 1
                    found = library.probe_line(minor, table, len(table), code.co_firstlineno,
                                               position)
                    if found != line:
                        wrong.append(f"{code.co_filename} {code.co_name} byte {position}: "
                                     f"decoder {found}, python {line}")
    print("\n".join(wrong[:5]))
    print(f"{positions} positions, {len(wrong)} wrong")
    sys.exit(1 if wrong or positions < FEW else 0)


if __name__ == "__main__":
    main()
