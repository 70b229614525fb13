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
    """Folders of Python packages: those of the active environment before this interpreter's."""
    found: list[str] = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = os.environ.get(variable)
        if prefix:
            library = os.path.join(prefix, "lib")
            found += [
                os.path.join(library, name, "site-packages")
                for name in sorted(_listed(library), reverse=True)
                if re.fullmatch(r"python3\.\d{1,2}t?", name)
            ]
    found += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return list(dict.fromkeys(os.path.realpath(path) for path in found))[:LIMIT_FOLDERS]


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
