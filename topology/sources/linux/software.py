"""Versions of drivers, CUDA, ROCm, NCCL and torch, found by names and small files alone.

The raw answer: {"absent", "files": {path: text} for FILES, "packages": [{"folder", "torch",
"nccl", "nccl_packages", "nccl_inside"}] one for each folder of Python packages in order of use,
with versions from the names of .dist-info folders, all packages of NCCL as {"cu13": "2.30.7"} and
the version that the library in the folder names itself, "libraries": [[path, name of the file
behind it]] for libnccl.so.2 in order of search, "plugins": [path] of libnccl-net*.so and
librccl-net*.so where the loader looks: LD_LIBRARY_PATH, the folders of /etc/ld.so.conf.d and the
usual ones}. Nothing is imported and no library is loaded.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from itertools import islice

from ...model.part import Raw
from ...model.source import Source
from ..files.tree import Tree, answers, clean, live_tree
from .nccl_files import version_inside
from .software_versions import DIST_INFO, FILES, parse

LIBRARY_FOLDERS = (
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/local/cuda/lib64",
    "/opt/nccl/build/lib",
)
"""Folders where the loader and cloud images keep it; LD_LIBRARY_PATH comes before these."""
LIBRARY = "libnccl.so.2"
WHEEL = f"nvidia/nccl/lib/{LIBRARY}"
"""Where NVIDIA's packages of NCCL put it, those of every CUDA the same place."""
LIMIT_FOLDERS = 32
LIMIT_PYTHONS = 8
VERSIONED = re.compile(r"python3(\.\d{1,2}t?)?")
"""The folder of a Python below lib; Debian has python3 for packages of the system."""
LOADER = "etc/ld.so.conf.d"
PLUGIN = re.compile(r"lib[nr]ccl-net[\w.-]{0,60}\.so(\.\d{1,4}){0,3}")
LIMIT_PLUGINS = 16


class SoftwareReader:
    """Looks for the versions once per call."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def __call__(self) -> Raw:
        """Ask once; of a copied tree only files are read, neither Python nor the loader."""
        found: dict[str, Raw] = {
            "absent": self._tree.absent,
            "files": answers(self._tree, "", FILES),
        }
        if self._tree.live:
            found["packages"] = [_packages(self._tree, folder) for folder in _site_folders()]
            found["libraries"] = [
                [path, clean(os.path.basename(os.path.realpath(path)))]
                for path in _library_paths()
                if os.path.exists(path)
            ]
            found["plugins"] = _plugins(self._tree)
        return found


def read(tree: Tree) -> Raw:
    """Read a whole tree once."""
    return SoftwareReader(tree)()


def _site_folders() -> list[str]:
    """Folders of Python packages: of the active environment, of PATH's Pythons, of this one.

    A job is started with the Python of PATH, while gputop may have an environment of its own.
    """
    found: list[str] = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = os.environ.get(variable)
        if prefix:
            found += _of_prefix(prefix)
    for python in _pythons():
        # An environment's Python is a link to another one, whose packages it need not have.
        real = os.path.realpath(python)
        own = _of_prefix(_prefix(python), os.path.basename(real))
        found += own or _of_prefix(_prefix(real), os.path.basename(real))
    found += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return list(dict.fromkeys(os.path.realpath(path) for path in found))[:LIMIT_FOLDERS]


def _prefix(python: str) -> str:
    return os.path.dirname(os.path.dirname(python))


def _of_prefix(prefix: str, program: str = "") -> list[str]:
    """The folders of packages below the prefix of a Python, those of newer ones first.

    `program`: "python3.12" has its own alone, and those of Debian, which /usr has also below local.
    """
    roots = (f"{prefix}/local", prefix) if prefix == "/usr" else (prefix,)
    paths = [
        os.path.join(root, "lib", name, kind)
        for root in roots
        for name in sorted(_listed(os.path.join(root, "lib")), key=_minor, reverse=True)
        if VERSIONED.fullmatch(name) and (name in ("python3", program) or not _minor(program))
        for kind in ("site-packages", "dist-packages")
    ]
    return [path for path in paths if os.path.isdir(path)]


def _minor(name: str) -> int:
    """The number by which 3.12 is newer than 3.9."""
    match = VERSIONED.fullmatch(name)
    return int((match[1] or "").strip(".t") or 0) if match else 0


def _pythons() -> list[str]:
    """The first Pythons of PATH, by their names there."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    named = (os.path.join(path, name) for path in folders for name in ("python3", "python"))
    found = (path for path in named if os.path.isabs(path) and os.access(path, os.X_OK))
    return list(islice(found, LIMIT_PYTHONS))


def _packages(tree: Tree, folder: str) -> dict[str, Raw]:
    entry: dict[str, Raw] = {"folder": clean(folder)}
    packages: dict[str, Raw] = {}
    for name in sorted(_listed(folder)):
        match = DIST_INFO.fullmatch(name)
        if match is not None:
            entry["nccl" if match["name"].startswith("nvidia") else "torch"] = match["version"]
        if match is not None and match["name"].startswith("nvidia"):
            packages[match["name"].rpartition("_")[2]] = match["version"]
    if packages:
        inside = version_inside(tree, f"{folder}/{WHEEL}".lstrip("/"))
        entry |= {"nccl_packages": packages, "nccl_inside": inside}
    return entry


def _library_paths() -> Iterator[str]:
    for folder in dict.fromkeys([*_searched(), *LIBRARY_FOLDERS]):
        if folder.startswith("/"):
            yield f"{folder.rstrip('/')}/{LIBRARY}"


def _searched() -> list[str]:
    named = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [path for path in named if path][:LIMIT_FOLDERS]


def _plugins(tree: Tree) -> list[Raw]:
    """Plugins in the folders that the loader searches (dlopen(3), ld.so(8))."""
    configured = [
        line.strip()
        for name in tree.names(LOADER)[:LIMIT_FOLDERS]
        if name.endswith(".conf") and isinstance(text := tree.text(f"{LOADER}/{name}"), str)
        for line in text.splitlines()
    ]
    folders = dict.fromkeys([*_searched(), *configured[: 4 * LIMIT_FOLDERS], *LIBRARY_FOLDERS])
    found = {
        clean(f"{folder.rstrip('/')}/{name}"): None
        for folder in folders
        if folder.startswith("/")
        for name in sorted(_listed(folder))
        if PLUGIN.fullmatch(name)
    }
    return list(found)[:LIMIT_PLUGINS]


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _reader() -> Callable[[], Raw]:
    return SoftwareReader(live_tree())


SOURCE = Source(
    id="software", interval_seconds=60.0, deadline_seconds=5.0, reader=_reader, parse=parse
)
