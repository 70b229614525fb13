"""The same machine without its faults: links that are down are up, gone ones are back.

What the library would decide on it is the healthy half of every cost. Only that is repaired of
which siblings or the model say how it should be; a link whose far end nobody knows stays down.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..hardware.specs import BoardLinks, sku_for
from ..hardware.vendors import AMD, NVIDIA
from ..model.machine import Gpu, GpuPair, Machine, NvLink, XgmiLink
from ..wiring.devices import devices_of


def repaired(machine: Machine) -> Machine | None:
    """The machine with all links that belong to it; None where none is missing."""
    pattern = _pattern(machine)
    models = {key: _Model(machine, *key) for key in {(g.name, g.vendor) for g in machine.gpus}}
    gpus = tuple(
        _nvlinks(machine, gpu, models[gpu.name, gpu.vendor]) or _xgmi(machine, gpu, pattern) or gpu
        for gpu in machine.gpus
    )
    if gpus == machine.gpus:
        return None
    fixed = [new for old, new in zip(machine.gpus, gpus, strict=True) if new is not old]
    return replace(machine, gpus=gpus, pairs=_pairs(machine, fixed))


class _Model:
    """The NVLinks of all GPUs of one model: their numbers, and the first that are up."""

    def __init__(self, machine: Machine, name: str | None, vendor: str) -> None:
        self.numbers: set[int] = set()
        self.first: dict[int | None, NvLink] = {}
        """By number; of any number under None."""
        self.to_switch: dict[int | None, NvLink] = {}
        for gpu in machine.gpus:
            if gpu.name != name or gpu.vendor != vendor or gpu.mig_enabled:
                continue
            for link in gpu.nvlinks:
                self.numbers.add(link.link)
                for found in (self.first, *([self.to_switch] if link.to_switch else ())):
                    if link.active:
                        found.setdefault(link.link, link)
                        found.setdefault(None, link)

    def link(self, gpu: Gpu, number: int, own: NvLink | None) -> NvLink | None:
        """One link as it would be if it were up; None where its far end is not known."""
        own_end = own is not None and own.remote_address and own.to_gpu
        like = self.first.get(number) or self.first.get(None)
        if own is not None and own_end and like is not None and not like.to_switch:
            return replace(own, active=True, version=like.version, raw_gbs=like.raw_gbs, gaps=())
        # Which switch does not matter: all of them lead to every GPU.
        if (like := self.to_switch.get(number) or self.to_switch.get(None)) is not None:
            return replace(like, link=number)
        sku = sku_for(gpu)
        if self.first or sku is None or sku.fabric is not BoardLinks.SWITCHED:
            return None
        return NvLink(link=number, active=True, remote_kind="nvswitch")


def _nvlinks(machine: Machine, gpu: Gpu, model: _Model) -> Gpu | None:
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
    active = sum(1 for link in found.values() if link.active)
    for number in sorted(model.numbers) or range(most):
        if active >= most:
            break
        own = known.get(number)
        if own is None or not own.active:
            made = model.link(gpu, number, own)
            if made is not None:
                found[number] = made
                active += 1
    links = tuple(found[number] for number in sorted(found))
    return None if links == gpu.nvlinks else replace(gpu, nvlinks=links)


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
