"""One node's run of `gputop probe net`: measure, judge against the log, write."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from gputop.answers.figures import WIDTH
from gputop.answers.net import (
    FINISHED,
    Circumstances,
    NetAnswer,
    answer_of,
    code_of,
    logged,
    page,
    predicted,
)
from gputop.checking.file import packed, write
from gputop.exits import CANNOT_TELL, Exit
from gputop.measuring.attended import Attended
from gputop.measuring.nccl_check import gpus_of, library_of
from gputop.measuring.runs import note_lines, with_names
from gputop.printing.render import texts
from gputop.terminal.clean import clean
from gputop.terminal.lines import print_json, warn

if TYPE_CHECKING:
    from gputop.checking.redacting import HostNames
    from gputop.measuring.planning import Plan
    from gputop.measuring.state import ProbeRun
    from gputop.topology.model.snapshot import NodeSnapshot

NOTED = ("library", "environment", "warnings", "met", "ib_write_bw")

GRACE_SECONDS = 10.0
"""How much longer than its own end a node waits for the file of one before it."""
_PAUSE_SECONDS = 0.2
_MOST_BYTES = 16 << 20


class NetRun:
    """Runs the probe on this node and writes what came of it."""

    def __init__(
        self,
        plan: Plan,
        snapshot: NodeSnapshot | None,
        where: Circumstances,
        changes: dict[str, str],
        path_of: Callable[[str], Path] | None,
        names: HostNames | None,
        *,
        as_json: bool,
    ) -> None:
        """`path_of`: the file of a host; None to print the result only.

        `names`: stand-ins for the hosts in JSON; None for the names themselves.
        """
        self._plan = plan
        self._snapshot = snapshot
        self._where = where
        self._changes = changes
        self._path_of = path_of
        self._names = names
        self._as_json = as_json

    def run(self) -> int:
        """Run and return the exit code."""
        ends = list(Attended(self._plan).ends())
        if not ends:
            raise Exit("the probe did not end in time after Ctrl+C", CANNOT_TELL)
        result = ends[0]
        names = dict(self._plan.steps[0].request.names)
        shown = [note for note in result.outcome.notes if note.topic in NOTED]
        for line in (*result.blind, *note_lines(shown, names)):
            warn(f"note: {line}")
        found = self._answer(result)
        warn(f"net: {with_names(found.why or result.outcome.message, names)}")
        self._write(found, result)
        return code_of(found, result.outcome)

    def _answer(self, result: ProbeRun) -> NetAnswer:
        outcome, where = result.outcome, self._where
        rails = int(_details(result, "met").get("rails", 0))
        gpus = gpus_of(result)[: rails or None]
        known = predicted(self._snapshot, gpus, self._changes, library_of(result))
        return answer_of(outcome, where, known, logged(outcome, where.nodes, rails))

    def _write(self, found: NetAnswer, result: ProbeRun) -> None:
        absent = tuple(_details(result, "absent").get("missing", ()))
        left = tuple(_details(result, "met").get("left", ()))
        node = self._where.node
        first = first_living(found, node, absent)
        if self._path_of is not None:
            if not must_write(found, node, absent, left, self._path_of):
                warn(f"net: {found.hosts[first]} writes the result")
                return
            path = self._path_of(self._where.host)
            write(path, packed(self._shown(found), path))
            warn(f"net: written: {clean(path, 200)}")
        elif first != node and found.status == FINISHED:
            warn(f"net: {found.hosts[first]} prints the result")
            return
        if self._as_json:
            print_json(self._shown(found))
        else:
            click.echo("\n".join(texts(page(found).blocks, WIDTH)))

    def _shown(self, found: NetAnswer) -> NetAnswer | dict[str, Any]:
        """The document as it leaves this node."""
        if self._names is None:
            return found
        return self._names.hide(msgspec.to_builtins(found), found.hosts)


def _details(result: ProbeRun, topic: str) -> dict[str, Any]:
    return next((dict(n.details) for n in result.outcome.notes if n.topic == topic), {})


# Which of the nodes writes the result: the first one that lives.
def first_living(found: NetAnswer, node: int, absent: Sequence[int]) -> int:
    """The first node that came to this run; this one where none came before it."""
    return next((other for other in range(node) if other not in absent), node)


def is_written(path: Path, run: str | None) -> bool:
    """Whether a file holds the result of this run; one of an earlier run is none."""
    try:
        with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as file:
            document = json.loads(file.read(_MOST_BYTES))
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and run is not None and document.get("run") == run


def must_write(
    found: NetAnswer,
    node: int,
    absent: Sequence[int],
    left: Sequence[float],
    path_of: Callable[[str], Path],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Whether this node writes; it may wait for those before it to do so.

    `left`: the seconds that each node had when they met, so that the end of each is known.
    `path_of`: where a host writes.
    """
    before = [other for other in range(node) if other not in absent]
    if not before:
        return True
    if found.status == FINISHED:
        return False
    more = max((left[other] - left[node] for other in before if len(left) > node), default=0.0)
    patience = GRACE_SECONDS + max(0.0, more)
    paths = [path_of(found.hosts[other]) for other in before]
    while not any(is_written(path, found.run) for path in paths):
        if patience <= 0:
            return True
        sleep(_PAUSE_SECONDS)
        patience -= _PAUSE_SECONDS
    return False
