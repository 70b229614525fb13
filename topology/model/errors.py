"""The base of all errors of gputop.

GputopError
├── Exit               ends a command with a sentence and an exit code (gputop/exits.py)
├── FormatError        a text that `--from` cannot use
├── SourceAbsent       a source that has nothing to ask on this machine
└── ...                each beside the code that raises it

The worker process runs without this package: its base is WorkerError in probes/protocol.
"""

from __future__ import annotations

from typing import Any


class GputopError(Exception):
    """An error that gputop expects; its text is a sentence for a person.

    Subclasses may derive from ValueError or OSError too, where callers treat them as such.
    """

    exit_code = 3
    """The exit code of a command that this error ends: 3, "could not tell", unless it says more."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Made without __init__, whose arguments are not kept: a pool of processes hangs on an
        # error that cannot be made again.
        return _again, (type(self), self.args), vars(self)


def _again(kind: type[GputopError], said: tuple[Any, ...]) -> GputopError:
    return kind.__new__(kind, *said)
