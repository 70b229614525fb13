"""What is known about a GPU's NVLinks or xGMI links, and whether some are missing."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..hardware.vendors import AMD
from ..model.machine import Fabric, Gpu
from ..model.page import ASSUMED, READ, Fact
from ..model.units import gbs
from ..node import Node
from ..wiring.gpu_names import gpu_label
from ..wiring.paths import Path
from ..wiring.wires import WireKind, nvlink_wire
from .naming import origin


class LinkTrouble(msgspec.Struct, frozen=True):
    """NVLinks that should be up and are not."""

    claim: str
    impact: str
    fix: str


def _xgmi(gpu: Gpu, most: int) -> Fact:
    up = [link for link in gpu.xgmi if link.active is not False]
    rates = sorted({link.raw_gbs for link in up if link.raw_gbs is not None})
    because = "" if not rates else f"{gbs(rates[0])} one way to each"
    known = [link for link in gpu.xgmi if link.active is not None]
    if len(rates) > 1:
        because = f"{gbs(rates[0])} to {gbs(rates[-1])} one way, by the number of links to each"
    if not known:
        return Fact(
            what="Which xGMI links are up?",
            value=f"not read; {len(gpu.xgmi)} neighbours are listed",
            because="; ".join(filter(None, (because, "no source tells their state"))),
            source=origin(gpu, "driver"),
        )
    return Fact(
        what="Which xGMI links are up?",
        value=f"{len(up)} of {most} neighbours",
        because=because,
        source=origin(gpu, "driver"),
    )


def mesh_facts(gpu: Gpu, path: Path | None) -> Iterator[Fact]:
    """Compare the rate of one pair with the rate of the GPU to all its neighbours.

    On a mesh a GPU has a wire of its own to each neighbour, which no other traffic uses.
    """
    if gpu.partition is not None or gpu.parent is not None or (path and path.relayed):
        # The parts of a package share its wires, so the rates of one part do not add up.
        return
    up = [link for link in gpu.xgmi if link.active is not False and (link.hops or 1) == 1]
    rates = [link.raw_gbs for link in up if link.raw_gbs is not None]
    if (
        path is None
        or path.kind is not WireKind.XGMI
        or path.payload_gbs is None
        or len(rates) != len(up) > 1
    ):
        return
    because = "each neighbour has its own wire, and no wire carries for another pair"
    if len(set(rates)) == 1:
        each = rates[0]
        parts = [
            f"{count} GPUs {gbs((count - 1) * each)}" for count in (2, 4) if count <= len(rates)
        ]
        because += f": for each GPU of a job there is, on {', on '.join(parts)}"
        if len(rates) > 1 and gpu.vendor == AMD.id:
            # The rule amd-few-gpus gives this advice with figures where such a job is checked.
            because += "; NCCL_MIN_NCHANNELS=32 helps such a job a little"
    yield Fact(
        what="Is that all that the GPU can send?",
        value=f"{gbs(path.payload_gbs)} to this one, {gbs(sum(rates))} to all {len(up)} together",
        because=because,
        source="the same links, added",
    )


def link_facts(node: Node, gpu: Gpu) -> Iterator[Fact]:
    """State the links of a GPU, their rate, and its registration with the fabric."""
    if gpu.nvlinks:
        yield _nvlinks(gpu, node.devices.links_most(gpu))
    if gpu.xgmi:
        yield _xgmi(gpu, node.devices.links_most(gpu))
    yield from _registered(gpu.fabric)
    yield from _reached(node, gpu)


def _registered(fabric: Fabric | None) -> Iterator[Fact]:
    if fabric is not None and fabric.state not in (None, "not supported"):
        status = "" if fabric.status is None else f", status {fabric.status}"
        bad = [f"{what}: {word}" for what, word in fabric.health if word == "true"]
        yield Fact(
            what="Is it registered with the NVSwitch fabric?",
            value=f"{fabric.state}{status}",
            because="; ".join(bad),
            source="NVML nvmlDeviceGetGpuFabricInfoV",
        )


def _reached(node: Node, gpu: Gpu) -> Iterator[Fact]:
    island = next((group for group in node.islands if gpu.address in group), ())
    others = [other for other in node.snapshot.machine.gpus if other.address in island]
    names = [gpu_label(other) for other in others if other.address != gpu.address]
    if names:
        outside = len(island) < len(node.snapshot.machine.gpus)
        yield Fact(
            what="Which GPUs does it reach by fast links?",
            value=", ".join(names),
            because="a job on other GPUs besides crosses PCIe" if outside else "all there are here",
            source="",
        )


def _nvlinks(gpu: Gpu, most: int) -> Fact:
    up = [link for link in gpu.nvlinks if link.active]
    down = [str(link.link) for link in gpu.nvlinks if link.active is False]
    because = f"down: link {', '.join(down)}" if down else "an active link is trained, no more"
    if not up:
        return Fact(
            what="Which NVLinks are up?",
            value=f"0 of {most}",
            because="without a bridge or with MIG on this is normal",
            source=origin(gpu, "NVML nvmlDeviceGetNvLinkState"),
        )
    wire = nvlink_wire(up, most)
    raw = "" if wire.raw_gbs is None else f"{gbs(wire.raw_gbs)} raw, "
    rate = "" if wire.payload_gbs is None else f"; {raw}{gbs(wire.payload_gbs)} payload one way"
    return Fact(
        what="Which NVLinks are up?",
        value=f"{len(up)} of {most}, version {wire.generation or 'not told'}{rate}",
        because=because,
        source=f"{origin(gpu, 'NVML nvmlDeviceGetNvLinkState')}; {wire.source}",
        basis=ASSUMED if wire.assumed else READ,
    )


def missing_links(node: Node, gpu: Gpu) -> LinkTrouble | None:
    """Say which NVLinks are missing; None where it is not proven.

    `node.devices.expected_links` decides, for the rule nvlink-down as well.
    """
    down = [link.link for link in gpu.nvlinks if link.active is False]
    if not down or not node.devices.links_missing(gpu):
        return None
    up, expected = node.devices.links_up[gpu.address], node.devices.expected_links(gpu)[0]
    numbers = ", ".join(map(str, down))
    verb = "is" if len(down) == 1 else "are"
    return LinkTrouble(
        claim=f"{up} of {expected} NVLinks are up: link {numbers} {verb} down.",
        impact=f"Every pair with this GPU has {up} NVLinks instead of {expected}, and a "
        "collective runs at the pace of its slowest member.",
        fix="nvidia-smi nvlink -s shows the links; look for Xid messages in the kernel's log, "
        "then reset the GPU; what stays down is hardware.",
    )
