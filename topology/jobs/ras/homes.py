"""Which processes that RAS names are processes of this machine, by our PIDs.

RAS names a process by the IP address of its machine and by its PID there, in the PID namespace of
the process itself. Machines with equal containers give their ranks equal PIDs, so neither alone
says anything about a process here.
"""

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from ...model.gathered import gathered_by
from ...model.readings import ProcessReading
from ...sources.files.tree import Tree
from .answer import MissingRank, RasAnswer, RasCommunicator, RasRank
from .places import ours

Named = TypeVar("Named", RasRank, MissingRank)
CONTAINER = "a container here"
"""Where a process of this machine is whose PID in our namespace is not known."""
LIMIT_STATUS = 16 * 1024


class Local(msgspec.Struct, frozen=True):
    """One process on the GPUs here."""

    pid: int
    inner: tuple[int, ...] = ()
    """Its PIDs from our namespace to its own one, proc_pid_status(5), NSpid; () where not known."""
    rank: int | None = None
    world: int | None = None

    @property
    def own(self) -> int:
        """Its PID as it sees it itself."""
        return self.inner[-1] if self.inner else self.pid


def locals_of(tree: Tree, users: Iterable[ProcessReading]) -> tuple[Local, ...]:
    """The processes on the GPUs, with their PIDs in their own namespaces."""
    return tuple(
        Local(user.pid, _inner(tree, user.pid), user.rank, user.world_size) for user in users
    )


def _inner(tree: Tree, pid: int) -> tuple[int, ...]:
    text = tree.text(f"proc/{pid}/status", LIMIT_STATUS)
    lines = text.splitlines() if isinstance(text, str) else ()
    words = next((line[6:].split() for line in lines if line.startswith("NSpid:")), [])
    good = all(word.isascii() and word.isdecimal() and len(word) < 11 for word in words)
    return tuple(int(word) for word in words) if good else ()


def settled(told: RasAnswer, here: Sequence[Local], own: Callable[[str], bool] = ours) -> RasAnswer:
    """The same answer with our PIDs; `outside` marks processes that are not proven to be here.

    `own`: whether an address is one of this machine.
    """
    hosts: dict[str | None, bool] = {None: True}
    sisters = gathered_by(here, lambda one: one.own)
    # Of a process without a GPU, such as one that ended, the namespace is that of its sisters.
    inside = any(len(one.inner) > 1 for one in here)

    def settle(rank: Named, size: int | None) -> Named:
        if rank.pid is None:
            return rank
        if rank.host not in hosts:
            hosts[rank.host] = own(rank.host or "")
        same = sisters.get(rank.pid, [])
        if not hosts[rank.host] and not _linked(rank, size, same):
            return msgspec.structs.replace(rank, outside=True)
        found = _pid(rank, size, same, inside)
        if found is None:
            return msgspec.structs.replace(rank, outside=True, host=CONTAINER)
        return rank if found == rank.pid else msgspec.structs.replace(rank, pid=found)

    def communicator(each: RasCommunicator) -> RasCommunicator:
        return msgspec.structs.replace(
            each,
            ranks=tuple(settle(rank, each.size) for rank in each.ranks),
            missing=tuple(settle(lost, each.size) for lost in each.missing),
        )

    return told_apart(
        msgspec.structs.replace(
            told,
            communicators=tuple(map(communicator, told.communicators)),
            silent=tuple(settle(lost, None) for lost in told.silent),
        )
    )


def told_apart(told: RasAnswer, *, saved: bool = False) -> RasAnswer:
    """The same answer; each process that is not here is told from others that have its PID.

    By host and GPU, and where ranks of the only communicator have both in common, as containers
    have that see one GPU each, by the rank. `saved`: no process is known to be here.
    """
    only = len(told.communicators) == 1

    def part(rank: Named, ranks: Counter[tuple[object, ...]]) -> Named:
        if rank.pid is None or not (saved or rank.outside):
            return msgspec.structs.replace(rank, apart="") if rank.apart else rank
        where = f"{rank.host} GPU{rank.nvml_device}"
        several = only and ranks[_place(rank)] > 1
        return msgspec.structs.replace(rank, apart=where + f" rank {rank.rank}" * several)

    def communicator(each: RasCommunicator) -> RasCommunicator:
        ranks = Counter(map(_place, each.named))
        return msgspec.structs.replace(
            each,
            ranks=tuple(part(rank, ranks) for rank in each.ranks),
            missing=tuple(part(lost, ranks) for lost in each.missing),
        )

    return msgspec.structs.replace(
        told,
        communicators=tuple(map(communicator, told.communicators)),
        silent=tuple(part(lost, Counter()) for lost in told.silent),
    )


def _place(rank: RasRank | MissingRank) -> tuple[object, ...]:
    return rank.host, rank.pid, rank.nvml_device


def _linked(rank: RasRank | MissingRank, size: int | None, same: Sequence[Local]) -> bool:
    """Whether a link-local address is ours, as a rank here with that PID and that number proves.

    No bind proves it without the name of its interface. `same`: processes here with its PID.
    """
    try:
        local = ipaddress.ip_address(rank.host or "").is_link_local
    except ValueError:
        return False
    named = [one for one in same if one.rank == rank.rank]
    return local and len(named) == 1 and named[0].world == size


def _pid(
    each: RasRank | MissingRank, size: int | None, same: Sequence[Local], inside: bool
) -> int | None:
    """Our PID of a process of this machine by the one it has itself; None where not known."""
    if len(same) > 1:
        same = [one for one in same if one.rank == each.rank and one.world == size]
        return same[0].pid if len(same) == 1 else None
    return same[0].pid if same else None if inside else each.pid
