"""The name of the node's own libraries in texts that hold for both: RCCL and HIP on AMD's GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputop.topology.machine import Gpu
    from gputop.topology.report import Report

CUDA = re.compile(r"\bCUDA\b")
LETTERS = re.compile(r"\bletters of nvidia-smi(?: topo -m)?")
"""Whose letters a cell shows: rocm-smi has none but XGMI, and AMD's users know no other tool."""


def in_its_words(report: Report | None, text: str) -> str:
    """A text as it reads on this node: "run NCCL" is "run RCCL" where all GPUs are AMD's."""
    return text if report is None else words_for(report.snapshot.machine.gpus, text)


def words_for(gpus: Sequence[Gpu], text: str) -> str:
    """The same for these GPUs."""
    if not gpus or any(gpu.vendor != "amd" for gpu in gpus):
        return text
    from gputop.topology.nccl.wording import named_for

    text = LETTERS.sub("letters of PCIe distance", text)
    return CUDA.sub("HIP", named_for("rccl", text))
