"""A host that lacks NICs which its equals have."""

from collections.abc import Collection, Iterable

import msgspec

from ...model.element import Element
from ...model.errors import GputopError
from ...model.snapshot import NodeSnapshot
from ..system.networks import nets_of
from ..system.ranks import ranks_of
from ..system.trimmed import trimmed


class UnknownNicError(GputopError, ValueError):
    """The name of a NIC that the node does not have, or of a host that is not there."""


def lacking_nics(
    known: Collection[str], hosts: int, missing: Iterable[tuple[int, str]]
) -> dict[int, frozenset[str]]:
    """Host -> the NICs that it lacks, out of those known. Raises UnknownNicError."""
    found: dict[int, frozenset[str]] = {}
    for host, name in missing:
        if not 0 <= host < hosts:
            raise UnknownNicError(f"there is no host {host} among {hosts}: they count from 0")
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise UnknownNicError(f"no NIC {name[:40]!r} takes part in the job; there are: {names}")
        found[host] = found.get(host, frozenset()) | {name}
    return found


def without_nics(snapshot: NodeSnapshot, names: frozenset[str], *, fuses: bool) -> NodeSnapshot:
    """The same node when its library does not find these NICs: a port is down, a driver gone.

    An adapter goes with its interfaces. The others keep their names, as the kernel's do; the
    library's numbers close up. `fuses`: see `trimmed`.
    """
    machine = snapshot.machine
    adapters = [adapter for adapter in machine.rdma if adapter.name in names]
    gone = names.union(*(adapter.interfaces for adapter in adapters))
    topology = machine.nccl_topology
    return msgspec.structs.replace(
        snapshot,
        machine=msgspec.structs.replace(
            machine,
            rdma=tuple(adapter for adapter in machine.rdma if adapter.name not in names),
            interfaces=tuple(one for one in machine.interfaces if one.name not in gone),
            nccl_topology=None if topology is None else _without(topology, names, fuses=fuses),
        ),
    )


def _without(topology: Element, names: frozenset[str], *, fuses: bool) -> Element:
    """The XML without the `net` elements of these names."""
    if not topology.has("gpu"):
        return _left(topology, names)
    kept = [net for net in nets_of(topology) if _name(net) not in names]
    return trimmed(topology, ranks_of(topology), kept, fuses=fuses)


def _left(element: Element, names: frozenset[str]) -> Element:
    """The same of a file that detection completes, and cleans up."""
    kept = tuple(
        _left(child, names)
        for child in element.children
        if not (child.tag == "net" and _name(child) in names)
    )
    return msgspec.structs.replace(element, children=kept)


def _name(net: Element) -> str:
    return net.get("name") or f"NIC {net.get('dev')}"
