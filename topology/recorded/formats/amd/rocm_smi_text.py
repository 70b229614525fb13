"""Text of `rocm-smi`: its table, lines of cards ("GPU[0] : PCI Bus: ..."), --showtopo."""

from __future__ import annotations

import re
from pathlib import Path

from ....model.format import Format, FormatError
from ....model.part import Part
from .rocm_smi import part_of
from .smi.tables import ROCM_SIGN, SmiTableError, plain_text, rocm_document


def _recognises(head: bytes, path: Path) -> bool:
    return ROCM_SIGN.search(head.decode("utf-8", "replace")) is not None


def _parse(data: bytes, path: Path) -> Part:
    try:
        return part_of([rocm_document(plain_text(data))])
    except SmiTableError as error:
        raise FormatError(str(error), error.line) from error


FORMAT = Format(
    id="text of rocm-smi",
    recognises=_recognises,
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
