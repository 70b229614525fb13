"""The name of the node's own libraries in texts that hold for both: RCCL and HIP on AMD's GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from gputop.topology.model.machine import Gpu
    from gputop.topology.model.page import Page
    from gputop.topology.report import Report

CUDA = re.compile(r"\bCUDA\b")
LETTERS = re.compile(r"\bletters of nvidia-smi(?: topo -m)?")
"""Whose letters a cell shows: rocm-smi has none but XGMI, and AMD's users know no other tool."""


def in_its_words(report: Report | None, text: str) -> str:
    """A text as it reads on this node: "run NCCL" is "run RCCL" where all GPUs are AMD's."""
    return text if report is None else words_for(report.snapshot.machine.gpus, text)


def explained_in_its_words(report: Report | None, why: Page) -> Page:
    """An explanation by a rule, which speaks of NVIDIA's names, as it holds of these GPUs."""
    facts = tuple(
        replace(fact, question=in_its_words(report, fact.question),
                answer=in_its_words(report, fact.answer))
        for fact in why.facts
    )  # fmt: skip
    return replace(why, facts=facts)


def words_for(gpus: Sequence[Gpu], text: str) -> str:
    """The same for these GPUs; a text that names both libraries stays where both vendors' are."""
    makers = {gpu.vendor for gpu in gpus}
    if makers == {"nvidia"}:
        return text.replace("NCCL or RCCL", "NCCL")
    if makers != {"amd"}:
        return text
    from gputop.topology.nccl.wording import named_for

    text = LETTERS.sub("letters of PCIe distance", text)
    return CUDA.sub("HIP", named_for("rccl", text))
