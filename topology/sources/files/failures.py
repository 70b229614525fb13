"""Questions that a vendor's library failed to answer, gathered from its raw answers as problems.

A refusal because the product does not have something, or because this user may not see it, is an
answer. Anything else means that the driver could not find out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ...model.gathered import gathered_by
from ...model.snapshot import Problem, ProblemKind

ERROR, RESET, LOST = ProblemKind.ERROR, ProblemKind.RESET, ProblemKind.LOST
CUT = ProblemKind.CUT
_SHOWN = 4
"""Names of functions and GPUs that one problem spells out; more are counted."""


class Unanswered(msgspec.Struct, frozen=True):
    """One question that failed."""

    kind: ProblemKind
    """ERROR, RESET, LOST or CUT."""
    words: str
    """The library's words: "Unknown Error"."""
    question: str
    """The name of the function or field."""
    device: str = ""
    """Address of the GPU; "" where it is about none."""


def problems(source: str, failures: Iterable[Unanswered]) -> tuple[Problem, ...]:
    """One problem for each kind of failure and words: what failed, and on which GPUs."""
    grouped = gathered_by(failures, lambda failure: (failure.kind, failure.words))
    return tuple(_problem(source, *key, found) for key, found in grouped.items())


def _problem(source: str, kind: ProblemKind, words: str, failures: Sequence[Unanswered]) -> Problem:
    questions = list(dict.fromkeys(failure.question for failure in failures))
    devices = tuple(dict.fromkeys(failure.device for failure in failures if failure.device))
    about = f" of {_listed(devices)}" if devices else ""
    text = f"{words}: {_listed(questions)}{about}"
    return Problem(source=source, kind=kind, text=text, devices=devices)


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {rest} more" if rest > 0 else shown
