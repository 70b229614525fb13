"""GPUs from KFD's topology and the files of amdgpu in sysfs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from ...hardware.amd_parts import PARTED, PARTS_OF_MODE
from ...model.machine import Gpu, XgmiLink
from ...model.part import Part, Raw
from ...model.record import Gap
from ...model.snapshot import Problem
from ..amdgpu.settings import settings
from ..files.answers import Fields, absent_text, part
from . import links as kfd_links
from . import memory as kfd_memory
from .nodes import PUBLIC, KfdNode, nodes

MODES = {1: "SPX"} | {count: mode for mode, count in PARTS_OF_MODE.items()}
"""Modes of a package by its number of parts; it is CPX where each part has one XCD."""
HIDDEN = "KFD hides nodes here, and parts of this package may be among them"
SHARED_ID = "all parts of a package have one unique_id"
ORIGIN = "kfd"
_NO_GAP = ("partition", "parent", "package_parts", "xgmi")


def parse(raw: Raw) -> Part:
    """Turn the answer of the source kfd into GPUs, their xGMI links and pairs."""
    absent = absent_text(raw)
    everything = nodes(raw)
    devices = part(raw, "devices")
    problems: list[Problem] = []
    chosen: dict[str, KfdNode] = {}
    for node in everything:
        if node.why is not None:
            problems.append(_hidden(node))
        elif node.is_gpu and node.values.get("vendor_id") == 0x1002:
            if node.address in chosen:
                twice = f"KFD nodes {chosen[node.address].number} and {node.number}"
                problems.append(
                    Problem(source=ORIGIN, kind="mismatch", text=f"{twice} are both {node.address}")
                )
            else:
                chosen[node.address] = node
    lost = _lost(everything)
    if lost:
        which = ", ".join(str(number) for number in lost[:4]) + " ..." * (len(lost) > 4)
        text = f"KFD's links lead to node {which}, of which there is nothing to read"
        problems.append(Problem(source=ORIGIN, kind="mismatch", text=text))
    whole = not lost and all(node.why is None for node in everything)
    names = {node.number: address for address, node in chosen.items()}
    counts = Counter(node.package for node in chosen.values())
    found = [
        _gpu(
            node, Fields(devices.get(node.package), absent), counts[node.package], names,
            whole=whole,
        )
        for _, node in sorted(chosen.items())
    ]  # fmt: skip
    denied = any(_denied(node) for node in everything)

    def given_away(address: str, device: Raw) -> bool:
        # The node is hidden, as in a container that was not given this GPU: only PCI shows it.
        # Or the device is a package whose other parts are there.
        return denied or (counts[address] > 0 and _is_parted(device))

    found += [
        _without_node(address, Fields(device, absent))
        for address, device in sorted(devices.items())
        if address not in chosen and not given_away(address, device)
    ]
    return Part(
        gpus=tuple(_with_hive(found, devices)),
        pairs=kfd_links.pairs(everything, names),
        problems=tuple(problems),
        origin=ORIGIN,
    )


def _lost(everything: Sequence[KfdNode]) -> list[int]:
    """Numbers of nodes that links lead to and that are not there, because a copy left them out.

    The kernel removes links together with their node; where a container may not see a node, its
    folder stays.
    """
    here = {node.number for node in everything}
    return sorted({link.to for node in everything for link in node.io_links} - here)


def _is_parted(device: Raw) -> bool:
    mode = device.get("current_compute_partition") if isinstance(device, dict) else None
    return mode in PARTED


def gfx(version: int) -> str | None:
    """Name of a target: 90010 -> "gfx90a"; the last two digits count in hexadecimal."""
    if not version:
        return None
    major, minor, step = version // 10_000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"


def _mode(node: KfdNode, count: int, *, split: bool) -> str | None:
    chiplets = node.values.get("num_xcc", 0)
    if split and chiplets == 1:
        return "CPX"
    return MODES.get(count) if chiplets > 1 else None


def _denied(node: KfdNode) -> bool:
    return "permission" in (node.why or "") or "permitted" in (node.why or "")


def _hidden(node: KfdNode) -> Problem:
    return Problem(
        source=ORIGIN,
        kind="denied" if _denied(node) else "failed",
        text=f"KFD node {node.number}: {node.why}; a GPU may be there that was not given to us",
    )


def _gpu(
    node: KfdNode, fields: Fields, count: int, names: Mapping[int, str], *, whole: bool
) -> Gpu:
    """One GPU. `count`: parts of its package that KFD lists; `whole`: KFD lists all there are."""
    values = node.values
    target = gfx(values.get("gfx_target_version", 0))
    # Of a split package a container may show but one part.
    split = count > 1 or node.part > 0 or _is_parted(dict(fields.raw))
    gpu = settings(Gpu(address=node.address, vendor="amd"), fields, whole=not split)
    mode = gpu.compute_partition or _mode(node, count, split=split)
    gaps = {gap.field: gap for gap in gpu.gaps}
    unique = values.get("unique_id")
    uuid = f"GPU-{unique:016x}" if unique and not split else gpu.uuid
    if split:
        uuid = None
        gaps["uuid"] = Gap("uuid", SHARED_ID)
        if not whole:
            gaps["package_parts"] = Gap("package_parts", HIDDEN)
    own = kfd_memory.own_banks(node)
    memory = sum(bank.size_bytes for bank in own)
    bank = own[0] if own else None
    stated = {
        "partition": str(node.part) if split else None,
        "parent": node.package if split else None,
        "uuid": uuid,
        "compute_capability": target,
        "core_count": _cores(values),
        "pci_id": f"1002:{values['device_id'] & 0xFFFF:04x}" if values.get("device_id") else None,
        "memory_bytes": (memory or None) if split else gpu.memory_bytes or memory or None,
        "bar1_bytes": gpu.bar1_bytes or _visible(node),
        "memory_bus_bits": (bank.width_bits or None) if bank else None,
        "clock_graphics_max_mhz": values.get("max_engine_clk_fcompute") or None,
        "clock_memory_max_mhz": (bank.clock_mhz or None) if bank else None,
        "compute_partition": mode,
        "package_parts": count if split and whole else None,
        "xcd_count": values.get("num_xcc") or None,
        "caches": kfd_memory.caches(node),
        "memory_banks": kfd_memory.banks(node),
        "xgmi_hive": str(values["hive_id"]) if values.get("hive_id") else None,
        "kfd_node": node.number,
        "render_minor": values.get("drm_render_minor") or None,
        "xgmi": kfd_links.xgmi(node, names, target),
    }
    for field, value in stated.items():
        if value in (None, ()) and field not in _NO_GAP:
            gaps.setdefault(field, Gap(field, _why_none(field, node)))
        elif value is not None:
            gaps.pop(field, None)
    return msgspec.structs.replace(gpu, **stated, gaps=tuple(gaps.values()))


def _why_none(field: str, node: KfdNode) -> str:
    if field == "xgmi_hive":
        return "KFD: in no hive"
    if field == "memory_banks":
        return "KFD lists no bank"
    if field == "caches":
        return _why_no_caches(node)
    return "not in KFD's topology"


def _why_no_caches(node: KfdNode) -> str:
    if node.caches:
        return "KFD lists none beyond level 1"
    count = node.values.get("caches_count", 0)
    return f"KFD counts {count} caches, and none could be read" if count else "KFD lists none"


def _visible(node: KfdNode) -> int | None:
    """Memory that the CPU can reach through the BAR, where KFD says that it is all of it."""
    own = kfd_memory.own_banks(node)
    return sum(bank.size_bytes for bank in own if bank.kind == PUBLIC) or None


def _cores(values: Mapping[str, int]) -> int | None:
    """Compute units; KFD counts their SIMDs, over all XCDs."""
    each = values.get("simd_per_cu", 0)
    return values.get("simd_count", 0) // each or None if each else None


def _without_node(address: str, fields: Fields) -> Gpu:
    whole = not _is_parted(dict(fields.raw))
    gpu = settings(Gpu(address=address, vendor="amd"), fields, whole=whole)
    gaps = (*gpu.gaps, Gap("kfd_node", "KFD shows no node of this GPU"))
    return msgspec.structs.replace(gpu, gaps=gaps)


def _with_hive(gpus: Sequence[Gpu], devices: Mapping[str, Raw]) -> list[Gpu]:
    """Fill in the hops and links from the driver's own files, package by package."""
    counted = {address: _hive_counts(device) for address, device in devices.items()}
    return [_counted(gpu, counted) for gpu in gpus]


def _counted(gpu: Gpu, counted: Mapping[str, dict[str, tuple[int, int | None]]]) -> Gpu:
    mine = counted.get(gpu.parent or gpu.address, {})
    known = {link.remote_address: link for link in gpu.xgmi}
    for peer, (hops, _) in mine.items():
        if gpu.partition is None and peer not in known and hops == 1:
            gaps = tuple(Gap(field, "sysfs does not say") for field in ("active", "raw_gbs"))
            known[peer] = XgmiLink(remote_address=peer, gaps=gaps)
    filled: list[XgmiLink] = []
    for address, link in sorted(known.items()):
        package = address if gpu.partition is None else f"{address.rpartition('.')[0]}.0"
        steps, links = mine.get(package, (0, None))
        new: dict[str, int] = {}
        if steps and link.hops is None:
            new["hops"] = steps
        if links is not None and link.links is None and package != gpu.parent:
            new["links"] = links
        left = tuple(gap for gap in link.gaps if gap.field not in new)
        filled.append(msgspec.structs.replace(link, **new, gaps=left) if new else link)
    return msgspec.structs.replace(gpu, xgmi=tuple(filled))


def _hive_counts(device: Raw) -> dict[str, tuple[int, int | None]]:
    """Hops and links from a GPU to every other GPU of its hive, by address."""
    members = part(device, "hive")
    hops, links = _octets(device, "xgmi_num_hops"), _octets(device, "xgmi_num_links")
    found: dict[str, tuple[int, int | None]] = {}
    for number, address in members.items():
        place = int(number) - 1 if number.isascii() and number.isdigit() else -1
        if isinstance(address, str) and len(hops) == len(members) and 0 <= place < len(hops):
            # The upper bits of the count of hops are the type of the link.
            count = links[place] if len(links) == len(members) else None
            found[address] = (hops[place] & 0x7, count)
    return found


def _octets(device: Raw, key: str) -> list[int]:
    text = device.get(key) if isinstance(device, dict) else None
    words = text.split() if isinstance(text, str) and len(text) < 1024 else []
    return [int(word, 16) for word in words if len(word) <= 2 and _is_hex(word)]


def _is_hex(word: str) -> bool:
    return all(letter in "0123456789abcdefABCDEF" for letter in word)
