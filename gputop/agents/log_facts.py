"""What the tool `read_text` tells of a log besides what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gputop.agents.told import AgentFact, FactKind

if TYPE_CHECKING:
    from gputop.topology.diagnosis.symptoms.log import ReadLog
    from gputop.topology.logs.report.communicator import Communicator

THE_TEXT = "the text"
CARRIERS = ("P2P", "SHM", "NET", "COLLNET")
"""Beginnings of the labels that NCCL and RCCL print."""
MOST_LABELS, MOST_FIGURES = 8, 24


def log_facts(read: ReadLog) -> Iterator[AgentFact]:
    """How its ranks reach each other, and the figures of other programs in the same text."""
    if read.log.main is not None:
        yield _transports(read.log.main)
    for figure in read.measured[:MOST_FIGURES]:
        against = f" against {figure.against}" if figure.against else ""
        yield AgentFact(
            f"{figure.tool}: {figure.what}",
            figure.value,
            FactKind.MEASURED,
            THE_TEXT,
            why=(f"{figure.verdict}{against}",),
        )


def _transports(comm: Communicator) -> AgentFact:
    """Ordered pairs of ranks by what carries them, with the labels as they were printed."""
    labels = comm.all_labels()
    by_carrier = Counter(
        carrier if (carrier := one.partition("/")[0]) in CARRIERS else "other"
        for several in labels.values()
        for one in several
    )
    counted = Counter(" and ".join(several) for several in labels.values())
    return AgentFact(
        "transports: ordered pairs of ranks that the log connects by each",
        dict(by_carrier) or None,
        FactKind.READ,
        THE_TEXT,
        why=() if labels else ("the log names none: they are set up at the first collective",),
        quoted=tuple(f"{label}: {count}" for label, count in counted.most_common(MOST_LABELS)),
    )
