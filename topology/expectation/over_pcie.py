"""An all-reduce without fast links, from the slots: a range, as wide as what is not known.

NCCL's own figure is of no use there: its table knows three rates of a slot and one of a CPU, and
where no ring fits its search ends at the floor of the table, 0.1 GB/s.

The shares are of the line rate of the slot, one way, as others measured them:
- P2P, two channels: 22.2 of 63 GB/s on eight RTX PRO 6000 of two EPYC 9575F; with eight channels
  37.6 to 41.5 there, 39.4 to 46.4 behind switches (local-inference-lab/rtx6kpro,
  hardware/pcie-bandwidth.md); 25.3 of 31.5 on four RTX 4090 with a driver that grants P2P.
- Through the memory of the host: 5.9 of 31.5 on four RTX 3090; 25.5 of 63 on four H200 with
  NCCL_P2P_DISABLE=1; 28 on eight and 35 on four RTX 5090 (NVIDIA/nccl issue 1639).
- By sockets: 4.2 GB/s on these four H200 with NCCL_SHM_DISABLE=1 as well.
By NICs of the host itself nobody measured; a slot bounds it as it does P2P, and the NICs do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from ..hardware.specs import BoardLinks, Sku
from ..hardware.vendors import NVIDIA
from ..nccl.prediction import NO_NVLS, P2P, Prediction
from ..node import Node
from ..wiring.codes import UNKNOWN
from .collective_figures import LARGE_BYTES
from .links import PCIE, host_link, pcie_gbs
from .modelled import modelled, ring_gbs
from .variables import Variables
from .ways import TakenWay, by_sockets, way_of_rings

LINKS = "the links, by what others measured over PCIe"
STAGED_HERE = "measured with these transports on two and four H200"
P2P_SHARES = (0.35, 0.82)
STAGED_SHARES = (0.18, 0.82)
STAGED_GEN5 = 0.66
"""From generation 5 on the memory of the host bounds before the slot does."""
H200_SLOT_GBS, H200_PAIR_GBS, H200_GBS = 63.0, 28.4, 25.5
"""Two and four H200 with NCCL_P2P_DISABLE=1: NCCL 2.28.9, 1 GiB."""
SOCKETS_GBS, SOCKETS_SPREAD = 4.2, 2.0
MORE_CHANNELS = 8
P2P_MORE, STAGED_MORE = 0.55, 0.36
"""The lower ends with eight channels and more."""
SLOWEST, FASTEST = (3, 16), (5, 16)
"""Generation and lanes of a slot that nothing tells."""
FAST_GBS = 40.0
"""More than a slot of generation 4 carries."""


class OverPcie(msgspec.Struct, frozen=True, kw_only=True):
    """What such an all-reduce reaches, GB/s of bus bandwidth."""

    way: TakenWay
    gbs: float
    """One figure where one is needed, with its source."""
    low: float
    high: float
    floor: bool
    """Whether NCCL's search found no ring at any rate."""
    because: str
    """What the range stands on, and what of it is not known."""
    source: str = LINKS
    remedies: tuple[str, ...] = ()
    """Variables that helped others on such a box, with what they measured."""


def over_pcie_here(
    variables: Variables,
    node: Node,
    gpus: tuple[str, ...] | None,
    here: Prediction | None = None,
) -> OverPcie | None:
    """The same for GPUs under the variables set here; None where they are joined faster.

    `gpus`: PCI addresses by rank; None for all. `here`: a prediction that somebody made for them,
    under whatever variables. Where NVLS may come up without P2P, it is the upper end, and the
    figure is that without it.
    """
    if here is None:
        here = variables.with_variables(variables.here, gpus)
    if here is None or here.failure:
        return None
    if not here.by_nvls_alone:
        return over_pcie(here, node)
    slow = variables.with_variables({**here.environment, **NO_NVLS}, gpus)
    found = None if slow is None else over_pcie(slow, node)
    most = modelled(here, LARGE_BYTES)
    if found is None or most is None:
        return found
    return msgspec.structs.replace(found, high=max(found.high, most))


def over_pcie(here: Prediction, node: Node) -> OverPcie | None:
    """The range from the slots; None where rings go over fast links, or RCCL by P2P."""
    way = way_of_rings(here)
    if here.failure or here.hosts > 1 or way is TakenWay.LINKS:
        return None
    if here.library.is_rccl and way is TakenWay.PCIE:
        return None  # its own count of its rings is better
    slots = [_slot(node, address) for address in _addresses(here)]
    if not slots:
        return None
    staged, direct = _transports(here, node)
    channels = _channels(here)
    least = min(low for low, _ in slots)
    most = min(high for _, high in slots)
    low = least * min(_lower(channels, direct=one) for one in _each(staged, direct))
    high = max(_upper(most, direct=one) for one in _each(staged, direct))
    if (fast := _links_at_most(here, node)) is not None:
        high = max(high, fast)
    if way is TakenWay.NETWORK:
        low, high = _by_nics(here, node, low, most)
    ring = here.graphs.ring
    made = OverPcie(
        way=way,
        gbs=math.sqrt(low * high),  # as far from the lower end as from the upper
        low=low,
        high=high,
        floor=ring is not None and ring.at_floor,
        because=_because(here, node, slots, way=way, staged=staged, direct=direct),
        remedies=tuple(
            _remedies(channels, staged=staged, floor=ring is not None and ring.at_floor)
        ),
    )
    return _pointed(made, here, node)


def _pointed(made: OverPcie, here: Prediction, node: Node) -> OverPcie:
    """The range with the likeliest figure: measured so, else by the library, else its middle."""
    if made.way is TakenWay.HOST and (seen := staged_gbs(here, node)) is not None:
        return msgspec.structs.replace(made, gbs=seen, source=f"{LINKS}; {STAGED_HERE}")
    if made.way is TakenWay.NETWORK and by_sockets(here):
        return msgspec.structs.replace(made, gbs=SOCKETS_GBS, source=STAGED_HERE)
    now = ring_gbs(here) if here.library.is_rccl else modelled(here, LARGE_BYTES)
    if now is None or made.floor:
        return made
    now *= narrowed(node, _addresses(here))
    return msgspec.structs.replace(made, gbs=now) if made.low <= now <= made.high else made


def narrowed(node: Node, addresses: Sequence[str]) -> float:
    """What is left of the narrowest slot: NCCL reads what a slot could be, not what it is."""
    links = [
        link
        for address in addresses
        if (gpu := node.devices.gpu(address)) is not None
        and (sku := node.devices.sku(gpu)) is not None
        and (link := host_link(node, gpu, sku)) is not None
    ]
    return min((link.now_gbs / link.design_gbs for link in links if link.missing), default=1.0)


def staged_gbs(here: Prediction, node: Node) -> float | None:
    """What was measured through the memory of a host of PCIe 5.0; None on another one."""
    each = [_host_gbs(node, address) for address in _addresses(here)]
    if not each or min(each) < FAST_GBS:
        return None
    share = (H200_PAIR_GBS if here.ranks == 2 else H200_GBS) / H200_SLOT_GBS
    return share * min(each)


def _host_gbs(node: Node, address: str) -> float:
    """The rate of an NVIDIA GPU's slot as it is now; 0 where it is not known or no PCIe."""
    gpu, sku = node.devices.gpu(address), _model(node, address)
    if gpu is None or sku is None or sku.vendor != NVIDIA.name:
        return 0.0
    link = host_link(node, gpu, sku)
    return 0.0 if link is None or link.kind is not PCIE else link.now_gbs


def _by_nics(here: Prediction, node: Node, low: float, slot: float) -> tuple[float, float]:
    """Both ends where hops leave a GPU by a NIC, or by TCP, and come back to this host."""
    if by_sockets(here):
        return SOCKETS_GBS / SOCKETS_SPREAD, SOCKETS_GBS * SOCKETS_SPREAD
    ports = [
        port.rate_gbit / 8 for nic in node.machine.rdma for port in nic.ports if port.rate_gbit
    ]
    most = slot * P2P_SHARES[1]
    if not ports:
        return low, most
    return min(low, P2P_SHARES[0] * min(ports)), min(most, sum(ports))


def _each(staged: bool, direct: bool) -> list[bool]:
    return [one for one, there in ((False, staged), (True, direct)) if there]


def _addresses(here: Prediction) -> list[str]:
    return sorted({pair.src_bus_id for pair in here.pairs})


def _channels(here: Prediction) -> int:
    value = here.environment.get("NCCL_MIN_NCHANNELS", "")
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 4 else 0


def _lower(channels: int, *, direct: bool) -> float:
    if channels >= MORE_CHANNELS:
        return P2P_MORE if direct else STAGED_MORE
    return P2P_SHARES[0] if direct else STAGED_SHARES[0]


def _upper(most: float, *, direct: bool) -> float:
    if direct:
        return most * P2P_SHARES[1]
    return most * (STAGED_GEN5 if most > FAST_GBS else STAGED_SHARES[1])


def _slot(node: Node, address: str) -> tuple[float, float]:
    """The lowest and highest line rate that the slot of a GPU may have.

    A card may stand in a slot of half its rate, and no list of names tells of that.
    """
    gpu, sku = node.devices.gpu(address), _model(node, address)
    low, high = pcie_gbs(*SLOWEST) or 0.0, pcie_gbs(*FASTEST) or 0.0
    told = gpu is not None and gpu.pcie_gen_max is not None
    link = None if gpu is None or sku is None else host_link(node, gpu, sku)
    if link is not None:
        return (link.now_gbs if told else link.now_gbs / 2), link.now_gbs
    if gpu is not None and gpu.pcie_gen_max is not None:
        known = pcie_gbs(gpu.pcie_gen_max, gpu.pcie_width_max or 16)
        return (low / 2, high) if known is None else (known, known)
    return low / 2, high


def _transports(here: Prediction, node: Node) -> tuple[bool, bool]:
    """Whether the rings may go through the memory of the host, and whether they may go by P2P.

    A ring is as fast as its slowest hop: one pair without P2P is enough for the first.
    """
    pairs = here.pairs
    staged = any(pair.transport != P2P for pair in pairs)
    unsure = any(
        node.pairs.kind(pair.src_bus_id, pair.dst_bus_id) == UNKNOWN for pair in pairs
    ) or any(_model(node, address) is None for address in _addresses(here))
    # Two GPUs of an AMD CPU take P2P at any distance (graph/paths.cc: ncclTopoCheckP2p).
    two = here.ranks == 2 and _cpu(node) is None
    return staged or unsure or two, not staged or unsure or two


def _cpu(node: Node) -> str | None:
    host = node.machine.host
    return None if host is None else host.cpu_vendor


def _model(node: Node, address: str) -> Sku | None:
    gpu = node.devices.gpu(address)
    return None if gpu is None else node.devices.sku(gpu)


def _links_at_most(here: Prediction, node: Node) -> float | None:
    """What links between the GPUs would carry, where a model may have some and nothing tells."""
    models = [_model(node, address) for address in _addresses(here)]
    known = any(node.pairs.kind(pair.src_bus_id, pair.dst_bus_id) != UNKNOWN for pair in here.pairs)
    sku = models[0] if models else None
    if known or sku is None or sku.fabric is BoardLinks.NONE or any(one != sku for one in models):
        return None
    return sku.total_gbs


def _because(
    here: Prediction,
    node: Node,
    slots: list[tuple[float, float]],
    *,
    way: TakenWay,
    staged: bool,
    direct: bool,
) -> str:
    least, most = min(low for low, _ in slots), min(high for _, high in slots)
    rate = f"{most:.3g}" if most - least < 0.5 else f"{least:.3g} to {most:.3g}"
    hops = {
        (True, False): "some hops go through the memory of the host",
        (False, True): "every hop goes from GPU to GPU",
        (True, True): "by P2P or through the memory of the host, which is not known",
    }[staged, direct]
    if way is TakenWay.NETWORK:
        hops = "some hops go by sockets" if by_sockets(here) else "some hops go by NICs and back"
    unknown = []
    if any(_model(node, address) is None for address in _addresses(here)):
        unknown.append("the model of the GPUs")
    elif most - least >= 0.5:
        unknown.append("the generation and width of the slots")
    if _cpu(node) is None:
        unknown.append("the CPU")
    lacks = f"; not told: {', '.join(unknown)}" if unknown else ""
    return f"slots of {rate} GB/s one way; {hops}{lacks}"


def _remedies(channels: int, *, staged: bool, floor: bool) -> list[str]:
    found = []
    if channels < MORE_CHANNELS:
        found.append("NCCL_MIN_NCHANNELS=8: 22.2 to 37.6 GB/s on eight RTX PRO 6000, two EPYC")
    if staged:
        found.append(
            "NCCL_P2P_LEVEL=SYS, where P2P works: 30.3 to 39.3 GB/s on four behind two switches"
        )
    if floor:
        found.append(
            "NCCL_GRAPH_FILE with rings of this box: lets it choose LL, 48 to 26 us at 32 KiB"
        )
    return found
