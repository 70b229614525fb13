"""The ranks of all nodes as one: what they tell each other beyond their node.

Only the first rank of a node reads and writes the notices; it passes on what its own ranks say, and
to them what the others said.
"""

import json
import time
from collections.abc import Sequence
from typing import Any, Optional

from ...crew.store import Store
from ...protocol.plaintext import one_line
from ...protocol.spec import ProbeStopped
from ...protocol.status import Status
from .meeting import Met
from .notices import Notices

_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.001, 0.05
END = "end"


class Wide:
    """One rank's view of all ranks: `ranks` on each of the nodes, node by node."""

    def __init__(
        self, notices: Notices, store: Store, met: Met, node: int, rank: int, ranks: int
    ) -> None:
        """`rank` and `ranks`: of this node, those that take part; `store`: of this node."""
        self._notices = notices
        self._store = store
        self._met = met
        self._node = node
        self._rank = rank
        self._ranks = ranks

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self._met.hellos)

    @property
    def hosts(self) -> "tuple[str, ...]":
        """Their names, by node; nodes of one name get their number too."""
        names = [one_line(str(hello.get("host", "?")), 200) for hello in self._met.hellos]
        return tuple(
            f"{name}#{node}" if names.count(name) > 1 else name for node, name in enumerate(names)
        )

    def address(self, node: int) -> str:
        """The name by which a node is reached."""
        return str(self._met.hellos[node].get("host", ""))

    @property
    def place(self) -> int:
        """The number of this rank among all."""
        return self._node * self._ranks + self._rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self.nodes * self._ranks

    @property
    def leads(self) -> bool:
        """Whether this rank speaks for its node."""
        return self._rank == 0

    def places(self, rail: Optional[int]) -> "tuple[int, ...]":
        """The ranks of a rail, by node; of None all."""
        if rail is None:
            return tuple(range(self.size))
        return tuple(node * self._ranks + rail for node in range(self.nodes))

    def share(self, topic: str, said: Any) -> "list[Any]":
        """Exchange JSON with all ranks; use a topic once. The answers, by rank."""
        self._store.set(f"{topic}/{self._rank}", json.dumps(said))
        if self.leads:
            mine = [self._store.get(f"{topic}/{rank}") for rank in range(self._ranks)]
            self._notices.put(self._name(topic), json.dumps(mine))
            every: list[str] = []
            for node in range(self.nodes):
                every += self._of_node(node, topic) if node != self._node else mine
            self._store.set(f"{topic}/all", json.dumps(every))
        return [json.loads(text) for text in json.loads(self._store.get(f"{topic}/all"))]

    def _of_node(self, node: int, topic: str) -> "list[str]":
        text = self._wait(node, topic)
        if not text:
            return ["null"] * self._ranks
        found = json.loads(text)
        if not isinstance(found, list) or len(found) != self._ranks:
            raise ProbeStopped(
                Status.FAILED, f"{self.hosts[node]} said something that is no answer."
            )
        return found

    def set(self, topic: str, text: str) -> None:
        """See Topics; only a rank of the first node does so."""
        self._store.set(topic, text)
        if self.leads:
            self._notices.put(self._name(topic), text)

    def get(self, topic: str) -> str:
        """See Topics."""
        if not self.leads or self._node == 0:
            return self._store.get(topic)
        text = self._wait(0, topic)
        self._store.set(topic, text)
        return text

    def relay(self, topic: str) -> None:
        """Pass on between nodes what another rank of this node sets or gets."""
        if self._node == 0:
            self._notices.put(self._name(topic), self._store.get(topic))
        else:
            self.get(topic)

    def torch_store(self, ranks: int) -> Any:
        """See NodesTopics."""
        return self._notices.torch_store(f"{self._met.run}-torch", ranks)

    def give_up(self, why: str) -> None:
        """Tell the other nodes that this one ends."""
        if self.leads:
            self._notices.put(self._name("failed"), why)

    def _wait(self, node: int, topic: str) -> str:
        """A text of another node; "" if it has left at the end. `Lookout` sees one that is lost."""
        pause = _SHORTEST_SECONDS
        while True:
            text = self._notices.read(node, self._name(topic))
            if text is not None:
                return text
            if topic == END and self._notices.has_left(node):
                return ""
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_SECONDS)

    def _name(self, topic: str) -> str:
        return f"{self._met.run}/{topic}"


def mean_by_sample(said: "Sequence[Sequence[float]]") -> "list[float]":
    """For each sample the mean of the ranks, as nccl-tests takes it."""
    return [sum(sample) / len(sample) for sample in zip(*said)]
