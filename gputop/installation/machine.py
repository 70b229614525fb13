"""What a probe, a driver call or a screen needs of this machine: found or not, and why not."""

from __future__ import annotations

import ctypes
import glob
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gputop.probes.engine.opening import hip_places, may_open
from gputop.probes.runner.interpreters import Interpreter, candidates, choice_of, inspect
from gputop.probes.runner.nccl_library import library_for, library_of_torch
from gputop.topology.sources.files.tree import live_tree
from gputop.topology.sources.linux import software
from gputop.topology.sources.linux.nccl_files import version_inside
from gputop.topology.sources.linux.software_versions import DIST_INFO

LIBRARIES = (
    "libnvidia-ml.so.1",
    "libcuda.so.1",
    "libamd_smi.so",
    "libamdhip64.so",
)
"""What the vendors' drivers bring: the sensors and the copies of NVIDIA and of AMD."""
DEVICES = ("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/kfd")
"""Files that a program opens to use a GPU."""
PATIENCE_SECONDS = 2.0
"""How long a driver may take to open its files."""
MOST = 16
"""Most entries of one kind."""
_VERSION = re.compile(r"\.so\.(\d+(?:\.\d+)+)$")


class FoundLibrary(msgspec.Struct, frozen=True):
    """A library of a driver, as the loader finds it."""

    name: str
    path: str | None = None
    version: str | None = None
    """From the name of the file behind the link."""
    why_not: str | None = None


class FoundNccl(msgspec.Struct, frozen=True):
    """A libnccl on disk."""

    path: str
    version: str | None
    """As the file itself says, else by its name or its package."""
    packages: tuple[str, ...] = ()
    """Packages that put a library there: "cu12 2.28.9"; of several the last one installed is it."""


class JobNccl(msgspec.Struct, frozen=True):
    """The NCCL that a job under a Python would load."""

    python: str
    path: str
    version: str | None
    because: str


class ProbedNccl(msgspec.Struct, frozen=True):
    """The NCCL or RCCL that probes load by itself."""

    path: str
    how_found: str


class DeviceFile(msgspec.Struct, frozen=True):
    """A device file, and whether this process may open it to read and write."""

    path: str
    usable: bool | None
    """None while the driver does not answer."""


class FoundPython(msgspec.Struct, frozen=True):
    """A Python, and its torch."""

    path: str
    found: str
    """Where it was named: "this Python", "PATH", ..."""
    version: str | None
    torch: str | None
    build: str | None
    why_not: str | None
    """Why probes that need torch cannot run under it."""


def libraries() -> tuple[FoundLibrary, ...]:
    """Ask the loader for each, HIP's where probes look for it; nothing of a driver is called."""
    return tuple(
        _library(name, hip_places() if name.startswith("libamdhip64") else [name])
        for name in LIBRARIES
    )


def _library(name: str, places: Iterable[object]) -> FoundLibrary:
    why_not = "not found"
    for place in places:
        try:
            ctypes.CDLL(str(place), mode=os.RTLD_LAZY)
            break
        except OSError as error:
            # Another name stands there where the library lies but lacks one of its own.
            if not str(error).startswith(f"{place}: cannot open shared object file: No such file"):
                why_not = str(error)
    else:
        return FoundLibrary(name, why_not=why_not)
    path = next((line.split(None, 5)[-1].strip() for line in _maps() if f"/{name}" in line), name)
    path = os.path.realpath(path)
    version = _VERSION.search(path)
    return FoundLibrary(name, path, version[1] if version else None)


def _maps() -> list[str]:
    text = live_tree().text("proc/self/maps", 1 << 20)
    return text.splitlines() if isinstance(text, str) else []


def nccl_libraries(pythons: Iterable[FoundPython]) -> tuple[FoundNccl, ...]:
    """Libnccl of the loader's folders, of the active environment and of the Pythons, each once."""
    raw = software.read(live_tree())
    found: dict[str, FoundNccl] = {}
    for path, behind in raw.get("libraries", ()):
        version = _VERSION.search(behind)
        # /lib is a link to /usr/lib on most systems.
        found.setdefault(os.path.realpath(path), FoundNccl(path, version[1] if version else None))
    folders = [str(entry["folder"]) for entry in raw.get("packages", ())]
    for folder in dict.fromkeys([*folders, *_site_folders(pythons)]):
        path = os.path.join(folder, "nvidia", "nccl", "lib", "libnccl.so.2")
        if os.path.exists(path):
            found[os.path.realpath(path)] = FoundNccl(path, *_nccl_versions(folder))
    return tuple(map(_of_itself, found.values()))[:MOST]


def _of_itself(found: FoundNccl) -> FoundNccl:
    """With the version that the file itself names, which counts before its name and its package."""
    inside = version_inside(live_tree(), found.path.lstrip("/"))
    return msgspec.structs.replace(found, version=inside or found.version)


def _site_folders(pythons: Iterable[FoundPython]) -> Iterator[str]:
    for python in pythons:
        prefix = os.path.dirname(os.path.dirname(python.path))
        yield from sorted(glob.glob(f"{glob.escape(prefix)}/lib/python3*/site-packages"))


def _nccl_versions(folder: str) -> tuple[str | None, tuple[str, ...]]:
    """The version of NCCL's packages in a folder, None where they differ, and all of them in words.

    All write the same file, so it is that of the one that was installed last.
    """
    matches = (DIST_INFO.fullmatch(name) for name in sorted(os.listdir(folder)))
    packages = [
        (m["name"].rpartition("_")[2], m["version"]) for m in matches if m and m["name"] != "torch"
    ]
    versions = {version for _, version in packages}
    return (versions.pop() if len(versions) == 1 else None), tuple(map(" ".join, packages))


def devices() -> tuple[DeviceFile, ...]:
    """The device files of GPUs; AMD's are one for all."""
    paths = [path for pattern in DEVICES for path in sorted(glob.glob(pattern), key=_by_number)]
    usable: dict[str, bool] = {}

    def try_opening(path: str) -> None:
        usable[path] = may_open(path)

    # A driver that hangs keeps whoever opens its files, and nobody else here.
    threads = [threading.Thread(target=try_opening, args=(path,), daemon=True) for path in paths]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + PATIENCE_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return tuple(DeviceFile(path, usable.get(path)) for path in paths)


def _by_number(path: str) -> tuple[int, str]:
    digits = path[len(path.rstrip("0123456789")) :]
    return int(digits or 0), path


def interpreters() -> tuple[Interpreter, ...]:
    """The Pythons that probes look at, each once."""
    found: dict[object, Interpreter] = {}
    for path, where in candidates():
        if len(found) < MOST:
            python = inspect(path, where)
            found.setdefault(python.identity or path, python)
    return tuple(found.values())


def job_nccl(found: Sequence[Interpreter]) -> tuple[JobNccl, ...]:
    """What a job under each Python would load, by the loader's rules, without loading anything."""
    told = []
    for python in found:
        library = library_of_torch(python) if python.has_gpu_build else None
        if library is not None:
            version = version_inside(live_tree(), library.path.lstrip("/"))
            told.append(JobNccl(python.path, library.path, version, library.because))
    return tuple(told)


def probed_nccl(found: Sequence[Interpreter]) -> ProbedNccl | None:
    """The library that the probes nccl and collectives load; None where they need torch for it."""
    library = library_for(choice_of(found))
    return None if library is None else ProbedNccl(library.path, library.how_found)


def python_of(found: Interpreter) -> FoundPython:
    """What is told of one."""
    build = f"CUDA {found.cuda}" if found.cuda else f"HIP {found.hip}" if found.hip else None
    if found.torch_version is not None and build is None:
        build = "CPU only"
    return FoundPython(
        found.path, found.how_found, found.python_version, found.torch_version, build, found.why_not
    )
