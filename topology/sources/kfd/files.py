"""The kernel's topology of compute nodes: the files of /sys/class/kfd/kfd/topology.

Nodes are the CPUs and GPUs that HSA knows; `io_links` join neighbours, `p2p_links` are paths
between devices across other nodes. Only caches beyond those of the compute units are read: of the
latter there are hundreds of files for each GPU.
"""

from __future__ import annotations

import re

from ...model.part import Raw
from ..files.answers import left_out
from ..files.tree import Tree, answers

ROOTS = ("sys/class/kfd/kfd/topology", "sys/devices/virtual/kfd/kfd/topology")
"""The first is a link to the second; a copy may hold only the second."""
PARTS = ("io_links", "p2p_links", "mem_banks")
LIMIT_NODES = 1024
LIMIT_LINKS = 1024
LIMIT_CACHE_FILES = 8192
LIMIT_CACHES = 8
"""Most caches beyond level 1 that are read of one node; GPUs have one or two."""
_LEVEL_ONE = re.compile(r"^level 1$", re.MULTILINE)
PROCESSES = "sys/class/kfd/kfd/proc"


def root(tree: Tree) -> str | None:
    """Folder of the topology; None when the kernel shows none."""
    return next((place for place in ROOTS if tree.names(f"{place}/nodes")), None)


def generation(tree: Tree, place: str) -> Raw:
    """A text that changes whenever the topology changes."""
    return answers(tree, place, ("generation_id",)).get("generation_id")


def read_nodes(tree: Tree, place: str) -> dict[str, Raw]:
    """Number of the node -> {"gpu_id", "name", "properties", "io_links": {number: text}, ...}."""
    return {
        name: _node(tree, f"{place}/nodes/{name}")
        for name in _numbers(tree, f"{place}/nodes", LIMIT_NODES)
    }


def cut(tree: Tree, place: str) -> list[str]:
    """Sentences on what is not read of the topology."""
    every = numbers(tree, f"{place}/nodes")
    said = left_out("KFD nodes", every, LIMIT_NODES)
    for node in every[:LIMIT_NODES]:
        for part in PARTS:
            names = tree.names(f"{place}/nodes/{node}/{part}")
            said += left_out(f"{part} of KFD node {node}", names, LIMIT_LINKS)
    return said


def read_identities(tree: Tree, place: str) -> dict[str, Raw]:
    """Like `read_nodes`, but without links and memory: a hundredth of the files."""
    return {
        name: answers(tree, f"{place}/nodes/{name}", ("gpu_id", "properties"))
        for name in _numbers(tree, f"{place}/nodes", LIMIT_NODES)
    }


def _node(tree: Tree, folder: str) -> dict[str, Raw]:
    found = answers(tree, folder, ("gpu_id", "name", "properties"))
    for part in PARTS:
        found[part] = {
            number: text
            for number in _numbers(tree, f"{folder}/{part}", LIMIT_LINKS)
            if (text := _one(tree, f"{folder}/{part}/{number}")) is not None
        }
    if found.get("gpu_id") not in ("0", None):
        found["caches"] = _last_caches(tree, f"{folder}/caches")
    return found


def _last_caches(tree: Tree, folder: str) -> dict[str, Raw]:
    """Read the caches beyond level 1, which the kernel lists behind all others, and one of those.

    (kfd_topology.c, kfd_fill_cache_non_crat_info: type by type, as kfd_crat.c orders them.)
    """
    found: dict[str, Raw] = {}
    for number in reversed(_numbers(tree, folder, LIMIT_CACHE_FILES)[-LIMIT_CACHES:]):
        text = _one(tree, f"{folder}/{number}")
        if text is not None:
            found[number] = text
        if not isinstance(text, str) or _LEVEL_ONE.search(text):
            break
    return found


def _one(tree: Tree, folder: str) -> Raw:
    return answers(tree, folder, ("properties",)).get("properties")


def numbers(tree: Tree, folder: str) -> list[str]:
    """The names in a folder that are numbers, in their order."""
    names = [name for name in tree.names(folder) if name.isascii() and name.isdigit()]
    return sorted((name for name in names if len(name) < 6), key=int)


def _numbers(tree: Tree, folder: str, limit: int) -> list[str]:
    return numbers(tree, folder)[:limit]
