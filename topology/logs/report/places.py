"""The GPU that each rank uses, from the Init lines and from the GPUs of the System blocks."""

import re
from typing import NamedTuple

from .communicator import Communicator, LoggedSystem
from .report import LogReport
from .text import bus_id

_RANK = re.compile(r"\d{1,7}")


class RankPlace(NamedTuple):
    """Host and PCI address of a rank."""

    host: str | None
    address: str


def address_of(node: str) -> str | None:
    """Read the PCI address of a node of the System block: "GPU/0-60" -> "0000:00:06.0"."""
    return bus_id(node.rpartition("/")[2].rpartition("-")[2])


def normal(address: str) -> str:
    """Spell a PCI address so that addresses of different tools can be compared."""
    domain, colon, rest = address.lower().partition(":")
    if not colon or ":" not in rest:
        return address.lower()
    try:
        return f"{int(domain, 16):04x}:{rest}"
    except ValueError:
        return address.lower()


def gpu_ranks(comm: Communicator, system: LoggedSystem) -> dict[str, int]:
    """Node name -> rank, of the GPUs in a block."""
    host = _host(comm, system)
    known = {
        normal(rank.bus_id): rank.rank
        for rank in comm.ranks
        if rank.bus_id is not None and (host is None or rank.host == host)
    }
    found = {}
    for node in system.nodes:
        if not node.name.startswith("GPU/"):
            continue
        said = _RANK.match(node.detail)
        if said is not None:
            found[node.name] = int(said[0])
        elif (address := address_of(node.name)) is not None and address in known:
            # Since 2.30 the rank is not printed beside the GPU (graph/topo.cc:ncclTopoPrintRec).
            found[node.name] = known[address]
    return found


def _host(comm: Communicator, system: LoggedSystem) -> str | None:
    """The host whose ranks printed a block."""
    return next((rank.host for rank in comm.ranks if rank.rank in system.ranks), None)


def places(comm: Communicator) -> dict[int, RankPlace]:
    """Rank -> its host and GPU, as far as the log says."""
    found = {
        rank.rank: RankPlace(rank.host, normal(rank.bus_id))
        for rank in comm.ranks
        if rank.bus_id is not None
    }
    for system in comm.systems:
        host = _host(comm, system)
        for name, rank in gpu_ranks(comm, system).items():
            address = address_of(name)
            if rank not in found and address is not None:
                found[rank] = RankPlace(host, normal(address))
    return dict(sorted(found.items()))


def first_host(comm: Communicator) -> str | None:
    """The host of the lowest known rank, for which the prediction is made."""
    return next((place.host for place in places(comm).values()), None)


def gpus_from(log: LogReport) -> tuple[str, ...]:
    """PCI addresses of the first host's GPUs in the main communicator, by rank."""
    if log.main is None:
        return ()
    host = first_host(log.main)
    found = [place.address for place in places(log.main).values() if place.host == host]
    return tuple(dict.fromkeys(found))
