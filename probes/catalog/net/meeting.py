"""How nodes find each other: who is here now, and not in an earlier run.

Every node says hello with a token of its own. The first answers with the name of the run and all
hellos that it sees; a node joins a run that has its own token, and the first goes when all joined.
What an earlier run left has other tokens and another name, so no clock is compared.
"""

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ...protocol.errors import WorkerError
from .notices import Notices

_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.005, 0.1
_TOKEN = "token"

Hellos = list[Optional[Mapping[str, Any]]]
"""What each node said of itself, by node; None where nothing was seen."""


@dataclass(frozen=True)
class Met:
    """All nodes are here."""

    run: str
    """Its name, which no other run has."""
    hellos: "tuple[Mapping[str, Any], ...]"
    """What each node said of itself, by node."""


class AbsentError(WorkerError):
    """Some nodes did not come in time. `missing`: their numbers; `hellos`: of the others."""

    def __init__(self, missing: "tuple[int, ...]", hellos: "dict[int, Mapping[str, Any]]") -> None:
        super().__init__(missing)
        self.missing = missing
        self.hellos = hellos


def meet(
    notices: Notices, node: int, nodes: int, hello: Mapping[str, Any], seconds: float
) -> Met:  # fmt: skip
    """Wait for all nodes, so many seconds at most; AbsentError if some do not come.

    `hello`: what the others are told, JSON.
    """
    token = secrets.token_hex(16)
    notices.put("hello", json.dumps({**hello, _TOKEN: token}))
    side = _First(notices, nodes) if node == 0 else _Other(notices, node, nodes, token)
    end, pause = time.monotonic() + seconds, _SHORTEST_SECONDS
    while True:
        met = side.look()
        if met is not None:
            return met
        if time.monotonic() >= end:
            raise side.absent()
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_SECONDS)


class _First:
    """The first node, which names the run."""

    def __init__(self, notices: Notices, nodes: int) -> None:
        self._notices = notices
        self._nodes = nodes
        self._run = secrets.token_hex(8)
        self._said = ""

    def look(self) -> Optional[Met]:
        hellos = [_hello(self._notices.read(node, "hello")) for node in range(self._nodes)]
        said = json.dumps({"run": self._run, "hellos": hellos})
        if said != self._said:
            self._notices.put("run", said)
            self._said = said
        if self._not_joined() or None in hellos:
            return None
        self._notices.put("go", self._run)
        return Met(self._run, tuple(hello for hello in hellos if hello is not None))

    def absent(self) -> AbsentError:
        missing = self._not_joined()
        here = {node: self._notices.read(node, "hello") for node in range(self._nodes)}
        found = {node: _hello(text) or {} for node, text in here.items() if node not in missing}
        return AbsentError(missing, found)

    def _not_joined(self) -> "tuple[int, ...]":
        return _not_joined(self._notices, self._run, range(1, self._nodes))


class _Other:
    """Any other node."""

    def __init__(self, notices: Notices, node: int, nodes: int, token: str) -> None:
        self._notices = notices
        self._node = node
        self._nodes = nodes
        self._token = token
        self._run = ""

    def look(self) -> Optional[Met]:
        gone = self._notices.read(0, "go")  # the hellos that hold are there before it
        found = self._named()
        if found is None:
            return None
        run, hellos = found
        if run != self._run:
            self._run = run
            self._notices.put("joined", run)
        if gone != run or None in hellos:
            return None
        return Met(run, tuple(hello for hello in hellos if hello is not None))

    def absent(self) -> AbsentError:
        found = self._named()
        if found is None:
            return AbsentError((0,), {})
        run, hellos = found
        others = [node for node in range(1, self._nodes) if node != self._node]
        missing = _not_joined(self._notices, run, others)
        here = {node: hello for node, hello in enumerate(hellos) if hello is not None}
        return AbsentError(missing, {n: hello for n, hello in here.items() if n not in missing})

    def _named(self) -> "Optional[tuple[str, Hellos]]":
        """The run that knows of this node, and all hellos in it."""
        said = _parsed(self._notices.read(0, "run"))
        run, hellos = said.get("run"), said.get("hellos")
        if not isinstance(run, str) or not isinstance(hellos, list) or len(hellos) != self._nodes:
            return None
        found: Hellos = [hello if isinstance(hello, dict) else None for hello in hellos]
        mine = found[self._node]
        return (run, found) if mine is not None and mine.get(_TOKEN) == self._token else None


def _not_joined(notices: Notices, run: str, nodes: Any) -> "tuple[int, ...]":
    return tuple(node for node in nodes if notices.read(node, "joined") != run)


def _hello(text: Optional[str]) -> Optional[Mapping[str, Any]]:
    found = _parsed(text)
    return found if isinstance(found.get(_TOKEN), str) else None


def _parsed(text: Optional[str]) -> "dict[str, Any]":
    """A JSON object of another node; empty for anything else."""
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
