"""Exit codes; part of the contract with scripts."""

from __future__ import annotations

from gputop.topology.model.errors import GputopError

ANSWERED = 0
WARNINGS = 1
FAILURES = 2
CANNOT_TELL = 3
USAGE = 64
OWN_ERROR = 70
INTERRUPTED = 130
BACK = -1
"""What the app on one node gives where Esc leaves it for the app that opened it; no exit code."""


class Exit(GputopError):  # noqa: N818 - ends the program in an orderly way
    """Ends the program with one line on stderr and this exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.exit_code = code
