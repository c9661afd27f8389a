# SPDX-License-Identifier: Apache-2.0
"""Code objects that die and whose memory others take: no stack may show the dead one's name.

Run by python_frames_test.py with each interpreter that is installed (3.8 syntax); argument: the
probe library. Prints a summary; exits with 1 if a name, file or line was wrong.
"""

import ctypes
import sys
import types

REPLACEMENTS = 20_000
SAME_SOURCES = 5_000

library = ctypes.CDLL(sys.argv[1])
library.probe_prepare.restype = ctypes.c_char_p
buffer = ctypes.create_string_buffer(4096)


def template():
    return library.probe_stack(buffer, 4096, 1, 1)


def innermost():
    return buffer.value.decode().strip()


def table_size():
    counts = (ctypes.c_uint64 * 4)()
    library.probe_counts(counts)
    return counts[3]


def replaced(number):
    """A copy of template() under a name of its own. All names have one length, and nothing here
    outlives the copy, so that the next one finds the same addresses free for all its parts."""
    names = {"co_name": f"name{number:08}"}
    if hasattr(template.__code__, "co_qualname"):
        names["co_qualname"] = names["co_name"]
    return template.__code__.replace(**names)


def main():
    reason = library.probe_prepare().decode()
    if reason:
        sys.exit(f"python_code_reuse.py: Python frames are off: {reason}")
    wrong = []
    addresses = set()
    for number in range(REPLACEMENTS):
        code = replaced(number)
        addresses.add(id(code))
        types.FunctionType(code, globals())()
        del code
        expected = f"python\tname{number:08}\t{__file__}\t{template.__code__.co_firstlineno + 1}"
        if innermost() != expected:
            wrong.append(f"recorder {innermost()!r}, python {expected!r}")
    if len(addresses) > REPLACEMENTS // 4:
        sys.exit(f"python_code_reuse.py: {len(addresses)} addresses for {REPLACEMENTS} code objects"
                 " are no test of reuse")

    before = table_size()
    for _ in range(SAME_SOURCES):
        space = {"library": library, "buffer": buffer}
        exec(compile("def churned():\n  library.probe_stack(buffer, 4096, 1, 1)\nchurned()\n",
                     "churn.py", "exec"), space)
        if innermost() != "python\tchurned\tchurn.py\t2":
            wrong.append(f"recorder {innermost()!r} in churn.py")
    grown = table_size() - before
    print("\n".join(wrong[:5]))
    print(f"{REPLACEMENTS} code objects at {len(addresses)} addresses, {len(wrong)} wrong; "
          f"{grown} rows for {SAME_SOURCES} times the same source")
    sys.exit(1 if wrong or grown > 4 else 0)


if __name__ == "__main__":
    main()
