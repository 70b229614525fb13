"""NVMe drives from /sys/class/nvme, and what GPUDirect Storage is set to.

The raw answer: {"absent": why a missing text is missing, "drives": {name: drive}, "mounts":
[[names of controllers, type of file system, its options, names of arrays]], "multipath": text of
the module's parameter, "cufile": text of /etc/cufile.json, "libraries": names of libcufile that
were found}; "mounts" and "libraries" are missing where nobody looked. A drive holds "path" (below
sys/devices), "transport", "model", "numa_node" of the device behind it, and "sizes": the sectors
of 512 bytes of each namespace. A value is a text or {"error": why}. No device is opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator

from ...model.part import PartialNode, Raw
from ...model.source import Source
from ...model.surroundings import DirectStorage, Drive
from ..files.answers import (
    LEFT_OUT,
    FileAnswers,
    absent_text,
    cut_off,
    items_of,
    left_out,
    part,
    under,
    whole,
    words,
)
from ..files.tree import Tree, answers, live_tree
from .devices import ADDRESS, numa_node

NVME = "sys/class/nvme"
MULTIPATH = "sys/module/nvme_core/parameters/multipath"
CONFIG = "etc/cufile.json"
CONFIG_BYTES = 32 * 1024
MOUNTS = "proc/self/mountinfo"
MOUNTS_BYTES = 1024 * 1024
NUMBERS = "sys/dev/block"
BLOCK = "sys/class/block"
LIBRARY = "libcufile.so.0"
LIBRARY_FOLDERS = (
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/targets/x86_64-linux/lib",
    "/usr/local/cuda/targets/sbsa-linux/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
)
LIMIT_DRIVES = 256
LIMIT_NAMESPACES = 64
LIMIT_MOUNTS = 256
LIMIT_LAYERS = 4
"""A volume on an array on a partition is three layers above a drive."""
SECTOR = 512
"""/sys/block/*/size counts these whatever the drive's own blocks are."""
_NAMESPACE = re.compile(r"nvme\d{1,5}(?:c\d{1,5})?n\d{1,5}")
_OF_CONTROLLER = re.compile(r"/nvme/(nvme\d{1,5})/")
_OF_SUBSYSTEM = re.compile(r"(.*/nvme-subsys\d{1,5})/")
_CONTROLLER = re.compile(r"nvme\d{1,5}")
_JOURNAL = re.compile(r"(?:^|,)(data=(?:journal|ordered|writeback))(?:,|$)")
_COMMENT = re.compile(r"(?m)^\s*//.*$|\s//[^\"\n]*$")


def parse(raw: Raw) -> PartialNode:
    """Turn the answer of the source storage into drives."""
    absent = absent_text(raw)
    mounts = None if under(raw, "mounts") is None else items_of(under(raw, "mounts"))
    drives = tuple(
        _drive(name, FileAnswers(answer, absent), mounts)
        for name, answer in sorted(part(raw, "drives").items())
    )
    return PartialNode(
        drives=drives,
        direct_storage=_direct_storage(FileAnswers(raw, absent)) if drives else None,
        problems=cut_off(raw, "storage"),
    )


def _drive(name: str, fields: FileAnswers, mounts: list[Raw] | None) -> Drive:
    path = fields.text("path") or ""
    address = next(filter(ADDRESS.fullmatch, reversed(path.split("/"))), None)
    if address is None:
        fields.gap("address", "no PCI device is behind it")
    sizes = [*map(whole, words(fields.raw.get("sizes")))]
    known = [size for size in sizes if size is not None and size >= 0]
    if not known:
        fields.gap("size_bytes", fields.absent)
    filesystems, arrays = _uses(name, mounts)
    if mounts is None:
        fields.gap("filesystems", "file systems of this node were not read")
        fields.gap("arrays", "file systems of this node were not read")
    return Drive(
        name=name,
        address=address,
        transport=fields.text("transport", "transport"),
        model=fields.text("model", "model"),
        size_bytes=SECTOR * sum(known) if known else None,
        numa_node=numa_node(fields) if address is not None else None,
        filesystems=filesystems,
        arrays=arrays,
        gaps=fields.gaps,
    )


def _uses(
    name: str, mounts: list[Raw] | None
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Types of file systems on a drive, and the arrays in between."""
    if mounts is None:
        return None, None
    types: dict[str, None] = {}
    arrays: dict[str, None] = {}
    for one in mounts:
        if not (isinstance(one, list) and len(one) == 4 and name in words(one[0])):
            continue
        journal = _JOURNAL.search(one[2]) if isinstance(one[2], str) else None
        kind = str(one[1])[:40]
        types[f"{kind} {journal[1]}" if journal is not None and kind == "ext4" else kind] = None
        arrays.update(dict.fromkeys(words(one[3])))
    return tuple(types), tuple(arrays)


def _direct_storage(fields: FileAnswers) -> DirectStorage:
    text = fields.raw.get("cufile")
    config = _COMMENT.sub("", text[:CONFIG_BYTES] if isinstance(text, str) else "")
    if not config:
        fields.gap("compat_allowed", fields.absent)
    libraries = words(fields.raw.get("libraries"))
    if not libraries:
        looked = "libraries" in fields.raw
        why = f"{LIBRARY} is in none of the usual folders" if looked else fields.absent
        fields.gap("library", why)
    multipath = fields.text("multipath", "multipath")
    return DirectStorage(
        library=libraries[0] if libraries else None,
        compat_allowed=_setting("allow_compat_mode", config),
        compat_forced=_setting("force_compat_mode", config),
        p2pdma=_setting("use_pci_p2pdma", config),
        multipath=None if multipath is None else multipath.upper() == "Y",
        gaps=fields.gaps,
    )


def _setting(name: str, config: str) -> bool | None:
    """A switch of cufile.json, which is JSON with comments; None where it is not set."""
    found = re.search(rf'"{name}"\s*:\s*(true|false)', config)
    return None if found is None else found[1] == "true"


def read(tree: Tree) -> Raw:
    """Ask once; of a copied tree files are read, and no libraries are looked for."""
    listed = [name for name in tree.names(NVME) if _CONTROLLER.fullmatch(name)]
    found: dict[str, Raw] = {
        "absent": tree.absent,
        "drives": {name: _controller(tree, name) for name in listed[:LIMIT_DRIVES]},
        LEFT_OUT: left_out("NVMe drives", listed, LIMIT_DRIVES),
    }
    for key, path, limit in (("multipath", MULTIPATH, 16), ("cufile", CONFIG, CONFIG_BYTES)):
        text = tree.text(path, limit) if tree.exists(path) else None
        if isinstance(text, str):
            found[key] = text
    mounts = tree.text(MOUNTS, MOUNTS_BYTES) if listed else None
    if isinstance(mounts, str):
        found["mounts"] = list(_mounts(tree, mounts))
    if listed and tree.live:
        found["libraries"] = list(dict.fromkeys(_libraries(LIBRARY_FOLDERS)))
    return found


def _controller(tree: Tree, name: str) -> dict[str, Raw]:
    folder = f"{NVME}/{name}"
    found = answers(tree, folder, ("transport", "model"))
    found |= answers(tree, f"{folder}/device", ("numa_node",))
    path = tree.resolved(folder)
    if path is not None:
        found["path"] = path.removeprefix("sys/devices/")
    spaces = [one for one in tree.names(folder) if _NAMESPACE.fullmatch(one)]
    sizes = (tree.text(f"{folder}/{one}/size", 32) for one in spaces[:LIMIT_NAMESPACES])
    found["sizes"] = [size for size in sizes if isinstance(size, str)]
    return found


def _mounts(tree: Tree, text: str) -> Iterator[Raw]:
    """Of each file system on a drive: the controllers, its type, its options, the arrays."""
    seen: set[str] = set()
    for line in text.splitlines():
        head, sign, tail = line.partition(" - ")
        fields, after = head.split(" "), tail.split(" ")
        if not sign or len(fields) < 5 or len(after) < 3:
            continue
        place = f"{NUMBERS}/{fields[2]}"
        if fields[2].startswith("0:"):  # no number of a disk: btrfs has such, and names its disk
            place = f"{BLOCK}/{after[1].rpartition('/')[2]}" if after[1].startswith("/dev/") else ""
        if not place or place in seen or len(seen) == LIMIT_MOUNTS:
            continue
        seen.add(place)
        drives, arrays = _below(tree, place)
        if drives:
            yield [sorted(drives), after[0], after[2], sorted(arrays)]


def _below(tree: Tree, device: str) -> tuple[set[str], set[str]]:
    """The controllers that a block device lies on, and the arrays in between."""
    drives: set[str] = set()
    arrays: set[str] = set()
    waiting = [device]
    for _ in range(LIMIT_LAYERS):
        places = [place for path in waiting if (place := tree.resolved(path)) is not None]
        waiting = []
        for place in places:
            owners = _owners(tree, place)
            slaves = () if owners else tree.names(f"{place}/slaves")
            drives |= owners
            if slaves:
                arrays.add(place.rpartition("/")[2])
            waiting += [f"{BLOCK}/{name}" for name in slaves]
    return drives, arrays


def _owners(tree: Tree, place: str) -> set[str]:
    """The controllers of a block device; a disk with several ways to it hangs on a subsystem."""
    owner = _OF_CONTROLLER.search(place)
    if owner is not None:
        return {owner[1]}
    above = _OF_SUBSYSTEM.match(place)
    names = () if above is None else tree.names(above[1])
    return {name for name in names if _CONTROLLER.fullmatch(name)}


def _libraries(folders: Iterable[str]) -> Iterator[str]:
    return (LIBRARY for folder in folders if os.path.exists(f"{folder}/{LIBRARY}"))


def _reader() -> Callable[[], Raw]:
    tree = live_tree()
    return lambda: read(tree)


SOURCE = Source(
    id="storage", interval_seconds=60.0, deadline_seconds=3.0, reader=_reader, parse=parse
)
