"""The same machine without its faults: links that are down are up, gone ones are back.

What the library would decide on it is the healthy half of every cost. Only that is repaired of
which siblings or the model say how it should be; a link whose far end nobody knows stays down.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ..hardware.specs import BoardLinks, sku_for
from ..hardware.vendors import AMD, NVIDIA
from ..model.machine import Gpu, GpuPair, Machine, NvLink, XgmiLink
from ..wiring.devices import devices_of


def repaired(machine: Machine) -> Machine | None:
    """The machine with all links that belong to it; None where none is missing."""
    pattern = _pattern(machine)
    gpus = tuple(
        _nvlinks(machine, gpu) or _xgmi(machine, gpu, pattern) or gpu for gpu in machine.gpus
    )
    if gpus == machine.gpus:
        return None
    fixed = [new for old, new in zip(machine.gpus, gpus, strict=True) if new is not old]
    return replace(machine, gpus=gpus, pairs=_pairs(machine, fixed))


def _alike(machine: Machine, gpu: Gpu) -> Iterable[Gpu]:
    return (
        other
        for other in machine.gpus
        if other.name == gpu.name and other.vendor == gpu.vendor and not other.mig_enabled
    )


def _nvlinks(machine: Machine, gpu: Gpu) -> Gpu | None:
    """The GPU with all its NVLinks up; None where none is known to be missing."""
    if gpu.vendor != NVIDIA.id or gpu.mig_enabled or gpu.why("nvlinks") is not None:
        return None
    devices = devices_of(machine)
    most, _ = devices.expected_links(gpu)
    seen = any(devices.links_up.values()) or machine.in_vm is False
    if devices.links_up[gpu.address] >= most or not seen:
        return None
    known = {link.link: link for link in gpu.nvlinks}
    found = dict(known)
    for number in _numbers(machine, gpu, most):
        if sum(1 for link in found.values() if link.active) >= most:
            break
        own = known.get(number)
        if own is None or not own.active:
            made = _link(machine, gpu, number, own)
            if made is not None:
                found[number] = made
    links = tuple(found[number] for number in sorted(found))
    return None if links == gpu.nvlinks else replace(gpu, nvlinks=links)


def _numbers(machine: Machine, gpu: Gpu, most: int) -> list[int]:
    listed = {link.link for other in _alike(machine, gpu) for link in other.nvlinks}
    return sorted(listed) if listed else list(range(most))


def _link(machine: Machine, gpu: Gpu, number: int, own: NvLink | None) -> NvLink | None:
    """One link as it would be if it were up; None where its far end is not known."""
    siblings = [link for other in _alike(machine, gpu) for link in other.nvlinks if link.active]
    same = [link for link in siblings if link.link == number]
    for like in (*same, *siblings):
        if like.to_switch:
            # Which switch does not matter: all of them lead to every GPU.
            return replace(like, link=number)
        if own is not None and own.remote_address and own.to_gpu:
            return replace(own, active=True, version=like.version, raw_gbs=like.raw_gbs, gaps=())
    sku = sku_for(gpu)
    if siblings or sku is None or sku.fabric is not BoardLinks.SWITCHED:
        return None
    return NvLink(link=number, active=True, remote_kind="nvswitch")


def _xgmi(machine: Machine, gpu: Gpu, pattern: XgmiLink | None) -> Gpu | None:
    """The GPU with all its xGMI links up; None where none is known to be missing."""
    if gpu.vendor != AMD.id:
        return None
    guest = machine.in_vm
    if pattern is None and guest is not False:
        return None  # a guest may be shown all its links as down
    here = {other.address for other in machine.gpus}
    links = [
        _joined(link, pattern)
        if link.active is False and pattern is not None and link.remote_address in here
        else link
        for link in gpu.xgmi
    ]
    if pattern is not None and guest is False and _whole_mesh(machine, gpu):
        there = {link.remote_address for link in links} | {gpu.address}
        links += [replace(pattern, remote_address=end) for end in sorted(here - there)]
    return None if tuple(links) == gpu.xgmi else replace(gpu, xgmi=tuple(links))


def _pattern(machine: Machine) -> XgmiLink | None:
    """A link of a single hop that is up: on a mesh they are all alike."""
    return next(
        (
            link
            for gpu in machine.gpus
            for link in gpu.xgmi
            if link.active and link.links and (link.hops or 1) == 1
        ),
        None,
    )


def _joined(link: XgmiLink, pattern: XgmiLink) -> XgmiLink:
    return replace(pattern, remote_address=link.remote_address)


def _whole_mesh(machine: Machine, gpu: Gpu) -> bool:
    """Whether all GPUs of a board are here whose model has a link for every pair."""
    sku = sku_for(gpu)
    if sku is None or not sku.full_mesh or sku.devices > 1:
        return False
    if len(machine.gpus) != sku.world_size:
        return False
    return all(other.partition is None and sku_for(other) == sku for other in machine.gpus)


def _pairs(machine: Machine, fixed: list[Gpu]) -> tuple[GpuPair, ...]:
    """The driver's records of pairs, with those that xGMI joins again as the others."""
    joined = {
        (gpu.address, link.remote_address) for gpu in fixed for link in gpu.xgmi if link.active
    }
    like = next((pair for pair in machine.pairs if pair.over_xgmi and pair.hops == 1), None)
    if like is None:
        return machine.pairs
    return tuple(
        replace(pair, link_type="xgmi", hops=1, weight=like.weight)
        if (pair.src, pair.dst) in joined and not pair.over_xgmi
        else pair
        for pair in machine.pairs
    )
