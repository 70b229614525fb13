"""Pairs of GPUs as the rules see them: letters, grants, NCCL's choice, and the PCIe way between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import msgspec

from ..model import quantities
from ..model.machine import Gpu, GpuPair, PciDevice

if TYPE_CHECKING:
    from .case import Case

FAST = ("NV", "XGMI")
THROUGH_HOST = ("PHB", "NODE", "SYS")
BELOW_SWITCH = ("PIX", "PXB")
"""Letters of `nvidia-smi topo -m`."""
OK, SYS = "ok", "SYS"
NOT_GRANTED = "not granted to CUDA or HIP"
"""The grant where the runtime refused a probe and the management library did not."""
_ASKED = {"granted": OK, "not-granted": NOT_GRANTED}


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two examined GPUs, in no order."""

    one: Gpu
    other: Gpu
    code: str
    """Relation as `nvidia-smi topo -m` writes it."""
    grants: tuple[GpuPair, ...] = ()
    """The driver's answer for one or both directions."""
    asked: tuple[str, ...] = ()
    """The runtime's answer to a probe, in the same words."""
    words: tuple[str, ...] = ()
    """All these answers for reading and writing, both ways, as far as they are known."""
    transports: tuple[str, ...] = ()
    """What NCCL or RCCL will use, by direction; () without a prediction."""

    @property
    def ends(self) -> tuple[str, str]:
        """Both addresses."""
        return self.one.address, self.other.address

    @property
    def fast(self) -> bool:
        """Whether NVLink or xGMI joins them."""
        return self.code.startswith(FAST)

    @property
    def far(self) -> bool:
        """Whether they are behind different processors."""
        return self.code == SYS

    @property
    def mig(self) -> bool:
        """Whether MIG rules out P2P."""
        return bool(self.one.mig_enabled or self.other.mig_enabled)

    @property
    def granted(self) -> bool | None:
        """Whether the driver lets both read and write; None where it did not say."""
        words = self.words
        if any(word != OK for word in words):
            return False
        return True if words else None


def pairs_of(case: Case) -> tuple[Pair, ...]:
    """Every pair of examined GPUs that are whole."""
    matrix = case.matrix
    place = {row.address: index for index, row in enumerate(matrix.rows) if row.kind == "gpu"}
    asked = {(pair.src, pair.dst): pair for pair in case.machine.pairs}
    chosen: dict[tuple[str, str], str] = {}
    if case.prediction is not None:
        chosen = {(p.src_bus_id, p.dst_bus_id): p.transport for p in case.prediction.pairs}
    seen = {
        (figure.src, figure.dst): _ASKED[figure.verdict]
        for figure in case.figures(quantities.CAN_ACCESS)
        if figure.verdict in _ASKED
    }
    found = []
    for one, other in combinations([gpu for gpu in case.gpus if gpu.address in place], 2):
        a, b = one.address, other.address
        ends = ((a, b), (b, a))
        grants = tuple([asked[way] for way in ends if way in asked])
        probed = tuple([seen[way] for way in ends if way in seen]) if seen else ()
        said = [word for grant in grants for word in (grant.p2p_read, grant.p2p_write)]
        found.append(
            Pair(
                one=one,
                other=other,
                code=matrix.rows[place[a]].cells[place[b]].code,
                grants=grants,
                asked=probed,
                words=(*(word for word in said if word is not None), *probed),
                transports=tuple([chosen[way] for way in ends if way in chosen]),
            )
        )
    return tuple(found)


def named(case: Case, pairs: Sequence[Pair], most: int = 4) -> str:
    """Pairs in one phrase: "GPU0-GPU1, GPU0-GPU2 and 4 more"."""
    names = [f"{case.name(pair.ends[0])}-{case.name(pair.ends[1])}" for pair in pairs[:most]]
    rest = len(pairs) - len(names)
    return ", ".join(names) + (f" and {rest} more" if rest > 0 else "")


def joined(alone: Iterable[tuple[str, ...]], near: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Devices in groups: those that are near each other, directly or over others."""
    groups = {device: {device} for group in alone for device in group}
    for ends in near:
        group = set(ends).union(*(groups.get(end, ()) for end in ends))
        groups |= dict.fromkeys(group, group)
    return [list(group) for group in sorted({tuple(sorted(found)) for found in groups.values()})]


def in_braces(case: Case, groups: Iterable[Sequence[str]]) -> str:
    """Groups of devices in one phrase: "{GPU0, GPU1} {GPU2, GPU3}"."""
    return " ".join("{" + ", ".join(map(case.name, group)) + "}" for group in groups)


def devices_of(pairs: Sequence[Pair]) -> list[str]:
    """Addresses of all ends, each once, in order."""
    return sorted({end for pair in pairs for end in pair.ends})


def way(case: Case, a: str, b: str) -> tuple[PciDevice, ...] | None:
    """The bridges where traffic between two PCI devices could be turned away.

    Those below the place where both ways up meet; where they meet in the host alone, all of them,
    root ports included. None where the tree was not read.
    """
    one, other = case.way_up(a), case.way_up(b)
    if not one or not other:
        return None
    met = case.above(a) & case.above(b)
    return tuple([device for device in (*one[1:], *other[1:]) if device.address not in met])


def meet_in_switch(case: Case, a: str, b: str) -> bool:
    """Whether two devices share a PCIe switch."""
    both = case.above(a) & case.above(b)
    return any(
        device is not None and device.kind.startswith("switch") for device in map(case.pci, both)
    )
