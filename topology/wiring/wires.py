"""Wires: what joins two devices, and how much that carries one way.

GB/s is 10^9 bytes per second, one direction, for the whole bundle. `raw` is the signalling rate,
`payload` what is left after the line code; packet headers take more, so a copy measures less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..model.machine import NvLink, PciDevice
from ..model.severity import Word
from ..model.units import figure, gbs

NVLINK_PAYLOAD_GBS = {1: 20.0, 2: 25.0, 3: 25.0, 4: 25.0, 5: 50.0}
"""Payload rate of one link one way, by NVLink generation (data sheets, both ways halved)."""
NVLINK_RAW_GBS = {1: 20.0, 2: 25.781, 3: 25.0, 4: 26.562, 5: 53.125}
"""What the driver prints for one link; payload / raw is the share that the line code leaves."""
PCIE_GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6, 128.0: 7}
PCIE_EFFICIENCY = {1: 0.8, 2: 0.8, 3: 128 / 130, 4: 128 / 130, 5: 128 / 130, 6: 0.9453, 7: 0.9453}
"""Share left by 8b/10b, 128b/130b, or the FLIT code of generation 6."""
PCIE_GTS = {generation: gts for gts, generation in PCIE_GENERATION.items()}
C2C_PAYLOAD_GBS = 450.0
"""NVLink-C2C between Grace and Hopper or Blackwell, one way (data sheet: 900 both ways)."""


class WireKind(Word):
    """A kind of wire or of path. Only a path is through an NVSwitch."""

    NVLINK = "nvlink"
    NVSWITCH = "nvswitch"
    XGMI = "xgmi"
    C2C = "c2c"
    PCIE = "pcie"
    SOCKET = "socket"
    NET = "net"


_NAMES = {
    WireKind.C2C: "NVLink-C2C",
    WireKind.SOCKET: "between CPUs",
    WireKind.NET: "network",
}


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """One edge of the graph: a link, or a bundle of equal links."""

    kind: WireKind
    raw_gbs: float | None = None
    payload_gbs: float | None = None
    count: int | None = None
    """Links that are active, or PCIe lanes that are trained."""
    count_max: int | None = None
    """Links that exist, or lanes that both ends can do; None where that is not known."""
    generation: str | None = None
    """"4.0" for NVLink, "5" for PCIe."""
    gts: float | None = None
    """PCIe: highest rate per lane that both ends can do; the rate at this moment is a reading."""
    source: str = ""
    """Where the figures come from, in words."""
    assumed: bool = False
    """True when a figure was taken from a table or a maximum instead of being read."""
    inside: bool = False
    """True inside one chip (a CPU, a PCIe switch) or package of a GPU that shows as parts: no
    link, and no bottleneck that is known."""

    def words(self) -> str:
        """Describe the wire in a few words: "18 NVLinks, 450 GB/s payload one way"."""
        return f"{self.name()}{self._rate()}"

    def name(self) -> str:
        """Say what it is without its rate: "18 NVLinks", "PCIe gen5 x16"."""
        many = "" if self.count == 1 else "s"
        if self.kind is WireKind.NVLINK:
            return f"NVLink{many}" if self.count is None else f"{self._of()} NVLink{many}"
        if self.kind is WireKind.XGMI and self.inside:
            return "inside a GPU package"
        if self.kind is WireKind.XGMI:
            return f"xGMI link{many}" if self.count is None else f"{self._of()} xGMI link{many}"
        if self.kind is WireKind.PCIE:
            return self._pcie()
        if self.inside:
            return "inside the CPU"
        return _NAMES[self.kind]

    def _of(self) -> str:
        short = self.count_max is not None and self.count != self.count_max
        return f"{self.count} of {self.count_max}" if short else str(self.count)

    def _pcie(self) -> str:
        if self.inside:
            return "inside a PCIe switch"
        lanes = self.count or self.count_max
        if self.generation is None or lanes is None:
            return "PCIe" if lanes is None else f"PCIe x{lanes}"
        short = self.count and self.count_max and self.count < self.count_max
        of = f" of x{self.count_max}" if short else ""
        return f"PCIe gen{self.generation} x{lanes}{of}"

    def _rate(self) -> str:
        return "" if self.payload_gbs is None else f", {gbs(self.payload_gbs)} payload one way"


def nvlink_wire(links: Sequence[NvLink], count_max: int | None) -> Wire:
    """Bundle the active NVLinks of one GPU that end at the same place."""
    versions = {link.version for link in links if link.version is not None}
    version = versions.pop() if len(versions) == 1 else None
    payloads = [*map(_link_payload, links)]
    raws = [link.raw_gbs for link in links if link.raw_gbs is not None]
    complete = len(raws) == len(links)
    # Links of one bundle run at one rate; where they do not, the sum is still what they carry.
    payload = (
        sum(known) if len(known := [p for p in payloads if p is not None]) == len(links) else None
    )
    each = figure(payload / len(links)) if payload else None
    many = f"{len(links)} link{'' if len(links) == 1 else 's'} active"
    if complete and each:
        source = f"driver: {many} at {raws[0]:.3f} GB/s raw; {each} GB/s payload each"
    elif each:
        source = f"{many}; {each} GB/s each is the data sheet's, not read"
    else:
        source = f"{many}; their rate was not read"
    return Wire(
        kind=WireKind.NVLINK,
        raw_gbs=round(sum(raws), 3) if complete else None,
        payload_gbs=payload,
        count=len(links),
        count_max=count_max,
        generation=version,
        source=source,
        assumed=not complete,
    )


def _link_payload(link: NvLink) -> float | None:
    major = _major(link.version)
    if major is None:
        return None
    if link.raw_gbs is None:
        return NVLINK_PAYLOAD_GBS[major]
    share = NVLINK_PAYLOAD_GBS[major] / NVLINK_RAW_GBS[major]
    # The driver rounds its figure to a thousandth: 26.562 is 25 x 17/16 = 26.5625.
    return round(link.raw_gbs * share, 2)


def _major(version: str | None) -> int | None:
    head = (version or "").split(".")[0]
    major = int(head) if head.isdecimal() else 0
    return major if major in NVLINK_PAYLOAD_GBS else None


class LinkLimits(NamedTuple):
    """What both ends of a PCIe link can do, as far as they tell."""

    gts: float | None
    """Highest rate per lane of the slower end."""
    lanes: int | None
    """Lanes that are trained."""
    lanes_max: int | None
    """Lanes of the narrower end."""


def link_limits(device: PciDevice, port: PciDevice | None) -> LinkLimits:
    """The limits of the link between a device and the port above it, if that is known."""
    ends = [device] if port is None else [device, port]
    rates = [end.link_speed_max_gts for end in ends if end.link_speed_max_gts is not None]
    widths = [end.link_width_max for end in ends if end.link_width_max]
    lanes = next((end.link_width_now for end in ends if end.link_width_now), None)
    return LinkLimits(min(rates, default=None), lanes, min(widths, default=None))


def pcie_wire(
    gts: float | None,
    lanes: int | None,
    lanes_max: int | None,
    source: str,
    *,
    assumed: bool = False,
) -> Wire:
    """Make a PCIe link of `gts` per lane; the rate counts the lanes that are trained, if known."""
    generation = PCIE_GENERATION.get(gts) if gts is not None else None
    used = lanes or lanes_max
    raw = payload = None
    if gts is not None and used is not None:
        raw = gts * used / 8
        payload = round(raw * PCIE_EFFICIENCY[generation], 3) if generation is not None else None
    return Wire(
        kind=WireKind.PCIE,
        raw_gbs=raw,
        payload_gbs=payload,
        count=lanes,
        count_max=lanes_max,
        generation=None if generation is None else str(generation),
        gts=gts,
        source=source,
        assumed=assumed,
    )
