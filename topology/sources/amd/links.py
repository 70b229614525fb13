"""xGMI in the answers of amdsmi: what is said about each pair of GPUs, and the links of one GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from ...model.machine import GpuPair, XgmiLink
from ...model.part import Raw
from ...model.record import Gap
from ..files.answers import under
from ..files.fields import Fields, by, whole, word
from ..files.library_answers import Answers, Path, dicts, is_whole
from ..pci.address import pci_address
from .answers import AMDSMI
from .words import LINK_STATES, LINK_TYPES

MAX_LINKS = 64
MAX_PAIRS = 256
MOST_GTS, MOST_LANES = 256, 64
"""A rate or a width above these is not that of an xGMI link."""
WEIGHT_OF_A_HOP = 15
"""Weight of one xGMI hop (amdgpu, kfd_fill_iolink_info_for_gpu)."""
KERNEL_RATE = (
    "xGMI rates are those of the kernel's topology, which older kernels fill in for lanes of "
    "25 GT/s: the driver does not tell the rate of a lane"
)
WHICH_DIED = (
    "as many xGMI links of a GPU are down as it has peers that the driver reaches by PCIe: these "
    "are taken for the ends of the dead links"
)
_DEAD_GAPS = (Gap("raw_gbs", "the link is down"),)
_METRICS = "amdsmi_get_gpu_metrics_info"
_STATUS = "amdsmi_get_gpu_xgmi_link_status"
_LINKS = "amdsmi_get_link_metrics"
_TYPE = "amdsmi_topo_get_link_type"
_P2P = "amdsmi_topo_get_p2p_status"
_BANDWIDTH = "amdsmi_get_minmax_bandwidth_between_processors"
_WHICH = "this amdsmi does not tell which link leads where"


class SeenPair(msgspec.Struct, frozen=True):
    """What is said about one ordered pair, and its bandwidths in MB/s as the driver states them."""

    pair: GpuPair
    low: int | None
    high: int | None


def seen_pairs(device: dict[str, Raw], own: str, addresses: dict[int, str]) -> list[SeenPair]:
    """Ordered pairs with this GPU as the source, as the driver describes them."""
    found: dict[str, SeenPair] = {}
    for raw in dicts(device.get("pairs"))[:MAX_PAIRS]:
        peer = raw.get("peer")
        other = addresses.get(peer) if is_whole(peer) else None
        if other is not None and other != own:
            a = Answers(raw, AMDSMI)
            low = a.whole("min", (_BANDWIDTH, "min_bandwidth"))
            high = a.whole("max", (_BANDWIDTH, "max_bandwidth"))
            found.setdefault(
                other, SeenPair(PAIR.read(Answers(raw, AMDSMI), src=own, dst=other), low, high)
            )
    return list(found.values())


def _granted(a: Answers, field: str, paths: Sequence[Path]) -> str | None:
    """Say "ok" where everything that is asked for is granted."""
    flags = [a.flag(field, path) for path in paths]
    if any(flag is None for flag in flags):
        return None
    return "ok" if all(flags) else "not supported"


def xgmi_of(
    device: dict[str, Raw], seen: Sequence[SeenPair], assumptions: list[str]
) -> tuple[XgmiLink, ...]:
    """The wires of one GPU: one record for each peer that xGMI reaches in one hop.

    A dead wire has a record too: the driver then calls the pair PCIe, and a link of the GPU down.
    """
    direct = [*filter(_is_direct, seen)]
    links = Answers(device, AMDSMI).items((_LINKS, "links"))[:MAX_LINKS]
    told = [under(link, "bdf") for link in links]
    ends = link_ends(told, frozenset(peer.pair.dst for peer in seen))
    states = _states(device)
    dead = _dead(seen, ends, states, bool(direct))
    if dead and not ends:
        assumptions.append(WHICH_DIED)
    if dead and len(dead) == states.count(False):
        states = [True if state is False else state for state in states]  # reported as dead wires
    wires = [_link(Answers(device, AMDSMI), peer, ends, states, assumptions) for peer in direct]
    wires += [
        XgmiLink(remote_address=peer.pair.dst, active=False, gaps=_DEAD_GAPS) for peer in dead
    ]
    return tuple(sorted(wires, key=lambda wire: wire.remote_address))


def _dead(
    seen: Sequence[SeenPair],
    ends: dict[str, list[int]],
    states: list[bool | None],
    joined: bool,
) -> list[SeenPair]:
    """Find peers whose wire is down: by link, or where as many links are down as peers are left."""
    beyond = [peer for peer in seen if peer.pair.link_type == "pcie"]
    by_link = [
        peer
        for peer in beyond
        if any(number < len(states) and states[number] is False
               for number in ends.get(peer.pair.dst, ()))
    ]  # fmt: skip
    if by_link or not joined:
        return by_link
    return beyond if beyond and len(beyond) == states.count(False) else []


def _is_direct(peer: SeenPair) -> bool:
    """Whether a wire joins the two; the driver's own count of hops is 1 for every pair."""
    if peer.pair.link_type != "xgmi" or _hops(peer.pair) not in (None, 1):
        return False
    # A driver that knows neither gives zeros for both; a path across other GPUs has its weight.
    return not (peer.low == 0 and peer.high == 0) or peer.pair.weight == 0


def _hops(pair: GpuPair) -> int | None:
    if not pair.weight or pair.weight % WEIGHT_OF_A_HOP:
        return None
    return pair.weight // WEIGHT_OF_A_HOP


def _link(
    a: Answers,
    peer: SeenPair,
    ends: dict[str, list[int]],
    states: list[bool | None],
    assumptions: list[str],
) -> XgmiLink:
    pair = peer.pair
    speed = _within(a, "speed_gts", MOST_GTS, (_METRICS, "xgmi_link_speed"))
    width = _within(a, "width", MOST_LANES, (_METRICS, "xgmi_link_width"))
    count = _count(a, peer, len(ends.get(pair.dst, ())))
    raw = None
    if speed and width and count:
        raw = speed * width * count / 8
    elif peer.high:
        raw = peer.high / 1000
        assumptions.append(KERNEL_RATE)
    else:
        a.gap("raw_gbs", "neither the rate of a lane nor that of the pair is told")
    hops = _hops(pair)
    if hops is None:
        a.gap("hops", "the driver counts 1 for every pair and tells no weight")
    active = _active(a, pair.dst, ends, states)
    for field, value in (("weight", pair.weight), ("bandwidth_max_gbs", peer.high)):
        if not value:
            zero = "the driver says 0" if value == 0 else "the driver does not say"
            a.gap(field, pair.why(field) or zero)
    return XgmiLink(
        remote_address=pair.dst,
        active=active,
        links=count,
        raw_gbs=raw,
        hops=hops,
        weight=pair.weight or None,
        speed_gts=None if speed is None else float(speed),
        width=width,
        bandwidth_min_gbs=peer.low / 1000 if peer.low else None,
        bandwidth_max_gbs=peer.high / 1000 if peer.high else None,
        gaps=a.gaps,
    )


def _within(a: Answers, field: str, most: int, path: Path) -> int | None:
    number = a.whole(field, path)
    if number is not None and not 0 < number <= most:
        a.gap(field, f"the driver says {number}")
        return None
    return number


def _count(a: Answers, peer: SeenPair, reported: int) -> int | None:
    """Count the links of a bundle: the reported number, else the ratio of the pair's bandwidths."""
    if reported:
        return reported
    if peer.low and peer.high and peer.high % peer.low == 0 and peer.high // peer.low <= MAX_LINKS:
        return peer.high // peer.low
    a.gap("links", "the driver does not say")
    return None


def link_ends(ends: list[Raw], peers: frozenset[str]) -> dict[str, list[int]]:
    """Numbers of the links to each peer, where this amdsmi reports them (7.x, newer drivers)."""
    return _by_peer(tuple(end if isinstance(end, str) else None for end in ends), peers)


@lru_cache(256)
def _by_peer(ends: tuple[str | None, ...], peers: frozenset[str]) -> dict[str, list[int]]:
    # Links lead each second where they led before. Nobody changes what this gives.
    found: dict[str, list[int]] = {}
    for number, end in enumerate(ends):
        peer = pci_address(end)
        if peer is not None and peer in peers:
            found.setdefault(peer, []).append(number)
    return found


def _states(device: dict[str, Raw]) -> list[bool | None]:
    words = Answers(device, AMDSMI).items((_STATUS, "status"))[:MAX_LINKS]
    return [LINK_STATES.get(word) if isinstance(word, str) else None for word in words]


def _active(
    a: Answers, peer: str, ends: dict[str, list[int]], states: list[bool | None]
) -> bool | None:
    """Whether all links to a peer are up, as far as the driver says which links they are."""
    known = [state for state in states if state is not None]
    if not known:
        a.whole("active", (_STATUS, "total_links"))
        a.gap("active", "the driver says no state")
        return None
    own = [states[number] for number in ends.get(peer, ()) if number < len(states)]
    if own and None not in own:
        return all(own)
    if len(set(known)) == 1:
        return known[0]
    a.gap("active", f"{known.count(False)} of {len(known)} links are down; {_WHICH}")
    return None


_GRANTED = ("amdsmi_is_P2P_accessible",)
PAIR = Fields(
    GpuPair,
    link_type=word(LINK_TYPES, (_TYPE, "type")),
    p2p_read=by(_granted, _GRANTED),
    p2p_write=by(_granted, _GRANTED),
    hops=whole((_TYPE, "hops")),
    weight=whole("amdsmi_topo_get_link_weight"),
    p2p_atomics=by(
        _granted,
        [(_P2P, "cap", f"is_iolink_{what}") for what in ("atomics_32bit", "atomics_64bit")],
    ),
    p2p_dma=by(_granted, [(_P2P, "cap", "is_iolink_dma")]),
)
