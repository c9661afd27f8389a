# SPDX-License-Identifier: Apache-2.0
"""Which CPython interpreters this machine has, for the tests that run with each of them."""

import os
import pathlib
import shutil
import subprocess

ASK = ("import platform,sys,sysconfig;print(platform.python_implementation(),"
       "'%d.%d.%d' % sys.version_info[:3],bool(sysconfig.get_config_var('Py_GIL_DISABLED')),"
       "hasattr(sys,'gettotalrefcount'))")
SUPPORTED = range(8, 16)  # CPython 3.x


def candidates():
    named = os.environ.get("GPUIDLE_TEST_PYTHONS")  # paths, colon-separated: these and no others
    if named:
        yield from named.split(":")
        return
    yield from sorted(map(str, pathlib.Path.home().glob(".pyenv/versions/*/bin/python3")))
    for folder in ("/usr/bin", "/usr/local/bin", "/opt/python/bin"):
        yield from sorted(map(str, pathlib.Path(folder).glob("python3.[0-9]*[0-9]")))
    for minor in SUPPORTED:
        yield shutil.which(f"python3.{minor}") or ""


def interpreters():
    """{version: path} of release builds with a GIL, one for each file."""
    found = {}
    for path in candidates():
        if not path or not os.access(path, os.X_OK):
            continue
        real = os.path.realpath(path)
        if real in found:
            continue
        answer = subprocess.run([real, "-c", ASK], capture_output=True, text=True, check=False)
        words = answer.stdout.split()
        if answer.returncode != 0 or len(words) != 4 or words[0] != "CPython":
            continue
        minor = int(words[1].split(".")[1])
        if words[1].startswith("3.") and minor in SUPPORTED and words[2:] == ["False", "False"]:
            found[real] = words[1]
    return found


def require_interpreters():
    """As interpreters(), printed; a machine without any is an error, not a pass."""
    found = interpreters()
    if not found:
        raise AssertionError("no CPython 3.8 to 3.15 found: install one, or name it in "
                             "GPUIDLE_TEST_PYTHONS")
    for path, version in found.items():
        print(f"found CPython {version}: {path}", flush=True)
    return found
