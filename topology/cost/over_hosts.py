"""All-reduces over equal hosts: of all GPUs, and of every rail at the same time.

Two figures stand side by side: what the links carry, and what the library's own tuning gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..expectation.calls.kinds import CollectiveKind, bus_share
from ..model.page import Block, Column, Table, Text
from ..model.units import figure
from ..nccl.decide.predict import NoGpusError
from ..nccl.hosts.bound import all_reduce_gbs
from ..nccl.hosts.equal_hosts import predict_hosts
from ..nccl.settings import Settings
from ..node import Node
from .node_wires import NETWORK_SHARE, NodeWires

SIZES = (1 << 20, 1 << 24, 1 << 28, 1 << 30)


class HostsCall(msgspec.Struct, frozen=True, kw_only=True):
    """An all-reduce of groups of one kind, all of them at the same time."""

    what: str
    groups: int
    ranks: int
    """Of each group."""
    links_gbs: float
    """Bus bandwidth at 1 GiB by what the NICs and links carry, shared by the groups."""
    library_gbs: tuple[float, float] | None
    """The same by the library's tuning, least and most, for one group that has the hosts alone."""
    us: dict[int, float]
    """Size in bytes -> microseconds, by the links."""
    source: str


def calls_over_hosts(node: Node, hosts: int, settings: Settings) -> tuple[HostsCall, ...]:
    """All GPUs as one group, and one group of each place on every host; () where NICs are unknown.

    `settings`: the variables of the job.
    """
    wires = NodeWires(node, hosts)
    each = wires.each
    kinds: list[tuple[str, int, int, int, tuple[str] | None]] = [
        ("all GPUs", 1, each * hosts, 1, None)
    ]
    if each > 1:
        first = (node.machine.gpus[0].address,)
        kinds.append(("one GPU of each host, every place at once", each, hosts, each, first))
    found = []
    for what, groups, ranks, stride, gpus in kinds:
        wire = wires.of(ranks, stride)
        if wire is None:
            continue
        joined = ranks * stride <= wires.domain  # the library then makes one system of the hosts
        us = {size: wire.seconds(CollectiveKind.ALL_REDUCE, size) * 1e6 for size in SIZES}
        moved = SIZES[-1] * bus_share(CollectiveKind.ALL_REDUCE, ranks)
        found.append(
            HostsCall(
                what=what,
                groups=groups,
                ranks=ranks,
                links_gbs=moved / us[SIZES[-1]] / 1e3,
                library_gbs=None if joined else _by_library(node, settings, hosts, gpus),
                us=us,
                source=wire.source,
            )
        )
    return tuple(found)


def _by_library(
    node: Node, settings: Settings, hosts: int, gpus: Sequence[str] | None
) -> tuple[float, float] | None:
    try:
        made = predict_hosts(node.snapshot, settings, gpus=gpus, hosts=hosts)
    except NoGpusError:
        return None
    return None if made.failure or not made.ring_gbs else all_reduce_gbs(made)


def blocks_over_hosts(calls: Sequence[HostsCall], hosts: int, *, rack: bool) -> Iterator[Block]:
    """The table, and how it is counted. `rack`: whether NVLink joins the hosts."""
    if not calls:
        yield Text(f"All-reduce over {hosts} hosts: the rate of their NICs is not known.")
        return
    yield Text(f"All-reduce over {hosts} hosts, by what its groups share")
    columns = (
        Column("groups"),
        Column("ranks", right=True),
        Column("16 MiB, us", right=True),
        Column("1 GiB, us", right=True),
        Column("by links GB/s", right=True),
        Column("by tuning GB/s", right=True),
    )
    yield Table(columns, tuple(map(_row, calls)))
    for source in dict.fromkeys(call.source for call in calls):
        yield Text(f"by links: {source}", indent=2)
    if rack:
        return
    yield Text(
        "By tuning: what the library's own model gives one such group that has the hosts to "
        "itself. By links: "
        f"{NETWORK_SHARE * 100:.0f} % of the NICs' rate, divided among the groups, and no more "
        "than the links inside a host give. Neither has been measured on hosts like these."
    )
    rail = next((call for call in calls if call.groups > 1), calls[0])
    yield Text(
        "Leaf and spine switches that are not oversubscribed take nothing from it; where a ring "
        f"crosses a spine with half the uplinks, {figure(rail.links_gbs / 2)} GB/s are left of "
        f"{figure(rail.links_gbs)}. A rail whose leaf joins every host crosses none."
    )


def _row(call: HostsCall) -> tuple[str, ...]:
    library = "-"
    if call.library_gbs is not None:
        low, high = call.library_gbs
        library = figure(low) if low == high else f"{figure(low)}-{figure(high)}"
    return (
        f"{call.groups} x {call.what}" if call.groups > 1 else call.what,
        str(call.ranks),
        figure(call.us[1 << 24]),
        figure(call.us[1 << 30]),
        figure(call.links_gbs),
        library,
    )
