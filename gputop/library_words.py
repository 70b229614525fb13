"""The words of the node that is shown: what its library, links and letters are called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gputop.topology.hardware.words import Words, words_of

if TYPE_CHECKING:
    from gputop.topology.model.page import Page
    from gputop.topology.report import Report

CUDA = re.compile(r"\bCUDA\b")
LETTERS = re.compile(r"\bletters of nvidia-smi(?: topo -m)?")


def words(report: Report | None) -> Words:
    """The words of a node; without one those of the first vendor, and all there are to choose."""
    return words_of(() if report is None else report.snapshot.machine.gpus)


def explained_in_its_words(report: Report | None, why: Page) -> Page:
    """A page about rules, whose evidence speaks of NVIDIA's names, as it holds of these GPUs."""
    own = words(report)

    def said(text: str) -> str:
        text = text.replace("NCCL or RCCL", own.libraries)
        if own.library != "RCCL":
            return text
        from gputop.topology.nccl.wording import named_for

        return CUDA.sub(own.runtime, named_for("rccl", LETTERS.sub(own.letters, text)))

    facts = tuple(
        replace(fact, question=said(fact.question), answer=said(fact.answer)) for fact in why.facts
    )
    return replace(why, facts=facts)
