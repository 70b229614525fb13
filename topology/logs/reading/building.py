"""The records that grow while a log is read: equal things are kept once, up to a cap."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..report.communicator import (
    Communicator,
    Counts,
    LoggedChoice,
    LoggedRing,
    Neighbours,
    P2pType,
    Proof,
    RankSeen,
    Transport,
    TreeNode,
)
from ..report.text import plain
from .blocks import read_graph, read_system

MAX_COMMUNICATORS = 256
MAX_TRANSPORTS = 50_000
"""Most transports of one log: ordered pairs times labels."""
MAX_BLOCKS = 16
"""Most different System blocks, or graphs, of one communicator."""
MAX_BLOCK_LINES = 4096
MAX_CHOICES = 2000
MAX_TREE_ROWS = 50_000
MAX_CHANNEL = 256

BLOCK = tuple[bytes, ...]


def channels_of(mask: int) -> tuple[int, ...]:
    """The numbers of the bits that are set."""
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def bit(number: int) -> int:
    """The bit of a channel; channels beyond those of any version share the last bit."""
    return 1 << min(number, MAX_CHANNEL)


@dataclass(slots=True, eq=False)
class Blocks:
    """Blocks of lines, of which several ranks print equal ones."""

    seen: dict[BLOCK, tuple[tuple[int, ...], list[int]]] = field(default_factory=dict)
    """Lines -> (line numbers of their first appearance, ranks)."""
    left_out: int = 0

    def add(self, block: OpenBlock, rank: int) -> None:
        """Keep a finished block."""
        if block.cut:
            self.left_out += 1
            return
        key = tuple(block.lines)
        known = self.seen.get(key)
        if known is not None:
            known[1].append(rank)
        elif len(self.seen) < MAX_BLOCKS:
            self.seen[key] = (tuple(block.numbers), [rank])
        else:
            self.left_out += 1

    def items(self) -> Iterator[tuple[BLOCK, tuple[int, ...], list[int]]]:
        """Every block: its lines, their numbers, and the ranks that printed it."""
        return ((lines, *about) for lines, about in self.seen.items())


@dataclass(slots=True, eq=False)
class OpenBlock:
    """A block that one process is printing."""

    lines: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    cut: bool = False
    """It has more lines than any machine prints, and is not read."""

    def add(self, text: bytes, line: int) -> None:
        """Keep one more line."""
        if len(self.lines) < MAX_BLOCK_LINES:
            self.lines.append(text)
            self.numbers.append(line)
        else:
            self.cut = True


@dataclass(slots=True, eq=False)
class CommBuilder:
    """One communicator."""

    ident: str
    line: int
    nranks: int
    nodes: int | None = None
    local_ranks: int | None = None
    mnnvl: bool | None = None
    shape: Proof | None = None
    parent: str | None = None
    ranks: dict[int, RankSeen] = field(default_factory=dict)
    transports: dict[tuple[bytes, ...], list[int]] = field(default_factory=dict)
    """(src, dst, label, connection, direction) -> [channels as bits, line]."""
    texts: dict[int, bytes] = field(default_factory=dict)
    """Line number -> text, of the first line of each transport."""
    speakers: dict[int, str] = field(default_factory=dict)
    """Line number -> the host that printed it, of the same lines."""
    systems: Blocks = field(default_factory=Blocks)
    graphs: Blocks = field(default_factory=Blocks)
    rings: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    neighbours: dict[tuple[int, int, int], int] = field(default_factory=dict)
    trees: dict[tuple[int, int, tuple[int, ...]], int] = field(default_factory=dict)
    counts: Counts | None = None
    p2p_type: P2pType | None = None
    tuning: dict[str, dict[str, dict[str, tuple[float, float]]]] = field(default_factory=dict)
    tuning_by: int | None = None
    """The rank whose tuning table is kept."""
    tuning_line: int | None = None
    choices: dict[tuple[str, int, str, str, tuple[int, int] | None], list[int]] = field(
        default_factory=dict
    )
    network: str | None = None
    use_pxn: bool | None = None
    use_gdr: bool | None = None
    size_seen_only: bool = False
    left_out: Counter[str] = field(default_factory=Counter)

    def rank(self, number: int) -> RankSeen:
        """Return the rank with that number; a new one is made."""
        found = self.ranks.get(number)
        if found is None:
            found = self.ranks[number] = RankSeen(rank=number)
        return found

    def may_be(self, rank: int, nranks: int) -> bool:
        """Whether a rank that is introduced late belongs to this communicator without a name.

        Versions before 2.17 name a communicator only when it is ready.
        """
        free = rank not in self.ranks and rank < nranks
        return self.ident.startswith("unnamed") and self.nranks <= nranks and free

    def built(self) -> Communicator:
        """The record."""
        systems = [read_system(*block) for block in self.systems.items()]
        graphs = [read_graph(*block) for block in self.graphs.items()]
        gathered: dict[str, Any] = {
            "ranks": tuple(self.ranks[number] for number in sorted(self.ranks)),
            "transports": self._transports(),
            "graphs": tuple(graph for graph in graphs if graph is not None),
            "systems": tuple(system for system in systems if system is not None),
            "rings": self._rings(),
            "neighbours": tuple(
                Neighbours(rank=rank, before=before, after=after, channels=channels_of(mask))
                for (rank, before, after), mask in sorted(self.neighbours.items())
            ),
            "trees": tuple(
                TreeNode(rank=rank, parent=parent, children=down, channels=channels_of(mask))
                for (rank, parent, down), mask in sorted(self.trees.items())
            ),
            "choices": self._choices(),
        }
        same = (name for name in Communicator.__struct_fields__ if name not in gathered)
        return Communicator(**gathered, **{name: getattr(self, name) for name in same})

    def _transports(self) -> tuple[Transport, ...]:
        found = [
            Transport(
                src=int(src),
                dst=int(dst),
                label=plain(label, 120),
                connection=int(connection or 0),
                direction=direction.decode() or None,
                channels=channels_of(mask),
                line=line,
                text=plain(self.texts[line]),
                host=self.speakers[line] or None,
            )
            for (src, dst, label, connection, direction), (mask, line) in self.transports.items()
        ]
        order = operator.attrgetter("src", "dst", "connection", "line")
        return tuple(sorted(found, key=order))

    def _rings(self) -> tuple[LoggedRing, ...]:
        orders: dict[tuple[int, ...], tuple[int, int]] = {}
        for channel, (line, order) in sorted(self.rings.items()):
            first, mask = orders.get(tuple(order), (line, 0))
            orders[tuple(order)] = first, mask | bit(channel)
        return tuple(
            LoggedRing(order=order, channels=channels_of(mask), line=line)
            for order, (line, mask) in orders.items()
        )

    def _choices(self) -> tuple[LoggedChoice, ...]:
        return tuple(
            LoggedChoice(
                collective=collective,
                bytes=size,
                algorithm=algorithm,
                protocol=protocol,
                channels=channels,
                count=count,
                line=line,
            )
            for key, (count, line) in self.choices.items()
            for collective, size, algorithm, protocol, channels in (key,)
        )


@dataclass(slots=True, eq=False)
class Process:
    """One process and device, and the block that it is printing."""

    host: str
    pid: int
    cuda_dev: int | None
    comm: CommBuilder | None = None
    rank: int = -1
    earlier: list[tuple[CommBuilder, int]] = field(default_factory=list)
    """The communicators of the process, newest first, with its rank there."""
    system: OpenBlock | None = None
    graph: OpenBlock | None = None
    graphs: list[OpenBlock] = field(default_factory=list)
    """Finished ones of a communicator that has no name yet."""
    columns: list[tuple[str, str]] = field(default_factory=list)
    """Algorithm and protocol of each column of the tuning table being printed."""
    network: str | None = None
    left_out: bool = False
    """It is in a communicator for which there was no room: its lines belong to no other one."""

    def join(self, comm: CommBuilder, rank: int, *, late: bool = False) -> None:
        """Begin to set up a communicator: what follows belongs to it.

        `late`: it is named when it is ready, and what stands before belongs to it.
        """
        if late and self.comm in (None, comm):
            self.comm, self.rank = comm, rank
        self.flush()
        self.comm, self.rank, self.left_out = comm, rank, False
        if self.earlier and self.earlier[0] == (comm, rank):
            return
        self.earlier.insert(0, (comm, rank))
        del self.earlier[64:]

    def end_graph(self) -> None:
        """Keep the graph that is being printed; another one may follow."""
        if self.graph is not None and len(self.graphs) < MAX_BLOCKS:
            self.graphs.append(self.graph)
        self.graph = None
        if self.comm is not None:
            for graph in self.graphs:
                self.comm.graphs.add(graph, self.rank)
            self.graphs = []

    def flush(self, strays: Blocks | None = None) -> None:
        """Hand finished blocks over to the communicator; without one, System blocks to `strays`."""
        self.end_graph()
        if self.comm is None and self.system is not None and strays is not None:
            strays.add(self.system, self.rank)
        if self.comm is not None and self.system is not None:
            self.comm.systems.add(self.system, self.rank)
        self.system, self.graphs = None, []
