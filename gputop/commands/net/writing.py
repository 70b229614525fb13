"""Which of the nodes writes the result: the first one that lives."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from gputop.commands.net.document import FINISHED, NetDocument

GRACE_SECONDS = 10.0
"""How much longer than its own end a node waits for the file of one before it."""
_PAUSE_SECONDS = 0.2
_MOST_BYTES = 16 << 20


def first_living(found: NetDocument, node: int, absent: Sequence[int]) -> int:
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
    found: NetDocument,
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
