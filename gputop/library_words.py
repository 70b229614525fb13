"""The words of the node that is shown: what its library, links and letters are called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gputop.topology.hardware.words import Words, words_of

if TYPE_CHECKING:
    from gputop.topology.explain.fact import Explanation
    from gputop.topology.report import Report

CUDA = re.compile(r"\bCUDA\b")


def words(report: Report | None) -> Words:
    """The words of a node; without one those of the first vendor, and all there are to choose."""
    return words_of(() if report is None else report.snapshot.machine.gpus)


def explained_in_its_words(report: Report | None, why: Explanation) -> Explanation:
    """An explanation by a rule, whose evidence speaks of NVIDIA's names, as it holds of AMD's."""
    own = words(report)
    if own.library != "RCCL":
        return why
    from gputop.topology.nccl.wording import named_for

    facts = tuple(
        replace(
            fact,
            question=CUDA.sub(own.runtime, named_for("rccl", fact.question)),
            answer=CUDA.sub(own.runtime, named_for("rccl", fact.answer)),
        )
        for fact in why.facts
    )
    return replace(why, facts=facts)
