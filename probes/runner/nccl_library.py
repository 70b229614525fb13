"""Finds the NCCL or RCCL that a job here would load, without loading it.

A job with torch loads what its torch asks the loader for, so that this comes first: the folders
that libtorch_cuda.so names (the wheel beside torch, an environment of conda), LD_LIBRARY_PATH, the
loader's own folders. Without torch the same folders count, and the wheel of a Python.
"""

import errno
import glob
import os
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Optional

from ..protocol.plaintext import one_line
from .interpreters import Interpreter, InterpreterChoice

TORCH = "torch"
"""Named instead of a file: measure through torch."""
NCCL, RCCL = "libnccl.so.2", "librccl.so.1"
_LOADER = Path("/etc/ld.so.conf")
_BUILT_IN = (
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
)  # fmt: skip
_IMAGES = (
    "/usr/local/lib", "/usr/local/cuda/lib64", "/opt/nccl/build/lib", "/usr/local/nccl/lib",
    "/opt/conda/lib", "/opt/rocm/lib",
)  # fmt: skip
"""Where images keep it that the loader does not search."""
_MOST_FILES, _MOST_BYTES = 64, 1 << 20

# Which libraries a shared object asks for, and where it has them looked for: elf(5), ld.so(8).
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29
_MOST_HEADERS, _MOST_ENTRIES, _LONGEST = 64, 1024, 4096


@dataclass(frozen=True)
class Linked:
    """What the loader reads of a file."""

    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    """Folders before LD_LIBRARY_PATH; empty beside a runpath, which the loader prefers."""
    runpath: tuple[str, ...]
    """Folders after it."""


def open_regular(path: str) -> BinaryIO:
    """Open a regular file, never waiting as for the writer of a pipe; OSError for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return os.fdopen(descriptor, "rb")


def linked(path: str) -> Optional[Linked]:
    """Read it; None if it is no shared object of 64 bits and this byte order."""
    try:
        with open_regular(path) as file:
            # Where a file is a link, the loader's $ORIGIN is the folder of the link.
            return _linked(file, os.path.dirname(os.path.abspath(path)))
    except (OSError, OverflowError, ValueError, struct.error):
        return None  # a place in a damaged file may lie beyond what any file has


def _linked(file: BinaryIO, folder: str) -> Optional[Linked]:
    head = file.read(64)
    if head[:6] != b"\x7fELF\x02\x01":
        return None
    (start,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    loads, dynamic = [], None
    for place in range(min(count, _MOST_HEADERS)):
        file.seek(start + place * size)
        kind, _, offset, address, _, length = struct.unpack("<IIQQQQ", file.read(40))
        if kind == _LOAD:
            loads.append((address, offset, length))
        elif kind == _DYNAMIC:
            dynamic = offset, length
    if dynamic is None:
        return None
    file.seek(dynamic[0])
    entries = file.read(16 * min(dynamic[1] // 16, _MOST_ENTRIES))
    found: dict[int, list[int]] = {}
    for tag, value in struct.iter_unpack("<QQ", entries):
        found.setdefault(tag, []).append(value)
        if tag == 0:
            break
    strings = found.get(_STRINGS, [0])[0]
    table = next((o + strings - a for a, o, size in loads if a <= strings < a + size), None)
    if table is None:
        return None

    def texts(tag: int) -> "list[str]":
        return [_text(file, table + place) for place in found.get(tag, [])]

    runpath = _folders(texts(_RUNPATH), folder)
    rpath = () if runpath else _folders(texts(_RPATH), folder)
    return Linked(tuple(texts(_NEEDED)), rpath, runpath)


def _text(file: BinaryIO, place: int) -> str:
    file.seek(place)
    return file.read(_LONGEST).split(b"\0")[0].decode("utf-8", "replace")


def _folders(lists: "list[str]", origin: str) -> "tuple[str, ...]":
    found = [folder for text in lists for folder in text.split(":") if folder]
    named = (each.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for each in found)
    return tuple(map(os.path.realpath, named))  # as the kernel takes ".." behind a link


@dataclass(frozen=True)
class NcclLibrary:
    """A file to load."""

    path: str
    how_found: str
    """In words, for people."""
    named: bool = False
    """Somebody asked for this file."""
    because: str = field(default="", compare=False)
    """Of a torch, the loader's rule that leads there: "LD_LIBRARY_PATH"."""


def library_for(
    choice: InterpreterChoice,
    environment: Mapping[str, str] = os.environ,
    loader: Path = _LOADER,
) -> Optional[NcclLibrary]:
    """The library to load by itself; None if only torch has one, or nothing has.

    `choice`: the Pythons that were looked at. RCCL by itself was never tried on a GPU, so that a
    torch for HIP is preferred.
    """
    chosen = choice.chosen
    if chosen is not None and chosen.has_gpu_build:
        return None if chosen.hip else _of_torch(chosen, environment, loader)
    for folder, how_found in _without_torch(choice.looked_at, environment, loader):
        for name in _names():
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return NcclLibrary(path, how_found)
    return None


def _names() -> "tuple[str, ...]":
    """Of a node with AMD's GPUs alone, RCCL."""
    amd = os.path.exists("/dev/kfd") and not os.path.exists("/dev/nvidiactl")
    return (RCCL, "librccl.so") if amd else (NCCL,)


def library_of_torch(
    python: Interpreter,
    environment: Mapping[str, str] = os.environ,
    loader: Path = _LOADER,
) -> Optional[NcclLibrary]:
    """What a job under a Python whose torch is for CUDA loads; None if its torch holds NCCL."""
    return _of_torch(python, environment, loader)


def _of_torch(
    python: Interpreter, environment: Mapping[str, str], loader: Path
) -> Optional[NcclLibrary]:
    """What the loader finds for a torch; None where NCCL is a part of torch itself."""
    folder = os.path.join(python.torch_folder or "", "lib")
    asks = linked(os.path.join(folder, "libtorch_cuda.so")) if python.torch_folder else None
    if asks is None or NCCL not in asks.needed:
        return None
    found = _preloaded(environment), "LD_PRELOAD"
    if not found[0]:
        places = _searched(asks, environment, loader)
        named = ((os.path.join(place, NCCL), why) for place, why in places)
        found = next((each for each in named if os.path.isfile(each[0])), ("", ""))
    if not found[0]:
        return None
    where = one_line(python.path, 200)
    how_found = f"the one that torch {python.torch_version} of {where} loads"
    return NcclLibrary(found[0], how_found, because=found[1])


def _searched(
    asks: Linked, environment: Mapping[str, str], loader: Path
) -> "Iterator[tuple[str, str]]":
    """Folders in the order of ld.so(8), and the rule that leads there."""
    for folders, why in (
        (asks.rpath, "RPATH of libtorch_cuda.so, which comes before LD_LIBRARY_PATH"),
        (_library_path(environment), "LD_LIBRARY_PATH"),
        (asks.runpath, "RUNPATH of libtorch_cuda.so"),
        (_configured(loader), "/etc/ld.so.conf"),
        (_BUILT_IN, "the loader's own folders"),
    ):
        yield from ((folder, why) for folder in folders)


def _without_torch(
    pythons: Iterable[Interpreter], environment: Mapping[str, str], loader: Path
) -> "Iterator[tuple[str, str]]":
    """Folders, and what to call them."""
    preloaded = _preloaded(environment)
    if preloaded:
        yield os.path.dirname(preloaded), "LD_PRELOAD"
    for folder in _library_path(environment):
        yield folder, "LD_LIBRARY_PATH"
    for python in pythons:
        if python.nccl_folder:
            yield python.nccl_folder, f"the package of {one_line(python.path, 200)}"
    conda = environment.get("CONDA_PREFIX")
    if conda:
        yield os.path.join(conda, "lib"), "CONDA_PREFIX"
    for folder in (*_configured(loader), *_BUILT_IN):
        yield folder, "the loader's folders"
    for folder in _IMAGES:
        yield folder, "a usual folder"


def _preloaded(environment: Mapping[str, str]) -> str:
    """The library that every process of this shell has loaded already; "" if there is none."""
    words = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    return next((w for w in words if os.path.basename(w) == NCCL and os.path.isfile(w)), "")


def _library_path(environment: Mapping[str, str]) -> "list[str]":
    folders = environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
    return [folder for folder in folders if os.path.isabs(folder)]


def _configured(loader: Path) -> "list[str]":
    """Folders of ld.so.conf and of the files that it includes."""
    files, found = [str(loader)], list[str]()
    for place in range(_MOST_FILES):
        if place == len(files):
            break
        try:
            with open_regular(files[place]) as file:
                lines = file.read(_MOST_BYTES).decode("utf-8", "replace").splitlines()
        except (OSError, ValueError):
            continue
        for line in (line.partition("#")[0].strip() for line in lines):
            if line.startswith("include "):
                pattern = os.path.join(os.path.dirname(files[place]), line.split(None, 1)[1])
                files += sorted(glob.glob(pattern))
            elif os.path.isabs(line):
                found.append(line)
    return found
