"""Text of `rocm-smi`: its table, lines of cards ("GPU[0] : PCI Bus: ..."), --showtopo."""

from __future__ import annotations

import re

from ....model.format import text_format
from ....model.part import PartialNode
from .rocm_smi import part_of
from .smi.tables import ROCM_SIGN, rocm_document


def _parse(lines: list[str]) -> PartialNode:
    return part_of([rocm_document(lines)])


FORMAT = text_format(
    id="text of rocm-smi",
    parse=_parse,
    starts=ROCM_SIGN,
    needs=(
        "= ROCm System",
        "= Numa Nodes",
        "= Concise Info",
        "= End of ROCm",
        "= Weight between",
        "= Hops between",
        "= Link Type",
        "= Link accessibility",
    ),
    goes_on=re.compile(
        r"=|[ \t]*GPU[ \t]?\[?\d|[ \t]*GPU[ \t]+Temp|Device[ \t]|[ \t]+(?:GPU\d|\(DID|\[)|"
        r"[ \t]*\d{1,3}[ \t]+\S.{0,200}%|WARNING|ERROR|PIDs?\b"
    ),
    repeats=True,
    together=True,
)
