"""Which hosts and GPUs the ranks of a log are on, as far as a node helps to tell."""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ...model.machine import Machine
from ...nccl.xml.detect import ranked
from ..report.communicator import Communicator, RankSeen, Transport
from ..report.places import first_host, normal, places
from ..report.report import LogReport
from ..report.text import bus_id

_ENDS = re.compile(r"(\d{1,7})\[(\w{1,16})\] -> (\d{1,7})\[(\w{1,16})\]")
"""Ranks with their devices: by NVML's number since 2.18, before and in RCCL by bus id."""
INTRODUCED = (
    "the log introduces {known} of {count} ranks of this host: the GPUs of the others are taken "
    "from its connections and from the order of PCI addresses"
)


def hosts_of(comm: Communicator, settings: Mapping[str, str]) -> int:
    """How many hosts of equal size the communicator spans; 1 where the log does not show it."""
    here = [place for place in places(comm).values() if place.host == first_host(comm)]
    known = sum(1 for rank in comm.ranks if rank.host is not None)
    if known == comm.nranks:
        return len(comm.hosts) if len(here) * len(comm.hosts) == comm.nranks else 1
    nodes, each = comm.nodes or 0, comm.local_ranks or 0
    if each != len(here) or nodes * each != comm.nranks:
        return 1
    return nodes if each > 1 or _apart(comm, settings) else 1


def _apart(comm: Communicator, settings: Mapping[str, str]) -> bool:
    """Whether nodes of one rank each are hosts, and not GPUs of one host that nothing joins."""
    devices = {rank: device for rank, device, _ in _devices(comm.transports)}
    if len({*devices.values()}) < len(devices):
        return True
    return settings.get("NCCL_SHM_DISABLE", "0") in ("", "0")


def _devices(transports: Iterable[Transport]) -> list[tuple[int, str, bool]]:
    """Rank, device and whether memory is shared with it, of both ends of every connection."""
    found = []
    for transport in transports:
        ends = _ENDS.search(transport.text)
        if ends is not None:
            local = transport.label.startswith(("P2P/", "SHM"))
            found += [(int(ends[1]), ends[2], local), (int(ends[3]), ends[4], local)]
    return found


def completed(log: LogReport, machine: Machine) -> tuple[LogReport, tuple[str, ...]]:
    """The log with the GPUs of those ranks that other files introduce, and what is assumed.

    A job may write a file for each rank. Connections by memory name the devices of both ends; where
    the ranks of a host are as many as the node's GPUs, they are these GPUs.
    """
    comm = log.main
    if comm is None:
        return log, ()
    host = first_host(comm) or next((one.host for one in comm.transports), None)
    here = {rank: at.address for rank, at in places(comm).items() if at.host == host}
    gpus = [normal(gpu.address) for gpu in ranked(machine)]
    named = {**_named(comm, machine, host), **here}
    ranks = _ranks_here(comm, here, len(gpus)) or ([] if here else sorted(named))
    lost = [rank for rank in ranks if rank not in here]
    if not lost or not {*here.values()} <= {*gpus}:
        return log, ()
    free = [gpu for gpu in gpus if gpu not in named.values()]
    unnamed = [rank for rank in ranks if rank not in named]
    in_turn = all(gpus[rank - ranks[0]] == address for rank, address in here.items())
    if unnamed and (len(unnamed) != len(free) or not in_turn or comm.size_seen_only):
        return log, ()
    named.update(zip(unnamed, free, strict=False))
    more = tuple(RankSeen(rank=rank, host=host, bus_id=named[rank]) for rank in lost)
    whole = msgspec.structs.replace(comm, ranks=(*comm.ranks, *more))
    others = tuple(whole if one is comm else one for one in log.communicators)
    said = INTRODUCED.format(known=len(here), count=len(ranks))
    return msgspec.structs.replace(log, communicators=others), (said,)


def _ranks_here(comm: Communicator, here: Mapping[int, str], gpus: int) -> Sequence[int]:
    """The ranks of the first host, as launchers count: host by host."""
    count = comm.local_ranks or (comm.nranks if comm.nodes == 1 or gpus == comm.nranks else 0)
    first = min(here, default=0) // count * count if count else 0
    found = range(first, first + count)
    return found if here and count <= gpus and here.keys() <= {*found} else range(0)


def _named(comm: Communicator, machine: Machine, host: str | None) -> dict[int, str]:
    """Addresses of ranks that a connection by memory on a host names by their device."""
    numbers = {str(gpu.index): normal(gpu.address) for gpu in machine.gpus}
    known = {normal(gpu.address) for gpu in machine.gpus}
    found: dict[int, str] = {}
    for rank, device, local in _devices(one for one in comm.transports if one.host == host):
        address = numbers.get(device) or normal(bus_id(device) or "")
        if local and address in known:
            found[rank] = address
    return found
