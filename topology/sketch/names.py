"""Short texts of the map: names that fit, labels of lines.

Every function that offers several texts offers the longest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import networkx as nx

from ..model import units
from ..wiring.wires import WireKind


def short(value: float | None) -> str:
    """A rate for a line label, GB/s with at most three figures: "450", "31.5", "63", "–"."""
    text: str = units.figure(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def fit(candidates: Iterable[str], width: int) -> str:
    """The first text that fits, else the last one cut; empty when there is no room."""
    last = ""
    for last in candidates:
        if len(last) <= width:
            return last
    return last[: width - 1] + "…" if width > 1 else last[: max(width, 0)]


def fit_tail(text: str, width: int) -> str:
    """The text, cut at its beginning: the number at the end tells one NIC from another."""
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :] if width > 1 else "…"


def fit_rows(candidates: Sequence[tuple[str, ...]], width: int, rows: int) -> tuple[str, ...]:
    """The first candidate of which every row fits; () when none does."""
    for texts in candidates:
        if len(texts) <= rows and all(len(text) <= width for text in texts):
            return texts
    return ()


def short_address(address: str) -> str:
    """A PCI address without the domain when that is 0000."""
    return address.removeprefix("0000:")


def pcie_labels(wire: Any) -> tuple[tuple[str, ...], ...]:
    """Ways to label a PCIe line, each a tuple of rows."""
    lanes_known = None if wire is None else wire.count or wire.count_max
    if lanes_known is None:
        return ()
    generation = f"gen{wire.generation}" if wire.generation is not None else ""
    rate = "" if wire.payload_gbs is None else short(wire.payload_gbs)
    if is_weak(wire):
        lanes, brief = f"x{wire.count} of {wire.count_max} !", f"x{wire.count} !"
    else:
        # Only what the slot could do is known: the driver does not say how many lanes are up.
        lanes = brief = f"x{lanes_known}" if wire.count else f"x{lanes_known}?"
    ways = (
        (_join(generation, lanes, rate),),
        (_join(generation, lanes), rate),
        (_join(generation, brief), rate),
        (_join(lanes, rate),),
        (_join(brief, rate),),
        (brief, rate),
        (brief,),
        (brief.replace(" ", ""),),
    )
    return tuple(tuple(row for row in way if row) for way in ways)


def link_labels(
    kind: WireKind, count: int | None, count_max: int | None, payload: float | None
) -> tuple[tuple[str, ...], ...]:
    """Ways to label a bundle of NVLinks or xGMI links, each a tuple of rows."""
    rate = "" if payload is None else short(payload)
    if count is None:
        return ((rate,),) if rate else ()
    name = f"NV{count}" if kind is WireKind.NVLINK else f"xGMI {count}"
    if count_max is not None and count < count_max:
        sick = f"{name} of {count_max} !"
        brief = f"{count}/{count_max}!"
        return ((_join(sick, rate),), (sick, rate), (brief, rate), (brief,), (f"{count}!",))
    ways = ((_join(name, rate),), (name, rate), (name,), (str(count),))
    return tuple(tuple(row for row in way if row) for way in ways)


def is_weak(wire: Any) -> bool:
    """Whether a wire has fewer lanes or links than it could."""
    return (
        wire is not None
        and wire.count is not None
        and wire.count_max is not None
        and wire.count < wire.count_max
    )


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def host_names(graph: nx.Graph[str], members: Sequence[str]) -> tuple[str, ...]:
    """Names of a box for sockets and NUMA nodes."""
    labels = [str(graph.nodes[m].get("label") or m) for m in members]
    numa = [m for m in members if graph.nodes[m].get("kind") == "numa"]
    if len(numa) > 1:
        numbers = " ".join(m.rpartition(":")[2] for m in numa)
        return (f"NUMA {numbers}", f"N{numbers}", f"N{numbers.split()[0]}…")
    name = " · ".join(labels)
    extras: list[str] = []
    record: Any = graph.nodes[numa[0]].get("record") if numa else None
    if getattr(record, "cpus", None):
        extras.append(f"CPUs {record.cpus}")
    if getattr(record, "memory_bytes", None):
        extras.append(units.size(record.memory_bytes))
    offers = [" · ".join((name, *extras[:n])) for n in range(len(extras), -1, -1)]
    brief = name.replace("socket ", "S").replace("NUMA ", "N").replace(" · ", " ")
    return (*offers, brief)


def bridge_names(kind: str, address: str) -> tuple[str, ...]:
    """Names of a box for a bridge that has several children."""
    where = short_address(address)
    if kind.startswith("switch"):
        return (f"PCIe switch {where}", "PCIe switch", "switch", "sw")
    if kind == "root complex":
        return (f"root complex {address}", "root complex", "root", "rc")
    return (f"{kind} {where}", kind, kind[:4])


def gpu_model(record: object) -> tuple[str, ...]:
    """The model without the vendor's name, then with fewer and fewer words."""
    name = str(getattr(record, "name", None) or "")
    for vendor in ("NVIDIA", "AMD", "Instinct", "Tesla"):
        name = name.removeprefix(vendor).strip()
    if name.endswith("]"):
        # The PCI list writes the chip first and the product in brackets.
        name = name.rpartition("[")[2].removesuffix("]") or name
    ends = [i for i, character in enumerate(name) if character in " -"]
    return (name, *(name[:end] for end in reversed(ends)))


def nic_names(label: str) -> tuple[str, ...]:
    """Names of a NIC one by one: the kernel's RDMA name first, then its interfaces."""
    return tuple(label.split()) or ("NIC",)


def drive_names(labels: Sequence[str]) -> tuple[str, ...]:
    """Names of drives in one phrase, then their number."""
    many = f"{len(labels)} NVMe" if len(labels) > 1 else "NVMe"
    return (units.ranged(labels), many, "NVMe")


def nic_rate(record: object) -> tuple[str, ...]:
    """The rate of a NIC's ports in Gbit/s, "400 Gb/s" or "400G"; empty when it is not known."""
    rates = [port.rate_gbit for port in getattr(record, "ports", ()) if port.rate_gbit is not None]
    speed = getattr(record, "speed_mbps", None)
    total = sum(rates) if rates else (speed or 0) / 1000
    return (f"{total:.0f} Gb/s", f"{total:.0f}G", "") if total else ("",)
