"""Nodes and links from the texts of KFD's topology; what makes no sense is left out."""

from __future__ import annotations

import re

import msgspec

from ...model.part import Raw
from ..files.answers import part, whole
from .files import LIMIT_LINKS, LIMIT_NODES

XGMI, PCIE = 11, 2
"""Types of links (kfd_crat.h); 1 and 5 join CPUs."""
PUBLIC = 1
VRAM = (PUBLIC, 2)
"""Types of memory banks that belong to a GPU. Public: the BAR shows all of it; private: the CPU
does not reach all of it (kfd_crat.c, kfd_fill_gpu_memory_affinity)."""
CACHE_DATA, CACHE_INSTRUCTION, CACHE_CPU = 1, 2, 4
"""HSA_CACHE_TYPE_* of the kernel's kfd_sysfs.h; 8: a cache of compute units."""
_LINE = re.compile(r"^([a-z][a-z0-9_]{0,60}) (\d{1,20})$", re.MULTILINE)
_PARTITION_SHIFT = 28
_LARGEST = 1 << 64


class KfdLink(msgspec.Struct, frozen=True):
    """One link from a node to another one. Rates are MB/s; 0 = the kernel does not say."""

    to: int
    type: int
    weight: int
    min_mbs: int
    max_mbs: int
    flags: int


class Bank(msgspec.Struct, frozen=True):
    """One memory bank of a node."""

    kind: int
    size_bytes: int
    width_bits: int
    clock_mhz: int


class KfdCache(msgspec.Struct, frozen=True):
    """One cache of a node. `flags`: what it holds and whose it is (CACHE_*)."""

    level: int
    size_kib: int
    flags: int


class KfdNode(msgspec.Struct, frozen=True):
    """One node of the topology."""

    number: int
    values: dict[str, int]
    """The properties; empty when the kernel would not show them."""
    why: str | None = None
    """Why there are no properties."""
    gpu_id: int = 0
    io_links: tuple[KfdLink, ...] = ()
    p2p_links: tuple[KfdLink, ...] = ()
    banks: tuple[Bank, ...] = ()
    caches: tuple[KfdCache, ...] = ()

    @property
    def is_gpu(self) -> bool:
        """Whether it computes with SIMDs; an old APU is a CPU too."""
        return self.values.get("simd_count", 0) > 0

    @property
    def package(self) -> str:
        """PCI address of the whole package, function 0."""
        return f"{self._slot()}.0"

    @property
    def part(self) -> int:
        """Number of the part in its package, 0 for a whole package.

        Kernels put it into the function of the PCI address or, since later versions, into the bits
        above.
        """
        place = self.values.get("location_id", 0)
        return (place >> _PARTITION_SHIFT & 0x7) or (place & 0x7)

    @property
    def address(self) -> str:
        """PCI address; the function distinguishes the parts of a package, as in HIP."""
        return f"{self._slot()}.{self.part}"

    def _slot(self) -> str:
        place = self.values.get("location_id", 0)
        domain = self.values.get("domain", 0) & 0xFFFFFFFF
        return f"{domain:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}"


def nodes(raw: Raw) -> tuple[KfdNode, ...]:
    """All nodes of an answer, in the order of their numbers."""
    found = [
        _node(int(name), answer)
        for name, answer in part(raw, "nodes").items()
        if name.isascii() and name.isdigit() and len(name) < 6 and isinstance(answer, dict)
    ]
    return tuple(sorted(found, key=lambda node: node.number)[:LIMIT_NODES])


def properties(text: Raw) -> dict[str, int]:
    """Values from lines of "name number"; other lines are ignored."""
    if not isinstance(text, str):
        return {}
    pairs = _LINE.findall(text[:16_384])
    return {name: number for name, digits in pairs if (number := int(digits)) < _LARGEST}


def _node(number: int, raw: dict[str, Raw]) -> KfdNode:
    values = properties(raw.get("properties"))
    id_text = raw.get("gpu_id")
    lists = ("io_links", "p2p_links", "mem_banks", "caches")
    links = {name: _texts(raw.get(name)) for name in lists}
    return KfdNode(
        number=number,
        values=values,
        why=None if values else _why(raw.get("properties")),
        gpu_id=whole(id_text) or 0 if isinstance(id_text, str) else 0,
        io_links=tuple(_link(values) for values in links["io_links"] if "node_to" in values),
        p2p_links=tuple(_link(values) for values in links["p2p_links"] if "node_to" in values),
        banks=tuple(_bank(values) for values in links["mem_banks"]),
        caches=tuple(_cache(values) for values in links["caches"] if values.get("level")),
    )


def _texts(raw: Raw) -> list[dict[str, int]]:
    if not isinstance(raw, dict):
        return []
    return [properties(text) for text in list(raw.values())[:LIMIT_LINKS]]


def _why(answer: Raw) -> str:
    if isinstance(answer, dict) and isinstance(answer.get("error"), str):
        return str(answer["error"])
    return "no properties" if answer is None else "properties that make no sense"


def _link(values: dict[str, int]) -> KfdLink:
    return KfdLink(
        to=values["node_to"],
        type=values.get("type", 0),
        weight=values.get("weight", 0),
        min_mbs=values.get("min_bandwidth", 0),
        max_mbs=values.get("max_bandwidth", 0),
        flags=values.get("flags", 0),
    )


def _bank(values: dict[str, int]) -> Bank:
    return Bank(
        kind=values.get("heap_type", 0),
        size_bytes=values.get("size_in_bytes", 0),
        width_bits=values.get("width", 0),
        clock_mhz=values.get("mem_clk_max", 0),
    )


def _cache(values: dict[str, int]) -> KfdCache:
    return KfdCache(
        level=values["level"], size_kib=values.get("size", 0), flags=values.get("type", 0)
    )
