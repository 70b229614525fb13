"""The made-up driver, compiled once for all tests, under the names that the loader looks for."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from gputop.probes.engine.kernels import SOURCE

HERE = Path(__file__).parent
NAMES = {
    "nvidia": ("libcuda.so.1", "libnccl.so.2"),
    "amd": ("libamdhip64.so", "libhiprtc.so", "librccl.so.1"),
}
"""Which names the driver has on a node of each vendor."""


class NoCompilerError(Exception):
    """There is no g++ here."""


def built(folder: Path) -> Path:
    """The library, compiled into a folder unless it lies there; NoCompilerError without g++."""
    parts = sorted(HERE.glob("*.?pp"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in (*parts, SOURCE))).hexdigest()
    path = folder / f"{digest[:16]}.so"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one of several processes compiles, the others wait
        if not path.exists():
            compiler = shutil.which("g++")
            if compiler is None:
                raise NoCompilerError
            new = path.with_suffix(f".{os.getpid()}")
            subprocess.run(
                [compiler, "-std=c++20", "-O1", "-fPIC", "-shared", "-pthread", "-w",
                 f'-DKERNELS="{SOURCE}"', str(HERE / "on_the_host.cpp"), "-o", str(new)],
                check=True,
            )  # fmt: skip
            new.rename(path)
    return path


def installed(library: Path, folder: Path, vendor: str, lacks: str = "") -> str:
    """A folder for LD_LIBRARY_PATH with the library under a vendor's names.

    `lacks`: a function that the loader shall not find.
    """
    if lacks:
        found, other = (b"\0%s\0" % each.encode() for each in (lacks, "x" * len(lacks)))
        code = library.read_bytes()
        assert found in code, lacks
        library = folder / "lacking.so"
        library.write_bytes(code.replace(found, other))
    for name in NAMES[vendor]:
        (folder / name).symlink_to(library)  # the loader knows one file by all its names
    return str(folder)
