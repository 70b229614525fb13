"""What is measured between nodes, in which order.

A rail is the GPUs of one place on every node, with the NICs that the library takes for them. Rails
come first, one at a time, so that a run that hangs names the rail; then all of them together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ...crew.steps import MIB, OPEN, Step
from ...protocol.status import ClosedWord

MOST_NODES = 8


class TaskKind(ClosedWord):
    """What is measured, by the name that a note gives it."""

    OPENING = "open"
    SEND = "send_recv"
    REDUCE = "all_reduce"
    EXCHANGE = "all_to_all"
    VERBS = "ib_write_bw"


OPENING, SEND, REDUCE, EXCHANGE, VERBS = TaskKind
_BYTES = {OPENING: 0, SEND: 64 * MIB, REDUCE: 256 * MIB, EXCHANGE: 256 * MIB, VERBS: 64 << 10}
_CPU_BYTES = {OPENING: 0, SEND: MIB, REDUCE: MIB, EXCHANGE: MIB, VERBS: 64 << 10}
"""Sizes of the self-test."""
_WORDS = {
    OPENING: "initialising the communicator of {rail}",
    SEND: "node {src} sends to node {dst}, {rail}",
    REDUCE: "all-reduce, {rail}",
    EXCHANGE: "all-to-all, {rail}",
    VERBS: "ib_write_bw from node {src} to node {dst}, {rail}",
}


@dataclass(frozen=True)
class Task:
    """One thing to measure."""

    kind: TaskKind
    rail: Optional[int]
    """The GPU on every node, counted from 0 in PCI order; None for all."""
    size_bytes: int = 0
    """Smaller where a GPU has too little free memory."""
    src: Optional[int] = None
    dst: Optional[int] = None
    """Nodes of one direction; None where all take part alike."""

    @property
    def what(self) -> str:
        """What is done, in words."""
        rail = "all rails" if self.rail is None else f"rail {self.rail}"
        return _WORDS[self.kind].format(rail=rail, src=self.src, dst=self.dst)


def tasks(nodes: int, rails: int, *, cpu: bool = False, verbs: bool = False) -> "tuple[Task, ...]":
    """All tasks of so many nodes with so many rails; `verbs`: with ib_write_bw at the end."""
    found: list[Task] = []
    for rail in (*(range(rails) if rails > 1 else ()), None):
        found += _of_rail(nodes, rail, _CPU_BYTES if cpu else _BYTES)
    if verbs:
        found += [
            Task(VERBS, rail, _BYTES[VERBS], src, dst)
            for rail in range(rails)
            for src, dst in _ways(nodes)
        ]
    return tuple(found)


def _of_rail(nodes: int, rail: Optional[int], sizes: Mapping[TaskKind, int]) -> "list[Task]":
    found = [Task(OPENING, rail)]
    found += [Task(SEND, rail, sizes[SEND], src, dst) for src, dst in _ways(nodes)]
    found.append(Task(REDUCE, rail, sizes[REDUCE]))
    return found if rail is not None else [*found, Task(EXCHANGE, rail, sizes[EXCHANGE])]


def _ways(nodes: int) -> "list[tuple[int, int]]":
    return [(src, dst) for src in range(nodes) for dst in range(nodes) if src != dst]


def tasks_of(ranks: int, params: Mapping[str, Any], cpu: bool) -> "tuple[Task, ...]":
    """The tasks of a request, whose node has so many ranks."""
    return tasks(int(params["nodes"]), ranks, cpu=cpu, verbs=params.get("verbs") is True)


def steps(ranks: int, params: Mapping[str, Any], cpu: bool) -> "tuple[Step, ...]":
    """All steps of a run in order; the variant of one is the place of its task."""
    found = tasks_of(ranks, params, cpu)
    return (
        OPEN,
        *(
            Step(task.kind if task.kind != OPENING else "init", task.what, task.size_bytes,
                 variant=str(place))
            for place, task in enumerate(found)
        ),
        Step("end", "the other nodes' end"),
    )  # fmt: skip
