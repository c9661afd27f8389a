# SPDX-License-Identifier: Apache-2.0
"""Every release of CUPTI that NVIDIA publishes on PyPI, from 11.7 on, against our tables and decoder.

Fetches about 230 MB once, into the build folder (CUPTI_WHEELS says where); skips without network.
"""

import os
import pathlib
import platform
import subprocess
import sys
import zipfile

RELEASES = {
    "nvidia-cuda-cupti-cu11": ("11.7.101", "11.8.87"),
    "nvidia-cuda-cupti-cu12": ("12.0.146", "12.1.105", "12.2.142", "12.3.101", "12.4.127",
                               "12.5.82", "12.6.80", "12.8.90", "12.9.79"),
    "nvidia-cuda-cupti": ("13.0.48", "13.0.85", "13.1.115", "13.2.86", "13.3.75", "13.4.92",
                          "13.5.25"),
}
# Without a driver 13.2 crashes when it is asked for its version, and later ones answer nothing.
NEEDS_DRIVER = ("13.2.", "13.3.", "13.4.", "13.5.")
# As far back as the wheels' own tags go.
PLATFORMS = ("manylinux1_x86_64", "manylinux2014_x86_64", "manylinux_2_25_x86_64")
SKIPPED = 77


def fetch(package, release, folder):
    """The wheel's path; None if it cannot be had."""
    pattern = f"{package.replace('-', '_')}-{release}-*.whl"
    for attempt in range(2):
        found = list(folder.glob(pattern))
        if found:
            return found[0]
        if attempt == 0:
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                 "--disable-pip-version-check", "--only-binary=:all:", "--dest", str(folder),
                 *(word for name in PLATFORMS for word in ("--platform", name)),
                 f"{package}=={release}"],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300, check=False)
    return None


def unpack(wheel, folder):
    """Path of the library inside, unpacked beside its wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if "/libcupti.so." in n]
        target = folder / wheel.stem
        path = target / name
        if not path.exists():
            archive.extract(name, target)
    return path


def main():
    probe = sys.argv[1]
    folder = pathlib.Path(os.environ["CUPTI_WHEELS"])
    folder.mkdir(parents=True, exist_ok=True)
    if platform.machine() != "x86_64":
        print("skipped: the wheels that are fetched are for x86_64")
        return SKIPPED
    passed, missing, failed, unasked = [], [], [], []
    for package, releases in RELEASES.items():
        for release in releases:
            wheel = fetch(package, release, folder)
            if wheel is None:
                missing.append(release)
                continue
            library = unpack(wheel, folder)
            finished = subprocess.run([probe], env={**os.environ, "CUPTI_UNDER_TEST": str(library)},
                                      capture_output=True, text=True, timeout=120, check=False)
            lines = [line for line in finished.stdout.splitlines() if line.startswith("version")]
            print(release, *lines[:1], sep=": ")
            if finished.returncode == 0:
                passed.append(release)
            elif release.startswith(NEEDS_DRIVER) and not os.path.exists("/dev/nvidiactl"):
                unasked.append(release)
            else:
                failed.append(release)
                print(finished.stdout, finished.stderr)
    print(f"{len(passed)} releases hold; failed: {failed}; not to be asked without a driver: "
          f"{unasked}; could not be fetched: {missing}")
    if not passed and not failed:
        print("skipped: no wheel could be fetched")
        return SKIPPED
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
